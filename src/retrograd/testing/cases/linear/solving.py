"""Example calls of the operators in ``ops/linear/solving/``, by module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...case import Call, Calls, Case, together

CASES: list[Case] = []


# inverses: Cases of inverses, determinants, powers and exponentials.

Function = Callable[..., Any]


def of_normal(*groups: tuple[tuple[int, ...], ...], **options: object) -> Calls:
    """Return a call for each group of shapes, with normal arrays; square matrices are far from singular."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for shapes in groups:
            arrays = []
            for shape in shapes:
                x = rng.standard_normal(shape)
                if len(shape) >= 2 and shape[-1] == shape[-2]:
                    x = x + 3 * np.eye(shape[-1])
                arrays.append(x)
            yield Call(*arrays, **options)

    return calls


def of_complex(*shapes: tuple[int, ...]) -> Calls:
    """Return a call for each shape, with a complex matrix that is far from singular."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for shape in shapes:
            yield Call(rng.standard_normal(shape) + 1j * rng.standard_normal(shape) + 3 * np.eye(shape[-2], shape[-1]))

    return calls


COMPLEX = of_complex((4, 2), (2, 3, 3), (2, 4))


def of_positive(function: Function) -> Function:
    """Turn a function of positive-definite matrices into a function of any matrix."""
    return lambda x, *args, **kwargs: function(x @ x.mH, *args, **kwargs)


def names(*both: str, calls: Calls, order: int = 2, **options: Any) -> list[Case]:
    """The same case for several names."""
    return [Case(name, calls, order=order, dtypes=(), **options) for name in both]


TALL = (((4, 2),), ((2, 3, 2),), ((3, 3),))
WIDE = (((2, 4),),)
SQUARE = (((3, 3),), ((2, 2, 2),), ((1, 1),))
POWERS = together(*(of_normal(((3, 3),), ((2, 2, 2),), n=n) for n in (0, 1, 2, 5, -2)))

CASES += [
    *names("linalg.inv", "inverse", calls=of_normal(*SQUARE)),
    *names("linalg.det", "det", calls=together(of_normal(*SQUARE), of_complex((3, 3), (2, 2, 2)))),
    *names("linalg.slogdet", "slogdet", calls=together(of_normal(*SQUARE), of_complex((3, 3), (2, 2, 2)))),
    *names("logdet", calls=together(of_normal(*SQUARE), of_complex((3, 3))), wrap=of_positive),
    *names("linalg.matrix_power", calls=POWERS),
    *names("matrix_power", calls=POWERS),
    *names("matrix_exp", "linalg.matrix_exp", calls=of_normal(*SQUARE)),
]


# least_squares: Cases of pseudo-inverses and least squares.


def least_squares(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.standard_normal((4, 2)), rng.standard_normal((4, 3)))
    yield Call(rng.standard_normal((2, 4, 2)), rng.standard_normal((2, 4, 1)))
    yield Call(rng.standard_normal((4, 2)) + 1j * rng.standard_normal((4, 2)), rng.standard_normal((4, 1)) + 0.5j)


def solution_only(function: Function) -> Function:
    return lambda *args, **kwargs: function(*args, **kwargs)[0]


CASES += [
    *names("linalg.pinv", calls=together(of_normal(*TALL, *WIDE), COMPLEX)),
    *names("pinverse", calls=of_normal(*TALL, *WIDE)),
    *names("linalg.lstsq", calls=least_squares, wrap=solution_only),
]


# matrix_norms: Cases of norms of matrices.


def with_orders(*orders: object) -> Calls:
    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for order in orders:
            yield Call(rng.standard_normal((2, 3, 4)), order)
        yield Call(rng.standard_normal((2, 3, 4)), orders[0], (0, 2), True)

    return calls


def norms(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.standard_normal((3, 4)))
    yield Call(rng.standard_normal((2, 3, 4)), None, 1)
    yield Call(rng.standard_normal((2, 3, 4)), 3, 1, keepdim=True)
    yield Call(rng.standard_normal(4), 1)
    yield Call(rng.standard_normal((3, 4)), 2)
    yield Call(rng.standard_normal((3, 4)), "nuc", (0, 1))
    yield Call(rng.standard_normal((2, 3, 4)), float("inf"), (1, 2), keepdim=True)


def conditions(rng: np.random.Generator) -> Iterator[Call]:
    for p in (None, 2, -2, "fro", 1, float("inf"), "nuc"):
        yield Call(rng.standard_normal((3, 3)) + 3 * np.eye(3), p)


CASES += [
    *names("linalg.matrix_norm", calls=with_orders("fro", "nuc", 1, -1, float("inf"), -float("inf"), 2, -2)),
    *names("linalg.norm", calls=norms),
    *names("linalg.cond", calls=conditions, reference=np.linalg.cond, torch=""),
]


# systems: Cases of systems of linear equations.

CASES += [
    *names(
        "linalg.solve",
        calls=together(
            of_normal(((3, 3), (3, 2)), ((2, 3, 3), (2, 3)), ((3, 3), (3,)), ((2, 3, 3), (3, 1))),
            of_normal(((3, 3), (2, 3)), left=False),
        ),
    ),
    *names(
        "linalg.solve_triangular",
        calls=together(
            of_normal(((3, 3), (3, 2)), ((2, 3, 3), (3, 1)), upper=True),
            of_normal(((3, 3), (2, 3)), upper=False, left=False),
            of_normal(((3, 3), (3, 2)), upper=False, unitriangular=True),
        ),
    ),
    *names(
        "triangular_solve",
        calls=together(of_normal(((3, 2), (3, 3))), of_normal(((3, 2), (3, 3)), upper=False, transpose=True)),
    ),
    *names("linalg.tensorsolve", calls=of_normal(((2, 3, 6), (2, 3)))),
    *names("linalg.tensorinv", calls=of_normal(((4, 2, 2),), ind=1)),
]
