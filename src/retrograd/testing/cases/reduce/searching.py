"""Cases of distinct elements and places of elements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case, Fixed, together
from .reductions import calls_of, distinct, plain, with_ties


def searched(rng: np.random.Generator) -> Iterator[Call]:
    ordered = np.sort(distinct(rng, (5,)))
    yield Call(Fixed(ordered), Fixed(distinct(rng, (2, 3))))
    yield Call(Fixed(ordered), Fixed(ordered), right=True)
    yield Call(Fixed(np.sort(distinct(rng, (2, 5)))), Fixed(distinct(rng, (2, 3))), side="right", out_int32=True)
    yield Call(Fixed(ordered), 0.5)


def bucketized(rng: np.random.Generator) -> Iterator[Call]:
    edges = np.sort(distinct(rng, (5,)))
    yield Call(Fixed(distinct(rng, (2, 3))), Fixed(edges))
    yield Call(Fixed(edges), Fixed(edges), right=True)


def repeated(rng: np.random.Generator) -> Iterator[Call]:
    values = rng.integers(0, 3, (4, 5))
    yield Call(values)
    yield Call(values, return_inverse=True, return_counts=True)
    yield Call(values[:, :2], return_inverse=True, return_counts=True, dim=0)
    yield Call(values[:2], dim=1, return_counts=True)


CASES = [
    Case("unique", repeated, order=0),
    Case("unique_consecutive", repeated, order=0),
    Case("searchsorted", searched, order=0),
    Case("bucketize", bucketized, order=0),
    Case(
        "nonzero",
        together(plain(with_ties), calls_of(lambda rng: Call(with_ties(rng, (3, 4)), as_tuple=True))),
        order=0,
    ),
]
