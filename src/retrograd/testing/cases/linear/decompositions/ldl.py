"""Cases of LDL decompositions and what they solve."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .....ops.linear.decompositions.ldl import ldl_factor
from ....case import Call, Case, Fixed


def symmetric(rng: np.random.Generator, shape: tuple[int, ...], small: float = 1.0) -> Any:
    a = rng.standard_normal(shape)
    a = a + np.swapaxes(a, -1, -2)
    a[..., np.arange(shape[-1]), np.arange(shape[-1])] *= small
    return a


def calls(rng: np.random.Generator) -> Iterator[Call]:
    for shape in ((1, 1), (4, 4), (2, 5, 5)):
        for small in (3.0, 0.01):
            yield Call(symmetric(rng, shape, small))


def solve_calls(rng: np.random.Generator) -> Iterator[Call]:
    for shape in ((3, 3), (2, 4, 4)):
        for small in (3.0, 0.01):
            factors = ldl_factor(symmetric(rng, shape, small))
            yield Call(Fixed(factors.LD.array), factors.pivots.array, rng.standard_normal((*shape[:-1], 2)))


CASES = [
    Case("linalg.ldl_factor", calls, order=0, torch="", dtypes=("float32",)),
    Case("linalg.ldl_factor_ex", calls, order=0, torch="", dtypes=("float32",)),
    Case("linalg.ldl_solve", solve_calls, torch="", dtypes=()),
]
