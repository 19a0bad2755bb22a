"""Cases of dimensions in another order."""

from __future__ import annotations

import numpy as np

from ...case import Call, Case
from .shape import normals

axes = normals(
    lambda n: Call(n(2, 3), 0, 1),
    lambda n: Call(n(2, 3, 4), -1, 0),
    lambda n: Call(n(2, 3, 4), 1, 1),
    lambda n: Call(n(), 0, -1),
    lambda n: Call(n(0, 3), 0, 1),
)

CASES = [
    Case("transpose", axes),
    Case("t", normals(lambda n: Call(n(2, 3)), lambda n: Call(n(3)), lambda n: Call(n()))),
    Case(
        "permute",
        normals(
            lambda n: Call(n(2, 3, 4), (2, 0, 1)),
            lambda n: Call(n(2, 3), (-1, 0)),
            lambda n: Call(n(), ()),
            lambda n: Call(n(0, 2), (1, 0)),
        ),
        np.transpose,
    ),
    Case(
        "movedim",
        normals(
            lambda n: Call(n(2, 3, 4), 0, -1),
            lambda n: Call(n(2, 3, 4), (0, 2), (1, 0)),
            lambda n: Call(n(2, 3, 4, 1), (3, 1), (0, -1)),
        ),
        np.moveaxis,
    ),
]
