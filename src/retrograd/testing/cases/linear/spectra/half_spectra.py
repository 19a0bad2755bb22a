"""Cases of the Fourier transforms between real signals and half spectra."""

from __future__ import annotations

from ....case import Case
from .fourier import along_one, along_several

CASES = [
    *(Case(f"fft.{name}", along_one(True), dtypes=()) for name in ("irfft", "hfft")),
    *(Case(f"fft.{name}", along_one(False), dtypes=()) for name in ("rfft", "ihfft")),
    *(Case(f"fft.{name}", along_several(True), dtypes=()) for name in ("irfft2", "irfftn", "hfft2", "hfftn")),
    *(Case(f"fft.{name}", along_several(False), dtypes=()) for name in ("rfft2", "rfftn")),
]
