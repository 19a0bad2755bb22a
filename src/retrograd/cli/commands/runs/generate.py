"""`retrograd generate CHECKPOINT`: sample text from a trained language model."""

import argparse

import numpy as np

import retrograd as rg
from retrograd import nn
from retrograd.models import GPT2, Llama, generate
from retrograd.weights import load_model, load_tokens

from ...arguments import path, positive_int, seed, temperature
from ...console import UserError
from ...parser import Subparsers
from ...tasks.language import END, language_model, sample
from ...training.checkpoints import SavedRun, load_weights, read_run, require_safetensors

LANGUAGES = ("shakespeare", "text", "names")
EXAMPLES = """\
  retrograd generate runs/book
  retrograd generate runs/book --prompt "The " --length 200 --temperature 0.5
  retrograd generate --weights gpt2/ --prompt "The answer is" --length 40
  retrograd generate --weights SmolLM2-135M.Q8_0.gguf --prompt "The answer is" --length 40
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "generate",
        help="sample text from a trained language model",
        description="Sample text from the checkpoint of 'retrograd train --text', 'train shakespeare' or 'train "
        "names', or from published weights.",
        examples=EXAMPLES,
    )
    parser.add_argument("checkpoint", nargs="?", type=path, metavar="CHECKPOINT", help="the file or folder of the run")
    parser.add_argument(
        "--weights",
        type=path,
        metavar="PATH",
        help="a folder with published weights of GPT-2 or Llama, or a GGUF file of a Llama",
    )
    parser.add_argument("--prompt", default="", help="the start of the text")
    parser.add_argument(
        "--length",
        type=positive_int,
        default=500,
        help="characters to sample, tokens for published weights (default: 500)",
    )
    parser.add_argument(
        "--temperature", type=temperature, default=0.8, help="0 always takes the most likely character (default: 0.8)"
    )
    parser.add_argument("--top-k", type=positive_int, help="sample only from the K most likely characters")
    parser.add_argument("--seed", type=seed, default=0, help="seed of the sampling (default: 0)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if (options.checkpoint is None) == (options.weights is None):
        raise UserError("pass exactly one of CHECKPOINT and --weights PATH")
    if options.weights is not None:
        print(_published(options))
        return 0
    saved = read_run(options.checkpoint)
    task, vocabulary = saved.config["task"], saved.vocabulary
    if task not in LANGUAGES:
        raise UserError(f"{options.checkpoint} is from 'retrograd train {task}', which is not a language model")
    if END not in vocabulary:
        raise UserError(f"{options.checkpoint} has a vocabulary without a newline")
    unknown = sorted(set(options.prompt) - set(vocabulary))
    if unknown:
        raise UserError(f"--prompt has characters the model does not know: {', '.join(map(repr, unknown))}")
    model = _model(saved)
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


def _model(saved: SavedRun) -> nn.Module:
    """Return the run's model; raise UserError if its weights do not fit or are not finite."""
    # A transformer has an embedding per position; an LSTM has no length limit.
    positions = saved.weights.get("position.weight")
    context = {}
    if isinstance(positions, rg.Tensor) and positions.ndim == 2 and len(positions):
        context = {"context": len(positions)}
    model = language_model(saved.config["task"], saved.config["model"], len(saved.vocabulary), **context)
    load_weights(model, saved)
    for name, weight in model.state_dict().items():
        if not rg.isfinite(weight).all():
            raise UserError(f"{saved.path}: {name} has values that are not finite")
    return model


def _published(options: argparse.Namespace) -> str:
    """Return text after the prompt, from weights in the layout of Hugging Face's transformers, or in a GGUF file."""
    folder = options.weights
    if folder.suffix != ".gguf":
        require_safetensors()
    try:
        model = load_model(folder)
        text = load_tokens(folder)
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        raise UserError(str(error)) from None
    if not isinstance(model, (GPT2, Llama)):
        raise UserError(f"{folder} has weights of {type(model).__name__}, which does not generate text")
    config = model.published_config
    vocabulary, start = len(model.token.weight), config.get("bos_token_id")
    prompt = text.encode(options.prompt) or ([start] if isinstance(start, int) else text.encode("\n"))
    if not prompt or max(prompt) >= vocabulary:
        raise UserError(f"--prompt has tokens outside the model's vocabulary of {vocabulary}")
    end = config.get("eos_token_id")
    drawn = generate(
        model,
        prompt,
        options.length,
        temperature=options.temperature,
        top_k=options.top_k,
        stop=end if isinstance(end, int) else None,
        random=np.random.default_rng(options.seed),
    )
    if drawn and drawn[-1] == end:
        drawn.pop()
    return options.prompt + text.decode(drawn)
