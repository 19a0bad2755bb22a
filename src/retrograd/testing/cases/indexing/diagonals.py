"""Cases of diagonals filled in place."""

from __future__ import annotations

from ...case import Call, Case
from ..shape.shape import normals

CASES = [
    Case(
        "Tensor.fill_diagonal_",
        normals(
            lambda n: Call(n(3, 3), 2.0),
            lambda n: Call(n(2, 4), 1.5),
            lambda n: Call(n(7, 2), 1.5, wrap=True),
            lambda n: Call(n(7, 2), 1.5),
            lambda n: Call(n(3, 3, 3), 0.5),
        ),
        wrap=lambda f: lambda x, *args, **kwargs: f(x.clone(), *args, **kwargs),
    )
]
