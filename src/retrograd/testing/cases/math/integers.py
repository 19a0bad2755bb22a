"""Cases of divisors and multiples of integers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case


def pairs(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.integers(-30, 30, (2, 3)), rng.integers(-30, 30, (2, 3)))
    yield Call(rng.integers(-30, 30, (2, 1, 3)), rng.integers(-30, 30, (4, 1)))
    yield Call(np.array([0, 0, 7]), np.array([0, 5, 0], np.int32))
    yield Call(np.array(12), np.array(18))
    yield Call(np.zeros((0, 3), np.int64), np.array([1, 2, 3]))


CASES = [
    Case("gcd", pairs, np.gcd, order=0, dtypes=()),
    Case("lcm", pairs, np.lcm, order=0, dtypes=()),
]
