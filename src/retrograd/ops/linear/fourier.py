"""Discrete Fourier transforms.

The transform matrix is symmetric, so in the transpose convention of the walk (see core.graph) a complex transform is
its
own rule. Everything else is put together from it, from the two transforms between real signals and half spectra, and
from
cropping and padding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.devices import array_module, backend_for
from ...core.dtypes import complex_of, get_default_dtype
from ...core.errors import describe
from ...core.primitive import Primitive, apply, operand
from ...core.tensor import Tensor, new_tensor
from ..indexing.indexing import GETITEM
from ..nn.spatial.padding import PAD
from ..table.arguments import dimension, integer
from ..table.registry import operator

_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _complex(x: Any, dims: tuple[int, ...], norm: Any, inverse: bool) -> Any:
    transform = np.fft.ifftn if inverse else np.fft.fftn
    return transform(x, axes=dims, norm=norm).astype(_complex_dtype(x), copy=False)


def _complex_dtype(x: Any) -> Any:
    return x.dtype if x.dtype.kind == "c" else complex_of(x.dtype)


FFT: Primitive = Primitive(
    "fft", _complex, "x", [lambda g, dims, norm, inverse: FFT(g, dims=dims, norm=norm, inverse=inverse)]
)


def _half_rule(g: Any, x_shape: tuple[int, ...], dim: int, norm: str) -> Any:
    """The half spectrum has the first rows of the transform matrix: its transpose pads with zeros first."""
    widths = [(0, 0)] * len(x_shape)
    widths[dim] = (0, x_shape[dim] - g.shape[dim])
    return FFT(PAD(g, widths=tuple(widths), value=0), dims=(dim,), norm=norm, inverse=False).real


def _real_rule(g: Any, x_shape: tuple[int, ...], dim: int, norm: str) -> Any:
    """Each coefficient stands for itself and its mirror image, but for the first and, at even length, the last."""
    n = g.shape[dim]
    count = n // 2 + 1
    weights = array_module(g).full(count, 2.0, dtype=g.dtype)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    shape = [1] * len(g.shape)
    shape[dim] = count
    spectrum = HALF(g, dim=dim, norm=_OPPOSITE[norm])
    return spectrum.conj() * weights.reshape(tuple(shape))


HALF = Primitive(
    "rfft",
    lambda x, dim, norm: np.fft.rfft(x, axis=dim, norm=norm).astype(complex_of(x.dtype), copy=False),
    "x",
    [_half_rule],
)
REAL = Primitive(
    "irfft",
    lambda x, n, dim, norm: np.fft.irfft(x, n, axis=dim, norm=norm).astype(x.real.dtype, copy=False),
    "x",
    [_real_rule],
)


def _resized(x: Tensor, n: Any, dim: int) -> Tensor:
    """x with n entries along a dimension: cropped, or padded with zeros."""
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


def _signal(input: Any) -> Tensor:
    x = operand(input)
    if x.dtype.kind not in "fc":
        x = x.to(get_default_dtype())
    if x.dtype == np.float16:
        raise RuntimeError(f"float16 is not supported on the CPU; convert {describe(x)} to float32 first")
    return x


def _norm_of(norm: Any) -> str:
    norm = "backward" if norm is None else norm
    if norm not in _OPPOSITE:
        raise RuntimeError(f"norm must be 'backward', 'ortho' or 'forward', not {norm!r}")
    return norm


def _sizes(name: str, x: Tensor, s: Any, dim: Any, real_output: bool = False) -> tuple[list[Any], list[int]]:
    """The sizes (None for as given) and dimensions of an n-dimensional transform."""
    s = [s] if isinstance(s, int) else s
    ndim = x.array.ndim
    if dim is None:
        dims = list(range(ndim)) if s is None else list(range(ndim - len(s), ndim))
        if s is not None and len(s) > ndim:
            raise RuntimeError(f"got sizes {tuple(s)} for {describe(x)}")
    else:
        dims = [dimension(each, ndim) for each in ([dim] if isinstance(dim, int) else dim)]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"dimensions {tuple(dims)} must be unique")
    if not dims:
        raise RuntimeError(f"needs at least one dimension, got {describe(x)}")
    sizes = [None] * len(dims) if s is None else [None if each == -1 else each for each in s]
    if len(sizes) != len(dims):
        raise RuntimeError(f"got {len(sizes)} sizes for {len(dims)} dimensions")
    return sizes, dims


def _transform(name: str, input: Any, s: Any, dim: Any, norm: Any, inverse: bool) -> Tensor:
    x, norm = _signal(input), _norm_of(norm)
    sizes, dims = _sizes(name, x, s, dim)
    for n, axis in zip(sizes, dims):
        x = _resized(x, n, axis)
    return apply(FFT, (x,), {"dims": tuple(dims), "norm": norm, "inverse": inverse})


def _to_half(name: str, input: Any, s: Any, dim: Any, norm: Any) -> Tensor:
    x, norm = _signal(input), _norm_of(norm)
    if x.dtype.kind == "c":
        raise RuntimeError(f"expects a real input, got {describe(x)}")
    sizes, dims = _sizes(name, x, s, dim)
    for n, axis in zip(sizes, dims):
        x = _resized(x, n, axis)
    half: Tensor = apply(HALF, (x,), {"dim": dims[-1], "norm": norm})
    if len(dims) == 1:
        return half
    return apply(FFT, (half,), {"dims": tuple(dims[:-1]), "norm": norm, "inverse": False})


def _to_real(name: str, input: Any, s: Any, dim: Any, norm: Any) -> Tensor:
    x, norm = _signal(input), _norm_of(norm)
    sizes, dims = _sizes(name, x, s, dim)
    if x.dtype.kind != "c":
        x = x.to(complex_of(x.dtype))
    last = dims[-1]
    n = sizes[-1] if sizes[-1] is not None else 2 * (x.array.shape[last] - 1)
    if integer(n, "n") < 1:
        raise RuntimeError(f"invalid number of data points ({n}) specified for {describe(x)}")
    for size, axis in zip(sizes[:-1], dims[:-1]):
        x = _resized(x, size, axis)
    x = _resized(x, n // 2 + 1, last)
    if len(dims) > 1:
        x = apply(FFT, (x,), {"dims": tuple(dims[:-1]), "norm": norm, "inverse": True})
    return apply(REAL, (x,), {"n": n, "dim": last, "norm": norm})


def _hermitian(name: str, input: Any, s: Any, dim: Any, norm: Any) -> Tensor:
    """The forward transform of a half spectrum is the inverse of its conjugate, with the norm taken the other way."""
    x = _signal(input)
    return _to_real(name, x.conj() if x.dtype.kind == "c" else x, s, dim, _OPPOSITE[_norm_of(norm)])


@operator(namespace="fft", method=False)
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform ``X[k] = sum_j x[j] exp(-2 pi i jk / n)`` along a dimension.

    Args:
        input: real or complex.
        n: crop or pad with zeros to this length first.
        dim: the dimension.
        norm: ``"backward"`` (no factor, the default), ``"ortho"`` (1/sqrt(n)) or ``"forward"`` (1/n).

    >>> rg.fft.fft(rg.tensor([1.0, 0.0, 0.0])).real
    tensor([1., 1., 1.])
    """
    return _transform("fft", input, None if n is None else [n], dim, norm, False)


