"""Cases of complex numbers."""

from __future__ import annotations

import numpy as np

from ...case import Case
from .arithmetic import at, away_from_zero, complex_normal, normal, unary_calls

narrow = ("float32",)


def pairs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal((*shape, 2))


CASES = [
    Case("real", unary_calls(complex_normal, empty=False, also=normal), np.real, dtypes=narrow),
    Case("imag", unary_calls(complex_normal, empty=False), np.imag, dtypes=narrow),
    Case("conj", unary_calls(complex_normal, empty=False, also=normal), np.conj, dtypes=narrow),
    Case("conj_physical", unary_calls(complex_normal, empty=False, also=normal), np.conj, dtypes=narrow),
    Case(
        "angle",
        unary_calls(complex_normal, also=away_from_zero),
        np.angle,
        dtypes=narrow,
        edge_calls=at(0.0, -0.0, 1.0),
    ),
    Case("view_as_real", unary_calls(complex_normal, empty=False), dtypes=narrow),
    Case("view_as_complex", unary_calls(pairs, empty=False), dtypes=narrow),
]
