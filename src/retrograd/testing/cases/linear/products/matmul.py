"""Cases of the products of matrices and vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ....case import Call, Case


def products(*shapes: tuple[tuple[int, ...], ...], **options: Any) -> Callable[[np.random.Generator], Iterator[Call]]:
    """A call per entry, of standard normal arrays of its shapes."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for group in shapes:
            yield Call(*(rng.standard_normal(shape) for shape in group), **options)

    return calls


def scaled(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], Iterator[Call]]:
    """The forms of beta * input + alpha * product."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for options in ({}, {"beta": 0.5, "alpha": 2.0}, {"alpha": -1}):
            yield Call(*(rng.standard_normal(shape) for shape in shapes), **options)

    return calls


def tensordot_calls(rng: np.random.Generator) -> Iterator[Call]:
    draw = rng.standard_normal
    yield Call(draw((2, 3, 4)), draw((3, 4, 2)))
    yield Call(draw((2, 3)), draw((3, 2)), 1)
    yield Call(draw((2,)), draw((3,)), dims=0)
    yield Call(draw((2, 3, 4)), draw((4, 2, 3)), dims=([1, 2], [2, 0]))


MATMUL_SHAPES = (
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 2, 3), (3, 2)),
    ((2, 3), (4, 3, 2)),
    ((2, 1, 2, 3), (3, 3, 2)),
    ((4, 2, 3), (3,)),
    ((3,), (4, 3, 2)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
)

CASES = [
    Case("matmul", products(*MATMUL_SHAPES), np.matmul),
    Case("linalg.matmul", products(*MATMUL_SHAPES), np.matmul),
    Case("mm", products(((2, 3), (3, 4)), ((0, 3), (3, 2))), np.matmul),
    Case("bmm", products(((2, 2, 3), (2, 3, 4))), np.matmul),
    Case("mv", products(((2, 3), (3,))), np.matmul),
    Case("dot", products(((3,), (3,)), ((0,), (0,))), np.dot),
    Case("vdot", products(((3,), (3,))), np.vdot),
    Case("outer", products(((3,), (2,))), np.outer),
    Case("inner", products(((2, 3), (4, 3)), ((3,), (3,)), ((), (2,))), np.inner),
    Case("tensordot", tensordot_calls),
    Case("addmm", scaled((2, 4), (2, 3), (3, 4))),
    Case("addmv", scaled((2,), (2, 3), (3,))),
    Case("addr", scaled((2, 3), (2,), (3,))),
    Case("baddbmm", scaled((2, 2, 2), (2, 2, 3), (2, 3, 2))),
    Case("addbmm", scaled((2, 2), (3, 2, 3), (3, 3, 2))),
]
