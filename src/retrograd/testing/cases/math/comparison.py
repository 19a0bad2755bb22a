"""Cases of comparisons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...case import Call, Calls, Case
from .arithmetic import INF, NAN, at, at_pairs, binary_calls, unary_calls

TIES = at_pairs((1.0, 1.0), (NAN, NAN), (0.0, -0.0), (INF, INF), (2.0, 1.0))
SPECIAL = at(0.0, -0.0, NAN, INF, -INF, 1.0)


def close_calls(rng: np.random.Generator) -> Iterator[Call]:
    x = np.array([1.0, 2.0, NAN, INF, -INF, 0.0])
    y = np.array([1.0 + 1e-7, 2.1, NAN, INF, INF, 1e-9])
    for options in ({}, {"rtol": 0.1}, {"atol": 0.2}, {"equal_nan": True}):
        yield Call(x, y, **options)
    yield Call(np.array([1, 2]), np.array([1, 3]))
    yield Call(x[:2], x[:2].copy())


def equal_calls(rng: np.random.Generator) -> Iterator[Call]:
    x = rng.standard_normal((2, 3))
    yield Call(x, x.copy())
    yield Call(x, x + 1)
    yield Call(x, x[0])
    yield Call(np.array([NAN]), np.array([NAN]))


def none(name: str, calls: Calls, reference: Any = None, **options: Any) -> Case:
    """A case without derivatives."""
    return Case(name, calls, reference, order=0, dtypes=(), **options)


CASES = [
    *(
        none(name, binary_calls(), ufunc, edge_calls=TIES)
        for name, ufunc in {
            "eq": np.equal,
            "ne": np.not_equal,
            "lt": np.less,
            "le": np.less_equal,
            "gt": np.greater,
            "ge": np.greater_equal,
        }.items()
    ),
    none("isnan", unary_calls(), np.isnan, edge_calls=SPECIAL),
    none("isinf", unary_calls(), np.isinf, edge_calls=SPECIAL),
    none("isfinite", unary_calls(), np.isfinite, edge_calls=SPECIAL),
    none("isposinf", unary_calls(), np.isposinf, edge_calls=SPECIAL),
    none("isneginf", unary_calls(), np.isneginf, edge_calls=SPECIAL),
    none("signbit", unary_calls(), np.signbit, edge_calls=SPECIAL),
    none("isclose", close_calls, np.isclose),
    none("allclose", close_calls, np.allclose),
    none("equal", equal_calls, np.array_equal),
]
