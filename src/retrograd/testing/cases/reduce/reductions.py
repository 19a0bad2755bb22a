"""Cases of the reductions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...case import Call, Calls, Case, together
from ..math.arithmetic import Draw, normal


def distinct(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Numbers at least 0.3 apart and away from 0: no ties, no kinks."""
    size = int(np.prod(shape))
    values = (rng.permutation(size) + 1) * np.where(rng.random(size) < 0.5, -1.0, 1.0) + rng.uniform(0, 0.4, size)
    return values.reshape(shape)


def away_from_zero(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Numbers of either sign between 0.5 and 2 in magnitude."""
    return np.asarray(rng.uniform(0.5, 2, shape) * rng.choice([-1.0, 1.0], shape))


def one_dim(draw: Draw = normal, **options: Any) -> Calls:
    """Calls with one dimension, kept or not, and a 0-d tensor."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        yield Call(draw(rng, (3, 4)), 0, **options)
        yield Call(draw(rng, (3, 4)), -1, True, **options)
        yield Call(draw(rng, (2, 3, 2)), dim=1, keepdim=True, **options)
        yield Call(draw(rng, ()), 0, **options)

    return calls


def all_dims(draw: Draw = normal, **options: Any) -> Calls:
    """Calls without a dimension, with several, and with one."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        yield Call(draw(rng, (3, 4)), **options)
        yield Call(draw(rng, ()), **options)
        yield Call(draw(rng, (2, 3, 4)), dim=(0, -1), **options)
        yield Call(draw(rng, (2, 3, 4)), dim=(2, 1), keepdim=True, **options)
        yield from one_dim(draw, **options)(rng)

    return calls


def plain(draw: Draw = normal) -> Calls:
    """Calls of the input alone."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for shape in ((3, 4), (5,), ()):
            yield Call(draw(rng, shape))

    return calls


def calls_of(*makers: Callable[[np.random.Generator], Call]) -> Calls:
    """Calls written out one by one."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for make in makers:
            yield make(rng)

    return calls


def integers(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Small integers, zeros among them."""
    return np.asarray(rng.integers(0, 3, shape))


def with_nan(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Distinct numbers and a few NaN."""
    values = distinct(rng, shape)
    return np.where(np.asarray(rng.random(shape)) < 0.3, np.nan, values)


def with_ties(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Few distinct values, zeros among them."""
    return np.asarray(rng.integers(-1, 2, shape)).astype(float)


def empty(*dims: Any) -> Calls:
    """A tensor without elements, reduced over each of the dimensions given."""
    return calls_of(*[lambda rng, dim=dim: Call(np.zeros((0, 3)), dim) for dim in dims])


zero_in_products = calls_of(
    lambda rng: Call(np.array([2.0, 0.0, 3.0, 4.0]), 0),
    lambda rng: Call(np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 3.0], [1.0, 2.0, 3.0]]), 1),
    lambda rng: Call(np.zeros((3, 2)), 0),
)
long = calls_of(
    lambda rng: Call(rng.standard_normal((700, 8)), 0), lambda rng: Call(rng.standard_normal((2, 70, 40)), 1)
)

CASES = [
    Case(
        "sum",
        together(all_dims(), calls_of(lambda rng: Call(normal(rng, (2, 2)), dtype=np.float64))),
        edge_calls=together(empty(0, 1), long),
    ),
    Case("mean", all_dims(), edge_calls=together(empty(0, 1), long)),
    Case("nansum", all_dims(), edge_calls=all_dims(with_nan)),
    Case("nanmean", all_dims(), edge_calls=all_dims(with_nan)),
    Case(
        "prod",
        together(plain(away_from_zero), one_dim(away_from_zero)),
        edge_calls=together(zero_in_products, empty(0, 1)),
    ),
    Case("all", all_dims(with_ties), edge_calls=together(all_dims(integers), empty(0, 1)), order=0),
    Case("any", all_dims(with_ties), edge_calls=together(all_dims(integers), empty(0, 1)), order=0),
    Case(
        "count_nonzero",
        together(plain(with_ties), calls_of(lambda rng: Call(with_ties(rng, (3, 4)), dim=(0, 1)))),
        order=0,
    ),
]
