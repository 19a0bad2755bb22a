"""Cases of padding."""

from __future__ import annotations

from ...case import Call, Case
from ..shape import normals

CASES = [
    Case(
        "constant_pad_nd",
        normals(
            lambda n: Call(n(2, 3), (1, 2)),
            lambda n: Call(n(2, 3), (1, -1, 0, 2), 1.5),
            lambda n: Call(n(0), (1, 1), 2),
        ),
    ),
    Case(
        "nn.functional.pad",
        normals(
            lambda n: Call(n(2, 3), (1, 0)),
            lambda n: Call(n(2, 3), (-1, 1, 2, 0), value=3.0),
            lambda n: Call(n(2, 4), (3, 2), "reflect"),
            lambda n: Call(n(1, 3, 3), (1, 2, 2, 1), "reflect"),
            lambda n: Call(n(1, 2, 2, 2), (1, 1, 0, 1, 1, 0), "reflect"),
            lambda n: Call(n(2, 3), (2, 4), mode="replicate"),
            lambda n: Call(n(1, 1, 3, 2), (1, 2, -1, 1), "replicate"),
            lambda n: Call(n(2, 3), (3, 1), "circular"),
            lambda n: Call(n(1, 2, 3), (-1, 2, 0, 1), "circular"),
            lambda n: Call(n(1, 1, 2, 2, 3), (1, 1, 1, 1, 1, 1), "replicate"),
        ),
    ),
]
