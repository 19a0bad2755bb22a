"""Cases of factors in LAPACK's forms, of decompositions that report failure, and of eigenvalues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ....case import Call, Case, Fixed, together
from ..solving.inverses import SQUARE, of_complex, of_normal, of_positive
from .factorizations import TALL, WIDE

Function = Callable[..., Any]


def reflections(rng: np.random.Generator) -> Iterator[Call]:
    for shape, count in (((4, 2), 2), ((2, 3, 3), 3), ((3, 3), 2)):
        yield Call(rng.standard_normal(shape), rng.standard_normal((*shape[:-2], count)))
    z = rng.standard_normal((3, 3, 2)) @ np.array([1, 1j])
    yield Call(z[:, :2], z[0, :2])


def multiplied(rng: np.random.Generator) -> Iterator[Call]:
    a, tau = rng.standard_normal((4, 2)), rng.standard_normal(2)
    yield Call(a, tau, rng.standard_normal((4, 3)))
    yield Call(a, tau, rng.standard_normal((4, 3)), transpose=True)
    yield Call(a, tau, rng.standard_normal((3, 4)), left=False)
    yield Call(rng.standard_normal((2, 3, 3)), rng.standard_normal((2, 3)), rng.standard_normal((2, 2, 3)), False, True)


def packed(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.standard_normal((3, 3)), np.array([2, 3, 3], np.int32))
    yield Call(rng.standard_normal((4, 2)), np.array([3, 4], np.int32), unpack_pivots=False)
    yield Call(rng.standard_normal((2, 2, 3)), np.array([[1, 2], [2, 2]], np.int32))


def without_phases(function: Function) -> Function:
    """Eigenvalues, and what of the eigenvectors does not depend on their phases."""

    def determined(*args: Any, **kwargs: Any) -> Any:
        w, v = function(*args, **kwargs)
        return w, (v * v.conj()).real

    return determined


def ranked(rng: np.random.Generator) -> Iterator[Call]:
    x = rng.standard_normal((3, 2)) @ rng.standard_normal((2, 4))
    yield Call(Fixed(x))
    yield Call(Fixed(np.stack([np.eye(3), np.diag([1.0, 1e-3, 0.0])])))
    yield Call(Fixed(np.diag([1.0, 0.1, 0.01])), tol=0.05)
    yield Call(Fixed(np.diag([1.0, 0.1, 0.01])), rtol=0.5)
    yield Call(Fixed(np.diag([1.0, -0.1, 0.0])), hermitian=True)
    yield Call(Fixed(np.diag([1.0, 0.1, 0.01])), atol=0.05, rtol=0.5)


def chains(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.standard_normal((2, 3)), rng.standard_normal((3, 4)), rng.standard_normal((4, 1)))
    yield Call(rng.standard_normal((2, 3)), rng.standard_normal((3, 2)))


solved = together(
    of_normal(((3, 3), (3, 2)), ((2, 3, 3), (2, 3)), ((3, 3), (3,))), of_normal(((3, 3), (2, 3)), left=False)
)

CASES = [
    Case("linalg.householder_product", reflections, dtypes=()),
    Case("orgqr", reflections, dtypes=()),
    Case("ormqr", multiplied, dtypes=()),
    Case(
        "geqrf",
        together(of_normal(*TALL, *WIDE), of_complex((3, 3))),
        order=0,
        dtypes=(),
        wrap=lambda f: lambda x: f(x.detach()),
    ),
    Case("lu_unpack", packed, dtypes=()),
    Case("linalg.inv_ex", of_normal(*SQUARE), dtypes=()),
    Case("linalg.solve_ex", solved, dtypes=()),
    Case(
        "linalg.cholesky_ex",
        together(of_normal(*SQUARE), of_normal(((3, 3),), upper=True)),
        dtypes=(),
        wrap=of_positive,
    ),
    Case("linalg.lu_factor_ex", of_normal(*TALL, *WIDE), dtypes=()),
    Case(
        "linalg.eig",
        together(of_normal(*SQUARE), of_complex((3, 3), (2, 2, 2))),
        dtypes=(),
        wrap=without_phases,
        tolerance=1e-5,
    ),
    Case("linalg.eigvals", together(of_normal(*SQUARE), of_complex((3, 3))), dtypes=(), tolerance=1e-5),
    Case("linalg.matrix_rank", ranked, order=0, dtypes=()),
    Case("adjoint", together(of_normal(((2, 3),), ((2, 3, 4),)), of_complex((2, 2))), dtypes=("float32",)),
    Case("chain_matmul", chains, dtypes=()),
]
