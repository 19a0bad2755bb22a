"""Cases of Einstein summation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....case import Call, Case


def einsum_calls(rng: np.random.Generator) -> Iterator[Call]:
    for equation, *shapes in (
        ("ij,jk->ik", (2, 3), (3, 4)),
        ("ij,jk", (2, 3), (3, 4)),
        ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
        ("bhqd,bhkd->bhqk", (2, 2, 3, 2), (2, 2, 2, 2)),
        ("i,j->ij", (3,), (2,)),
        ("ij->ji", (2, 3)),
        ("ij", (2, 3)),
        ("ji", (2, 3)),
        ("...ij->...ji", (2, 2, 3)),
        ("...i->i...", (2, 2, 3)),
        ("iji->ji", (2, 3, 2)),
        ("iij->i", (2, 2, 3)),
        ("", ()),
        ("ij->", (2, 3)),
        ("ii->i", (3, 3)),
        ("ii", (3, 3)),
        ("iij->j", (2, 2, 3)),
        ("...ij,...jk->...ik", (2, 1, 2, 3), (4, 3, 2)),
        ("ij,ij->i", (2, 3), (2, 3)),
        ("ij,kj,kl->il", (2, 3), (4, 3), (4, 2)),
        ("ijk,jk->i", (2, 3, 2), (3, 1)),
        ("i,i->", (3,), (3,)),
        ("ij,k->i", (2, 3), (2,)),
    ):
        yield Call(equation, *(rng.standard_normal(shape) for shape in shapes))
    yield Call(rng.standard_normal((2, 3)), [0, 1], rng.standard_normal((3, 4)), [1, 2], [2, 0])
    yield Call(rng.standard_normal((2, 3)), [0, 27], rng.standard_normal((3, 4)), [27, 2])
    yield Call(rng.standard_normal((2, 3, 3)), [..., 1, 1], [..., 1])
    yield Call(rng.standard_normal((2, 3)), [0, 1], [1, 0])


CASES = [
    Case("einsum", einsum_calls, np.einsum),
]
