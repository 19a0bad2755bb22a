"""Cases of scattering along a dimension."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case
from ..shape.shape import integers, normals
from .gather import ONCE, TWICE


def reductions(rng: np.random.Generator) -> Iterator[Call]:
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include_self in (True, False):
            x, src = (np.array(rng.permutation(7)[:6] + rng.random(6) / 2).reshape(2, 3) - 2.3 for _ in range(2))
            yield Call(x, 1, TWICE, src, reduce, include_self=include_self)
            yield Call(x, 0, integers([1, 0], [1, 0]), src[:, :2], reduce, include_self=include_self)
            yield Call(rng.random(3), 0, integers(), rng.random(0), reduce, include_self=include_self)


def reduction_edges(rng: np.random.Generator) -> Iterator[Call]:
    x = np.array([[1.0, 2.0, 3.0], [0.0, 2.0, 0.0]])
    src = np.array([[1.0, 1.0, 4.0], [0.0, 2.0, 3.0]])
    for reduce in ("amax", "amin", "sum", "mean"):
        yield Call(x, 1, TWICE, src, reduce)
    yield Call(np.array([1.0, 2.0]), 0, integers(0, 0, 1), np.array([0.0, 3.0, np.inf]), "prod")
    yield Call(np.array([1.0, 2.0]), 0, integers(0, 0, 1), np.array([np.nan, 3.0, np.inf]), "amax")


CASES = [
    Case(
        "scatter",
        normals(
            lambda n: Call(n(2, 3), 1, ONCE, n(2, 2)),
            lambda n: Call(n(3, 2), -2, ONCE, n(2, 2)),
            lambda n: Call(n(2, 3), 1, ONCE, 1.5),
            lambda n: Call(n(2, 3), 1, TWICE, value=-2.0),
            lambda n: Call(n(), 0, np.array(0), n()),
        ),
    ),
    Case(
        "scatter_add",
        normals(
            lambda n: Call(n(2, 3), 1, TWICE, n(2, 3)),
            lambda n: Call(n(3, 2), -2, ONCE, n(2, 2)),
            lambda n: Call(n(4), 0, integers(3, 3, 3), n(3)),
            lambda n: Call(n(4), 0, integers(), n(0)),
        ),
    ),
    Case("scatter_reduce", reductions, edge_calls=reduction_edges, dtypes=("float32",)),
]
