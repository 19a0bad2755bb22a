"""Cases of the scans."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Calls, Case, together
from ..math.arithmetic import Draw, normal
from .reductions import away_from_zero, calls_of, distinct, with_nan, with_ties, zero_in_products


def along_one(draw: Draw = normal) -> Calls:
    """Each dimension once, and a 0-d tensor."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        yield Call(draw(rng, (5,)), 0)
        yield Call(draw(rng, (3, 4)), 0)
        yield Call(draw(rng, (2, 3, 2)), dim=-2)
        yield Call(draw(rng, ()), 0)

    return calls


with_dtype = calls_of(lambda rng: Call(away_from_zero(rng, (3, 2)), dim=0, dtype=np.float64))
empty = calls_of(lambda rng: Call(np.zeros((0, 3)), 0), lambda rng: Call(np.zeros((0, 3)), 1))

CASES = [
    Case("cumsum", together(along_one(), with_dtype), edge_calls=empty),
    Case("cumprod", together(along_one(away_from_zero), with_dtype), edge_calls=together(zero_in_products, empty)),
    Case("cummax", along_one(distinct), edge_calls=together(along_one(with_ties), along_one(with_nan))),
    Case("cummin", along_one(distinct), edge_calls=together(along_one(with_ties), along_one(with_nan))),
    Case(
        "logcumsumexp",
        along_one(),
        edge_calls=together(
            empty,
            calls_of(
                lambda rng: Call(np.array([1000.0, -1000.0, 1000.0, 2000.0]), 0),
                lambda rng: Call(np.array([-np.inf, 1.0, 2.0]), 0),
            ),
        ),
    ),
]
