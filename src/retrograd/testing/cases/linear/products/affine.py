"""Cases of affine maps."""

from __future__ import annotations

from ....case import Case
from .matmul import products

CASES = [
    Case(
        "nn.functional.linear",
        products(
            ((2, 3), (4, 3), (4,)), ((3,), (2, 3)), ((2, 2, 3), (4, 3), (4,)), ((2, 3), (3,)), ((0, 3), (2, 3), (2,))
        ),
    ),
    Case(
        "nn.functional.bilinear",
        products(((4, 2), (4, 3), (2, 2, 3), (2,)), ((2,), (3,), (2, 2, 3)), ((2, 2, 2), (2, 2, 3), (1, 2, 3), (1,))),
    ),
]
