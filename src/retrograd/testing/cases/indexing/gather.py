"""Cases of reading at positions."""

from __future__ import annotations

import numpy as np

from ...case import Call, Case
from ..shape.shape import integers, normals

ONCE = integers([0, 2], [1, 0])  # no position twice along dimension 1
TWICE = integers([0, 0, 2], [1, 1, 1])
MASK = np.array([[True, False, True], [False, False, True]])

CASES = [
    Case(
        "gather",
        normals(
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
        normals(
            lambda n: Call(n(2, 3), TWICE, 1),
            lambda n: Call(n(2, 3), integers([0], [2]), dim=-1),
            lambda n: Call(n(1, 3), TWICE, 1),
            lambda n: Call(n(2, 3), integers(5, 0, 5)),
        ),
        lambda x, index, dim=None: np.take_along_axis(x, index, dim),
    ),
    Case(
        "index_select",
        normals(
            lambda n: Call(n(2, 3), 1, integers(2, 0, 2)),
            lambda n: Call(n(2, 3, 2), dim=-2, index=integers(1)),
            lambda n: Call(n(3), 0, np.array(1)),
            lambda n: Call(n(2, 3), 0, integers()),
        ),
    ),
    Case(
        "take", normals(lambda n: Call(n(2, 3), integers([0, -1], [5, 5])), lambda n: Call(n(3), np.array(1))), np.take
    ),
    Case(
        "masked_select",
        normals(lambda n: Call(n(2, 3), MASK), lambda n: Call(n(2, 1), MASK), lambda n: Call(n(2, 3), MASK[0] & False)),
    ),
]
