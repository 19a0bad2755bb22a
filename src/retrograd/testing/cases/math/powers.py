"""Cases of powers and roots."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case, Fixed
from .arithmetic import INF, at, at_pairs, away_from_zero, binary_calls, complex_normal, normal, positive, unary_calls


def power_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield from binary_calls(positive, normal)(rng)
    for exponent in (0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 1.5, 2.5):
        yield Call(positive(rng, (2, 2)), exponent)
    for exponent in (2, 3, 5, -1, -3, 2.0):
        yield Call(away_from_zero(rng, (4,)), exponent)
    yield Call(away_from_zero(rng, (4,)), Fixed(np.array([2.0, -1.0, 0.0, 3.0])))
    yield Call(away_from_zero(rng, (3,)), np.array([2, 3, 1]))
    yield Call(2.5, normal(rng, (3,)))
    yield Call(complex_normal(rng, (3,)), 2)
    yield Call(complex_normal(rng, (3,)), complex_normal(rng, (3,)))


def power_edges(rng: np.random.Generator) -> Iterator[Call]:
    zeros = np.zeros(5)
    yield Call(zeros, np.array([0.0, 1.0, 2.0, 0.5, 3.0]))
    for exponent in (0, 1, 2, 3, 0.0, 1.0, 2.0, 1.5):
        yield Call(np.array([0.0, -0.0, 1.0, -2.0]) if exponent != 1.5 else np.array([0.0, 1.0]), exponent)
    yield Call(0.0, np.array([0.5, 2.0]))
    yield Call(np.array([-2.0, -1.0]), Fixed(np.array([2.0, 3.0])))
    yield Call(np.array([0.0, 4.0]), 0.5)
    yield Call(np.array([-1.0, 2.0]), np.array([2.0, 0.0]))


def float_power_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield from binary_calls(positive, normal)(rng)
    yield Call(np.array([1, 2, 3]), 2)


def ldexp_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(normal(rng, (2, 3)), np.array([1, 2, 3]))
    yield from binary_calls(number=False)(rng)


CASES = [
    Case("pow", power_calls, edge_calls=power_edges),
    Case("float_power", float_power_calls, np.float_power, dtypes=()),
    Case("square", unary_calls(also=complex_normal), np.square),
    Case("sqrt", unary_calls(positive, also=complex_normal), np.sqrt, edge_calls=at(0.0, INF, -1.0)),
    Case("rsqrt", unary_calls(positive), edge_calls=at(0.0, INF, -1.0)),
    Case("reciprocal", unary_calls(away_from_zero, also=complex_normal), np.reciprocal, edge_calls=at(0.0, INF)),
    Case("hypot", binary_calls(away_from_zero, number=False), np.hypot, edge_calls=at_pairs((0.0, 1.0), (3.0, 0.0))),
    Case("ldexp", ldexp_calls, lambda x, y: x * 2.0**y, dtypes=("float32",)),
]
