"""Cases of LU decompositions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....case import Call, together
from ..solving.inverses import Function, names, of_normal
from .factorizations import COMPLEX, TALL, WIDE


def pivoted(rng: np.random.Generator) -> Iterator[Call]:
    packed = rng.standard_normal((3, 3)) + 3 * np.eye(3)
    yield Call(packed, np.array([2, 3, 3], np.int32), rng.standard_normal((3, 2)))
    yield Call(packed, np.array([1, 3, 3], np.int32), rng.standard_normal((3, 2)), adjoint=True)
    yield Call(packed, np.array([3, 2, 3], np.int32), rng.standard_normal((2, 3)), left=False)
    packed = packed + 1j * rng.standard_normal((3, 3))
    for left, adjoint in ((True, True), (False, False), (False, True)):
        b = rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3))
        yield Call(packed, np.array([2, 3, 3], np.int32), b, left=left, adjoint=adjoint)


def pivoted_last(rng: np.random.Generator) -> Iterator[Call]:
    packed = rng.standard_normal((3, 3)) + 3 * np.eye(3)
    yield Call(rng.standard_normal((3, 2)), packed, np.array([2, 3, 3], np.int32))


def first_two(function: Function) -> Function:
    """L and U, without the permutation."""
    return lambda *args, **kwargs: function(*args, **kwargs)[1:]


CASES = [
    *names("linalg.lu_factor", calls=together(of_normal(*TALL, *WIDE), COMPLEX), wrap=lambda f: lambda x: f(x)[0]),
    *names("lu", calls=of_normal(*TALL, *WIDE), wrap=lambda f: lambda x: f(x)[0]),
    *names("linalg.lu", calls=together(of_normal(*TALL, *WIDE), COMPLEX), wrap=first_two),
    *names("linalg.lu_solve", calls=pivoted),
    *names("lu_solve", calls=pivoted_last),
]
