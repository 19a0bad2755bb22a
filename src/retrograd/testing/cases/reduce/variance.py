"""Cases of variances and covariances."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case, Fixed
from ..math.arithmetic import normal
from .reductions import calls_of


def over_dims(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(normal(rng, (3, 4)))
    yield Call(normal(rng, (3, 4)), False)
    yield Call(normal(rng, (3, 4)), 0)
    yield Call(normal(rng, (2, 3, 4)), (0, -1), False, True)
    yield Call(normal(rng, (2, 3, 4)), dim=1, correction=0, keepdim=True)
    yield Call(normal(rng, (5,)), dim=None, correction=2)


without_deviation = calls_of(
    lambda rng: Call(np.ones((3, 4)), 0), lambda rng: Call(np.ones(4)), lambda rng: Call(np.ones(()), correction=0)
)


def covariances(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(normal(rng, (3, 5)))
    yield Call(normal(rng, (5,)))
    yield Call(normal(rng, (3, 5)), correction=0)
    yield Call(normal(rng, (3, 4)), fweights=np.array([1, 2, 3, 1]))
    yield Call(normal(rng, (3, 4)), aweights=Fixed(rng.uniform(0.5, 1, 4)), fweights=np.array([1, 2, 3, 1]))


CASES = [
    Case("var", over_dims, edge_calls=without_deviation),
    Case("std", over_dims, edge_calls=without_deviation),
    Case("var_mean", over_dims),
    Case("std_mean", over_dims),
    Case("cov", covariances, dtypes=("float32",)),
    Case("corrcoef", calls_of(lambda rng: Call(normal(rng, (3, 5)))), dtypes=("float32",)),
]
