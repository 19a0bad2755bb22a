"""Cases of the discrete Fourier transforms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ....case import Call, Calls, Case


def spectrum(rng: np.random.Generator, shape: tuple[int, ...], complex_: bool) -> Any:
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if complex_ else x


def along_one(complex_: bool) -> Calls:
    """Even and odd lengths, cropping and padding, each norm, another dimension."""

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


CASES = [
    *(Case(f"fft.{name}", frequencies, order=0, dtypes=()) for name in ("fftfreq", "rfftfreq")),
    *(Case(f"fft.{name}", along_one(True), dtypes=()) for name in ("fft", "ifft")),
    *(Case(f"fft.{name}", along_several(True), dtypes=()) for name in ("fft2", "ifft2", "fftn", "ifftn")),
    Case("fft.fftshift", shifts),
    Case("fft.ifftshift", shifts),
]
