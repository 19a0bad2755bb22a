"""Cases of masks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...case import Call, Case
from ..math.arithmetic import (
    INF,
    NAN,
    normal,
)


def mask(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return np.asarray(rng.random(shape) < 0.5)


def where_calls(rng: np.random.Generator) -> Iterator[Call]:
    for c, x, y in (
        ((2, 3), (2, 3), (2, 3)),
        ((2, 1), (3,), ()),
        ((), (2,), (2,)),
        ((3,), (2, 1), (1,)),
        ((0, 2), (2,), (2,)),
    ):
        yield Call(mask(rng, c), normal(rng, x), normal(rng, y))
    yield Call(mask(rng, (3,)), normal(rng, (3,)), 1.5)
    yield Call(mask(rng, (3,)), 2, normal(rng, (3,)))


def where_edges(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(np.array([True, False]), np.array([1.0, NAN]), np.array([INF, 2.0]))
    yield Call(np.array([True, False]), 1.0, 2)
    yield Call(np.array([[True, False], [True, True]]))


def where_method_calls(rng: np.random.Generator) -> Iterator[Call]:
    for call in where_calls(rng):
        condition, x, y = call.args
        if isinstance(x, np.ndarray):
            yield Call(x, condition, y)


def masked_fill_calls(rng: np.random.Generator) -> Iterator[Call]:
    for x, m in (((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), ()), ((), ()), ((0, 2), (2,))):
        yield Call(normal(rng, x), mask(rng, m), -1.5)
    yield Call(normal(rng, (2, 3)), mask(rng, (2, 1)), normal(rng, ()))


CASES = [
    Case("where", where_calls, np.where, edge_calls=where_edges),
    Case("Tensor.where", where_method_calls, lambda x, condition, y: np.where(condition, x, y)),
    Case("masked_fill", masked_fill_calls, lambda x, mask, value: np.where(mask, value, x)),
]
