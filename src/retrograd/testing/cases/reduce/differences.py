"""Cases of differences and integrals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case
from ..math.arithmetic import normal
from .reductions import calls_of, distinct


def differences(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(normal(rng, (5,)))
    yield Call(normal(rng, (3, 4)), 2, 0)
    yield Call(normal(rng, (3, 4)), dim=-1, prepend=normal(rng, (3, 1)), append=normal(rng, (3, 2)))
    yield Call(normal(rng, (3,)), 3)
    yield Call(normal(rng, (3,)), 0)


def integrals(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(normal(rng, (5,)))
    yield Call(normal(rng, (3, 4)), dx=0.5, dim=0)
    yield Call(normal(rng, (3, 4)), np.sort(distinct(rng, (4,))))
    yield Call(normal(rng, (3, 4)), np.sort(distinct(rng, (3,))), dim=0)
    yield Call(normal(rng, (3, 4)), distinct(rng, (3, 4)), dim=1)


CASES = [
    Case("diff", differences),
    Case("trapezoid", integrals),
    Case("cumulative_trapezoid", integrals),
    Case(
        "gradient",
        calls_of(
            lambda rng: Call(normal(rng, (5,))),
            lambda rng: Call(normal(rng, (3, 4)), spacing=2.0, edge_order=2),
            lambda rng: Call(normal(rng, (3, 4)), spacing=[0.5, 2.0], dim=(1, 0)),
            lambda rng: Call(normal(rng, (4,)), spacing=(np.sort(distinct(rng, (4,))),), edge_order=2),
        ),
    ),
]
