"""Cases of sampling."""

from __future__ import annotations

import numpy as np

from ...case import Call, Case, Fixed
from ..shape.shape import normals

probabilities = normals(
    lambda n: Call(Fixed(np.array([[0.0, 1.0, 0.3], [0.5, 0.1, 0.0]])), 2),
    lambda n: Call(Fixed(np.array([0.2, 0.5])), 7, replacement=True),
)

CASES = [
    Case("bernoulli", normals(lambda n: Call(np.array([0.2, 0.9, 0.5])), lambda n: Call(n(3), 0.5)), random=True),
    Case("multinomial", probabilities, order=0, random=True),
    Case("Tensor.uniform_", normals(lambda n: Call(Fixed(n(2, 3)), -1, 1)), order=0, random=True),
    Case("Tensor.normal_", normals(lambda n: Call(Fixed(n(2, 3)), 1, 0.5)), order=0, random=True),
    Case("Tensor.exponential_", normals(lambda n: Call(Fixed(n(2, 3)), 2)), order=0, random=True),
    Case("Tensor.bernoulli_", normals(lambda n: Call(Fixed(n(2, 3)), 0.5)), order=0, random=True),
    Case(
        "Tensor.random_", normals(lambda n: Call(Fixed(n(2, 3))), lambda n: Call(Fixed(n(2)), 5)), order=0, random=True
    ),
]
