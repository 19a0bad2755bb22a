"""Cases of parts of a Tensor as views."""

from __future__ import annotations

from ...case import Call, Case
from .shape import normals

CASES = [
    Case(
        "narrow",
        normals(lambda n: Call(n(5, 2), 0, 1, 3), lambda n: Call(n(2, 5), -1, -2, 2), lambda n: Call(n(3), 0, 3, 0)),
    ),
    Case("select", normals(lambda n: Call(n(5, 2), 0, 1), lambda n: Call(n(2, 5), -1, -2), lambda n: Call(n(3), 0, 0))),
    Case(
        "diagonal",
        normals(
            lambda n: Call(n(3, 4)),
            lambda n: Call(n(3, 4), -1),
            lambda n: Call(n(2, 3, 4), 1, 2, 0),
            lambda n: Call(n(3, 3), offset=7),
            lambda n: Call(n(2, 3, 4), dim1=-1, dim2=-2),
        ),
        lambda x, offset=0, dim1=0, dim2=1: x.diagonal(offset, dim1, dim2),
    ),
    Case(
        "diag_embed",
        normals(
            lambda n: Call(n(3)),
            lambda n: Call(n(2, 3), 1),
            lambda n: Call(n(2, 3), -2, 0, -1),
            lambda n: Call(n(2, 0), dim1=2, dim2=0),
        ),
    ),
    Case(
        "diag",
        normals(
            lambda n: Call(n(3)),
            lambda n: Call(n(3), -1),
            lambda n: Call(n(3, 4), 1),
            lambda n: Call(n(3, 3)),
            lambda n: Call(n(0, 2)),
        ),
    ),
    Case("diagflat", normals(lambda n: Call(n(2, 2)), lambda n: Call(n(), 1), lambda n: Call(n(2), -1))),
    Case(
        "Tensor.unfold",
        normals(
            lambda n: Call(n(6), 0, 3, 1),
            lambda n: Call(n(2, 7, 2), 1, 2, 3),
            lambda n: Call(n(3, 6), -1, 5, 1),
            lambda n: Call(n(4), 0, 2, 2),
            lambda n: Call(n(4), 0, 0, 2),
        ),
    ),
    Case(
        # On other inputs the result depends on their layout in memory; see the family's own tests.
        "as_strided",
        normals(lambda n: Call(n(1), (3, 2), (0, 0)), lambda n: Call(n(), (2,), (0,)), lambda n: Call(n(1), (), ())),
    ),
]
