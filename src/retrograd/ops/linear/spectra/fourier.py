"""Discrete Fourier transforms between complex signals and spectra, their shifts and frequencies.

The transform matrix is symmetric, so with cotangents in the transpose convention (see core.graph) the transform is its
own rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Literal

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import backend_for
from ....core.arrays.dtypes import INEXACT, complex_of, get_default_dtype
from ....core.errors import describe
from ....core.graph.primitive import Primitive, apply, operand
from ....core.tensor.tensor import Tensor, new_tensor
from ....kernels.runtime.cores import count
from ...indexing.indexing import GETITEM
from ...nn.spatial.padding import PAD
from ...shape.arrangement import roll
from ...table import batching
from ...table.arguments import dimension, integer
from ...table.registry import operator
from ...table.types import DeviceLike, Dim, Dims, DTypeLike, Norm, Operand

OPPOSITE: dict[str, Norm] = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


SEVERAL = 1 << 12  # from this number of elements on, SciPy's transforms, which vectorize over signals, are faster
MANY = 1 << 15  # from this number of elements on, several threads are faster than one


@cache
def _scipys() -> ModuleType | None:
    try:
        return import_module("scipy.fft")
    except ModuleNotFoundError:
        return None


def transformed(name: str, x: Array, *lengths: int, **options: object) -> Array:
    """Apply NumPy's function ``name`` of ``fft``, or SciPy's to large arrays."""
    if type(x) is np.ndarray and x.size >= SEVERAL and (library := _scipys()) is not None:
        return getattr(library, name)(x, *lengths, workers=count() if x.size >= MANY else 1, **options)
    return getattr(np.fft, name)(x, *lengths, **options)


def _complex(x: Array, dims: tuple[int, ...], norm: Norm, inverse: bool) -> Array:
    result = transformed("ifftn" if inverse else "fftn", x, axes=dims, norm=norm)
    return result.astype(x.dtype if x.dtype.kind == "c" else complex_of(x.dtype), copy=False)


FFT: Primitive = Primitive(
    "fft",
    _complex,
    "x",
    [lambda g, dims, norm, inverse: FFT(g, dims=dims, norm=norm, inverse=inverse)],
    contiguous=True,
    batch=batching.along("dims"),
    shaped=True,
)


def resized(x: Tensor, n: int | None, dim: int) -> Tensor:
    """Crop x to n entries along a dimension, or pad it with zeros."""
    length = x.array.shape[dim]
    if n is None or n == length:
        if length < 1:
            raise RuntimeError(f"invalid number of data points ({length}) along dimension {dim} of {describe(x)}")
        return x
    if integer(n, "n") < 1:
        raise RuntimeError(f"invalid number of data points ({n}) specified for {describe(x)}")
    if n < length:
        index = [slice(None)] * x.array.ndim
        index[dim] = slice(0, n)
        return apply(GETITEM, (x,), {"index": tuple(index)})
    widths = [(0, 0)] * x.array.ndim
    widths[dim] = (0, n - length)
    return apply(PAD, (x,), {"widths": tuple(widths), "value": 0})


def signal(input: Operand) -> Tensor:
    x = operand(input)
    if x.dtype.kind not in INEXACT:
        x = x.to(get_default_dtype())
    if x.dtype == np.float16:
        raise RuntimeError(f"float16 is not supported on the CPU; convert {describe(x)} to float32 first")
    return x


def norm_of(norm: Norm | None) -> Norm:
    if norm is None:
        return "backward"
    if not isinstance(norm, str):
        raise TypeError(f"argument 'norm' must be str, not {type(norm).__name__}")
    if norm not in OPPOSITE:
        raise RuntimeError(f"norm must be 'backward', 'ortho' or 'forward', not {norm!r}")
    return norm


def lengths_of(x: Tensor, s: Dims | None, dim: Dims | None) -> tuple[list[int | None], list[int]]:
    """Return the sizes (None for the input's own) and dimensions of an n-dimensional transform."""
    s = [s] if isinstance(s, int) else s
    ndim = x.array.ndim
    if dim is None:
        dims = list(range(ndim)) if s is None else list(range(ndim - len(s), ndim))
        if s is not None and len(s) > ndim:
            raise RuntimeError(f"s has {len(s)} sizes, but the input has {ndim} dimensions, got {describe(x)}")
    else:
        dims = [dimension(axis, ndim) for axis in ([dim] if isinstance(dim, int) else dim)]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"dimensions {tuple(dims)} must be unique")
    if not dims:
        raise RuntimeError(f"needs at least one dimension, got {describe(x)}")
    sizes: list[int | None] = [None] * len(dims) if s is None else [None if n == -1 else n for n in s]
    if len(sizes) != len(dims):
        raise RuntimeError(f"s has {len(sizes)} sizes, but dim names {len(dims)} dimensions")
    return sizes, dims


def _transform(input: Operand, s: Dims | None, dim: Dims | None, norm: Norm | None, inverse: bool) -> Tensor:
    x, norm = signal(input), norm_of(norm)
    lengths, dims = lengths_of(x, s, dim)
    for n, axis in zip(lengths, dims):
        x = resized(x, n, axis)
    return apply(FFT, (x,), {"dims": tuple(dims), "norm": norm, "inverse": inverse})


