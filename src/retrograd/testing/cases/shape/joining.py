"""Cases of joining and splitting."""

from __future__ import annotations

import numpy as np

from ...case import Call, Case
from .shape import integers, normals

stacks = normals(
    lambda n: Call([n(2, 3), n(2, 3)]),
    lambda n: Call((n(3), n(3), n(3))),
    lambda n: Call([n(), n()]),
    lambda n: Call([n(2, 0, 2)]),
)
splits = normals(
    lambda n: Call(n(5, 2), 2),
    lambda n: Call(n(2, 6), 3, 1),
    lambda n: Call(n(2, 6), 4, dim=-1),
    lambda n: Call(n(0, 2), 2),
)


CASES = [
    Case(
        "cat",
        normals(
            lambda n: Call([n(2, 3), n(1, 3)]),
            lambda n: Call((n(2, 1), n(2, 3), n(2, 0)), -1),
            lambda n: Call([n(3)], dim=0),
            lambda n: Call([n(0), n(2, 3)], 1),
            lambda n: Call([n(2), integers(1, 2)]),
        ),
    ),
    Case(
        "stack",
        normals(
            lambda n: Call([n(2, 3), n(2, 3)]),
            lambda n: Call((n(2), n(2)), -1),
            lambda n: Call([n(), n(), n()], dim=0),
            lambda n: Call([n(2, 0)], 1),
        ),
        lambda xs, dim=0: np.stack(xs, dim),
    ),
    Case("hstack", stacks, np.hstack),
    Case("vstack", stacks, np.vstack),
    Case("dstack", stacks, np.dstack),
    Case("column_stack", stacks),
    Case("block_diag", normals(lambda n: Call(n(2, 3), n(2), n()), lambda n: Call(n(0, 2), n(1, 1)))),
    Case("split", normals(lambda n: Call(n(5, 2), 2), lambda n: Call(n(2, 5), [1, 4], 1), lambda n: Call(n(0), 2))),
    Case("split_with_sizes", normals(lambda n: Call(n(5, 2), [2, 0, 3]), lambda n: Call(n(2, 3), (1, 2), dim=-1))),
    Case("chunk", splits),
    Case(
        "tensor_split",
        normals(
            lambda n: Call(n(5, 2), 3),
            lambda n: Call(n(2, 6), (1, 4), 1),
            lambda n: Call(n(6), (4, 2)),
            lambda n: Call(n(6), (-2, 9)),
            lambda n: Call(n(2), 4),
        ),
        lambda x, cuts, dim=0: np.array_split(x, cuts, dim),
    ),
    Case("hsplit", normals(lambda n: Call(n(4), 2), lambda n: Call(n(2, 4), (1, 3))), np.hsplit),
    Case("vsplit", normals(lambda n: Call(n(4, 2), 2), lambda n: Call(n(4, 2), (1, 3))), np.vsplit),
    Case("dsplit", normals(lambda n: Call(n(1, 2, 4), 2), lambda n: Call(n(1, 2, 4), (1,))), np.dsplit),
    Case("unbind", normals(lambda n: Call(n(3)), lambda n: Call(n(2, 3), 1), lambda n: Call(n(2, 3, 2), dim=-2))),
]
