"""Cases of the elementwise operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import Call, Case

Draw = Callable[[np.random.Generator, tuple[int, ...]], Any]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Standard normal numbers."""
    return rng.standard_normal(shape)


def unary_calls(draw: Draw = normal) -> Callable[[np.random.Generator], Iterator[Call]]:
    """A matrix, a scalar and an empty tensor."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for shape in ((2, 3), (), (0, 2)):
            yield Call(draw(rng, shape))

    return calls


def binary_calls(draw: Draw = normal, draw_other: Draw | None = None) -> Callable[[np.random.Generator], Iterator[Call]]:
    """Equal shapes, broadcasting either way, 0-d, and a number."""
    other = draw_other or draw

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for left, right in (((2, 3), (2, 3)), ((2, 1, 3), (4, 1)), ((3,), ()), ((), (2, 2)), ((0, 3), (3,))):
            yield Call(draw(rng, left), other(rng, right))
        yield Call(draw(rng, (3,)), float(other(rng, ())))

    return calls


CASES = [
    Case("add", binary_calls(), np.add),
    Case("mul", binary_calls(), np.multiply),
    Case("exp", unary_calls(), np.exp),
]
