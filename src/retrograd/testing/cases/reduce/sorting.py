"""Cases of sorting, selecting and searching."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case, Fixed
from .reductions import calls_of, distinct, plain, together, with_nan, with_ties
from .scans import along_one


def directions(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(distinct(rng, (4,)))
    yield Call(distinct(rng, (3, 4)), 0, True)
    yield Call(distinct(rng, (3, 4)), dim=-1, descending=True)


def topk_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(distinct(rng, (5,)), 2)
    yield Call(distinct(rng, (3, 40)), 3)
    yield Call(distinct(rng, (40, 2)), 3, 0, False)
    yield Call(distinct(rng, (3, 4)), 4, dim=1, largest=False)
    yield Call(distinct(rng, ()), 1)
    yield Call(distinct(rng, (3,)), 0)


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
    Case("sort", directions, edge_calls=together(along_one(with_nan))),
    Case("argsort", directions, order=0),
    Case("msort", calls_of(lambda rng: Call(distinct(rng, (4,))), lambda rng: Call(distinct(rng, (3, 4))))),
    Case("topk", topk_calls),
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
