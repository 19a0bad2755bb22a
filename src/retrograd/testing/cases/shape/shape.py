"""Cases of shapes: the same elements under another shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...case import Call, Case

Normal = Callable[..., Any]


def normals(*makers: Callable[[Normal], Call]) -> Callable[[np.random.Generator], Iterator[Call]]:
    """Calls written out one by one, from a function that draws normal numbers in the shape ``n(2, 3)``."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for make in makers:
            yield make(lambda *shape: np.asarray(rng.standard_normal(shape)))

    return calls


def integers(*values: Any) -> Any:
    """An index: ``integers(0, 2)`` is a vector, ``integers([0], [1])`` a matrix."""
    return np.array(values, np.int64)


reshapes = normals(
    lambda n: Call(n(2, 3), (3, 2)),
    lambda n: Call(n(2, 3, 4), (-1, 4)),
    lambda n: Call(n(), (1, 1)),
    lambda n: Call(n(1), ()),
    lambda n: Call(n(0, 3), (3, 0)),
)

at_least = normals(
    lambda n: Call(n()),
    lambda n: Call(n(3)),
    lambda n: Call(n(2, 3)),
    lambda n: Call(n(2, 3, 1)),
    lambda n: Call((n(), n(3), n(2, 0))),
)


CASES = [
    Case("reshape", reshapes, np.reshape),
    Case("Tensor.view", normals(lambda n: Call(n(), 1), lambda n: Call(n(6), 3, -1), lambda n: Call(n(0), (2, 0)))),
    Case("Tensor.view_as", normals(lambda n: Call(n(6), np.zeros((2, 3), np.int64)))),
    Case("Tensor.reshape_as", normals(lambda n: Call(n(3, 2), np.zeros((2, 3), np.int64)))),
    Case(
        "squeeze",
        normals(
            lambda n: Call(n(2, 1, 3, 1)),
            lambda n: Call(n(2, 1, 3, 1), 1),
            lambda n: Call(n(2, 1, 3, 1), dim=(-1, 0)),
            lambda n: Call(n(2, 3), 0),
            lambda n: Call(n()),
            lambda n: Call(n(1, 0)),
        ),
    ),
    Case("unsqueeze", normals(lambda n: Call(n(2, 3), 1), lambda n: Call(n(), -1), lambda n: Call(n(0, 2), -3))),
    Case(
        "flatten",
        normals(
            lambda n: Call(n(2, 3, 4)),
            lambda n: Call(n(2, 3, 4), 1),
            lambda n: Call(n(2, 3, 4), 0, -2),
            lambda n: Call(n()),
            lambda n: Call(n(0, 3)),
        ),
    ),
    Case("ravel", normals(lambda n: Call(n(2, 3)), lambda n: Call(n()), lambda n: Call(n(0, 3))), np.ravel),
    Case(
        "unflatten",
        normals(
            lambda n: Call(n(2, 6), 1, (3, -1)), lambda n: Call(n(6, 2), -2, (2, 3)), lambda n: Call(n(2, 0), 1, (0, 3))
        ),
    ),
    Case("atleast_1d", at_least),
    Case("atleast_2d", at_least),
    Case("atleast_3d", at_least),
]
