"""`retrograd generate CHECKPOINT`: text drawn from a trained language model."""

import argparse
from typing import Any

import numpy as np

from .arguments import path, positive_int, seed, temperature
from .checkpoints import read_run
from .console import UserError
from .tasks.language import language_model, sample


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "generate",
        help="draw text from a trained language model",
        description="Draw text from the checkpoint of 'retrograd train shakespeare' or 'retrograd train names'.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("checkpoint", type=path, metavar="CHECKPOINT", help="the file, or the folder of the run")
    parser.add_argument("--prompt", default="", help="how the text begins")
    parser.add_argument("--length", type=positive_int, default=500, help="characters to draw at most")
    parser.add_argument("--temperature", type=temperature, default=0.8, help="0: always the likeliest character")
    parser.add_argument("--top-k", type=positive_int, help="draw from the K likeliest characters only")
    parser.add_argument("--seed", type=seed, default=0, help="of the drawing")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    saved = read_run(options.checkpoint)
    task, vocabulary = saved.config["task"], saved.vocabulary
    if not vocabulary:
        raise UserError(f"{options.checkpoint} is of 'retrograd train {task}', which is no language model")
    unknown = sorted(set(options.prompt) - set(vocabulary))
    if unknown:
        raise UserError(f"--prompt has characters the model does not know: {', '.join(map(repr, unknown))}")
    # The transformer has an embedding for each position it can look back over; an LSTM has no such limit.
    positions = saved.weights.get("position.weight")
    context = {} if positions is None else {"context": len(positions)}
    model = language_model(task, saved.config["model"], len(vocabulary), **context)
    model.load_state_dict(saved.weights)
    print(
        sample(
            model,
            vocabulary,
            options.prompt,
            length=options.length,
            random=np.random.default_rng(options.seed),
            of_names=task == "names",
            temperature=options.temperature,
            top_k=options.top_k,
        )
    )
    return 0
