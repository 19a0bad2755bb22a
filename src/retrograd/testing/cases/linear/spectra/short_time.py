"""Cases of short-time Fourier transforms, and of the inverse Hermitian ones in several dimensions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....case import Call, Case
from .fourier import along_several


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


CASES = [
    Case("stft", signals, dtypes=("float32",)),
    Case("istft", spectra, dtypes=("float32",)),
    *(Case(f"fft.{name}", along_several(False), dtypes=()) for name in ("ihfft2", "ihfftn")),
]
