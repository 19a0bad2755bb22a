"""ONNX operators by family; importing this package registers them in the table.

Each rule is a function of the node's attributes and inputs, under ONNX's name and version. ``onnx.graph`` calls it.
"""

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
