"""Cases of broadcasting."""

from __future__ import annotations

import numpy as np

from ...case import Call, Case
from .shape import normals

CASES = [
    Case(
        "Tensor.expand",
        normals(
            lambda n: Call(n(2, 1), 2, 3),
            lambda n: Call(n(3), (2, -1)),
            lambda n: Call(n(), 2),
            lambda n: Call(n(2, 3), -1, -1),
            lambda n: Call(n(1, 2), 0, 2),
        ),
    ),
    Case("Tensor.expand_as", normals(lambda n: Call(n(2, 1), np.zeros((4, 2, 3), np.int64)))),
    Case("broadcast_to", normals(lambda n: Call(n(2, 1), (4, 2, 3)), lambda n: Call(n(), (2,))), np.broadcast_to),
    Case(
        "broadcast_tensors",
        normals(lambda n: Call(n(2, 1), n(3), n()), lambda n: Call(n(0, 1), n(3)), lambda n: Call(n(2))),
        np.broadcast_arrays,
    ),
    Case(
        "Tensor.sum_to_size",
        normals(lambda n: Call(n(2, 3), 1, 3), lambda n: Call(n(4, 2, 3), (2, 1)), lambda n: Call(n(2, 3), 2, 3)),
    ),
]
