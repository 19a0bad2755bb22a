"""Cases of what draws at random, and of the cross entropy of a linear layer."""

from __future__ import annotations

import numpy as np

from ...case import Call, Case, Fixed
from ..shape.shape import integers, normals
from .activations import kept


def probabilities(*shape: int) -> Fixed:
    x = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    return Fixed(x / x.sum(axis=1, keepdims=True))


rates = normals(
    lambda n: Call(n(3, 4), 0.1, 0.4, True),
    lambda n: Call(n(3, 4), training=True),
    lambda n: Call(n(3, 4), 0.1, 0.5),
    lambda n: Call(n(0, 3), 0.1, 0.5, True),
)

CASES = [
    Case("nn.functional.rrelu", rates, random=True),
    Case("nn.functional.rrelu_", normals(lambda n: Call(n(3, 4), 0.1, 0.5)), wrap=kept),
    Case(
        "nn.functional.linear_cross_entropy",
        normals(
            lambda n: Call(n(4, 3), n(5, 3), integers(0, 4, 1, 2)),
            lambda n: Call(n(3), n(5, 3), np.array(2), linear_bias=n(5)),
            lambda n: Call(n(4, 3), n(5, 3), integers(0, -100, 1, 2), weight=Fixed(np.arange(1.0, 6)), reduction="sum"),
            lambda n: Call(n(2, 3), n(5, 2, 3), integers([0, 1], [2, 4]), linear_bias=n(5, 2), reduction="none"),
            lambda n: Call(n(4, 3), n(5, 3), integers(0, 4, 1, 2), ignore_index=4, label_smoothing=0.1),
            lambda n: Call(n(2, 3), n(5, 3), probabilities(2, 5)),
        ),
        dtypes=("float32",),
    ),
]
