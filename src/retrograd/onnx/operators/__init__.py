"""ONNX operators by family; importing this package registers them in the table."""

from . import (
    attention,
    convolution,
    elementwise,
    indexing,
    linear,
    normalization,
    pooling,
    random,
    recurrent,
    reductions,
    resizing,
    sequences,
    shape,
)

__all__ = [
    "attention", "convolution", "elementwise", "indexing", "linear", "normalization", "pooling", "random", "recurrent",
    "reductions", "resizing", "sequences", "shape",
]  # fmt: skip
