"""Example calls of ``retrograd.scipy.linalg``."""

from __future__ import annotations

import numpy as np

from ...core.arrays import Array
from ..case import Call
from . import Draw, Function, case


def matrix(u: Draw, n: int = 3, *lead: int) -> Array:
    """Return a matrix with a dominant diagonal of different elements."""
    return u(-0.5, 0.5, *lead, n, n) + np.diag(np.arange(2.0, n + 2))


def complex_matrix(u: Draw, n: int = 3) -> Array:
    return matrix(u, n) + 0.3j * u(-1, 1, n, n)


def symmetric(function: Function) -> Function:
    """Return the function of the symmetric part of its first argument."""
    return lambda a, *args, **kwargs: function((a + np.swapaxes(a, -1, -2)) / 2, *args, **kwargs)


def symmetric_pair(function: Function) -> Function:
    return lambda a, b, **kwargs: function((a + np.swapaxes(a, -1, -2)) / 2, (b + np.swapaxes(b, -1, -2)) / 2, **kwargs)


def hermitian_costs(function: Function) -> Function:
    """Return the function of the Hermitian parts of its third and fourth arguments."""

    def call(a: object, b: object, q: Array, r: Array, *rest: object) -> object:
        return function(a, b, *[(x + np.swapaxes(x, -1, -2).conj()) / 2 for x in (q, r)], *rest)

    return call


def projectors(function: Function) -> Function:
    """Return the function with each eigenvector ``v`` replaced by ``v v^T``, which has no sign."""

    def call(*args: object, **kwargs: object) -> object:
        values, vectors = function(*args, **kwargs)
        return values, vectors[..., :, None, :] * vectors[..., None, :, :]

    return call


def spiral(u: Draw) -> Array:
    """Return a matrix with a real and two complex pairs of eigenvalues."""
    a = np.zeros((5, 5))
    a[:2, :2], a[2:4, 2:4], a[4, 4] = [[-1, 2], [-3, -1]], [[1, 5], [-1, 1]], 2.5
    return a + u(-0.3, 0.3, 5, 5)


def with_signs(result: tuple[Array, ...]) -> tuple[Array, ...]:
    """Return products of the Schur factors that do not depend on the signs of the vectors."""
    t, z = result[:2]
    return t**2, z**2, z @ t**3 @ np.swapaxes(z, -1, -2)


def without_phases(result: tuple[Array, ...]) -> tuple[Array, ...]:
    t, z = result[:2]
    return abs(t) ** 2, abs(z) ** 2


def positive_diagonal(function: Function) -> Function:
    """Return ``q`` and ``r`` with signs that make the diagonal of ``r`` positive."""

    def call(a: object, **kwargs: object) -> object:
        q, r, *rest = function(a, **kwargs)
        signs = np.sign(r.diagonal())
        return (q * signs, r * signs[:, None], *rest) if call_of == "qr" else (q * signs, r * signs[:, None])

    call_of = "qr"
    return call


