"""Cases of norms of matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ....case import Call, Calls
from .inverses import names


def with_orders(*orders: Any) -> Calls:
    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for order in orders:
            yield Call(rng.standard_normal((2, 3, 4)), order)
        yield Call(rng.standard_normal((2, 3, 4)), orders[0], (0, 2), True)

    return calls


def norms(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.standard_normal((3, 4)))
    yield Call(rng.standard_normal((2, 3, 4)), None, 1)
    yield Call(rng.standard_normal((2, 3, 4)), 3, 1, keepdim=True)
    yield Call(rng.standard_normal(4), 1)
    yield Call(rng.standard_normal((3, 4)), 2)
    yield Call(rng.standard_normal((3, 4)), "nuc", (0, 1))
    yield Call(rng.standard_normal((2, 3, 4)), float("inf"), (1, 2), keepdim=True)


def conditions(rng: np.random.Generator) -> Iterator[Call]:
    for p in (None, 2, -2, "fro", 1, float("inf"), "nuc"):
        yield Call(rng.standard_normal((3, 3)) + 3 * np.eye(3), p)


CASES = [
    *names("linalg.matrix_norm", calls=with_orders("fro", "nuc", 1, -1, float("inf"), -float("inf"), 2, -2)),
    *names("linalg.norm", calls=norms),
    *names("linalg.cond", calls=conditions, reference=np.linalg.cond, torch=""),
]