@operator(namespace="fft", method=False)
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``fft``: ``x[j] = 1/n sum_k X[k] exp(2 pi i jk / n)``.

    >>> rg.fft.ifft(rg.tensor([3.0, 0.0, 0.0])).real
    tensor([1., 1., 1.])
    """
    return _transform("ifft", input, None if n is None else [n], dim, norm, True)


@operator(namespace="fft", method=False)
def fft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """``fft`` along two dimensions.

    >>> rg.fft.fft2(rg.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    return _transform("fft2", input, s, dim, norm, False)


@operator(namespace="fft", method=False)
def ifft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of ``fft2``.

    >>> rg.fft.ifft2(rg.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    return _transform("ifft2", input, s, dim, norm, True)


@operator(namespace="fft", method=False)
def fftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """``fft`` along several dimensions, all by default.

    >>> rg.fft.fftn(rg.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    return _transform("fftn", input, s, dim, norm, False)


@operator(namespace="fft", method=False)
def ifftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of ``fftn``.

    >>> rg.fft.ifftn(rg.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    return _transform("ifftn", input, s, dim, norm, True)


@operator(namespace="fft", method=False)
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The half ``X[0], ..., X[n // 2]`` of the transform of a real signal, which determines the rest.

    >>> rg.fft.rfft(rg.ones(4)).real
    tensor([4., 0., 0.])
    """
    return _to_half("rfft", input, None if n is None else [n], dim, norm)


@operator(namespace="fft", method=False)
def rfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """``rfft`` along the last of two dimensions, ``fft`` along the other.

    >>> rg.fft.rfft2(rg.ones(4, 4)).shape
    (4, 3)
    """
    return _to_half("rfft2", input, s, dim, norm)


@operator(namespace="fft", method=False)
def rfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """``rfft`` along the last of several dimensions, ``fft`` along the others.

    >>> rg.fft.rfftn(rg.ones(2, 4, 4)).shape
    (2, 4, 3)
    """
    return _to_half("rfftn", input, s, dim, norm)


@operator(namespace="fft", method=False)
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``rfft``: a real signal of ``n`` numbers, by default ``2 (len - 1)``, from its half spectrum.

    >>> rg.fft.irfft(rg.tensor([4.0, 0.0, 0.0]))
    tensor([1., 1., 1., 1.])
    """
    return _to_real("irfft", input, None if n is None else [n], dim, norm)


@operator(namespace="fft", method=False)
def irfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of ``rfft2``.

    >>> rg.fft.irfft2(rg.fft.rfft2(rg.ones(2, 4)))
    tensor([[1., 1., 1., 1.],
            [1., 1., 1., 1.]])
    """
    return _to_real("irfft2", input, s, dim, norm)


@operator(namespace="fft", method=False)
def irfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of ``rfftn``.

    >>> rg.fft.irfftn(rg.fft.rfftn(rg.ones(2, 4)))
    tensor([[1., 1., 1., 1.],
            [1., 1., 1., 1.]])
    """
    return _to_real("irfftn", input, s, dim, norm)


@operator(namespace="fft", method=False)
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real transform of a Hermitian signal that is given by its half.

    >>> rg.fft.hfft(rg.tensor([1.0, 0.0, 0.0]))
    tensor([1., 1., 1., 1.])
    """
    return _hermitian("hfft", input, None if n is None else [n], dim, norm)


@operator(namespace="fft", method=False)
def hfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """``hfft`` along the last of two dimensions, ``fft`` along the other.

    >>> rg.fft.hfft2(rg.ones(2, 3)).shape
    (2, 4)
    """
    return _hermitian("hfft2", input, s, dim, norm)


@operator(namespace="fft", method=False)
def hfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """``hfft`` along the last of several dimensions, ``fft`` along the others.

    >>> rg.fft.hfftn(rg.ones(2, 3)).shape
    (2, 4)
    """
    return _hermitian("hfftn", input, s, dim, norm)


@operator(namespace="fft", method=False)
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``hfft``: the half spectrum of a real signal, conjugated.

    >>> rg.fft.ihfft(rg.ones(4)).real
    tensor([1., 0., 0.])
    """
    return _to_half("ihfft", input, None if n is None else [n], dim, _OPPOSITE[_norm_of(norm)]).conj()


def _shifted(name: str, input: Any, dim: Any, direction: int) -> Tensor:
    x = operand(input)
    dims = range(x.array.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = [dimension(axis, x.array.ndim) for axis in dims]
    shifts = [length // 2 if direction > 0 else (length + 1) // 2 for length in (x.array.shape[axis] for axis in axes)]
    return x.roll(tuple(shifts), tuple(axes)) if axes else x


@operator(namespace="fft", method=False)
def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Move the zero frequency to the middle of each dimension.

    >>> rg.fft.fftshift(rg.tensor([0.0, 1.0, -2.0, -1.0]))
    tensor([-2., -1.,  0.,  1.])
    """
    return _shifted("fftshift", input, dim, 1)


@operator(namespace="fft", method=False)
def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The inverse of ``fftshift``.

    >>> rg.fft.ifftshift(rg.tensor([-2.0, -1.0, 0.0, 1.0]))
    tensor([ 0.,  1., -2., -1.])
    """
    return _shifted("ifftshift", input, dim, -1)


def _frequencies(name: str, n: int, d: float, dtype: Any, device: Any) -> Tensor:
    if n <= 0:
        raise RuntimeError(f"n must be positive, got {n}")
    frequencies = getattr(backend_for(device).xp.fft, name)(n, d)
    return new_tensor(frequencies.astype(get_default_dtype() if dtype is None else dtype))


@operator(namespace="fft", method=False, differentiable=False)
def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of ``fft`` on ``n`` samples ``d`` apart: ``[0, 1, ..., -2, -1] / (n d)``.

    >>> rg.fft.fftfreq(4)
    tensor([ 0.  ,  0.25, -0.5 , -0.25])
    """
    return _frequencies("fftfreq", n, d, dtype, device)


@operator(namespace="fft", method=False, differentiable=False)
def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of ``rfft`` on ``n`` samples ``d`` apart.

    >>> rg.fft.rfftfreq(4)
    tensor([0.  , 0.25, 0.5 ])
    """
    return _frequencies("rfftfreq", n, d, dtype, device)