CASES = [
    *(
        case(
            f"linalg.{name}",
            lambda u: Call(matrix(u) / 3),
            lambda u: Call(matrix(u, 2, 2) / 3),
            lambda u: Call(complex_matrix(u, 2) / 3),
            dtypes=(),
        )
        for name in ("expm", "sqrtm", "logm", "sinm", "cosm", "tanm", "sinhm", "coshm", "tanhm")
    ),
    case("linalg.expm_frechet", lambda u: Call(matrix(u) / 3, u(-1, 1, 3, 3))),
    case("linalg.fractional_matrix_power", lambda u: Call(matrix(u), 0.3), dtypes=()),
    case(
        "linalg.solve",
        lambda u: Call(matrix(u), u(-1, 1, 3)),
        lambda u: Call(matrix(u), u(-1, 1, 3, 2), assume_a="pos"),
    ),
    case("linalg.solve_triangular", lambda u: Call(matrix(u), u(-1, 1, 3), trans=1, lower=True)),
    case(
        "linalg.cholesky",
        lambda u: Call(matrix(u), lower=True),
        lambda u: Call(matrix(u)),
        wrap=symmetric,
    ),
    case(
        "linalg.cho_solve",
        lambda u: Call((matrix(u), True), u(-1, 1, 3)),
        lambda u: Call((matrix(u), False), u(-1, 1, 3, 2)),
    ),
    case("linalg.cho_factor", lambda u: Call(matrix(u)), wrap=lambda f: symmetric(lambda a: np.triu(f(a)[0]))),
    case("linalg.lu_factor", lambda u: Call(matrix(u))),
    case("linalg.eigh_tridiagonal", lambda u: Call(u(1, 2, 4), u(0.5, 1, 3)), wrap=projectors),
    case("linalg.eig", lambda u: Call(matrix(u)), wrap=lambda f: lambda a: np.sort(f(a, right=False).real), dtypes=()),
    case("linalg.lu", lambda u: Call(matrix(u)), lambda u: Call(matrix(u)[:2], permute_l=True)),
    case(
        "linalg.lu_solve",
        lambda u: Call((matrix(u), np.array([1, 1, 2], np.int32)), u(-1, 1, 3)),
        lambda u: Call((matrix(u), np.array([1, 1, 2], np.int32)), u(-1, 1, 3, 2), trans=1),
    ),
    case(
        "linalg.qr",
        lambda u: Call(matrix(u)),
        lambda u: Call(matrix(u)[:, :2], mode="economic"),
        wrap=positive_diagonal,
    ),
    case("linalg.rq", lambda u: Call(matrix(u), mode="r"), wrap=lambda f: lambda a, **k: abs(f(a, **k))),
    case("linalg.svd", lambda u: Call(matrix(u), compute_uv=False)),
    case("linalg.svdvals", lambda u: Call(matrix(u)[:2])),
    case("linalg.eigh", lambda u: Call(matrix(u)), wrap=lambda f: symmetric(projectors(f))),
    case("linalg.eigvalsh", lambda u: Call(matrix(u), matrix(u), subset_by_index=(0, 1)), wrap=symmetric_pair),
    case("linalg.eigvals", lambda u: Call(matrix(u)), wrap=lambda f: lambda a: np.sort(f(a).real), dtypes=()),
    case("linalg.eigvalsh_tridiagonal", lambda u: Call(u(1, 2, 4), u(0.5, 1, 3))),
    case(
        "linalg.polar",
        lambda u: Call(matrix(u)),
        lambda u: Call(matrix(u)[:2], side="left"),
        lambda u: Call(matrix(u)[:, :2]),
        lambda u: Call(complex_matrix(u)[:, :2]),
    ),
    case(
        "linalg.schur",
        lambda u: Call(matrix(u)),
        lambda u: Call(matrix(u, 2, 2)),
        lambda u: Call(spiral(u)),
        lambda u: Call(spiral(u), sort="lhp"),
        wrap=lambda f: lambda *args, **kwargs: with_signs(f(*args, **kwargs)),
        dtypes=(),
    ),
    case(
        "linalg.schur",
        lambda u: Call(complex_matrix(u)),
        lambda u: Call(spiral(u), output="complex"),
        wrap=lambda f: lambda *args, **kwargs: without_phases(f(*args, **kwargs)),
        dtypes=(),
    ),
    case("linalg.orthogonal_procrustes", lambda u: Call(matrix(u), matrix(u))),
    case("linalg.inv", lambda u: Call(matrix(u))),
    case("linalg.det", lambda u: Call(matrix(u))),
    case("linalg.pinv", lambda u: Call(matrix(u)[:2])),
    case("linalg.pinvh", lambda u: Call(matrix(u), return_rank=False), wrap=symmetric),
    case("linalg.lstsq", lambda u: Call(matrix(u, 4)[:, :2], u(-1, 1, 4, 2)), wrap=lambda f: lambda *a: f(*a)[:2]),
    case("linalg.norm", lambda u: Call(matrix(u), "fro"), lambda u: Call(u(1, 2, 3), 3)),
    case("linalg.solve_banded", lambda u: Call((1, 2), u(0.5, 1, 4, 5) + np.array([[0], [0], [4], [0]]), u(-1, 1, 5))),
    case(
        "linalg.solveh_banded",
        lambda u: Call(u(0.2, 0.5, 2, 4) + np.array([[0], [4]]), u(-1, 1, 4)),
        lambda u: Call(u(0.2, 0.5, 3, 4) + np.array([[4], [0], [0]]), u(-1, 1, 4, 2), lower=True),
        lambda u: Call(u(0.2, 0.5, 2, 3) + np.array([[0.4j], [4]]), u(-1, 1, 3)),
    ),
    case(
        "linalg.solve_toeplitz",
        lambda u: Call(u(0.2, 0.5, 4) + np.array([3, 0, 0, 0]), u(-1, 1, 4)),
        lambda u: Call((u(0.2, 0.5, 3) + np.array([3, 0, 0]), u(0.2, 0.5, 3)), u(-1, 1, 3, 2)),
        lambda u: Call(u(0.2, 0.5, 3) + np.array([3, 0.3j, 0.2j]), u(-1, 1, 3)),
    ),
    case("linalg.solve_circulant", lambda u: Call(u(0.2, 0.5, 4) + np.array([3, 0, 0, 0]), u(-1, 1, 4))),
    case(
        "linalg.solve_sylvester",
        lambda u: Call(matrix(u), matrix(u, 2), u(-1, 1, 3, 2)),
        lambda u: Call(complex_matrix(u), matrix(u, 2), u(-1, 1, 3, 2)),
    ),
    case(
        "linalg.solve_continuous_lyapunov",
        lambda u: Call(matrix(u), u(-1, 1, 3, 3)),
        lambda u: Call(complex_matrix(u), complex_matrix(u)),
    ),
    case(
        "linalg.solve_discrete_lyapunov",
        lambda u: Call(matrix(u, 2) / 5, u(-1, 1, 2, 2)),
        lambda u: Call(matrix(u, 2) / 5, u(-1, 1, 2, 2), method="bilinear"),
    ),
    *(
        case(
            f"linalg.solve_{time}_are",
            lambda u: Call(u(-0.5, 0.5, 3, 3), matrix(u)[:, :2], matrix(u), matrix(u, 2)),
            lambda u: Call(
                u(-0.5, 0.5, 3, 3), matrix(u)[:, :2], matrix(u), matrix(u, 2), matrix(u), u(-0.1, 0.1, 3, 2)
            ),
            lambda u: Call(complex_matrix(u) / 4, matrix(u)[:, :2], complex_matrix(u), complex_matrix(u, 2)),
            wrap=hermitian_costs,
            dtypes=(),
        )
        for time in ("continuous", "discrete")
    ),
    case("linalg.toeplitz", lambda u: Call(u(-1, 1, 3), u(-1, 1, 2)), lambda u: Call(u(-1, 1, 3))),
    case("linalg.circulant", lambda u: Call(u(-1, 1, 3))),
    case("linalg.hankel", lambda u: Call(u(-1, 1, 3), u(-1, 1, 2)), lambda u: Call(u(-1, 1, 3))),
    case("linalg.companion", lambda u: Call(u(1, 2, 4))),
    case(
        "linalg.convolution_matrix",
        *(lambda u, mode=mode: Call(u(1, 2, 3), 4, mode) for mode in ("full", "same", "valid")),
    ),
    case("linalg.fiedler", lambda u: Call(u(1, 2, 3))),
    case("linalg.leslie", lambda u: Call(u(1, 2, 3), u(1, 2, 2))),
    case("linalg.block_diag", lambda u: Call(u(1, 2, 2, 1), u(1, 2, 2))),
    case("linalg.khatri_rao", lambda u: Call(u(1, 2, 2, 3), u(1, 2, 2, 3))),
    case("linalg.matmul_toeplitz", lambda u: Call((u(1, 2, 3), u(1, 2, 2)), u(1, 2, 2))),
]
