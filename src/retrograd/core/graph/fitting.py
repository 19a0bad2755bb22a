"""Convert cotangents to the shape and dtype of their inputs, and collect the cotangents of a node's outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.arrays import Array
from ..arrays.devices import array_module
from ..arrays.layout import cast
from ..arrays.summation import accurate_sum
from ..errors import describe
from ..tensor.tensor import Tensor, new_tensor
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


def fit(g: Array, parent: Node | Tensor, node: Node) -> Array:
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
        g = cast(g, dtype)
    return g


def all_outputs(node: Node, outputs: Sequence[Array | None]) -> tuple[Array | None, ...]:
    """Return the cotangents of all outputs, with zeros for outputs that no gradient reached if the rules need them."""
    given = next((g for g in outputs if g is not None), None)
    if given is None or not node.plan.primitive.fills:
        return tuple(outputs)
    filled: list[Array] = []
    for g, shape, dtype in zip(outputs, node.shape, node.dtype, strict=True):
        if g is None:
            g = array_module(given).zeros(shape, dtype)
            g = new_tensor(g) if isinstance(given, Tensor) else g
        filled.append(g)
    return tuple(filled)


def add_to_output(cotangents: dict[Any, Any], node: Node, index: int, g: Array) -> Any:
    """Add ``g`` to the cotangent of output ``index`` of a node with several outputs; return the previous cotangent."""
    outputs = cotangents.get(node)
    if outputs is None:
        outputs = cotangents[node] = [None] * len(node.shape)
    before = outputs[index]
    outputs[index] = g if before is None else before + g
    return before
