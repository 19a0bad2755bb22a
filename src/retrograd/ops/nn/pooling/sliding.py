"""Sliding windows of pooling, and elements at positions of the flattened spatial axes."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.errors import describe
from ....core.graph.primitive import Primitive, operand
from ....core.tensor.tensor import Tensor
from ...table.batching import folded
from ...table.types import Operand, Size
from ..spatial.sliding_windows import Ints, Window, per_axis


def real_operand(value: Operand) -> Tensor:
    """Return the input of a pooling operator as a Tensor."""
    x = operand(value)
    if x.array.dtype.kind not in "fViu":
        raise NotImplementedError(f"not implemented for {x.dtype}; expected real numbers, got {describe(x)}")
    return x


def along(axis: int, places: slice, ndim: int) -> tuple[slice, ...]:
    """Return an index of these positions along one axis."""
    return tuple([places if other == axis else slice(None) for other in range(ndim)])


def sliding_windows(
    x: Tensor, axes: int, kernel_size: Size, stride: Size | None, padding: Size, dilation: Size, ceil_mode: bool
) -> Window:
    """Check the arguments of a pooling operator and return its windows."""
    size = x.array.shape[2:]
    kernel = per_axis("kernel_size", kernel_size, axes, 1)
    strides = strides_of(stride, kernel)
    paddings = per_axis("padding", padding, axes, 0)
    dilations = per_axis("dilation", dilation, axes, 1)
    if 0 in x.array.shape[1:]:
        raise RuntimeError(f"expected input with non-zero dimensions after the batch, but got {describe(x)}")
    if any(paddings) and any(p > k // 2 for p, k in zip(paddings, kernel)):
        raise RuntimeError(
            f"padding should be at most half of the kernel size, but got padding={paddings} and kernel_size={kernel}"
        )
    window = _windows(size, kernel, strides, paddings, dilations, bool(ceil_mode))
    if min(window.out) < 1:
        raise RuntimeError(
            f"for input {describe(x)} and kernel_size={kernel} the output size {window.out} is too small"
        )
    return window


@lru_cache(maxsize=1024)
def _windows(size: Ints, kernel: Ints, strides: Ints, paddings: Ints, dilations: Ints, ceil_mode: bool) -> Window:
    out = []
    for length, k, s, p, d in zip(size, kernel, strides, paddings, dilations):
        room = length + 2 * p - d * (k - 1) - 1
        count = (room + (s - 1 if ceil_mode else 0)) // s + 1
        # With ceil_mode, the last window must start inside the input or its left padding.
        out.append(count - 1 if ceil_mode and (count - 1) * s >= length + p else count)
    return Window(size, kernel, strides, paddings, dilations, tuple(out))


def strides_of(stride: Size | None, kernel: Ints) -> Ints:
    """Return the strides of a pooling operator, by default the kernel's lengths."""
    if stride is None or isinstance(stride, (tuple, list)) and not stride:
        return kernel
    return per_axis("stride", stride, len(kernel), 1)


def _in_all_planes(index: Array, size: Ints) -> Array:
    """Convert positions in flattened planes to positions in the whole flattened array."""
    return index + array_module(index).asarray(_starts(index.shape[:2], size))


@lru_cache(maxsize=16)
def _starts(planes: Ints, size: Ints) -> Array:
    """Return the position of each plane's first element."""
    starts = np.arange(prod(planes)) * prod(size)
    starts.flags.writeable = False
    return starts.reshape(planes + (1,) * len(size))


def _read_at(x: Array, index: Array, size: Ints) -> Array:
    return x.reshape(-1).take(_in_all_planes(index, size))


def _add_at(values: Array, index: Array, size: Ints) -> Array:
    xp = array_module(values)
    out = xp.zeros((*values.shape[:2], *size), dtype=values.dtype)
    if values.size and out.size:
        places = _in_all_planes(index, size).reshape(-1)
        out.reshape(-1)[...] = xp.bincount(places, weights=values.reshape(-1), minlength=out.size)
    return out


def _write_at(values: Array, index: Array, size: Ints) -> Array:
    out = array_module(values).zeros((*values.shape[:2], *size), dtype=values.dtype)
    if values.size:
        out.reshape(-1)[_in_all_planes(index, size).reshape(-1)] = values.reshape(-1)
    return out


READ_AT: Primitive = Primitive(
    "read_at",
    _read_at,
    "x",
    [lambda g, index, size: ADD_AT(g, index=index, size=size)],
    piecewise_linear=True,
    batch=folded("index"),
)
ADD_AT: Primitive = Primitive(
    "add_at", _add_at, "x", [lambda g, index, size: READ_AT(g, index=index, size=size)], batch=folded("index")
)
WRITE_AT: Primitive = Primitive(
    "max_unpool", _write_at, "x", [lambda g, index, size: READ_AT(g, index=index, size=size)], batch=folded("index")
)
