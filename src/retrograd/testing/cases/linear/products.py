"""Example calls of the operators in ``ops/linear/products/``, by module."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ...case import Call, Case, together
from .solving import names, of_normal

CASES: list[Case] = []


# matmul: Cases of the products of matrices and vectors.


def products(
    *shapes: tuple[tuple[int, ...], ...], **options: object
) -> Callable[[np.random.Generator], Iterator[Call]]:
    """Return a call for each entry, with standard normal arrays of the entry's shapes."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for group in shapes:
            yield Call(*(rng.standard_normal(shape) for shape in group), **options)

    return calls


def scaled(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], Iterator[Call]]:
    """Return calls of ``beta * input + alpha * product`` with different options."""

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

CASES += [
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


# affine: Cases of affine maps.

CASES += [
    Case(
        "nn.functional.linear",
        products(
            ((2, 3), (4, 3), (4,)), ((3,), (2, 3)), ((2, 2, 3), (4, 3), (4,)), ((2, 3), (3,)), ((0, 3), (2, 3), (2,))
        ),
    ),
    Case(
        "nn.functional.bilinear",
        products(((4, 2), (4, 3), (2, 2, 3), (2,)), ((2,), (3,), (2, 2, 3)), ((2, 2, 2), (2, 2, 3), (1, 2, 3), (1,))),
    ),
]


# einsum: Cases of Einstein summation.


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


CASES += [Case("einsum", einsum_calls, np.einsum)]


# vector_products: Cases of products of vectors and of chains of matrices.


def chains(rng: np.random.Generator) -> Iterator[Call]:
    yield Call([rng.standard_normal(shape) for shape in ((2, 3), (3, 4), (4, 2))])
    yield Call([rng.standard_normal(shape) for shape in ((3,), (3, 4), (4, 2), (2,))])
    yield Call([rng.standard_normal(shape) for shape in ((5, 1), (1, 5))])


CASES += [
    *names("linalg.multi_dot", calls=chains),
    *names("linalg.diagonal", calls=together(of_normal(((3, 4),), ((2, 3, 3),)), of_normal(((3, 4),), offset=1))),
    *names("trace", calls=of_normal(((3, 3),), ((2, 3),))),
    *names("kron", calls=of_normal(((2, 3), (2, 2)), ((3,), (2,)), ((2,), (2, 2)), ((), (2,)))),
    *names(
        "linalg.vecdot", calls=together(of_normal(((2, 3), (2, 3)), ((2, 3), (3,))), of_normal(((3, 2), (3, 2)), dim=0))
    ),
    *names(
        "linalg.cross",
        calls=together(of_normal(((2, 3), (2, 3)), ((1, 3), (2, 3))), of_normal(((3, 2), (3, 2)), dim=0)),
    ),
    *names("cross", calls=of_normal(((3, 2), (3, 2)), ((2, 3), (2, 3)))),
    *names("linalg.vander", calls=together(of_normal(((3,),), ((2, 2),)), of_normal(((3,),), N=4))),
]
