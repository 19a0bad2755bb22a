"""Cases of maxima, minima and bounds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case, together
from .arithmetic import (
    INF,
    NAN,
    apart,
    at,
    at_pairs,
    away_from_zero,
    binary_calls,
    normal,
    unary_calls,
    uniform,
)

TIES = at_pairs((1.0, 1.0), (NAN, 1.0), (1.0, NAN), (INF, INF), (0.0, -0.0), (2.0, 1.0))


def clamp_calls(rng: np.random.Generator) -> Iterator[Call]:
    draw = apart(-0.5, 0.7)
    for bounds in ({"min": -0.5, "max": 0.7}, {"min": -0.5}, {"max": 0.7}):
        for shape in ((2, 3), (), (0, 2)):
            yield Call(draw(rng, shape), **bounds)
    low, high = uniform(-1.0, -0.3)(rng, (3,)), uniform(0.3, 1.0)(rng, (2, 1))
    yield Call(normal(rng, (2, 3)), low, high)
    yield Call(normal(rng, (2, 3)), low)
    yield Call(normal(rng, (2, 3)), None, high)


def clamp_edges(rng: np.random.Generator) -> Iterator[Call]:
    x = np.array([-2.0, -1.0, 0.0, 1.0, 2.0, NAN])
    yield Call(x, -1.0, 1.0)
    yield Call(x, 1.0, -1.0)
    yield Call(x, -1)
    yield Call(x, np.array(-1.0), np.array(1.0))
    yield Call(x, np.array([1.0]), np.array([-1.0]))


CASES = [
    Case("maximum", binary_calls(number=False), np.maximum, edge_calls=TIES),
    Case("minimum", binary_calls(number=False), np.minimum, edge_calls=TIES),
    Case("fmax", binary_calls(number=False), np.fmax, edge_calls=TIES),
    Case("fmin", binary_calls(number=False), np.fmin, edge_calls=TIES),
    Case("clamp", clamp_calls, edge_calls=clamp_edges),
    Case(
        "clamp_min",
        together(binary_calls(number=False), unary_calls(apart(0.3), 0.3)),
        np.maximum,
        edge_calls=at(1.0, 2.0, min=1.0),
    ),
    Case(
        "clamp_max",
        together(binary_calls(number=False), unary_calls(apart(0.3), 0.3)),
        np.minimum,
        edge_calls=at(1.0, 2.0, max=1.0),
    ),
    Case(
        "nan_to_num",
        unary_calls(),
        np.nan_to_num,
        edge_calls=together(at(NAN, INF, -INF, 1.0), at(NAN, INF, -INF, nan=1.0, posinf=2.0, neginf=3.0)),
    ),
    Case(
        "copysign", binary_calls(away_from_zero), np.copysign, edge_calls=at_pairs((0.0, 1.0), (1.0, -0.0), (2.0, 0.0))
    ),
]
