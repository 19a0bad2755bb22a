"""Cases of slices reduced into positions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case
from ..shape.shape import integers


def calls(rng: np.random.Generator) -> Iterator[Call]:
    for reduce in ("prod", "mean", "amax", "amin"):
        for include_self in (True, False):
            x, src = (np.array(rng.permutation(7)[:6] + rng.random(6) / 2).reshape(2, 3) - 2.3 for _ in range(2))
            yield Call(x, 1, integers(0, 2, 0), src, reduce, include_self=include_self)
            yield Call(x, -2, integers(1), src[:1], reduce, include_self=include_self)
            yield Call(rng.random(3), 0, integers(), rng.random(0), reduce, include_self=include_self)


CASES = [Case("index_reduce", calls, dtypes=("float32",))]
