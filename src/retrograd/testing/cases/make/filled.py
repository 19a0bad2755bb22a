"""Cases of Tensors filled with a number."""

from __future__ import annotations

import numpy as np

from ...case import Call, Case, Fixed
from ..shape.shape import integers, normals

sizes = normals(lambda n: Call(2, 3), lambda n: Call((2, 0)), lambda n: Call(3, dtype=np.int64), lambda n: Call(()))
alike = normals(
    lambda n: Call(Fixed(n(2, 3))), lambda n: Call(integers(1, 2)), lambda n: Call(Fixed(n()), dtype=np.float32)
)
renewed = normals(lambda n: Call(Fixed(n(2)), (2, 3)), lambda n: Call(integers(1), 2), lambda n: Call(Fixed(n(2)), 0))

CASES = [
    Case("zeros", sizes, order=0),
    Case("ones", sizes, order=0),
    Case("empty", normals(lambda n: Call(0, 3), lambda n: Call((2, 0))), order=0),
    Case("full", normals(lambda n: Call((2, 3), 1.5), lambda n: Call((2,), 3), lambda n: Call((), True)), order=0),
    Case("eye", normals(lambda n: Call(3), lambda n: Call(2, 3, dtype=np.int64), lambda n: Call(0)), order=0),
    Case("zeros_like", alike, order=0),
    Case("ones_like", alike, order=0),
    Case("empty_like", normals(lambda n: Call(Fixed(n(0, 3)))), order=0),
    Case("full_like", normals(lambda n: Call(Fixed(n(2, 3)), 1.5), lambda n: Call(integers(1), 2)), order=0),
    Case("Tensor.new_zeros", renewed, order=0),
    Case("Tensor.new_ones", renewed, order=0),
    Case("Tensor.new_empty", normals(lambda n: Call(Fixed(n(2)), (0, 3))), order=0),
    Case("Tensor.new_full", normals(lambda n: Call(Fixed(n(2)), (2, 3), 1.5)), order=0),
]
