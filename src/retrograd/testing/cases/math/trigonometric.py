"""Cases of trigonometric and hyperbolic functions."""

from __future__ import annotations

import numpy as np

from ...case import Case, together
from .arithmetic import (
    INF,
    apart,
    at,
    at_pairs,
    away_from_zero,
    binary_calls,
    complex_normal,
    normal,
    unary_calls,
    uniform,
)

inside = uniform(-0.8, 0.8)

CASES = [
    Case("sin", unary_calls(also=complex_normal), np.sin, edge_calls=at(INF, 0.0)),
    Case("cos", unary_calls(also=complex_normal), np.cos, edge_calls=at(INF, 0.0)),
    Case("tan", unary_calls(uniform(-1.2, 1.2), also=complex_normal), np.tan),
    Case("asin", unary_calls(inside), np.arcsin, edge_calls=at(-1.0, 1.0, 2.0)),
    Case("acos", unary_calls(inside), np.arccos, edge_calls=at(-1.0, 1.0, 2.0)),
    Case("atan", unary_calls(), np.arctan, edge_calls=at(INF, -INF)),
    Case("sinh", unary_calls(also=complex_normal), np.sinh),
    Case("cosh", unary_calls(also=complex_normal), np.cosh),
    Case("tanh", unary_calls(also=complex_normal), np.tanh, edge_calls=at(INF, -1000.0)),
    Case("asinh", unary_calls(), np.arcsinh),
    Case("acosh", unary_calls(uniform(1.3, 3.0)), np.arccosh, edge_calls=at(1.0, 0.5)),
    Case("atanh", unary_calls(inside), np.arctanh, edge_calls=at(-1.0, 1.0, 2.0)),
    Case(
        "atan2",
        binary_calls(away_from_zero, number=False),
        np.arctan2,
        edge_calls=at_pairs((0.0, 0.0), (0.0, -1.0), (1.0, 0.0), (-0.0, -1.0)),
    ),
    Case("deg2rad", unary_calls(apart(scale=90.0)), np.deg2rad),
    Case("rad2deg", unary_calls(), np.rad2deg),
    Case(
        "sinc",
        together(unary_calls(normal, also=uniform(-0.05, 0.05)), unary_calls(also=complex_normal)),
        np.sinc,
        edge_calls=at(0.0),
    ),
    Case("special.sinc", unary_calls(normal), np.sinc),
    Case("nn.functional.tanh", unary_calls(), np.tanh),
]
