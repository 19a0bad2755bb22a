"""Cases of elementwise arithmetic, and the draws that the other elementwise families share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...case import Call, Calls, Case, together

Draw = Callable[[np.random.Generator, tuple[int, ...]], Any]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Standard normal numbers."""
    return np.asarray(rng.standard_normal(shape))


def uniform(low: float, high: float) -> Draw:
    """Uniform numbers between two bounds."""
    return lambda rng, shape: np.asarray(rng.uniform(low, high, shape))


def apart(*kinks: float, scale: float = 1.0) -> Draw:
    """Normal numbers at least 0.05 away from each of the kinks."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        x = scale * rng.standard_normal(shape)
        for kink in kinks:
            x = np.where(np.abs(x - kink) < 0.05, x + 0.2, x)
        return np.asarray(x)

    return draw


def complex_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Complex numbers with standard normal parts."""
    return np.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape))


away_from_zero = apart(0.0)
positive = uniform(0.3, 3.0)
unit = uniform(0.1, 0.9)
SHAPES: tuple[tuple[int, ...], ...] = ((2, 3), (), (0, 2))
PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 3), (2, 3)),
    ((2, 1, 3), (4, 1)),
    ((3,), ()),
    ((), (2, 2)),
    ((0, 3), (3,)),
)


def unary_calls(draw: Draw = normal, *args: Any, also: Draw | None = None, empty: bool = True, **kwargs: Any) -> Calls:
    """A matrix, a scalar and an empty tensor; with ``also`` a vector normals otherwise."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for shape in SHAPES if empty else SHAPES[:2]:
            yield Call(draw(rng, shape), *args, **kwargs)
        if also is not None:
            yield Call(also(rng, (3,)), *args, **kwargs)

    return calls


def binary_calls(
    draw: Draw = normal, draw_other: Draw | None = None, *, number: bool = True, also: Draw | None = None, **kwargs: Any
) -> Calls:
    """Equal shapes, broadcasting either way, 0-d, and a number; with ``also`` vectors normals otherwise."""
    other = draw_other or draw

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for left, right in PAIRS:
            yield Call(draw(rng, left), other(rng, right), **kwargs)
        if number:
            yield Call(draw(rng, (3,)), float(other(rng, ())), **kwargs)
        if also is not None:
            yield Call(also(rng, (3,)), also(rng, (3,)), **kwargs)

    return calls


def at(*values: float, **kwargs: Any) -> Calls:
    """One call on a vector of chosen values."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        yield Call(np.array(values, dtype=np.float64), **kwargs)

    return calls


def at_pairs(*pairs: tuple[float, float]) -> Calls:
    """One call on two vectors of chosen values."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        first, second = np.array(pairs, dtype=np.float64).T
        yield Call(first.copy(), second.copy())

    return calls


def quotient_draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Dividends for divisors near 1, with quotients away from whole numbers."""
    return np.asarray(rng.integers(-4, 4, shape) + rng.uniform(0.4, 0.6, shape))


near_one = uniform(0.99, 1.01)
INF, NAN = float("inf"), float("nan")


CASES = [
    Case("add", together(binary_calls(also=complex_normal), binary_calls(number=False, alpha=2.5))),
    Case("sub", together(binary_calls(also=complex_normal), binary_calls(number=False, alpha=-0.5))),
    Case("rsub", together(binary_calls(), binary_calls(number=False, alpha=2)), lambda x, y, alpha=1: y - alpha * x),
    Case("mul", binary_calls(also=complex_normal), np.multiply),
    Case(
        "div",
        together(
            binary_calls(normal, positive, also=complex_normal),
            binary_calls(quotient_draw, near_one, rounding_mode="floor"),
            binary_calls(quotient_draw, near_one, rounding_mode="trunc"),
        ),
    ),
    Case("true_divide", binary_calls(normal, positive), np.true_divide),
    Case("floor_divide", binary_calls(quotient_draw, near_one), np.floor_divide, torch=""),
    Case("remainder", binary_calls(quotient_draw, near_one), np.remainder, torch=""),
    Case("fmod", binary_calls(quotient_draw, near_one), np.fmod),
    Case("neg", unary_calls(also=complex_normal), np.negative),
    Case("positive", unary_calls(empty=False), np.positive),
    Case(
        "abs",
        unary_calls(away_from_zero),
        np.abs,
        edge_calls=together(at(0.0, -0.0, INF, -INF), unary_calls(complex_normal)),
    ),
    Case("sign", unary_calls(away_from_zero), np.sign, edge_calls=at(0.0, INF, -INF)),
    Case("sgn", unary_calls(away_from_zero, also=complex_normal), edge_calls=at(0.0, INF)),
]
