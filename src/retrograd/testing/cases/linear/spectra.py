"""Example calls of the operators in ``ops/linear/spectra/``, by module."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....core.arrays import Array
from ...case import Call, Calls, Case

CASES: list[Case] = []


# fourier: Cases of the discrete Fourier transforms.


def spectrum(rng: np.random.Generator, shape: tuple[int, ...], complex_: bool) -> Array:
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if complex_ else x


def along_one(complex_: bool) -> Calls:
    """Return calls with even and odd lengths, cropping and padding, each norm, and another dimension."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        yield Call(spectrum(rng, (4,), complex_))
        yield Call(spectrum(rng, (5,), complex_), norm="ortho")
        yield Call(spectrum(rng, (3, 4), complex_), 3, 0, "forward")
        yield Call(spectrum(rng, (3, 4), complex_), n=6)
        yield Call(spectrum(rng, (2, 5), complex_), n=3)

    return calls


def along_several(complex_: bool) -> Calls:
    def calls(rng: np.random.Generator) -> Iterator[Call]:
        yield Call(spectrum(rng, (2, 3), complex_))
        yield Call(spectrum(rng, (3, 4), complex_), norm="ortho")
        yield Call(spectrum(rng, (2, 3), complex_), s=(3, 4))
        yield Call(spectrum(rng, (2, 2, 3), complex_), dim=(0, 2), norm="forward")

    return calls


def shifts(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.standard_normal(5))
    yield Call(rng.standard_normal((3, 4)))
    yield Call(rng.standard_normal((3, 4)), dim=1)


def frequencies(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(4)
    yield Call(5, 0.5)


CASES += [
    *(Case(f"fft.{name}", frequencies, order=0, dtypes=()) for name in ("fftfreq", "rfftfreq")),
    *(Case(f"fft.{name}", along_one(True), dtypes=()) for name in ("fft", "ifft")),
    *(Case(f"fft.{name}", along_several(True), dtypes=()) for name in ("fft2", "ifft2", "fftn", "ifftn")),
    Case("fft.fftshift", shifts),
    Case("fft.ifftshift", shifts),
]


# half_spectra: Cases of the Fourier transforms between real signals and half spectra.

CASES += [
    *(Case(f"fft.{name}", along_one(True), dtypes=()) for name in ("irfft", "hfft")),
    *(Case(f"fft.{name}", along_one(False), dtypes=()) for name in ("rfft", "ihfft")),
    *(Case(f"fft.{name}", along_several(True), dtypes=()) for name in ("irfft2", "irfftn", "hfft2", "hfftn")),
    *(Case(f"fft.{name}", along_several(False), dtypes=()) for name in ("rfft2", "rfftn")),
]


# short_time: Cases of short-time Fourier transforms, and of the inverse Hermitian ones in several dimensions.


def signals(rng: np.random.Generator) -> Iterator[Call]:
    n = rng.standard_normal
    yield Call(n(9), 4, return_complex=True)
    yield Call(n((2, 10)), 4, 2, window=n(4), return_complex=True)
    yield Call(n(10), 5, 3, 3, n(3), pad_mode="constant", normalized=True, return_complex=False)
    yield Call(n(10), 4, 2, center=False, onesided=False, return_complex=True)
    yield Call(n(8) + 1j * n(8), 4, 2, window=n(4))
    yield Call(n(10), 6, 2, 3, n(3), center=False, align_to_window=True, return_complex=True)


def spectra(rng: np.random.Generator) -> Iterator[Call]:
    def n(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.complex128]]:
        return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)

    window = rng.uniform(0.5, 1.5, 4)
    yield Call(n(3, 5), 4)
    yield Call(n(2, 3, 5), 4, 2, window=window)
    yield Call(n(3, 5), 4, 2, window=window, normalized=True, length=6)
    yield Call(n(4, 5), 4, 2, window=window, onesided=False, return_complex=True)
    yield Call(n(4, 5), 4, 2, window=window, center=False)
    yield Call(n(3, 5), 4, 2, window=window, length=12)
    yield Call(n(3, 4), 5, 1, 4, window, length=3)


CASES += [
    Case("stft", signals, dtypes=("float32",)),
    Case("istft", spectra, dtypes=("float32",)),
    *(Case(f"fft.{name}", along_several(False), dtypes=()) for name in ("ihfft2", "ihfftn")),
]
