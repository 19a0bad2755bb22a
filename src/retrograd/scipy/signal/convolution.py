"""Convolutions and correlations of any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._generated import fft
from ..._generated import toplevel as ops
from ...core.tensor.tensor import Tensor
from ..decorators import ArrayLike, differentiable, floats, scipys

signal = differentiable("scipy.signal")

Axes = int | Sequence[int] | None


# NumPy's names for SciPy's boundary modes.
PADS = {
    "reflect": "symmetric", "grid-mirror": "symmetric", "nearest": "edge", "mirror": "reflect", "wrap": "wrap",
    "grid-wrap": "wrap", "constant": "constant", "grid-constant": "constant",
}  # fmt: skip


def extended(x: Tensor, before: int, after: int, axis: int, mode: str, cval: float) -> Tensor:
    """Pad an image along one axis."""
    if mode not in PADS:
        raise RuntimeError("boundary mode not supported")
    how: Any = PADS[mode]
    if how != "constant":
        places = np.pad(np.arange(x.shape[axis]), (before, after), how)
        return ops.moveaxis(ops.moveaxis(x, axis, -1)[..., places], -1, axis)
    parts = []
    for count in (before, after):
        shape = list(x.shape)
        shape[axis] = count
        parts.append(x.new_full(tuple(shape), cval))
    return ops.cat([parts[0], x, parts[1]], axis)


def centered(x: Tensor, shape: Sequence[int], axes: Sequence[int]) -> Tensor:
    """Return the middle part of a Tensor, of the given shape along the axes."""
    for axis in axes:
        start = (x.shape[axis] - shape[axis]) // 2
        x = ops.narrow(x, axis, start, shape[axis])
    return x


def _cut(full: Tensor, first: Tensor, second: Tensor, mode: str, axes: Sequence[int]) -> Tensor:
    if mode == "full":
        return full
    if mode == "same":
        return centered(full, first.shape, axes)
    if mode != "valid":
        raise ValueError("acceptable mode flags are 'valid', 'same', or 'full'")
    larger = [first.shape[axis] >= second.shape[axis] for axis in axes]
    smaller = [first.shape[axis] <= second.shape[axis] for axis in axes]
    if not all(larger) and not all(smaller):
        raise ValueError(
            "For 'valid' mode, one must be at least as large as the other in every dimension: "
            f"{tuple(first.shape)} and {tuple(second.shape)}"
        )
    shape = list(full.shape)
    for axis in axes:
        shape[axis] = abs(first.shape[axis] - second.shape[axis]) + 1
    return centered(full, shape, axes)


def convolved(first: Tensor, second: Tensor, mode: str, axes: Sequence[int]) -> Tensor:
    """Return the convolution along axes, by Fourier transforms, or by products of shifted arrays for few elements."""
    lengths = [first.shape[axis] + second.shape[axis] - 1 for axis in axes]
    if min(first.array.size, second.array.size) == 0:
        raise ValueError("cannot convolve an array without elements")
    if len(axes) == 1 and min(first.shape[axes[0]], second.shape[axes[0]]) <= 16:
        full = _by_shifts(first, second, axes[0])
    else:
        sizes = [scipys("scipy.fft").next_fast_len(n, True) for n in lengths]
        if "c" in (first.dtype.kind, second.dtype.kind):
            full = fft.ifftn(fft.fftn(first, sizes, axes) * fft.fftn(second, sizes, axes), sizes, axes)
        else:
            full = fft.irfftn(fft.rfftn(first, sizes, axes) * fft.rfftn(second, sizes, axes), sizes, axes)
        for axis, length in zip(axes, lengths, strict=True):
            full = ops.narrow(full, axis, 0, length)
    return _cut(full, first, second, mode, axes)


def _by_shifts(first: Tensor, second: Tensor, axis: int) -> Tensor:
    long, short = (first, second) if first.shape[axis] >= second.shape[axis] else (second, first)
    count = short.shape[axis]
    whole = padded(long, count - 1, count - 1, axis)
    length = long.shape[axis] + count - 1
    total: Any = 0.0
    for k in range(count):
        total = total + ops.narrow(whole, axis, count - 1 - k, length) * ops.narrow(short, axis, k, 1)
    return total


def padded(x: Tensor, before: int, after: int, axis: int) -> Tensor:
    """Return the Tensor with zeros around it along an axis."""
    parts = []
    for count in (before, after):
        shape = list(x.shape)
        shape[axis] = count
        parts.append(x.new_zeros(tuple(shape)))
    return ops.cat([parts[0], x, parts[1]], axis)


def _axes_of(first: Tensor, axes: Axes) -> tuple[int, ...]:
    if axes is None:
        return tuple(range(first.ndim))
    return tuple([axis % first.ndim for axis in (axes if isinstance(axes, Sequence) else (axes,))])


def _pair(in1: ArrayLike, in2: ArrayLike) -> tuple[Tensor, Tensor]:
    first, second = floats(in1, in2)
    if first.ndim != second.ndim:
        raise ValueError("in1 and in2 should have the same dimensionality")
    return first, second


@signal
def convolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto") -> Tensor:
    """Return the convolution of two arrays with the same number of dimensions.

    >>> rg.scipy.signal.convolve(rg.tensor([1.0, 2.0]), [1.0, 1.0])
    tensor([1., 3., 2.])
    """
    first, second = _pair(in1, in2)
    if method not in ("auto", "direct", "fft"):
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    if first.ndim == 0:
        return first * second
    return convolved(first, second, mode, _axes_of(first, None))


@signal
def correlate(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto") -> Tensor:
    """Return the cross-correlation of two arrays with the same number of dimensions.

    >>> rg.scipy.signal.correlate(rg.tensor([1.0, 2.0]), [1.0, 0.0])
    tensor([0., 1., 2.])
    """
    first, second = _pair(in1, in2)
    if method not in ("auto", "direct", "fft"):
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    if first.ndim == 0:
        return first * second.conj()
    axes = _axes_of(first, None)
    return convolved(first, ops.flip(second, axes).conj(), mode, axes)


@signal
def fftconvolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Axes = None) -> Tensor:
    """Return the convolution along ``axes``, all by default; the other axes broadcast.

    >>> rg.scipy.signal.fftconvolve(rg.tensor([1.0, 2.0]), [1.0, 1.0])
    tensor([1., 3., 2.])
    """
    first, second = _pair(in1, in2)
    return convolved(first, second, mode, _axes_of(first, axes)) if first.ndim else first * second


@signal
def oaconvolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Axes = None) -> Tensor:
    """Return the convolution along ``axes``, computed as by ``fftconvolve``.

    >>> rg.scipy.signal.oaconvolve(rg.tensor([1.0, 2.0]), [1.0, 1.0])
    tensor([1., 3., 2.])
    """
    return fftconvolve(in1, in2, mode, axes)


def _bounded(
    first: Tensor, second: Tensor, mode: str, boundary: str, fillvalue: float, correlation: bool = False
) -> Tensor:
    """Return a convolution of matrices that are continued beyond their edges.

    If ``second`` has an even number of elements, the middle part begins one element later in a correlation.
    """
    if first.ndim != 2 or second.ndim != 2:
        raise ValueError("convolve2d inputs must both be 2-D arrays")
    known = {"fill": "constant", "pad": "constant", "wrap": "wrap", "circular": "wrap", "symm": "reflect"}
    if boundary not in known and boundary != "symmetric":
        raise ValueError("Acceptable boundary flags are 'fill', 'circular' (or 'wrap'), and 'symmetric' (or 'symm').")
    how = known.get(boundary, "reflect")
    if mode == "valid":
        return convolved(first, second, mode, (0, 1))
    whole = first
    for axis, n in enumerate(second.shape):
        whole = extended(whole, n - 1, n - 1, axis, how, fillvalue)
    full = convolved(whole, second, "valid", (0, 1))
    if mode != "same" or not correlation:
        return _cut(full, first, second, mode, (0, 1))
    for axis in (0, 1):
        full = ops.narrow(full, axis, second.shape[axis] // 2, first.shape[axis])
    return full


@signal
def convolve2d(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: float = 0
) -> Tensor:
    """Return the convolution of two matrices; beyond its edges ``in1`` is filled, wrapped or mirrored.

    >>> rg.scipy.signal.convolve2d(rg.tensor([[1.0, 2.0]]), [[1.0, 1.0]])
    tensor([[1., 3., 2.]])
    """
    return _bounded(*_pair(in1, in2), mode, boundary, fillvalue)


@signal
def correlate2d(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: float = 0
) -> Tensor:
    """Return the cross-correlation of two matrices; beyond its edges ``in1`` is filled, wrapped or mirrored.

    >>> rg.scipy.signal.correlate2d(rg.tensor([[1.0, 2.0]]), [[1.0, 0.0]])
    tensor([[0., 1., 2.]])
    """
    first, second = _pair(in1, in2)
    result = _bounded(first, ops.flip(second, (0, 1)).conj(), mode, boundary, fillvalue, True)
    # SciPy exchanges the inputs if in2 is larger than in1, and then conjugates in1.
    exchanged = mode == "valid" and any(m < n for m, n in zip(first.shape, second.shape, strict=True))
    return result.conj() if exchanged else result


@signal
def upfirdn(
    h: ArrayLike, x: ArrayLike, up: int = 1, down: int = 1, axis: int = -1, mode: str = "constant", cval: float = 0
) -> Tensor:
    """Insert ``up - 1`` zeros between elements of ``x``, filter by ``h``, and take every ``down``-th element.

    >>> rg.scipy.signal.upfirdn([1.0, 1.0], rg.tensor([1.0, 2.0]), up=2)
    tensor([1., 1., 2., 2.])
    """
    if mode != "constant" or cval != 0:
        raise NotImplementedError("scipy.signal.upfirdn of Tensors: mode must be 'constant' and cval 0")
    taps, values = floats(h, x)
    if taps.ndim != 1 or up < 1 or down < 1:
        raise ValueError("h must be a vector, up and down must be at least 1")
    values = ops.moveaxis(values, axis, -1)
    if up > 1:
        spread = ops.cat([values[..., None], values.new_zeros((*values.shape, up - 1))], -1)
        values = spread.reshape((*values.shape[:-1], -1))[..., : (values.shape[-1] - 1) * up + 1]
    shape = (1,) * (values.ndim - 1) + (-1,)
    result = convolved(values, taps.reshape(shape), "full", (values.ndim - 1,))
    return ops.moveaxis(result[..., ::down], -1, axis)
