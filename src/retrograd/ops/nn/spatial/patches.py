"""Windows that slide over the spatial axes of ``(N, C, *size)``: their geometry, and unfold and fold.

Convolution, pooling and unfold all read the same places of their input; ``Window`` is where this is said, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from operator import index as as_integer
from typing import Any

from ....core.devices import array_module
from ....core.errors import describe
from ....core.primitive import Primitive, apply, operand
from ....core.tensor import Tensor
from ...table.registry import operator

Ints = tuple[int, ...]
Tap = tuple[Ints, tuple[slice, ...], tuple[slice, ...]]
EVERY = (slice(None), slice(None))  # all images and channels, in front of spatial slices


@dataclass(frozen=True)
class Window:
    """Windows over spatial axes: per axis, offset k of window t reads ``x[t * stride + k * dilation - padding]``.

    A place outside of ``x`` reads as zero, so padding may differ at the two ends: it starts with ``padding`` and
    goes as far as ``out`` windows reach.
    """

    size: Ints
    kernel: Ints
    stride: Ints
    padding: Ints
    dilation: Ints
    out: Ints

    @property
    def is_identity(self) -> bool:
        """Each window is one element, in order."""
        ones = (1,) * len(self.size)
        return self.kernel == ones and self.stride == ones and not any(self.padding) and self.out == self.size

    @property
    def is_partition(self) -> bool:
        """The windows do not overlap, and cover every element."""
        return self.kernel == self.stride and not any(self.padding) and self.dilation == (1,) * len(self.size) and all(
            t * s == length for t, s, length in zip(self.out, self.stride, self.size)
        )  # fmt: skip


@lru_cache(maxsize=4096)
def axis_taps(window: Window, axis: int) -> tuple[tuple[int, slice, slice], ...]:
    """Per offset along one axis: the offset, the windows for which it lies inside of x, and what these read."""
    size, stride, out = window.size[axis], window.stride[axis], window.out[axis]
    found = []
    for k in range(window.kernel[axis]):
        start = k * window.dilation[axis] - window.padding[axis]
        first = max(0, -(start // stride))
        last = min(out, (size - 1 - start) // stride + 1)
        if last > first:
            read = slice(start + first * stride, start + (last - 1) * stride + 1, stride)
            found.append((k, slice(first, last), read))
    return tuple(found)


@lru_cache(maxsize=1024)
def taps(window: Window) -> tuple[Tap, ...]:
    """Per offset in all axes: the offset, the windows for which it lies inside of x, and what these read."""
    axes = [axis_taps(window, axis) for axis in range(len(window.size))]
    return tuple(
        (tuple(k for k, _, _ in each), tuple(t for _, t, _ in each), tuple(read for _, _, read in each))
        for each in product(*axes)
    )


def gather_windows(x: Any, columns: Any, window: Window) -> None:
    """Fill ``columns (N, C, *kernel, *out)``, zero where windows leave x, with what the windows read."""
    for offset, places, reads in taps(window):
        columns[EVERY + offset + places] = x[EVERY + reads]


def scatter_windows(columns: Any, x: Any, window: Window) -> None:
    """The transpose of ``gather_windows``: add each element of ``columns`` to the place that it was read from."""
    for offset, places, reads in taps(window):
        x[EVERY + reads] += columns[EVERY + offset + places]


def per_axis(argument: str, value: Any, axes: int, least: int | None = None) -> Ints:
    """An argument given as one integer, or one per spatial axis.

    Raises:
        TypeError: it is no integer, nor a sequence of them.
        RuntimeError: there is neither one nor one per axis, or one is below ``least``.
    """
    values: Sequence[Any] = value if isinstance(value, (tuple, list)) else (value,)
    try:
        numbers = tuple([as_integer(each) for each in values])
    except TypeError:
        raise TypeError(f"argument {argument!r} must be an integer or integers, got {describe(value)}") from None
    if len(numbers) == 1:
        numbers *= axes
    if len(numbers) != axes:
        raise RuntimeError(f"argument {argument!r} must be one integer or {axes}, got {describe(value)}")
    if least is not None and min(numbers) < least:
        wanted = "negative" if least == 0 else "non-positive"
        raise RuntimeError(f"{wanted} {argument} is not supported, got {describe(value)}")
    return numbers


def with_batch(x: Tensor, axes: int) -> tuple[Tensor, bool]:
    """The input as ``(N, C, *size)``, and whether it had no batch axis.

    Raises:
        RuntimeError: it has neither.
    """
    ndim = x.array.ndim
    if ndim == axes + 2:
        return x, False
    if ndim == axes + 1:
        return x[None], True
    raise RuntimeError(f"expected {axes + 1}D (unbatched) or {axes + 2}D (batched) input, but got {describe(x)}")


# Unfold and fold


def _unfold(x: Any, window: Window) -> Any:
    columns = array_module(x).zeros(x.shape[:2] + window.kernel + window.out, dtype=x.dtype)
    gather_windows(x, columns, window)
    return columns.reshape((x.shape[0], x.shape[1] * prod(window.kernel), prod(window.out)))


def _fold(columns: Any, window: Window) -> Any:
    n, channels = columns.shape[0], columns.shape[1] // prod(window.kernel)
    x = array_module(columns).zeros((n, channels, *window.size), dtype=columns.dtype)
    scatter_windows(columns.reshape((n, channels, *window.kernel, *window.out)), x, window)
    return x


UNFOLD: Primitive = Primitive("unfold", _unfold, "x", [lambda g, window: FOLD(g, window=window)])
FOLD: Primitive = Primitive("fold", _fold, "x", [lambda g, window: UNFOLD(g, window=window)])


def _patches(size: Ints, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Window:
    kernel = per_axis("kernel_size", kernel_size, 2, 1)
    dilations = per_axis("dilation", dilation, 2, 1)
    paddings = per_axis("padding", padding, 2, 0)
    strides = per_axis("stride", stride, 2, 1)
    out = tuple(
        [
            (length + 2 * p - d * (k - 1) - 1) // s + 1
            for length, k, d, p, s in zip(size, kernel, dilations, paddings, strides)
        ]
    )
    if min(out) < 1:
        raise RuntimeError(
            f"spatial size {size} with kernel_size={kernel}, dilation={dilations}, padding={paddings}, "
            f"stride={strides} gives {out} blocks, but there must be at least one per axis"
        )
    return Window(size, kernel, strides, paddings, dilations, out)


@operator(namespace="nn.functional", method=False)
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of an image as columns: ``(N, C, H, W) -> (N, C * kH * kW, L)``, one column per window.

    ``result[n, (c, u, v), (i, j)] = input[n, c, i * stride + u * dilation - padding, ...]``, zero outside of the image.
    The batch axis may be left out.

    Raises:
        RuntimeError: the input is not 3-D or 4-D, an argument is not positive, or no window fits.

    >>> F.unfold(rg.arange(9.0).reshape(1, 1, 3, 3), 2)[0, :, 0]
    tensor([0., 1., 3., 4.])
    """
    x, single = with_batch(operand(input), 2)
    window = _patches(tuple(x.array.shape[2:]), kernel_size, dilation, padding, stride)
    result = apply(UNFOLD, (x,), {"window": window})
    return result[0] if single else result


@operator(namespace="nn.functional", method=False)
def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The transpose of ``unfold``, ``(N, C * kH * kW, L) -> (N, C, H, W)``: each column is added to its window's place.

    Raises:
        RuntimeError: the input is not 2-D or 3-D, its channels are no multiple of ``kH * kW``, or ``L`` is not the
            number of windows.

    >>> F.fold(rg.ones(1, 4, 4), 3, 2)[0, 0]
    tensor([[1., 2., 1.],
            [2., 4., 2.],
            [1., 2., 1.]])
    """
    x, single = with_batch(operand(input), 1)
    size = per_axis("output_size", output_size, 2, 1)
    window = _patches(size, kernel_size, dilation, padding, stride)
    if x.array.shape[1] % prod(window.kernel):
        raise RuntimeError(f"the channels of {describe(x)} are no multiple of kernel_size={window.kernel}")
    if x.array.shape[2] != prod(window.out):
        raise RuntimeError(
            f"output_size={size} has {window.out[0]} * {window.out[1]} = {prod(window.out)} sliding blocks, "
            f"but the input {describe(input)} has {x.array.shape[2]}"
        )
    result = apply(FOLD, (x,), {"window": window})
    return result[0] if single else result
