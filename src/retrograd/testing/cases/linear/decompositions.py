"""Example calls of the operators in ``ops/linear/decompositions/``, by module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....ops.linear.decompositions.ldl import ldl_factor
from ...case import Call, Case, Fixed, together
from .solving import COMPLEX, SQUARE, TALL, WIDE, Function, names, of_complex, of_normal, of_positive

CASES: list[Case] = []


# factorizations: Cases of Cholesky and QR factorizations.


def without_signs(function: Function) -> Function:
    """Square the results, because the signs of their columns are not determined."""

    def signless(*args: object, **kwargs: object) -> Any:
        return [result * result for result in function(*args, **kwargs)]

    return signless


def triangle(x: Any, upper: bool) -> Any:
    return x.triu() if upper else x.tril()


def without_phases(function: Function) -> Function:
    """Return the squared magnitudes of the results, because the phases of their columns are not determined."""

    def phaseless(*args: object, **kwargs: object) -> Any:
        return [(result * result.conj()).real for result in function(*args, **kwargs)]

    return phaseless


CASES += [
    *names(
        "linalg.cholesky",
        calls=together(of_normal(*SQUARE), of_normal(((3, 3),), upper=True), of_complex((2, 3, 3))),
        wrap=of_positive,
    ),
    *names("cholesky", calls=of_normal(*SQUARE), wrap=of_positive),
    *names(
        "cholesky_solve",
        calls=together(of_normal(((3, 2), (3, 3))), of_normal(((3, 2), (3, 3)), upper=True)),
        wrap=lambda f: lambda b, factor, upper=False: f(b, triangle(factor, upper), upper),
    ),
    *names(
        "cholesky_inverse",
        calls=together(of_normal(((3, 3),)), of_normal(((3, 3),), upper=True)),
        wrap=lambda f: lambda factor, upper=False: f(triangle(factor, upper), upper),
    ),
    *names("linalg.qr", calls=together(of_normal(*TALL, *WIDE), COMPLEX), wrap=without_signs),
    *names("qr", calls=of_normal(*TALL), wrap=without_signs),
]


# factors: Cases of factors in LAPACK's forms, of decompositions that report failure, and of eigenvalues.


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


def without_phases_of_factors(function: Function) -> Function:
    """Return the eigenvalues, and functions of the eigenvectors that do not depend on their phases."""

    def determined(*args: object, **kwargs: object) -> Any:
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

CASES += [
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
        wrap=without_phases_of_factors,
        tolerance=1e-5,
    ),
    Case("linalg.eigvals", together(of_normal(*SQUARE), of_complex((3, 3))), dtypes=(), tolerance=1e-5),
    Case("linalg.matrix_rank", ranked, order=0, dtypes=()),
    Case("adjoint", together(of_normal(((2, 3),), ((2, 3, 4),)), of_complex((2, 2))), dtypes=("float32",)),
    Case("chain_matmul", chains, dtypes=()),
]


# ldl: Cases of LDL decompositions and of solutions with them.


def symmetric(rng: np.random.Generator, shape: tuple[int, ...], small: float = 1.0) -> Array:
    a = rng.standard_normal(shape)
    a = a + np.swapaxes(a, -1, -2)
    a[..., np.arange(shape[-1]), np.arange(shape[-1])] *= small
    return a


def calls(rng: np.random.Generator) -> Iterator[Call]:
    for shape in ((1, 1), (4, 4), (2, 5, 5)):
        for small in (3.0, 0.01):
            yield Call(symmetric(rng, shape, small))


def solve_calls(rng: np.random.Generator) -> Iterator[Call]:
    for shape in ((3, 3), (2, 4, 4)):
        for small in (3.0, 0.01):
            factors = ldl_factor(symmetric(rng, shape, small))
            yield Call(Fixed(factors.LD.array), factors.pivots.array, rng.standard_normal((*shape[:-1], 2)))


CASES += [
    Case("linalg.ldl_factor", calls, order=0, torch="", dtypes=("float32",)),
    Case("linalg.ldl_factor_ex", calls, order=0, torch="", dtypes=("float32",)),
    Case("linalg.ldl_solve", solve_calls, torch="", dtypes=()),
]


# low_rank: Cases of low-rank decompositions, whose factors multiply to the input, since the input has that rank.


def thin(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.standard_normal((5, 2)), 2)
    yield Call(rng.standard_normal((2, 2, 4)), 2)


def examples(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.standard_normal((5, 2)), 2)
    yield Call(rng.standard_normal((2, 3, 4)), 2)  # the rank is 2 after subtraction of the mean of the three rows


def restored(function: Function) -> Function:
    """Return the product of the factors, which must be the matrix, since its rank is not above the requested one."""

    def applied(x: object, q: int) -> Any:
        u, s, v = function(x, q)
        return (u * s[..., None, :]) @ v.mT

    return applied


CASES += [
    Case("svd_lowrank", thin, wrap=restored, dtypes=(), tolerance=1e-5, random=True),
    Case("pca_lowrank", examples, wrap=restored, dtypes=(), tolerance=1e-5, random=True),
]


def lobpcg_calls(rng: np.random.Generator) -> Iterator[Call]:
    a = rng.standard_normal((12, 12))
    b = rng.standard_normal((12, 12))
    for options in ({}, {"largest": False}, {"B": Fixed(b @ b.T + 12 * np.eye(12))}):
        yield Call(a + a.T + np.diag(np.arange(12.0)), 2, **options)


def absolute_vectors(function: Any) -> Any:
    """Return the eigenvalues of the symmetric part, and the magnitudes of the eigenvectors' elements."""

    def symmetric(a: Any, k: int, **options: Any) -> Any:
        values, vectors = function((a + a.mT) / 2, k, **options)
        return values, vectors.abs()

    return symmetric


