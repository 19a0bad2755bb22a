"""Cases of sorting, selecting and searching."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case, together
from .reductions import calls_of, distinct, with_nan
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


CASES = [
    Case("sort", directions, edge_calls=together(along_one(with_nan))),
    Case("argsort", directions, order=0),
    Case("msort", calls_of(lambda rng: Call(distinct(rng, (4,))), lambda rng: Call(distinct(rng, (3, 4))))),
    Case("topk", topk_calls),
]
