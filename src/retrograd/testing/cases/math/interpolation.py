"""Cases of interpolation, and of sums with products and quotients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...case import Call, Calls, Case, together
from .arithmetic import Draw, normal, positive, unit


def three(draw: Draw, draw_last: Draw, **kwargs: Any) -> Calls:
    """Three inputs that broadcast."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for a, b, c in (((2, 3), (2, 3), (2, 3)), ((3,), (2, 1), ()), ((), (2,), (1,)), ((0, 2), (2,), (2,))):
            yield Call(draw(rng, a), draw(rng, b), draw_last(rng, c), **kwargs)

    return calls


def lerp_calls(rng: np.random.Generator) -> Iterator[Call]:
    for weight in (unit(rng, (2, 3)), np.array([0.2]), 0.2, 0.7, 1.5, np.array(0.7)):
        yield Call(normal(rng, (2, 3)), normal(rng, (3,)), weight)


CASES = [
    Case("addcmul", together(three(normal, normal), three(normal, normal, value=2.5))),
    Case("addcdiv", together(three(normal, positive), three(normal, positive, value=2.5))),
    Case("lerp", lerp_calls),
]
