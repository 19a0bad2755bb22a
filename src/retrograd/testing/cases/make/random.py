"""Cases of random numbers and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...case import Call, Case, Fixed
from ..shape.shape import normals

sizes = normals(lambda n: Call(2, 3), lambda n: Call((2, 0), dtype=np.float64), lambda n: Call(()))
alike = normals(lambda n: Call(Fixed(n(2, 3))), lambda n: Call(Fixed(n())))


def channels(dims: int, unbatched: bool = True) -> Any:
    """(N, C, *), and (C, *) where it is taken without a warning, with so many dimensions after the channels."""
    batch = (2, 3, *(2,) * dims)
    single = batch[1:] if unbatched else batch
    return normals(lambda n: Call(n(*batch)), lambda n: Call(n(*single), 0.25), lambda n: Call(n(*batch), 0.5, False))


rates = normals(
    lambda n: Call(n(3, 4), 0.5, True),
    lambda n: Call(n(3, 4), p=0.25, training=True),
    lambda n: Call(n(3, 4), 0.5, False),
    lambda n: Call(n(3, 4), 0.0, True),
    lambda n: Call(n(3, 4), 1.0, True),
    lambda n: Call(n(0, 3), 0.5, True),
)

CASES = [
    Case("rand", sizes, order=0, random=True),
    Case("randn", sizes, order=0, random=True),
    Case("rand_like", alike, order=0, random=True),
    Case("randn_like", alike, order=0, random=True),
    Case("randint", normals(lambda n: Call(5, (2, 3)), lambda n: Call(-2, 3, (4,))), order=0, random=True),
    Case("randint_like", normals(lambda n: Call(Fixed(n(2, 3)), 5)), order=0, random=True),
    Case("randperm", normals(lambda n: Call(5), lambda n: Call(0)), order=0, random=True),
    Case(
        "normal",
        normals(lambda n: Call(0.0, 2.0, (2, 3)), lambda n: Call(Fixed(n(3)), Fixed(np.ones((2, 1))))),
        order=0,
        random=True,
    ),
    Case("nn.functional.dropout", rates, random=True),
    Case("nn.functional.dropout1d", channels(1), random=True),
    Case("nn.functional.dropout2d", channels(2, unbatched=False), random=True),
    Case("nn.functional.dropout3d", channels(3), random=True),
    Case("nn.functional.alpha_dropout", rates, random=True),
    Case("nn.functional.feature_alpha_dropout", rates, random=True),
]
