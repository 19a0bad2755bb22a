"""Cases of complex numbers made of their parts."""

from __future__ import annotations

import numpy as np

from ...case import Case
from .arithmetic import binary_calls, normal, positive

CASES = [
    Case("complex", binary_calls(normal, number=False), lambda x, y: x + 1j * y, dtypes=("float32",)),
    Case(
        "polar",
        binary_calls(positive, normal, number=False),
        lambda r, phi: r * np.exp(1j * phi),
        dtypes=("float32",),
    ),
]
