"""`retrograd export RUN MODEL.onnx`: write the model of a run as an ONNX file."""

import argparse

import numpy as np

import retrograd as rg
from retrograd import nn
from retrograd.models import CNN

from ...arguments import path
from ...console import Table, UserError, print_table
from ...parser import Subparsers
from ...tasks.encoding import Encoding
from ...tasks.language import CONTEXT, language_model
from ...tasks.tables import WithEncoding, table_model
from ...training.checkpoints import SavedRun, load_weights, read_run
from .predict import encoding_of

EXAMPLES = """\
  retrograd export runs/my model.onnx
  retrograd export runs/mnist
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "export",
        help="write a trained model as an ONNX file",
        description="Write the model of a run as an ONNX file with any batch size, and compare what the file computes "
        "with the model. The file of 'train --data' takes numbers in the units of the table.",
        examples=EXAMPLES,
    )
    parser.add_argument("run_folder", type=path, metavar="RUN", help="the folder of the run, or its checkpoint")
    parser.add_argument("out", nargs="?", type=path, metavar="MODEL.onnx", help="default: model.onnx in the folder")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    saved = read_run(options.run_folder)
    out = options.out or saved.path.parent / "model.onnx"
    if out.suffix != ".onnx":
        raise UserError(f"the file must end in .onnx, got {out}")
    model, example, names = exportable(saved)
    try:
        from retrograd.onnx import UnsupportedError, export

        export(
            model,
            example,
            out,
            input_names=["input"],
            output_names=["output"],
            dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}},
        )
    except (ImportError, UnsupportedError) as error:
        raise UserError(str(error)) from None
    if names:
        print_table(
            Table("Inputs of the model, by column", ["column", "input"], [[str(i), n] for i, n in enumerate(names)])
        )
    shape = ", ".join(["rows", *map(str, example.shape[1:])])
    print(f"model: {out}, input ({shape}) of {example.array.dtype.name}")
    return 0


def exportable(saved: SavedRun) -> tuple[nn.Module, rg.Tensor, list[str]]:
    """Return a run's model, an example of its input, and names of the input's columns."""
    task, kind = saved.config["task"], saved.config["model"]
    names: list[str] = []
    encoding: Encoding | None = None
    if task == "table":
        encoding = encoding_of(saved)
        names = encoding.inputs
        model, example = table_model(encoding, kind), rg.zeros(2, len(names))
    elif task == "housing":
        model = housing_model(kind)
        example = rg.zeros(2, 8, dtype=rg.float64 if kind == "linear" else rg.float32)
    elif task in ("mnist", "fashion"):
        model, example = image_model(kind), rg.zeros(2, 1, 28, 28)
    else:
        context = saved.weights["position.weight"].shape[0] if "position.weight" in saved.weights else CONTEXT
        model = language_model(task, kind, len(saved.vocabulary), context)
        example = rg.from_numpy(np.zeros((2, context), np.int64))
    load_weights(model, saved)
    return (model if encoding is None else WithEncoding(model, encoding)).eval(), example, names


def housing_model(kind: str) -> nn.Module:
    from ...tasks.housing import HIDDEN, linear

    return linear(8) if kind == "linear" else rg.models.MLP([8, *HIDDEN, 1])


def image_model(kind: str) -> nn.Module:
    from ...tasks.images import HIDDEN

    return CNN() if kind == "cnn" else rg.models.MLP([784, *HIDDEN, 10], flatten=True)
