"""Give a cotangent the shape and dtype of the input that it belongs to."""

from __future__ import annotations

from typing import Any

from ...core.arrays import Array
from ..arrays.summation import accurate_sum
from ..errors import describe
from ..tensor.tensor import Tensor
from .nodes import Node


def unbroadcast(g: Array, shape: tuple[int, ...]) -> Array:
    """Sum ``g`` over the axes along which an input of the given shape was broadcast."""
    if g.shape == shape:
        return g
    extra = len(g.shape) - len(shape)
    axes = tuple(range(extra)) + tuple(
        axis + extra for axis, length in enumerate(shape) if length == 1 and g.shape[axis + extra] != 1
    )
    if axes:
        g = g.sum(axis=axes, keepdims=True) if isinstance(g, Tensor) else accurate_sum(g, axes, True)
    return g.reshape(shape)


def fit(g: Any, parent: Any, node: Node) -> Any:
    """Return the cotangent ``g`` in the shape and dtype of the input it belongs to."""
    shape, dtype = parent.shape, parent.dtype
    if g.shape != shape:
        try:
            g = unbroadcast(g, shape)
        except (ValueError, RuntimeError, IndexError) as error:
            raise RuntimeError(
                f"{node.operator}: the rule returned a gradient of {describe(g)}, expected shape {list(shape)}"
            ) from error
    if g.dtype != dtype:
        if g.dtype.kind == "c" and dtype.kind != "c":
            g = g.real
        g = g.astype(dtype)
    return g
