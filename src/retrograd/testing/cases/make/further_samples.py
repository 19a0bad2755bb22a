"""Cases of further random numbers."""

from __future__ import annotations

import numpy as np

from ...case import Call, Case, Fixed
from ..shape.shape import normals

CASES = [
    Case("poisson", normals(lambda n: Call(np.array([0.5, 1.0, 3.0])), lambda n: Call(n(2, 3) ** 2 + 1)), random=True),
    Case("Tensor.log_normal_", normals(lambda n: Call(Fixed(n(2, 3)), 0.5, 0.25)), order=0, random=True),
    Case("Tensor.cauchy_", normals(lambda n: Call(Fixed(n(2, 3)), 1.0, 2.0)), order=0, random=True),
    Case("Tensor.geometric_", normals(lambda n: Call(Fixed(n(2, 3)), 0.3)), order=0, random=True),
]
