"""Cases of pseudo-inverses and least squares."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....case import Call, together
from ..decompositions.factorizations import COMPLEX, TALL, WIDE
from .inverses import Function, names, of_normal


def least_squares(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.standard_normal((4, 2)), rng.standard_normal((4, 3)))
    yield Call(rng.standard_normal((2, 4, 2)), rng.standard_normal((2, 4, 1)))
    yield Call(rng.standard_normal((4, 2)) + 1j * rng.standard_normal((4, 2)), rng.standard_normal((4, 1)) + 0.5j)


def solution_only(function: Function) -> Function:
    return lambda *args, **kwargs: function(*args, **kwargs)[0]


CASES = [
    *names("linalg.pinv", calls=together(of_normal(*TALL, *WIDE), COMPLEX)),
    *names("pinverse", calls=of_normal(*TALL, *WIDE)),
    *names("linalg.lstsq", calls=least_squares, wrap=solution_only),
]
