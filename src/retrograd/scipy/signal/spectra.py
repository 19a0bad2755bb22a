"""Short-time Fourier transforms, estimates of spectra, analytic signals and resampling by Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeGuard

import numpy as np

from ..._generated import fft
from ..._generated import toplevel as ops
from ...core.arrays import Array
from ...core.tensor.tensor import Tensor
from ...ops.numpy.arguments import tensor
from ...ops.table.types import DTypeLike
from ..decorators import ArrayLike, detached, floats, scipys
from .convolution import padded, signal
from .filters import _extended, detrend

# A window is given as its name, a tuple of a name and numbers, or an array; a trend to remove as its kind, a function
# that removes it, or False.
Window: TypeAlias = str | tuple[str | float, ...] | ArrayLike
Detrend: TypeAlias = Literal["linear", "constant", False] | Callable[[Tensor], Tensor]


def _windows(window: Window, nperseg: int | None, length: int | None, dtype: DTypeLike) -> tuple[Tensor, int]:
    if isinstance(window, (str, tuple)):
        count = 256 if nperseg is None else int(nperseg)
        if length is not None and count > length:
            count = length
        if count < 1:
            raise ValueError("nperseg must be a positive integer")
        values = scipys("scipy.signal").get_window(window, count)
        return tensor(values.astype(dtype)), count
    taps = tensor(window).astype(dtype)
    if taps.ndim != 1:
        raise ValueError("window must be 1-D")
    if length is not None and taps.shape[0] > length:
        raise ValueError("window is longer than input signal")
    if nperseg is not None and nperseg != taps.shape[0]:
        raise ValueError("value specified for nperseg is different from length of window")
    return taps, taps.shape[0]


def _segments(x: Tensor, size: int, step: int) -> Tensor:
    """Return overlapping parts of the last axis, one after another along an axis before it."""
    count = (x.shape[-1] - size) // step + 1
    return x[..., step * np.arange(count)[:, None] + np.arange(size)]


def _detrended(parts: Tensor, kind: Detrend) -> Tensor:
    if not kind:
        return parts
    return kind(parts) if callable(kind) else detrend(parts, type=kind)


def _transforms(
    signals: list[Tensor], fs: float, window: Window, nperseg: int | None, noverlap: int | None, nfft: int | None,
    kind: Detrend, onesided: bool, boundary: str | None = None, pad: bool = False,
) -> tuple[Tensor, Tensor, list[Tensor], Tensor, bool]:  # fmt: skip
    """Return frequencies, times, the segments' transforms (frequencies last), the window, and if one-sided."""
    length = max(x.shape[-1] for x in signals)
    signals = [padded(x, 0, length - x.shape[-1], x.ndim - 1) for x in signals]
    dtype = signals[0].array.real.dtype
    taps, size = _windows(window, nperseg, length, dtype)
    points = size if nfft is None else int(nfft)
    if points < size:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    overlap = size // 2 if noverlap is None else int(noverlap)
    if overlap >= size:
        raise ValueError("noverlap must be less than nperseg.")
    step = size - overlap
    if boundary is not None:
        if boundary == "zeros":
            signals = [padded(x, size // 2, size // 2, x.ndim - 1) for x in signals]
        elif boundary in ("even", "odd", "constant"):
            signals = [_extended(x, boundary, size // 2, 0)[0] for x in signals]
        else:
            raise ValueError(f"Unknown boundary option '{boundary}', must be one of: even, odd, constant, zeros, None")
    if pad:
        extra = (-(signals[0].shape[-1] - size) % step) % size
        signals = [padded(x, 0, extra, x.ndim - 1) for x in signals]
    onesided = onesided and all(x.dtype.kind != "c" for x in signals)
    transform: Callable[..., Tensor] = fft.rfft if onesided else fft.fft
    results = [transform(_detrended(_segments(x, size, step), kind) * taps, points) for x in signals]
    library = scipys("scipy.fft")
    frequencies = (library.rfftfreq if onesided else library.fftfreq)(points, 1 / fs)
    times = np.arange(size / 2, signals[0].shape[-1] - size / 2 + 1, step) / float(fs)
    if boundary is not None:
        times = times - size / 2 / fs
    return tensor(frequencies.astype(dtype)), tensor(times.astype(dtype)), results, taps, onesided


def _scale(taps: Tensor, fs: float, scaling: str) -> Tensor:
    if scaling == "density":
        return 1.0 / (fs * (taps * taps).sum())
    if scaling == "spectrum":
        return 1.0 / taps.sum() ** 2
    raise ValueError(f"Unknown scaling: {scaling!r}")


def _rolled(result: Tensor, axis: int, ndim: int) -> Tensor:
    """Move the axis of frequencies, the last one, to the position of the data's axis; times stay last."""
    axis %= ndim
    return ops.moveaxis(result, -1, axis)


@signal
def stft(
    x: ArrayLike,
    fs: float = 1.0,
    window: Window = "hann_periodic",
    nperseg: int | None = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
    scaling: str = "spectrum",
) -> tuple[Tensor, Tensor, Tensor]:
    """Return frequencies, times and the short-time Fourier transform.

    >>> rg.scipy.signal.stft(rg.ones(8), nperseg=4)[2].shape
    (3, 5)
    """
    kind = {"psd": "density"}.get(scaling, scaling)
    if kind not in ("density", "spectrum") or scaling == "density":
        raise ValueError(f"Parameter {scaling=} not in ['spectrum', 'psd']!")
    (values,) = floats(x)
    moved = ops.moveaxis(values, axis, -1)
    f, t, (result,), taps, _ = _transforms(
        [moved], fs, _named(window), nperseg, noverlap, nfft, detrend, return_onesided, boundary, padded
    )
    return f, t, _rolled(result * ops.sqrt(_scale(taps, fs, kind)), axis, values.ndim)


def _named(window: Window) -> Window:
    """Return the name of a window that SciPy before 1.17 also knows."""
    return "hann" if window == "hann_periodic" else ("tukey", *window[1:]) if _is_tukey(window) else window


def _is_tukey(window: Window) -> TypeGuard[tuple[str | float, ...]]:
    return isinstance(window, tuple) and window[0] == "tukey_periodic"


@signal
def istft(
    Zxx: ArrayLike,
    fs: float = 1.0,
    window: Window = "hann_periodic",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
    scaling: str = "spectrum",
) -> tuple[Tensor, Tensor]:
    """Return times and the signal whose short-time Fourier transform is nearest to ``Zxx``.

    >>> x = rg.tensor([1.0, 2.0, 3.0, 4.0])
    >>> rg.scipy.signal.istft(rg.scipy.signal.stft(x, nperseg=2)[2])[1]
    tensor([1., 2., 3., 4.])
    """
    (values,) = floats(Zxx)
    if values.ndim < 2 or freq_axis % values.ndim == time_axis % values.ndim:
        raise ValueError("Input stft must be at least 2d, with different axes of times and frequencies")
    moved = ops.moveaxis(values, (freq_axis, time_axis), (-2, -1))
    default = 2 * (moved.shape[-2] - 1) if input_onesided else moved.shape[-2]
    size = default if nperseg is None else int(nperseg)
    odd = input_onesided and size == default + 1
    points = (size if odd else default) if nfft is None else int(nfft)
    if points < size:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    overlap = size // 2 if noverlap is None else int(noverlap)
    if overlap >= size:
        raise ValueError("noverlap must be less than nperseg.")
    step, count = size - overlap, moved.shape[-1]
    taps, _ = _windows(_named(window), size, None, moved.array.real.dtype)
    parts = (fft.irfft if input_onesided else fft.ifft)(moved, points, -2)[..., :size, :]
    if scaling == "spectrum":
        parts = parts * taps.sum()
    elif scaling == "psd":
        parts = parts * ops.sqrt(fs * (taps * taps).sum())
    else:
        raise ValueError(f"Parameter {scaling=} not in ['spectrum', 'psd']!")
    places = np.arange(size)[:, None] + step * np.arange(count)
    length = size + (count - 1) * step
    flat = (parts * taps[:, None]).reshape((*parts.shape[:-2], -1))
    x = ops.index_add(flat.new_zeros((*flat.shape[:-1], length)), -1, tensor(places.reshape(-1)), flat)
    squares = ops.broadcast_to((taps * taps)[:, None], (size, count)).reshape(-1)
    weight = ops.index_add(taps.new_zeros(length), 0, tensor(places.reshape(-1)), squares)
    if boundary:
        x, weight = x[..., size // 2 : length - size // 2], weight[size // 2 : length - size // 2]
    x = x / ops.where(weight > 1e-10, weight, 1.0)
    time, freq = time_axis % values.ndim, freq_axis % values.ndim
    times = np.arange(x.shape[0]) / float(fs)
    return tensor(times.astype(taps.array.dtype)), ops.moveaxis(x, -1, time - (freq < time))


def _cross(
    x: Tensor, y: Tensor, fs: float, window: Window, nperseg: int | None, noverlap: int | None, nfft: int | None,
    kind: Detrend, onesided: bool, scaling: str, axis: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return frequencies, times, and ``conj(X) Y`` of segments, times last."""
    signals = [ops.moveaxis(x, axis, -1)] if x is y else [ops.moveaxis(x, axis, -1), ops.moveaxis(y, axis, -1)]
    f, t, results, taps, onesided = _transforms(
        signals, fs, _named(window), nperseg, noverlap, nfft, kind, onesided, None, False
    )
    first, second = results[0], results[-1]
    product = first.real**2 + first.imag**2 if x is y else first.conj() * second
    product = product * _scale(taps, fs, scaling)
    if onesided:
        points = int(nfft) if nfft is not None else taps.shape[0]
        factors = np.full(product.shape[-1], 2.0)
        factors[0] = 1.0
        if points % 2 == 0:
            factors[-1] = 1.0
        product = product * tensor(factors.astype(product.array.real.dtype))
    return f, t, _rolled(product, axis, x.ndim)


@signal
def csd(
    x: ArrayLike,
    y: ArrayLike,
    fs: float = 1.0,
    window: Window = "hann_periodic",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Tensor, Tensor]:
    """Return frequencies and the cross power spectral density by Welch's method.

    >>> x = rg.tensor([1.0, -1.0, 1.0, -1.0])
    >>> rg.scipy.signal.csd(x, x.clone(), nperseg=4, window="boxcar")[1].real
    tensor([0., 0., 4.])
    """
    a, b = (x, x) if x is y else (x, y)
    first, second = floats(a, b)
    options = (fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis)
    return _averaged(first, first if x is y else second, average, *options)


def _averaged(x: Tensor, y: Tensor, average: str, *options: Any) -> tuple[Tensor, Tensor]:
    """Return frequencies, and the mean of ``_cross`` with these options over segments."""
    f, _, product = _cross(x, y, *options)
    if average != "mean":
        raise NotImplementedError("scipy.signal of Tensors: average must be 'mean'")
    return f, product.mean(-1)


@signal
def welch(
    x: ArrayLike,
    fs: float = 1.0,
    window: Window = "hann_periodic",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Tensor, Tensor]:
    """Return frequencies and the power spectral density, the mean over segments.

    >>> rg.scipy.signal.welch(rg.tensor([1.0, -1.0, 1.0, -1.0]), nperseg=4, window="boxcar")[1]
    tensor([0., 0., 4.])
    """
    (values,) = floats(x)
    options = (fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis)
    return _averaged(values, values, average, *options)


@signal
def periodogram(
    x: ArrayLike,
    fs: float = 1.0,
    window: Window = "boxcar",
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
) -> tuple[Tensor, Tensor]:
    """Return frequencies and the power spectral density of the whole signal.

    >>> rg.scipy.signal.periodogram(rg.tensor([1.0, -1.0, 1.0, -1.0]))[1]
    tensor([0., 0., 4.])
    """
    (values,) = floats(x)
    size = values.shape[axis]
    if nfft is not None and nfft < size:
        values, size = ops.narrow(values, axis, 0, nfft), nfft
    return _averaged(values, values, "mean", fs, window, size, 0, nfft, detrend, return_onesided, scaling, axis)


@signal
def spectrogram(
    x: ArrayLike,
    fs: float = 1.0,
    window: Window = ("tukey_periodic", 0.25),
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    mode: str = "psd",
) -> tuple[Tensor, Tensor, Tensor]:
    """Return frequencies, times and the power spectral density of each segment.

    >>> rg.scipy.signal.spectrogram(rg.ones(16), nperseg=8)[2].shape
    (5, 2)
    """
    if mode != "psd":
        raise NotImplementedError("scipy.signal.spectrogram of Tensors: mode must be 'psd'; use stft for other modes")
    (values,) = floats(x)
    _, size = _windows(_named(window), nperseg, values.shape[axis], values.array.real.dtype)
    overlap = size // 8 if noverlap is None else noverlap
    return _cross(values, values, fs, window, size, overlap, nfft, detrend, return_onesided, scaling, axis)


@signal
def coherence(
    x: ArrayLike,
    y: ArrayLike,
    fs: float = 1.0,
    window: Window = "hann_periodic",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    axis: int = -1,
) -> tuple[Tensor, Tensor]:
    """Return frequencies and the squared magnitude of the coherence of two signals.

    >>> rg.scipy.signal.coherence(rg.arange(8.0) ** 2, rg.arange(8.0) ** 2, nperseg=4)[1].shape
    (3,)
    """
    first, second = floats(x, y)
    options = (fs, window, nperseg, noverlap, nfft, detrend, True, "density", axis)
    f, xx = _averaged(first, first, "mean", *options)
    _, yy = _averaged(second, second, "mean", *options)
    _, xy = _averaged(first, second, "mean", *options)
    return f, (xy.real**2 + xy.imag**2) / xx / yy


def _step(n: int) -> Array:
    """Return the analytic signal's factor per frequency: 1 at 0 (and n / 2), 2 if positive, 0 if negative."""
    h = np.zeros(n)
    h[0] = 1
    h[1 : (n + 1) // 2] = 2
    if n % 2 == 0:
        h[n // 2] = 1
    return h


@signal
def hilbert(x: ArrayLike, N: int | None = None, axis: int = -1) -> Tensor:
    """Return the analytic signal, whose real part is ``x``, by Fourier transforms.

    >>> rg.scipy.signal.hilbert(rg.tensor([1.0, 0.0, -1.0, 0.0])).imag
    tensor([ 0.,  1.,  0., -1.])
    """
    (values,) = floats(x)
    if values.dtype.kind == "c":
        raise ValueError("x must be real.")
    n = values.shape[axis] if N is None else N
    if n <= 0:
        raise ValueError("N must be positive.")
    spectrum = ops.moveaxis(fft.fft(values, n, axis), axis, -1)
    return ops.moveaxis(fft.ifft(spectrum * tensor(_step(n).astype(values.array.dtype))), -1, axis)


@signal
def resample(
    x: ArrayLike,
    num: int,
    t: ArrayLike | None = None,
    axis: int = 0,
    window: Window | None = None,
    domain: str = "time",
) -> Tensor | tuple[Tensor, Tensor]:
    """Return ``num`` samples of the signal, which is assumed to be periodic, by Fourier transforms.

    >>> rg.scipy.signal.resample(rg.tensor([1.0, 0.0, -1.0, 0.0]), 2)
    tensor([ 1., -1.])
    """
    if domain not in ("time", "freq"):
        raise ValueError(f"Parameter {domain=} not in ('time', 'freq')!")
    (values,) = floats(x)
    n = values.shape[axis]
    real = domain == "time" and values.dtype.kind != "c"
    moved = ops.moveaxis(values, axis, -1)
    spectrum = moved if domain == "freq" else fft.fft(moved)
    if window is not None:
        weights = window(np.fft.fftfreq(n)) if callable(window) else detached(window)
        if isinstance(weights, (str, tuple, float)):
            weights = np.fft.ifftshift(scipys("scipy.signal").get_window(weights, n))
        spectrum = spectrum * tensor(np.asarray(weights).astype(values.array.real.dtype))
    kept = min(n, num)
    positive, negative = (kept + 1) // 2, (kept - 1) // 2
    low = spectrum[..., :positive]
    high = spectrum[..., n - negative :] if negative else spectrum[..., :0]
    middle: list[Tensor] = []
    if kept % 2 == 0:  # at half the sampling rate, add two coefficients, or divide one into two
        if num < n:
            middle = [spectrum[..., kept // 2 : kept // 2 + 1] + spectrum[..., n - kept // 2 : n - kept // 2 + 1]]
        elif n < num:
            half = 0.5 * spectrum[..., kept // 2 : kept // 2 + 1]
            zeros = half.new_zeros((*half.shape[:-1], num - kept - 1))
            middle = [half, zeros, half]
        else:
            middle = [spectrum[..., kept // 2 : kept // 2 + 1]]
    elif n < num:
        middle = [low.new_zeros((*low.shape[:-1], num - kept))]
    result = fft.ifft(ops.cat([low, *middle, high], -1)) * (num / n)
    result = ops.moveaxis(result.real if real else result, -1, axis)
    if t is None:
        return result
    times = floats(t)[0]
    return result, ops.arange(num, dtype=times.dtype) * (times[1] - times[0]) * n / float(num) + times[0]
