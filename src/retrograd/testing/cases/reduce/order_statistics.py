"""Cases of the order statistics."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case, Fixed, together
from .reductions import calls_of, distinct, one_dim, plain, with_nan


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


CASES = [
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
]
