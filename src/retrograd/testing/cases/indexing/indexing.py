"""Cases of indexing, read and written."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...case import Call, Case, Fixed
from ..shape.shape import integers, normals

INDICES: tuple[Any, ...] = (
    0,
    -1,
    slice(None, None, 2),
    slice(1, 3),
    None,
    Ellipsis,
    (),
    (1, 2, 3),
    (slice(None), -1, None, slice(2, 0)),
    (Ellipsis, 2),
    integers(1, 1, 0),
    integers([0, 1], [1, 1]),
    [1, 0, 1],
    (slice(None), integers(2, 2)),
    (integers(0, 1, 1), integers(2, 0, 0)),
    (integers([0], [1]), slice(None), integers(0, 3, 3)),
    (slice(0, 1), integers(0, 1), integers([1], [3])),
    (None, integers(1, 0)),
    (np.array([True, False]), 1),
    np.array([[True, False, True], [False, False, True]]),
    (Ellipsis, np.array([True, False, True, True])),
    np.array([False, False]),
    integers(),
)

CASES = [
    Case(
        "Tensor.__getitem__",
        normals(
            *[lambda n, index=index: Call(n(2, 3, 4), index) for index in INDICES],
            lambda n: Call(n(), Ellipsis),
            lambda n: Call(n(), None),
            lambda n: Call(n(0, 3), slice(None)),
        ),
        lambda x, index: x[index],
    ),
    Case(
        "Tensor.__setitem__",
        normals(*[lambda n, index=index: Call(Fixed(n(2, 3, 4)), index, 1.5) for index in INDICES]),
        order=0,
    ),
    Case(
        "fill",
        normals(
            lambda n: Call(n(2, 3), 1.5),
            lambda n: Call(n(2, 3), n()),
            lambda n: Call(n(), n()),
            lambda n: Call(n(0), 2),
        ),
    ),
    Case("Tensor.zero_", normals(lambda n: Call(Fixed(n(2, 3)))), order=0),
    Case(
        "Tensor.copy_",
        normals(lambda n: Call(Fixed(n(2, 3)), Fixed(n(3))), lambda n: Call(Fixed(n(2)), integers(1))),
        order=0,
    ),
]
