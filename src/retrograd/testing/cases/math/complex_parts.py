"""Cases of complex numbers made of their parts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case, Fixed
from .arithmetic import binary_calls, normal, positive


def reals(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(Fixed(np.array([1 + 0j, 1j, 0, np.nan])))
    yield Call(Fixed(rng.standard_normal((2, 3))))
    yield Call(np.array(3))


CASES = [
    Case("complex", binary_calls(normal, number=False), lambda x, y: x + 1j * y, dtypes=("float32",)),
    Case(
        "polar",
        binary_calls(positive, normal, number=False),
        lambda r, phi: r * np.exp(1j * phi),
        dtypes=("float32",),
    ),
    Case("isreal", reals, np.isreal, order=0, dtypes=()),
]
