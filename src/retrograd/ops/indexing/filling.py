"""Writes to all elements of a Tensor: fill, zero_, copy_."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.layout import copying, order_like
from ...core.errors import describe
from ...core.graph.modes import modes, watchers
from ...core.graph.primitive import ZEROS, Primitive, apply, operand
from ...core.tensor.mutation import COPY, REPLACE, apply_inplace, memory_of_its_own
from ...core.tensor.storage import overlaps_itself
from ...core.tensor.tensor import Tensor, tensor_method
from ...kernels import at_first_use
from ...kernels.loops.layout import copies
from ..shape.shape import apply_view
from ..table.arguments import number
from ..table.registry import inplace_method, operator
from ..table.types import Number, Operand
from . import batching
from .indexing import GETITEM
from .writing import written_value

# The functions that write memory; multi-threaded ones replace them at the first large array.
_fill_memory: Callable[[Any, Any], None] = np.ndarray.fill
_copy_memory: Callable[[Any, Any], None] = np.copyto


def _fill(out: Array, x: Array, value: object) -> None:
    copies.write(out, value)


@at_first_use
def _share() -> None:
    global _fill_memory, _copy_memory
    _fill_memory = _copy_memory = copies.write
    copying[:] = [copies.copied]
    COPY.write = REPLACE.write = _fill


def _filled(x: Array, value: object) -> Array:
    out = array_module(x).empty_like(x, order=order_like(x))
    out[...] = value
    return out


FILL: Primitive = Primitive(
    "fill",
    _filled,
    "x value",
    [lambda g: ZEROS(g), lambda g: g],
    write=_fill,
    overwrites=True,
    batch=batching.filling,
)


def _fill_value(x: Tensor, value: Number | Tensor) -> Any:
    if getattr(value, "ndim", 0):
        raise RuntimeError(f"expected a number or a 0-d Tensor for value, got {describe(value)}")
    return written_value(x, number(value, "value"))


@operator(inplace=True, args="value number")
def fill(input: Tensor, value: Number | Tensor) -> Tensor:
    """``out = value``: a Tensor like the input with one value everywhere.

    Derivative: input: 0. value: the sum of ``g``.

    Args:
        input: a Tensor with the shape, dtype and device of the result.

    Raises:
        RuntimeError: the value has dimensions, or is complex and the input is not.

    >>> rg.fill(rg.zeros(2), 3)
    tensor([3., 3.])
    """
    x = operand(input)
    return apply(FILL, (x, _fill_value(x, value)), {})


def _fill_in_place(self: Tensor, value: Number | Tensor) -> Tensor:
    kind = type(value)
    if (kind is float or kind is int) and not watchers and self.array.dtype.char in "fd" and -3e38 < value < 3e38:  # type: ignore[operator]
        array = memory_of_its_own(self)
        if array is not None:
            _fill_memory(array, value)
            return self
    written = self
    if overlaps_itself(self.array):  # All elements get one value, so each memory location is written once.
        key = tuple([slice(1) if stride == 0 else slice(None) for stride in self.array.strides])
        written = apply_view(GETITEM, self, {"index": (*key, Ellipsis)})
    if written is not self and overlaps_itself(written.array):
        _fill_parts(written, value)
        return self
    apply_inplace(FILL, written, _fill_value(self, value))
    return self


def _fill_parts(x: Tensor, value: Number | Tensor) -> None:
    """Fill a Tensor whose elements share memory, such as overlapping windows, slice by slice."""
    lengths = [(length, axis) for axis, length in enumerate(x.array.shape) if length > 1]
    length, axis = min(lengths)
    for place in range(length):
        index = (*[slice(None)] * axis, slice(place, place + 1), Ellipsis)
        _fill_in_place(apply_view(GETITEM, x, {"index": index}), value)


tensor_method(inplace_method("fill", _fill_in_place), "fill_")


@operator(namespace="Tensor", name="zero_", differentiable=False)
def zero_(self: Tensor) -> Tensor:
    """``self = 0``: set every element to zero.

    Derivative: 0.

    >>> rg.ones(2).zero_()
    tensor([0., 0.])
    """
    return _fill_in_place(self, 0)


@operator(namespace="Tensor", name="copy_", differentiable=False)
def copy_(self: Tensor, src: Operand, non_blocking: bool = False) -> Tensor:
    """``self = src``: copy the elements of ``src`` into this Tensor.

    Derivative: self: 0. src: ``g``, summed where it broadcasts.
    Shape: ``src`` broadcasts to the shape of ``self``.
    Dtype: any; ``src`` is converted to the dtype and device of ``self``.

    Args:
        src: a Tensor, an array or a number.

    Raises:
        RuntimeError: ``src`` does not broadcast to this shape, or is complex and this Tensor is not.

    >>> rg.zeros(2).copy_(rg.tensor([1, 2]))
    tensor([1., 2.])
    """
    src = operand(src, "src")
    x = src.array
    if not watchers and type(x) is np.ndarray and x.shape == self.array.shape and x.dtype is self.array.dtype:
        array = None if src._requires and modes.grad_enabled else memory_of_its_own(self)
        if array is not None:
            _copy_memory(array, x)
            return self
    if src.device != self.device:
        src = src.to(device=self.device)
    if src.array.ndim > self.array.ndim:
        raise RuntimeError(f"src {describe(src)} does not broadcast to the written Tensor {describe(self)}")
    return apply_inplace(COPY, self, written_value(self, src))
