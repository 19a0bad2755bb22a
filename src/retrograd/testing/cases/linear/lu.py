"""Cases of LU decompositions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call
from .factorizations import TALL, WIDE
from .inverses import Function, drawn, names


def pivoted(rng: np.random.Generator) -> Iterator[Call]:
    packed = rng.standard_normal((3, 3)) + 3 * np.eye(3)
    yield Call(packed, np.array([2, 3, 3], np.int32), rng.standard_normal((3, 2)))
    yield Call(packed, np.array([1, 3, 3], np.int32), rng.standard_normal((3, 2)), adjoint=True)
    yield Call(packed, np.array([3, 2, 3], np.int32), rng.standard_normal((2, 3)), left=False)


def pivoted_last(rng: np.random.Generator) -> Iterator[Call]:
    packed = rng.standard_normal((3, 3)) + 3 * np.eye(3)
    yield Call(rng.standard_normal((3, 2)), packed, np.array([2, 3, 3], np.int32))


def first_two(function: Function) -> Function:
    """L and U, without the permutation."""
    return lambda *args, **kwargs: function(*args, **kwargs)[1:]


CASES = [
    *names("linalg.lu_factor", calls=drawn(*TALL, *WIDE), wrap=lambda f: lambda x: f(x)[0]),
    *names("lu", calls=drawn(*TALL, *WIDE), wrap=lambda f: lambda x: f(x)[0]),
    *names("linalg.lu", calls=drawn(*TALL, *WIDE), wrap=first_two),
    *names("linalg.lu_solve", calls=pivoted),
    *names("lu_solve", calls=pivoted_last),
]
