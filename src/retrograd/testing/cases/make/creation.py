"""Cases of new Tensors."""

from __future__ import annotations

import numpy as np

from ...case import Call, Case, Fixed
from ..shape.shape import drawn, integers

sizes = drawn(lambda n: Call(2, 3), lambda n: Call((2, 0)), lambda n: Call(3, dtype=np.int64), lambda n: Call(()))
alike = drawn(
    lambda n: Call(Fixed(n(2, 3))), lambda n: Call(integers(1, 2)), lambda n: Call(Fixed(n()), dtype=np.float32)
)
renewed = drawn(lambda n: Call(Fixed(n(2)), (2, 3)), lambda n: Call(integers(1), 2), lambda n: Call(Fixed(n(2)), 0))
triangle = drawn(lambda n: Call(3, 4), lambda n: Call(4, 2, -1), lambda n: Call(2, 2, offset=1), lambda n: Call(0, 2))
data = drawn(
    lambda n: Call([[1.0, 2.0], [3.0, 4.0]]), lambda n: Call(2, dtype=np.float64), lambda n: Call([True, False])
)

CASES = [
    Case("tensor", data, order=0),
    Case("as_tensor", data, order=0),
    Case("asarray", data, order=0),
    Case("from_numpy", lambda rng: (), order=0),
    Case("zeros", sizes, order=0),
    Case("ones", sizes, order=0),
    Case("empty", drawn(lambda n: Call(0, 3), lambda n: Call((2, 0))), order=0),
    Case("full", drawn(lambda n: Call((2, 3), 1.5), lambda n: Call((2,), 3), lambda n: Call((), True)), order=0),
    Case("eye", drawn(lambda n: Call(3), lambda n: Call(2, 3, dtype=np.int64), lambda n: Call(0)), order=0),
    Case("zeros_like", alike, order=0),
    Case("ones_like", alike, order=0),
    Case("empty_like", drawn(lambda n: Call(Fixed(n(0, 3)))), order=0),
    Case("full_like", drawn(lambda n: Call(Fixed(n(2, 3)), 1.5), lambda n: Call(integers(1), 2)), order=0),
    Case("Tensor.new_zeros", renewed, order=0),
    Case("Tensor.new_ones", renewed, order=0),
    Case("Tensor.new_empty", drawn(lambda n: Call(Fixed(n(2)), (0, 3))), order=0),
    Case("Tensor.new_full", drawn(lambda n: Call(Fixed(n(2)), (2, 3), 1.5)), order=0),
    Case("Tensor.new_tensor", drawn(lambda n: Call(Fixed(n(2)), [1, 2], dtype=np.float64)), order=0),
    Case(
        "arange",
        drawn(
            lambda n: Call(5),
            lambda n: Call(1, 2, 0.25),
            lambda n: Call(5, 0, -2),
            lambda n: Call(0, 1, 0.1, dtype=np.float64),
            lambda n: Call(3, 3),
        ),
        order=0,
    ),
    Case(
        "linspace",
        drawn(lambda n: Call(0, 1, 5, dtype=np.float64), lambda n: Call(-1.0, 2.0, 1), lambda n: Call(0, 1, 0)),
        order=0,
    ),
    Case("logspace", drawn(lambda n: Call(0, 2, 3, dtype=np.float64), lambda n: Call(0, 3, 4, 2.0)), order=0),
    Case("is_tensor", drawn(lambda n: Call(Fixed(n(2))), lambda n: Call(1.5)), order=0),
    Case("tril_indices", triangle, order=0),
    Case("triu_indices", triangle, order=0),
]
