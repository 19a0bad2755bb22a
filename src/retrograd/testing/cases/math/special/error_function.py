"""Cases of the error function and the normal distribution."""

from __future__ import annotations

from ....case import Case
from ..arithmetic import INF, NAN, apart, at, unary_calls, uniform, unit

wide = apart(scale=2.0)
TAILS = at(0.0, -0.0, 3.0, -5.0, 10.0, -10.0, 26.0, INF, -INF, NAN)

CASES = [
    Case("erf", unary_calls(wide), edge_calls=TAILS),
    Case("erfc", unary_calls(wide), edge_calls=at(0.0, 3.0, -5.0, 5.0, INF, -INF, NAN)),
    Case("erfinv", unary_calls(uniform(-0.8, 0.8)), edge_calls=at(0.0, 0.5, -0.99)),
    Case("special.erf", unary_calls(wide)),
    Case("special.erfc", unary_calls(wide)),
    Case("special.erfinv", unary_calls(uniform(-0.8, 0.8))),
    Case("special.erfcx", unary_calls(apart(scale=1.0)), edge_calls=at(0.0, -3.0, 5.0, 1e8, NAN)),
    Case("special.ndtr", unary_calls(wide), edge_calls=at(0.0, 3.0, -5.0, INF)),
    Case("special.log_ndtr", unary_calls(wide), edge_calls=at(0.0, 3.0, -5.0, -30.0)),
    Case("special.ndtri", unary_calls(unit), edge_calls=at(0.5, 0.01)),
]
