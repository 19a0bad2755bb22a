"""Cases of the histograms."""

from __future__ import annotations

from ...case import Call, Case, Fixed
from ..math.arithmetic import normal
from .reductions import calls_of

CASES = [
    Case(
        "histc",
        calls_of(
            lambda rng: Call(Fixed(normal(rng, (4, 5))), 7),
            lambda rng: Call(Fixed(normal(rng, (20,))), bins=4, min=-1, max=1),
        ),
        order=0,
    ),
    Case(
        "bincount",
        calls_of(
            lambda rng: Call(rng.integers(0, 5, 9)),
            lambda rng: Call(rng.integers(0, 5, 9), Fixed(normal(rng, (9,))), 8),
        ),
        order=0,
    ),
]