@operator(namespace="fft", method=False, args="norm forward, n crops", raises="fft")
def fft(input: Operand, n: int | None = None, dim: Dim = -1, norm: Norm | None = None) -> Tensor:
    """``X_k = sum_j x_j exp(-2 pi i j k / n)``: the discrete Fourier transform along a dimension.

    Derivative: ``g`` transformed in the opposite direction, with the same factor.
    Shape: any; the result has the input's shape, except for the given lengths.
    Dtype: float32, float64 and complex; the result is complex; integers become the default dtype.

    Args:
        input: a signal, real or complex.

    >>> rg.fft.fft(rg.tensor([1.0, 0.0, 0.0])).real
    tensor([1., 1., 1.])
    """
    return _transform(input, None if n is None else [n], dim, norm, False)


@operator(namespace="fft", method=False, like=fft, args="norm inverse, input spectrum")
def ifft(input: Operand, n: int | None = None, dim: Dim = -1, norm: Norm | None = None) -> Tensor:
    """``x_j = 1/n sum_k X_k exp(2 pi i j k / n)``: the inverse of ``fft``.

    >>> rg.fft.ifft(rg.tensor([3.0, 0.0, 0.0])).real
    tensor([1., 1., 1.])
    """
    return _transform(input, None if n is None else [n], dim, norm, True)


@operator(namespace="fft", method=False, like=fft, args="dim last two")
def fft2(input: Operand, s: Sequence[int] | None = None, dim: Dims = (-2, -1), norm: Norm | None = None) -> Tensor:
    """``fft`` along two dimensions.

    >>> rg.fft.fft2(rg.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    return _transform(input, s, dim, norm, False)


@operator(namespace="fft", method=False, like=ifft, args="dim last two")
def ifft2(input: Operand, s: Sequence[int] | None = None, dim: Dims = (-2, -1), norm: Norm | None = None) -> Tensor:
    """``ifft`` along two dimensions: the inverse of ``fft2``.

    >>> rg.fft.ifft2(rg.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    return _transform(input, s, dim, norm, True)


@operator(namespace="fft", method=False, like=fft, args="dim of s")
def fftn(input: Operand, s: Sequence[int] | None = None, dim: Dims | None = None, norm: Norm | None = None) -> Tensor:
    """``fft`` along several dimensions.

    >>> rg.fft.fftn(rg.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    return _transform(input, s, dim, norm, False)


@operator(namespace="fft", method=False, like=ifft, args="dim of s")
def ifftn(input: Operand, s: Sequence[int] | None = None, dim: Dims | None = None, norm: Norm | None = None) -> Tensor:
    """``ifft`` along several dimensions: the inverse of ``fftn``.

    >>> rg.fft.ifftn(rg.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    return _transform(input, s, dim, norm, True)


def _shifted(input: Operand, dim: Dims | None, direction: int) -> Tensor:
    x = operand(input)
    dims = range(x.array.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = [dimension(axis, x.array.ndim) for axis in dims]
    shifts = [length // 2 if direction > 0 else (length + 1) // 2 for length in (x.array.shape[axis] for axis in axes)]
    return roll(x, tuple(shifts), tuple(axes)) if axes else x.clone()


@operator(namespace="fft", method=False, args="input spectrum")
def fftshift(input: Operand, dim: Dims | None = None) -> Tensor:
    """``y_(k + n // 2) = x_k``, indices modulo ``n``: the zero frequency moves to the middle.

    Derivative: ``ifftshift(g)``.

    >>> rg.fft.fftshift(rg.tensor([0.0, 1.0, -2.0, -1.0]))
    tensor([-2., -1.,  0.,  1.])
    """
    return _shifted(input, dim, 1)


@operator(namespace="fft", method=False)
def ifftshift(input: Operand, dim: Dims | None = None) -> Tensor:
    """``y_k = x_(k + n // 2)``, indices modulo ``n``: the inverse of ``fftshift``.

    Derivative: ``fftshift(g)``.

    Args:
        input: a spectrum with the zero frequency in the middle.

    >>> rg.fft.ifftshift(rg.tensor([-2.0, -1.0, 0.0, 1.0]))
    tensor([ 0.,  1., -2., -1.])
    """
    return _shifted(input, dim, -1)


def _frequencies(
    name: Literal["fftfreq", "rfftfreq"], n: int, d: float, dtype: DTypeLike | None, device: DeviceLike | None
) -> Tensor:
    if n <= 0:
        raise RuntimeError(f"n must be positive, got {n}")
    xp = backend_for(device).xp
    frequencies = xp.asarray(getattr(xp.fft, name)(n, d))
    return new_tensor(frequencies.astype(get_default_dtype() if dtype is None else dtype))


@operator(namespace="fft", method=False, differentiable=False, shape="vector")
def fftfreq(n: int, d: float = 1.0, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """``[0, 1, ..., -2, -1] / (n d)``: the frequencies of ``fft`` of ``n`` samples at distance ``d``.

    Dtype: ``dtype``, or the default dtype.

    Args:
        n: the number of samples.
        d: the distance between samples; frequencies are in cycles per unit of ``d``.
        dtype: the dtype of the result.
        device: the device of the result.

    Raises:
        RuntimeError: ``n`` is not positive.

    >>> rg.fft.fftfreq(4)
    tensor([ 0.  ,  0.25, -0.5 , -0.25])
    """
    return _frequencies("fftfreq", n, d, dtype, device)


@operator(namespace="fft", method=False, differentiable=False, like=fftfreq)
def rfftfreq(n: int, d: float = 1.0, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """``[0, 1, ..., n // 2] / (n d)``: the frequencies of ``rfft`` of ``n`` samples at distance ``d``.

    Shape: (n // 2 + 1).

    >>> rg.fft.rfftfreq(4)
    tensor([0.  , 0.25, 0.5 ])
    """
    return _frequencies("rfftfreq", n, d, dtype, device)
