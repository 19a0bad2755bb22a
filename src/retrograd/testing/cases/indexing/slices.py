"""Cases of replacing slices."""

from __future__ import annotations

from ...case import Call, Case
from ..shape.shape import normals

CASES = [
    Case(
        "select_scatter",
        normals(lambda n: Call(n(2, 3), n(3), 0, 1), lambda n: Call(n(2, 3), n(2), dim=-1, index=-2)),
    ),
    Case(
        "slice_scatter",
        normals(
            lambda n: Call(n(4, 2), n(2, 2), start=1, end=3),
            lambda n: Call(n(2, 4), n(2, 2), 1, 0, None, 2),
            lambda n: Call(n(3), n(3)),
        ),
    ),
    Case(
        "diagonal_scatter",
        normals(lambda n: Call(n(3, 3), n(3)), lambda n: Call(n(2, 3, 3), n(2, 2), 1, -1, 1)),
    ),
]
