"""Cases of Tensors from data."""

from __future__ import annotations

import numpy as np

from ...case import Call, Case, Fixed
from ..shape.shape import normals

data = normals(
    lambda n: Call([[1.0, 2.0], [3.0, 4.0]]), lambda n: Call(2, dtype=np.float64), lambda n: Call([True, False])
)

CASES = [
    Case("tensor", data, order=0),
    Case("as_tensor", data, order=0),
    Case("asarray", data, order=0),
    Case("from_numpy", lambda rng: (), order=0),
    Case("Tensor.new_tensor", normals(lambda n: Call(Fixed(n(2)), [1, 2], dtype=np.float64)), order=0),
    Case("is_tensor", normals(lambda n: Call(Fixed(n(2))), lambda n: Call(1.5)), order=0),
]
