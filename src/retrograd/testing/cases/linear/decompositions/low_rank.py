"""Cases of decompositions of low rank: what they restore of matrices whose rank they reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ....case import Call, Case, Fixed
from ..solving.inverses import Function


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


def lobpcg_calls(rng: np.random.Generator) -> Iterator[Call]:
    a = rng.standard_normal((12, 12))
    b = rng.standard_normal((12, 12))
    for options in ({}, {"largest": False}, {"B": Fixed(b @ b.T + 12 * np.eye(12))}):
        yield Call(a + a.T + np.diag(np.arange(12.0)), 2, **options)


def absolute_vectors(function: Any) -> Any:
    """The eigenvalues, and the magnitudes of the vectors, of the symmetric part."""

    def symmetric(a: Any, k: int, **options: Any) -> Any:
        values, vectors = function((a + a.mT) / 2, k, **options)
        return values, vectors.abs()

    return symmetric


CASES.append(Case("lobpcg", lobpcg_calls, torch="", wrap=absolute_vectors, dtypes=("float32",)))
