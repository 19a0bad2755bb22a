"""The operators, by family; importing them enters them in the table."""

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
