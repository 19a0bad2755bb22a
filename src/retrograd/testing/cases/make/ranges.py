"""Cases of ranges."""

from __future__ import annotations

import numpy as np

from ...case import Call, Case
from ..shape.shape import normals

triangle = normals(lambda n: Call(3, 4), lambda n: Call(4, 2, -1), lambda n: Call(2, 2, offset=1), lambda n: Call(0, 2))

CASES = [
    Case(
        "arange",
        normals(
            lambda n: Call(5),
            lambda n: Call(1, 2, 0.25),
            lambda n: Call(5, 0, -2),
            lambda n: Call(0, 1, 0.1, dtype=np.float64),
            lambda n: Call(3, 3),
        ),
        order=0,
    ),
    Case(
        "linspace",
        normals(lambda n: Call(0, 1, 5, dtype=np.float64), lambda n: Call(-1.0, 2.0, 1), lambda n: Call(0, 1, 0)),
        order=0,
    ),
    Case("logspace", normals(lambda n: Call(0, 2, 3, dtype=np.float64), lambda n: Call(0, 3, 4, 2.0)), order=0),
    Case("tril_indices", triangle, order=0),
    Case("triu_indices", triangle, order=0),
]
