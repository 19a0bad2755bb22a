"""Cases of the statistics."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case, Fixed
from ..math.arithmetic import normal
from .reductions import calls_of, distinct, one_dim, plain, together, with_nan


def spreads(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(normal(rng, (3, 4)))
    yield Call(normal(rng, (3, 4)), False)
    yield Call(normal(rng, (3, 4)), 0)
    yield Call(normal(rng, (2, 3, 4)), (0, -1), False, True)
    yield Call(normal(rng, (2, 3, 4)), dim=1, correction=0, keepdim=True)
    yield Call(normal(rng, (5,)), dim=None, correction=2)


no_spread = calls_of(
    lambda rng: Call(np.ones((3, 4)), 0), lambda rng: Call(np.ones(4)), lambda rng: Call(np.ones(()), correction=0)
)


def quantiles(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(distinct(rng, (3, 4)), 0.3)
    yield Call(distinct(rng, (3, 4)), 0.25, 1, True)
    yield Call(distinct(rng, (3, 4)), Fixed(np.array([0.0, 0.2, 1.0])), dim=0)
    yield Call(distinct(rng, (2, 3, 2)), Fixed(np.array([0.1, 0.7])), dim=-2, keepdim=True)
    yield Call(distinct(rng, (5,)), Fixed(np.array([0.3, 0.6])), keepdim=True)
    for interpolation in ("lower", "higher", "midpoint", "nearest"):
        yield Call(distinct(rng, (3, 4)), 0.4, 0, interpolation=interpolation)


nan_quantiles = calls_of(
    lambda rng: Call(with_nan(rng, (3, 5)), 0.3, 1),
    lambda rng: Call(with_nan(rng, (3, 5)), Fixed(np.array([0.1, 0.9])), 0),
    lambda rng: Call(np.full((2, 3), np.nan), 0.5, 1),
    lambda rng: Call(np.array([1.0, np.inf, 2.0, -np.inf]), 0.5),
)


def modes(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(distinct(rng, (3, 4)))
    yield Call(distinct(rng, (3, 4)), 0, True)
    yield Call(distinct(rng, ()))


repeated = calls_of(
    lambda rng: Call(np.array([3.0, 1.0, 3.0, 2.0, 1.0])), lambda rng: Call(rng.integers(0, 3, (4, 7)).astype(float), 1)
)


def covariances(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(normal(rng, (3, 5)))
    yield Call(normal(rng, (5,)))
    yield Call(normal(rng, (3, 5)), correction=0)
    yield Call(normal(rng, (3, 4)), fweights=np.array([1, 2, 3, 1]))
    yield Call(normal(rng, (3, 4)), aweights=Fixed(rng.uniform(0.5, 1, 4)), fweights=np.array([1, 2, 3, 1]))


CASES = [
    Case("var", spreads, edge_calls=no_spread),
    Case("std", spreads, edge_calls=no_spread),
    Case("var_mean", spreads),
    Case("std_mean", spreads),
    Case(
        "median", together(plain(distinct), one_dim(distinct)), edge_calls=together(plain(with_nan), one_dim(with_nan))
    ),
    Case(
        "nanmedian",
        together(plain(distinct), one_dim(distinct)),
        edge_calls=together(plain(with_nan), one_dim(with_nan)),
    ),
    Case("mode", modes, edge_calls=repeated),
    Case(
        "kthvalue",
        calls_of(
            lambda rng: Call(distinct(rng, (3, 4)), 2),
            lambda rng: Call(distinct(rng, (3, 4)), 1, 0, True),
            lambda rng: Call(distinct(rng, ()), 1),
        ),
    ),
    Case("quantile", quantiles, edge_calls=nan_quantiles, dtypes=("float32",)),
    Case("nanquantile", quantiles, edge_calls=nan_quantiles, dtypes=("float32",)),
    Case("cov", covariances, dtypes=("float32",)),
    Case("corrcoef", calls_of(lambda rng: Call(normal(rng, (3, 5)))), dtypes=("float32",)),
    Case(
        "histc",
        calls_of(
            lambda rng: Call(Fixed(normal(rng, (4, 5))), 7),
            lambda rng: Call(Fixed(normal(rng, (20,))), bins=4, min=-1, max=1),
        ),
        order=0,
    ),
    Case(
        "bincount",
        calls_of(
            lambda rng: Call(rng.integers(0, 5, 9)),
            lambda rng: Call(rng.integers(0, 5, 9), Fixed(normal(rng, (9,))), 8),
        ),
        order=0,
    ),
]
