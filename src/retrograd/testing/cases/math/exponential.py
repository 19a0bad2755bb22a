"""Cases of powers, exponentials and logarithms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case, Fixed
from .arithmetic import (
    INF,
    NAN,
    apart,
    at,
    at_pairs,
    away_from_zero,
    binary_calls,
    complex_normal,
    many,
    normal,
    positive,
    unary_calls,
    uniform,
    unit,
)


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


def reference_xlogy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(x) * np.log(y)


LOGADDEXP_EDGES = at_pairs((0.0, 0.0), (1000.0, -1000.0), (-1000.0, 1000.0), (1000.0, 1000.0), (INF, 1.0), (-INF, 1.0))

CASES = [
    Case("pow", power_calls, edge_calls=power_edges),
    Case("float_power", float_power_calls, np.float_power, dtypes=()),
    Case("square", unary_calls(also=complex_normal), np.square),
    Case("sqrt", unary_calls(positive, also=complex_normal), np.sqrt, edge_calls=at(0.0, INF, -1.0)),
    Case("rsqrt", unary_calls(positive), edge_calls=at(0.0, INF, -1.0)),
    Case("reciprocal", unary_calls(away_from_zero, also=complex_normal), np.reciprocal, edge_calls=at(0.0, INF)),
    Case("exp", unary_calls(also=complex_normal), np.exp, edge_calls=at(-INF, INF, NAN, 1000.0)),
    Case("exp2", unary_calls(), np.exp2, edge_calls=at(-INF, INF)),
    Case("expm1", unary_calls(), np.expm1, edge_calls=at(-INF, 1e-20, 0.0)),
    Case("log", unary_calls(positive, also=complex_normal), np.log, edge_calls=at(0.0, -1.0, INF)),
    Case("log2", unary_calls(positive), np.log2, edge_calls=at(0.0, -1.0, INF)),
    Case("log10", unary_calls(positive), np.log10, edge_calls=at(0.0, -1.0, INF)),
    Case("log1p", unary_calls(uniform(-0.7, 3.0)), np.log1p, edge_calls=at(-1.0, -2.0, 1e-20, INF)),
    Case("sigmoid", unary_calls(also=complex_normal), edge_calls=at(-1000.0, 1000.0, -INF, INF, NAN)),
    Case("logaddexp", binary_calls(number=False), np.logaddexp, edge_calls=LOGADDEXP_EDGES),
    Case("logaddexp2", binary_calls(number=False), np.logaddexp2, edge_calls=LOGADDEXP_EDGES),
    Case("hypot", binary_calls(away_from_zero, number=False), np.hypot, edge_calls=at_pairs((0.0, 1.0), (3.0, 0.0))),
    Case("ldexp", ldexp_calls, lambda x, y: x * 2.0**y, dtypes=("float32",)),
    Case(
        "xlogy",
        binary_calls(normal, positive),
        reference_xlogy,
        edge_calls=at_pairs((0.0, 0.5), (0.0, NAN), (2.0, 1.0), (0.0, 3.0)),
    ),
    Case("special.xlogy", binary_calls(normal, positive), reference_xlogy),
    Case(
        "special.xlog1py",
        binary_calls(normal, uniform(-0.5, 2.0)),
        lambda x, y: x * np.log1p(y),
        edge_calls=at_pairs((0.0, 0.5), (0.0, NAN), (2.0, 1.0), (0.0, 3.0)),
    ),
    Case(
        "logit",
        many(unary_calls(unit), unary_calls(unit, eps=0.05), unary_calls(uniform(0.7, 0.9), eps=0.4)),
        edge_calls=many(at(0.25, 0.5), at(-0.5, 0.1, 0.9, 1.5, eps=0.1)),
    ),
    Case("special.logit", unary_calls(unit, eps=0.05)),
    Case("special.exp2", unary_calls(), np.exp2),
    Case("special.expm1", unary_calls(), np.expm1),
    Case("special.log1p", unary_calls(positive), np.log1p),
    Case("special.expit", unary_calls(apart(scale=3.0))),
    Case("nn.functional.sigmoid", unary_calls(apart(scale=3.0))),
]
