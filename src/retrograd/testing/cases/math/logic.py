"""Cases of logic and bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Calls
from .arithmetic import NAN
from .comparison import SPECIAL, none


def integers(low: int, high: int, *, bools: bool = True) -> Calls:
    """Pairs of integers, of an array and a number, and of bools."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        yield Call(rng.integers(low, high, (2, 3)), rng.integers(low, high, (3,)))
        yield Call(rng.integers(low, high, (2, 3)).astype(np.int32), 3)
        if bools:
            yield Call(rng.random((2, 3)) < 0.5, rng.random((2, 1)) < 0.5)

    return calls


def one_integer(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.integers(-9, 9, (2, 3)))
    yield Call(rng.random((2, 3)) < 0.5)


def truths(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.integers(-1, 2, (2, 3)), rng.integers(-1, 2, (3,)))
    yield Call(rng.random((2, 3)) < 0.5, rng.random((2, 1)) < 0.5)
    yield Call(np.array([0.0, 1.5, NAN]), np.array([1.0, 0.0, 1.0]))


CASES = [
    none("logical_and", truths, np.logical_and),
    none("logical_or", truths, np.logical_or),
    none("logical_xor", truths, np.logical_xor),
    none("logical_not", one_integer, np.logical_not, edge_calls=SPECIAL),
    none("bitwise_and", integers(-9, 9), np.bitwise_and),
    none("bitwise_or", integers(-9, 9), np.bitwise_or),
    none("bitwise_xor", integers(-9, 9), np.bitwise_xor),
    none("bitwise_not", one_integer, np.invert),
    none("bitwise_left_shift", integers(0, 6, bools=False), np.left_shift),
    none("bitwise_right_shift", integers(0, 6, bools=False), np.right_shift),
]
