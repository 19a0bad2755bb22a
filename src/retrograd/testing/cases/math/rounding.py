"""Cases of rounding."""

from __future__ import annotations

import numpy as np

from ...case import Case, together
from .arithmetic import INF, NAN, at, quotient_draw, unary_calls, uniform

CASES = [
    Case("ceil", unary_calls(quotient_draw), np.ceil, edge_calls=at(1.0, -0.5, INF, NAN)),
    Case("floor", unary_calls(quotient_draw), np.floor, edge_calls=at(1.0, -0.5, INF, NAN)),
    Case("trunc", unary_calls(quotient_draw), np.trunc, edge_calls=at(1.0, -0.5, INF, NAN)),
    Case(
        "round",
        together(unary_calls(uniform(0.1, 0.4)), unary_calls(uniform(0.31, 0.34), decimals=1)),
        edge_calls=together(at(0.5, 1.5, -2.5, INF), at(1.25, 27.0, decimals=-1), at(0.125, 2.345, decimals=2)),
    ),
    Case("special.round", unary_calls(uniform(0.31, 0.34), decimals=1)),
    Case("frac", unary_calls(quotient_draw), lambda x: x - np.trunc(x)),
]
