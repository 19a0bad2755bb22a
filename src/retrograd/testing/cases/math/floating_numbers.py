"""Cases of floating numbers taken apart, the next one, and the step at zero."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case, Fixed
from .arithmetic import INF, NAN, at, away_from_zero, unary_calls


def steps(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(Fixed(rng.standard_normal((2, 3))), Fixed(rng.standard_normal(3)))
    yield Call(Fixed(np.array([-1.0, 0.0, -0.0, 2.0, INF])), Fixed(np.array(0.5)))
    yield Call(np.array([-1, 0, 3]), np.array([[5], [6]]))
    yield Call(np.array([-1, 0, 3]), np.array(5))
    yield Call(Fixed(np.array(0.0)), Fixed(np.array(0.25)))


def neighbours(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(Fixed(rng.standard_normal((2, 3))), Fixed(rng.standard_normal(3)))
    yield Call(Fixed(np.array([0.0, 1.0, 1.0, INF, 1.0])), Fixed(np.array([-1.0, 1.0, INF, 0.0, NAN])))
    yield Call(Fixed(np.array(0.0)), Fixed(np.array(1.0)))


CASES = [
    Case("heaviside", steps, np.heaviside, order=0),
    Case("nextafter", neighbours, np.nextafter, order=0),
    Case("frexp", unary_calls(away_from_zero), np.frexp, edge_calls=at(0.0, -0.0, 5e-324, INF, NAN, 1e308)),
]
