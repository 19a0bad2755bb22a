"""`retrograd generate CHECKPOINT`: text drawn from a trained language model."""

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

from retrograd.models import generate

from .arguments import positive_int, seed
from .checkpoints import load_checkpoint
from .console import UserError
from .tasks import END, encode, language_model


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "generate",
        help="draw text from a trained language model",
        description="Draw text from the checkpoint of 'retrograd train shakespeare' or 'retrograd train names'.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="the file, or the folder of the run")
    parser.add_argument("--prompt", default="", help="how the text begins")
    parser.add_argument("--length", type=positive_int, default=500, help="characters to draw at most")
    parser.add_argument("--temperature", type=temperature, default=0.8, help="0: always the likeliest character")
    parser.add_argument("--top-k", type=positive_int, help="draw from the K likeliest characters only")
    parser.add_argument("--seed", type=seed, default=0, help="of the drawing")
    parser.set_defaults(run=run)


def temperature(text: str) -> float:
    """A finite number of at least zero."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value >= 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number of at least 0")
    return value


def run(options: argparse.Namespace) -> int:
    checkpoint = load_checkpoint(options.checkpoint)
    config, vocabulary = checkpoint["config"], checkpoint["vocabulary"]
    if not vocabulary:
        raise UserError(f"{options.checkpoint} is of 'retrograd train {config['task']}', which is no language model")
    unknown = sorted(set(options.prompt) - set(vocabulary))
    if unknown:
        raise UserError(f"--prompt has characters the model does not know: {', '.join(map(repr, unknown))}")
    weights = checkpoint["model"]
    # The transformer has an embedding for each position it can look back over; an LSTM has no such limit.
    context = {"context": len(weights["position.weight"])} if "position.weight" in weights else {}
    model = language_model(config["task"], config["model"], len(vocabulary), **context)
    model.load_state_dict(weights)
    names = config["task"] == "names"
    prompt = END + options.prompt if names or not options.prompt else options.prompt
    codes = generate(
        model,
        list(encode(prompt, vocabulary)),
        options.length,
        temperature=options.temperature,
        top_k=options.top_k,
        stop=vocabulary.index(END) if names else None,
        random=np.random.default_rng(options.seed),
    )
    print(options.prompt + "".join(vocabulary[code] for code in codes).rstrip("\n"))
    return 0
