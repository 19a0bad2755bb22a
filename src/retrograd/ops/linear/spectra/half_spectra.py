"""Fourier transforms between real signals and the half of their spectrum that determines the other half.

These operators are composed of one-dimensional and complex transforms, cropping and padding.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.arrays.dtypes import complex_of
from ....core.errors import describe
from ....core.graph.primitive import Primitive, apply, operand
from ....core.tensor.tensor import Tensor
from ...nn.spatial.padding import PAD
from ...table import batching
from ...table.arguments import integer
from ...table.registry import operator
from ...table.types import Dim, Dims, Norm, Operand
from .fourier import FFT, OPPOSITE, lengths_of, norm_of, resized, signal, transformed


def _half_rule(g: Array, x_shape: tuple[int, ...], dim: int, norm: Norm) -> Array:
    """The half spectrum uses the first rows of the transform matrix, so its transpose first pads with zeros."""
    widths = [(0, 0)] * len(x_shape)
    widths[dim] = (0, x_shape[dim] - g.shape[dim])
    return FFT(PAD(g, widths=tuple(widths), value=0), dims=(dim,), norm=norm, inverse=False).real


def _real_rule(g: Array, x_shape: tuple[int, ...], dim: int, norm: Norm) -> Array:
    """Each coefficient counts for itself and its mirror image, except the first and, at even length, the last."""
    n = g.shape[dim]
    count = n // 2 + 1
    weights = array_module(g).full(count, 2.0, dtype=g.dtype)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    shape = [1] * len(g.shape)
    shape[dim] = count
    spectrum = HALF(g, dim=dim, norm=OPPOSITE[norm])
    return spectrum.conj() * weights.reshape(tuple(shape))


HALF = Primitive(
    "rfft",
    lambda x, dim, norm: transformed("rfft", x, axis=dim, norm=norm).astype(complex_of(x.dtype), copy=False),
    "x",
    [_half_rule],
    contiguous=True,
    batch=batching.along("dim"),
    shaped=True,
)
REAL = Primitive(
    "irfft",
    lambda x, n, dim, norm: transformed("irfft", x, n, axis=dim, norm=norm).astype(x.real.dtype, copy=False),
    "x",
    [_real_rule],
    contiguous=True,
    batch=batching.along("dim"),
    shaped=True,
)


def _to_half(input: Operand, s: Dims | None, dim: Dims | None, norm: Norm | None) -> Tensor:
    x, norm = signal(input), norm_of(norm)
    if x.dtype.kind == "c":
        raise RuntimeError(f"expects a real input, got {describe(x)}")
    lengths, dims = lengths_of(x, s, dim)
    for n, axis in zip(lengths, dims):
        x = resized(x, n, axis)
    half: Tensor = apply(HALF, (x,), {"dim": dims[-1], "norm": norm})
    if len(dims) == 1:
        return half
    return apply(FFT, (half,), {"dims": tuple(dims[:-1]), "norm": norm, "inverse": False})


def _to_real(input: Operand, s: Dims | None, dim: Dims | None, norm: Norm | None) -> Tensor:
    x, norm = signal(input), norm_of(norm)
    lengths, dims = lengths_of(x, s, dim)
    if x.dtype.kind != "c":
        x = x.to(complex_of(x.dtype))
    last = dims[-1]
    n = lengths[-1] if lengths[-1] is not None else 2 * (x.array.shape[last] - 1)
    if integer(n, "n") < 1:
        raise RuntimeError(f"invalid number of data points ({n}) specified for {describe(x)}")
    for size, axis in zip(lengths[:-1], dims[:-1]):
        x = resized(x, size, axis)
    x = resized(x, n // 2 + 1, last)
    if len(dims) > 1:
        x = apply(FFT, (x,), {"dims": tuple(dims[:-1]), "norm": norm, "inverse": True})
    return apply(REAL, (x,), {"n": n, "dim": last, "norm": norm})


def _hermitian(input: Operand, s: Dims | None, dim: Dims | None, norm: Norm | None) -> Tensor:
    """The forward transform of a half spectrum is the inverse of its conjugate, with the opposite norm."""
    x = signal(input)
    return _to_real(x.conj() if x.dtype.kind == "c" else x, s, dim, OPPOSITE[norm_of(norm)])


@operator(namespace="fft", method=False, args="norm forward, n crops")
def rfft(input: Operand, n: int | None = None, dim: Dim = -1, norm: Norm | None = None) -> Tensor:
    """``X_0, ..., X_(n // 2)`` of ``fft`` of a real signal: the half that determines the rest.

    Derivative: ``g`` padded with zeros and transformed in the opposite direction, real part.
    Shape: any; the result has length ``n // 2 + 1`` along the (last) dimension.
    Dtype: float32 and float64; the result is complex; integers become the default dtype.

    Args:
        input: a real signal.

    Raises:
        RuntimeError: a length is not positive, ``norm`` is unknown, or the input is float16, or complex.

    >>> rg.fft.rfft(rg.ones(4)).real
    tensor([4., 0., 0.])
    """
    return _to_half(input, None if n is None else [n], dim, norm)


@operator(namespace="fft", method=False, like=rfft, args="dim last two")
def rfft2(input: Operand, s: Sequence[int] | None = None, dim: Dims = (-2, -1), norm: Norm | None = None) -> Tensor:
    """``rfft`` along the last of two dimensions, ``fft`` along the other.

    >>> rg.fft.rfft2(rg.ones(4, 4)).shape
    (4, 3)
    """
    return _to_half(input, s, dim, norm)


@operator(namespace="fft", method=False, like=rfft, args="dim of s")
def rfftn(input: Operand, s: Sequence[int] | None = None, dim: Dims | None = None, norm: Norm | None = None) -> Tensor:
    """``rfft`` along the last of several dimensions, ``fft`` along the others.

    >>> rg.fft.rfftn(rg.ones(2, 4, 4)).shape
    (2, 4, 3)
    """
    return _to_half(input, s, dim, norm)


@operator(namespace="fft", method=False, args="norm inverse", raises="fft")
def irfft(input: Operand, n: int | None = None, dim: Dim = -1, norm: Norm | None = None) -> Tensor:
    """``x_0, ..., x_(n-1)`` from its half spectrum: the inverse of ``rfft``.

    Derivative: the factor times ``rfft`` of ``g``, doubled except for the first and, at even ``n``, the last
    coefficient.
    Shape: any; the result has length ``n``, by default ``2 (m - 1)`` for length m, along the (last) dimension.
    Dtype: float32, float64 and complex; the result is real; integers become the default dtype.

    Args:
        input: the half of a spectrum.
        n: the length of the result.

    >>> rg.fft.irfft(rg.tensor([4.0, 0.0, 0.0]))
    tensor([1., 1., 1., 1.])
    """
    return _to_real(input, None if n is None else [n], dim, norm)


@operator(namespace="fft", method=False, like=irfft, args="s of result, dim last two")
def irfft2(input: Operand, s: Sequence[int] | None = None, dim: Dims = (-2, -1), norm: Norm | None = None) -> Tensor:
    """``irfft`` along the last of two dimensions, ``ifft`` along the other: the inverse of ``rfft2``.

    >>> rg.fft.irfft2(rg.fft.rfft2(rg.ones(2, 4)))
    tensor([[1., 1., 1., 1.],
            [1., 1., 1., 1.]])
    """
    return _to_real(input, s, dim, norm)


@operator(namespace="fft", method=False, like=irfft2, args="dim of s")
def irfftn(input: Operand, s: Sequence[int] | None = None, dim: Dims | None = None, norm: Norm | None = None) -> Tensor:
    """``irfft`` along the last of several dimensions, ``ifft`` along the others: the inverse of ``rfftn``.

    >>> rg.fft.irfftn(rg.fft.rfftn(rg.ones(2, 4)))
    tensor([[1., 1., 1., 1.],
            [1., 1., 1., 1.]])
    """
    return _to_real(input, s, dim, norm)


@operator(namespace="fft", method=False, like=irfft, args="norm forward")
def hfft(input: Operand, n: int | None = None, dim: Dim = -1, norm: Norm | None = None) -> Tensor:
    """``X_k = sum_j x_j exp(-2 pi i j k / n)``, real, of a Hermitian signal of which the input is one half.

    Derivative: that of ``irfft`` of the conjugate, with the opposite ``norm``.

    Args:
        input: the half of a signal with ``x_(-j) = conj(x_j)``.

    >>> rg.fft.hfft(rg.tensor([1.0, 0.0, 0.0]))
    tensor([1., 1., 1., 1.])
    """
    return _hermitian(input, None if n is None else [n], dim, norm)


@operator(namespace="fft", method=False, like=hfft, args="s of result, dim last two")
def hfft2(input: Operand, s: Sequence[int] | None = None, dim: Dims = (-2, -1), norm: Norm | None = None) -> Tensor:
    """``hfft`` along the last of two dimensions, ``fft`` along the other.

    Args:
        input: the half of a Hermitian signal.

    >>> rg.fft.hfft2(rg.ones(2, 3)).shape
    (2, 4)
    """
    return _hermitian(input, s, dim, norm)


@operator(namespace="fft", method=False, like=hfft2, args="dim of s")
def hfftn(input: Operand, s: Sequence[int] | None = None, dim: Dims | None = None, norm: Norm | None = None) -> Tensor:
    """``hfft`` along the last of several dimensions, ``fft`` along the others.

    >>> rg.fft.hfftn(rg.ones(2, 3)).shape
    (2, 4)
    """
    return _hermitian(input, s, dim, norm)


@operator(namespace="fft", method=False, like=rfft, args="norm inverse")
def ihfft(input: Operand, n: int | None = None, dim: Dim = -1, norm: Norm | None = None) -> Tensor:
    """``conj(rfft(input)) / n``: the inverse of ``hfft``, the half spectrum of a real signal.

    Derivative: that of ``rfft``, conjugated.

    Args:
        input: a real spectrum.

    >>> rg.fft.ihfft(rg.ones(4)).real
    tensor([1., 0., 0.])
    """
    return _to_half(input, None if n is None else [n], dim, OPPOSITE[norm_of(norm)]).conj()


def _inverse(input: Tensor, s: Sequence[int] | None, dim: Dims | None, norm: Norm | None) -> Tensor:
    """Return the half spectrum of ``ihfft2`` and ``ihfftn``: the conjugate of ``rfftn`` with the opposite norm."""
    if operand(input).dtype.kind == "c":
        raise RuntimeError(f"expects a real input, got {describe(input)}")
    return rfftn(input, s, dim, OPPOSITE[norm_of(norm)]).conj()


@operator(namespace="fft", method=False)
def ihfft2(input: Tensor, s: Sequence[int] | None = None, dim: Dims = (-2, -1), norm: Norm | None = None) -> Tensor:
    """The inverse of ``hfft2``: ``ihfft`` along the last of two dimensions, ``ifft`` along the other.

    Derivative: the transpose of the transform, applied to ``g``.
    Shape: the input's, with ``n // 2 + 1`` for the last transformed length n.
    Dtype: float32 and float64, integers become the default dtype; the result is complex.

    Args:
        dim: the two dimensions.
        norm: ``"backward"`` (1/n, the default), ``"ortho"`` (1/sqrt(n)) or ``"forward"`` (no factor).

    Raises:
        RuntimeError: the input is complex, or ``s`` and ``dim`` differ in length.

    >>> rg.fft.ihfft2(rg.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    return _inverse(input, s, dim, norm)


@operator(namespace="fft", method=False, like=ihfft2)
def ihfftn(input: Tensor, s: Sequence[int] | None = None, dim: Dims | None = None, norm: Norm | None = None) -> Tensor:
    """The inverse of ``hfftn``: ``ihfft`` along the last of several dimensions, ``ifft`` along the others.

    Args:
        dim: the dimensions, by default all, or the last ``len(s)``.

    >>> rg.fft.ihfftn(rg.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    return _inverse(input, s, dim, norm)
