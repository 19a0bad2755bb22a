"""Cases of the norms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case
from .reductions import away_from_zero, calls_of, distinct

POWERS = (2, 1, 0, 3, 0.5, 1.5, 2.5, np.inf, -np.inf, -1, "fro")


def norm_calls(rng: np.random.Generator) -> Iterator[Call]:
    for p in POWERS:
        yield Call(distinct(rng, (2, 3)), p)
        if p != "fro":
            yield Call(distinct(rng, (2, 3)), p, 1)
            yield Call(distinct(rng, (2, 2, 3)), p, dim=(0, -1), keepdim=True)
    yield Call(away_from_zero(rng, ()))


def vector_norm_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(distinct(rng, (2, 3)))
    for p in POWERS[:-1]:
        yield Call(distinct(rng, (2, 3)), p, 1)
        yield Call(distinct(rng, (2, 2, 3)), p, dim=(0, -1), keepdim=True)


def dist_calls(rng: np.random.Generator) -> Iterator[Call]:
    for p in (2, 1, 3, np.inf):
        yield Call(distinct(rng, (2, 3)), 9 + distinct(rng, (2, 3)), p)
    yield Call(distinct(rng, (3,)), 9 + distinct(rng, (2, 1)))


def at_zero(rng: np.random.Generator) -> Iterator[Call]:
    for p in (2, 1, 0, 3, 1.5, 2.5, np.inf):
        yield Call(np.zeros((2, 3)), p)
        yield Call(np.array([[0.0, 2.0], [0.0, -2.0]]), p, dim=0)


CASES = [
    Case("norm", norm_calls, edge_calls=at_zero),
    Case("linalg.vector_norm", vector_norm_calls, edge_calls=at_zero),
    Case("dist", dist_calls, edge_calls=calls_of(lambda rng: Call(np.ones(3), np.ones(3)))),
    Case(
        "renorm",
        calls_of(
            lambda rng: Call(3 * away_from_zero(rng, (3, 4)), 2, 0, 1.5),
            lambda rng: Call(3 * away_from_zero(rng, (3, 4)), 1, -1, 100.0),
            lambda rng: Call(away_from_zero(rng, (2, 3, 2)), 3, 1, 1.0),
        ),
    ),
]
