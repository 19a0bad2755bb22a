"""Cases of decompositions of low rank: what they restore of matrices whose rank they reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...case import Call, Case
from .inverses import Function


def thin(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.standard_normal((5, 2)), 2)
    yield Call(rng.standard_normal((2, 2, 4)), 2)


def restored(function: Function) -> Function:
    """The product of what is found, which must be the matrix again, whose rank is reached."""

    def applied(x: Any, q: int) -> Any:
        u, s, v = function(x, q)
        return (u * s[..., None, :]) @ v.mT

    return applied


CASES = [
    Case("svd_lowrank", thin, wrap=restored, dtypes=(), tolerance=1e-5, random=True),
    Case("pca_lowrank", thin, wrap=restored, dtypes=(), tolerance=1e-5, random=True),
]
