"""Cases of writing at positions and under masks."""

from __future__ import annotations

from ...case import Call, Case
from ..shape.shape import integers, normals
from .gather import MASK

CASES = [
    Case(
        "index_add",
        normals(
            lambda n: Call(n(2, 3), 1, integers(2, 0, 2), n(2, 3)),
            lambda n: Call(n(2, 3), 0, integers(1), n(1, 3), alpha=2),
            lambda n: Call(n(3), -1, integers(1, 1), n(2)),
        ),
    ),
    Case(
        "index_copy",
        normals(lambda n: Call(n(2, 3), 1, integers(2, 0), n(2, 2)), lambda n: Call(n(2, 3), 0, integers(1), n(1, 3))),
    ),
    Case(
        "index_fill",
        normals(
            lambda n: Call(n(2, 3), 1, integers(2, 0), 1.5),
            lambda n: Call(n(2, 3), 0, integers(1), n()),
            lambda n: Call(n(2, 3), 0, integers(), 1.5),
        ),
    ),
    Case(
        "index_put",
        normals(
            lambda n: Call(n(2, 3), (integers(0, 1), integers(2, 0)), n(2)),
            lambda n: Call(n(2, 3), (integers(1),), n(3)),
            lambda n: Call(n(2, 3), (MASK,), n()),
            lambda n: Call(n(2, 3), (integers(0, 0), integers(2, 2)), n(2), accumulate=True),
            lambda n: Call(n(2, 3), (integers(0, 0),), n(1, 3), True),
        ),
    ),
    Case(
        "put",
        normals(
            lambda n: Call(n(2, 3), integers(0, -1), n(2)),
            lambda n: Call(n(2, 3), integers([1, 1]), n(1, 2), accumulate=True),
        ),
        torch="torch.Tensor.put",
    ),
    Case(
        "masked_scatter",
        normals(
            lambda n: Call(n(2, 3), MASK, n(4)),
            lambda n: Call(n(2, 3), MASK[1], n(2, 2)),
            lambda n: Call(n(3), MASK, n(3)),
        ),
    ),
]
