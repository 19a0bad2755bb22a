"""Cases of reading and writing at positions along a dimension."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case
from ..shape.shape import drawn, integers

ONCE = integers([0, 2], [1, 0])  # no position twice along dimension 1
TWICE = integers([0, 0, 2], [1, 1, 1])
MASK = np.array([[True, False, True], [False, False, True]])


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
        "gather",
        drawn(
            lambda n: Call(n(2, 3), 1, TWICE),
            lambda n: Call(n(3, 2), 0, ONCE[:1]),
            lambda n: Call(n(2, 3, 2), -2, integers([[0], [2], [2], [1]])),
            lambda n: Call(n(4), dim=0, index=integers(3, 3, 0)),
            lambda n: Call(n(), 0, np.array(0)),
            lambda n: Call(n(2, 3), 1, np.zeros((2, 0), np.int64)),
        ),
    ),
    Case(
        "take_along_dim",
        drawn(
            lambda n: Call(n(2, 3), TWICE, 1),
            lambda n: Call(n(2, 3), integers([0], [2]), dim=-1),
            lambda n: Call(n(1, 3), TWICE, 1),
            lambda n: Call(n(2, 3), integers(5, 0, 5)),
        ),
        lambda x, index, dim=None: np.take_along_axis(x, index, dim),
    ),
    Case(
        "index_select",
        drawn(
            lambda n: Call(n(2, 3), 1, integers(2, 0, 2)),
            lambda n: Call(n(2, 3, 2), dim=-2, index=integers(1)),
            lambda n: Call(n(3), 0, np.array(1)),
            lambda n: Call(n(2, 3), 0, integers()),
        ),
    ),
    Case("take", drawn(lambda n: Call(n(2, 3), integers([0, -1], [5, 5])), lambda n: Call(n(3), np.array(1))), np.take),
    Case(
        "masked_select",
        drawn(lambda n: Call(n(2, 3), MASK), lambda n: Call(n(2, 1), MASK), lambda n: Call(n(2, 3), MASK[0] & False)),
    ),
    Case(
        "scatter",
        drawn(
            lambda n: Call(n(2, 3), 1, ONCE, n(2, 2)),
            lambda n: Call(n(3, 2), -2, ONCE, n(2, 2)),
            lambda n: Call(n(2, 3), 1, ONCE, 1.5),
            lambda n: Call(n(2, 3), 1, TWICE, value=-2.0),
            lambda n: Call(n(), 0, np.array(0), n()),
        ),
    ),
    Case(
        "scatter_add",
        drawn(
            lambda n: Call(n(2, 3), 1, TWICE, n(2, 3)),
            lambda n: Call(n(3, 2), -2, ONCE, n(2, 2)),
            lambda n: Call(n(4), 0, integers(3, 3, 3), n(3)),
            lambda n: Call(n(4), 0, integers(), n(0)),
        ),
    ),
    Case("scatter_reduce", reductions, edge_calls=reduction_edges, dtypes=("float32",)),
    Case(
        "index_add",
        drawn(
            lambda n: Call(n(2, 3), 1, integers(2, 0, 2), n(2, 3)),
            lambda n: Call(n(2, 3), 0, integers(1), n(1, 3), alpha=2),
            lambda n: Call(n(3), -1, integers(1, 1), n(2)),
        ),
    ),
    Case(
        "index_copy",
        drawn(lambda n: Call(n(2, 3), 1, integers(2, 0), n(2, 2)), lambda n: Call(n(2, 3), 0, integers(1), n(1, 3))),
    ),
    Case(
        "index_fill",
        drawn(
            lambda n: Call(n(2, 3), 1, integers(2, 0), 1.5),
            lambda n: Call(n(2, 3), 0, integers(1), n()),
            lambda n: Call(n(2, 3), 0, integers(), 1.5),
        ),
    ),
    Case(
        "index_put",
        drawn(
            lambda n: Call(n(2, 3), (integers(0, 1), integers(2, 0)), n(2)),
            lambda n: Call(n(2, 3), (integers(1),), n(3)),
            lambda n: Call(n(2, 3), (MASK,), n()),
            lambda n: Call(n(2, 3), (integers(0, 0), integers(2, 2)), n(2), accumulate=True),
            lambda n: Call(n(2, 3), (integers(0, 0),), n(1, 3), True),
        ),
    ),
    Case(
        "put",
        drawn(
            lambda n: Call(n(2, 3), integers(0, -1), n(2)),
            lambda n: Call(n(2, 3), integers([1, 1]), n(1, 2), accumulate=True),
        ),
        torch="torch.Tensor.put",
    ),
    Case(
        "masked_scatter",
        drawn(
            lambda n: Call(n(2, 3), MASK, n(4)),
            lambda n: Call(n(2, 3), MASK[1], n(2, 2)),
            lambda n: Call(n(3), MASK, n(3)),
        ),
    ),
    Case(
        "select_scatter",
        drawn(lambda n: Call(n(2, 3), n(3), 0, 1), lambda n: Call(n(2, 3), n(2), dim=-1, index=-2)),
    ),
    Case(
        "slice_scatter",
        drawn(
            lambda n: Call(n(4, 2), n(2, 2), start=1, end=3),
            lambda n: Call(n(2, 4), n(2, 2), 1, 0, None, 2),
            lambda n: Call(n(3), n(3)),
        ),
    ),
    Case(
        "diagonal_scatter",
        drawn(lambda n: Call(n(3, 3), n(3)), lambda n: Call(n(2, 3, 3), n(2, 2), 1, -1, 1)),
    ),
]