CASES.append(Case("lobpcg", lobpcg_calls, torch="", wrap=absolute_vectors, dtypes=("float32",)))


# lu: Cases of LU decompositions.


def pivoted(rng: np.random.Generator) -> Iterator[Call]:
    packed = rng.standard_normal((3, 3)) + 3 * np.eye(3)
    yield Call(packed, np.array([2, 3, 3], np.int32), rng.standard_normal((3, 2)))
    yield Call(packed, np.array([1, 3, 3], np.int32), rng.standard_normal((3, 2)), adjoint=True)
    yield Call(packed, np.array([3, 2, 3], np.int32), rng.standard_normal((2, 3)), left=False)
    packed = packed + 1j * rng.standard_normal((3, 3))
    for left, adjoint in ((True, True), (False, False), (False, True)):
        b = rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3))
        yield Call(packed, np.array([2, 3, 3], np.int32), b, left=left, adjoint=adjoint)


def pivoted_last(rng: np.random.Generator) -> Iterator[Call]:
    packed = rng.standard_normal((3, 3)) + 3 * np.eye(3)
    yield Call(rng.standard_normal((3, 2)), packed, np.array([2, 3, 3], np.int32))


def first_two(function: Function) -> Function:
    """L and U, without the permutation."""
    return lambda *args, **kwargs: function(*args, **kwargs)[1:]


CASES += [
    *names("linalg.lu_factor", calls=together(of_normal(*TALL, *WIDE), COMPLEX), wrap=lambda f: lambda x: f(x)[0]),
    *names("lu", calls=of_normal(*TALL, *WIDE), wrap=lambda f: lambda x: f(x)[0]),
    *names("linalg.lu", calls=together(of_normal(*TALL, *WIDE), COMPLEX), wrap=first_two),
    *names("linalg.lu_solve", calls=pivoted),
    *names("lu_solve", calls=pivoted_last),
]


# spectral: Cases of eigenvalues and singular values.


def of_symmetric(function: Function) -> Function:
    """Turn a function of symmetric or Hermitian matrices into a function of any matrix."""
    return lambda x, *args, **kwargs: function(x + x.mH, *args, **kwargs)


def with_determined_vectors(function: Function) -> Function:
    """Return the singular values, and only the vectors that belong to a singular value."""

    def determined(x: object, **options: object) -> Any:
        u, s, vh = function(x, **options)
        return u[..., : s.shape[-1]], s, vh[..., : s.shape[-1], :]

    return determined


def with_shared_phase(function: Function) -> Function:
    """Also return the product of U and V^H, which depends only on differences of their phases."""

    def shared(x: object, **options: object) -> Any:
        u, s, vh = with_determined_vectors(function)(x, **options)
        return *without_phases(lambda: (u, s, vh))(), u @ vh

    return shared


CASES += [
    *names(
        "linalg.eigh",
        calls=together(of_normal(*SQUARE), of_complex((3, 3), (2, 2, 2))),
        wrap=lambda f: of_symmetric(without_phases(f)),
        tolerance=1e-5,
    ),
    *names("linalg.eigvalsh", calls=together(of_normal(*SQUARE), of_complex((3, 3))), wrap=of_symmetric),
    *names(
        "linalg.svd",
        calls=together(of_normal(*TALL, *WIDE, full_matrices=False), of_normal(*TALL, *WIDE), COMPLEX),
        wrap=with_shared_phase,
        tolerance=1e-5,
    ),
    *names("svd", calls=together(of_normal(*TALL, *WIDE), COMPLEX), wrap=without_phases, tolerance=1e-5),
    *names("linalg.svdvals", calls=together(of_normal(*TALL, *WIDE), COMPLEX)),
]
