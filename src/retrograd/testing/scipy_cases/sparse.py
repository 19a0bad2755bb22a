"""Example calls of ``retrograd.scipy.sparse`` and ``sparse.linalg``: functions of the values of sparse arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.arrays import Array
from ...core.tensor.tensor import Tensor
from ...ops.linear.sparse.products import ScipyMatrix as Matrix
from ..case import Call, Case
from . import Draw, Function, case, function

N = 5
DOWN, UP = np.arange(1, N), np.arange(N - 1)
ROWS = np.concatenate([np.arange(N), DOWN, UP, [0, 3]])
COLUMNS = np.concatenate([np.arange(N), UP, DOWN, [3, 3]])  # the last position has two values
LOWER = ROWS >= COLUMNS


def matrix(data: object, kind: str = "csr_array", places: tuple[Array, Array] = (ROWS, COLUMNS)) -> Matrix:
    # If the values are a Tensor, use retrograd.scipy.sparse instead of SciPy.
    root = "retrograd." if isinstance(data, Tensor) else ""
    return function(f"{root}scipy.sparse.{kind}")((data, places), shape=(N, N))


def symmetric(data: object) -> Matrix:
    a = matrix(data)
    return a + a.T


def dominated(a: Matrix) -> Matrix:
    """Return a diagonally dominant matrix."""
    return a + 9 * function("scipy.sparse.eye_array")(N, format="csr")


def triangular(data: object) -> Matrix:
    return matrix(data, places=(ROWS[LOWER], COLUMNS[LOWER]))


def dense(make: Function) -> Function:
    """Return the dense result of a function that returns a sparse array."""
    return lambda *args, **options: make(*args, **options).toarray()


def of_matrices(make: Function) -> Function:
    """Return the dense result of a function of two sparse arrays, as a function of their values."""
    return lambda x, y, **options: make(matrix(x), matrix(y, "csc_array"), **options).toarray()


def of_list(make: Function) -> Function:
    return lambda x, y, **options: make([matrix(x), matrix(y, "coo_array")], **options).toarray()


def of_blocks(make: Function) -> Function:
    return lambda x, y, **options: make([[matrix(x), None], [matrix(y), matrix(x)]], **options).toarray()


def of_one(make: Function) -> Function:
    return lambda x, **options: make(matrix(x), **options).toarray()


def solved(of: Callable[[object], Matrix]) -> Function:
    """Return a solver as a function of the values of the matrix, and of the right-hand side."""

    def wrap(solve: Function) -> Function:
        def call(data: object, b: object, **options: object) -> object:
            x = solve(dominated(of(data)), b, **options)
            return x[0] if isinstance(x, tuple) else x

        return call

    return wrap


def factors(splu: Function) -> Function:
    def call(data: object, b: object, trans: str = "N") -> object:
        return splu(dominated(matrix(data)).tocsc()).solve(b, trans)

    return call


def placed(kind: Function) -> Function:
    """Return an array of coordinates multiplied by a vector."""
    return lambda data, x: kind((data, (ROWS, COLUMNS)), shape=(N, N)) @ x


def values(u: Draw) -> Array:
    return u(-1, 1, len(ROWS))


def one(
    name: str, *calls: Callable[..., Call], wrap: Callable[[Function], Function] = dense, **options: Matrix
) -> Case:
    return case(f"sparse.{name}", *calls, wrap=wrap, dtypes=(), **options)


def two(u: Draw) -> Call:
    return Call(values(u), values(u))


def system(u: Draw) -> Call:
    return Call(values(u), u(-1, 1, N))


def systems(u: Draw) -> Call:
    return Call(values(u), u(-1, 1, N, 2))


def exact(u: Draw) -> Call:
    return Call(values(u), u(-1, 1, N), rtol=1e-14)


CASES = [
    one(
        "diags",
        lambda u: Call(u(-1, 1, 4)),
        lambda u: Call(u(-1, 1, 4), 1, format="csc"),
        lambda u: Call([u(-1, 1, 4), u(-1, 1, 3)], [0, -1]),
    ),
    one(
        "diags_array",
        lambda u: Call(u(-1, 1, 4)),
        lambda u: Call(u(-1, 1, 4), offsets=-2),
        lambda u: Call([u(-1, 1, 4), u(-1, 1, 2)], offsets=[0, 2], shape=(4, 4)),
    ),
    one("spdiags", lambda u: Call(u(-1, 1, 2, 4), (0, 1), 4, 4)),
    *[
        one(kind, system, systems, wrap=placed)
        for kind in ("coo_array", "coo_matrix", "csc_array", "csc_matrix", "csr_array", "csr_matrix")
    ],
    one("kron", two, wrap=of_matrices),
    one("hstack", two, wrap=of_list),
    one("vstack", two, wrap=of_list),
    one("block_diag", two, wrap=of_list),
    one("block_array", two, wrap=of_blocks),
    one("bmat", two, wrap=of_blocks),
    one("tril", lambda u: Call(values(u)), lambda u: Call(values(u), k=-1), wrap=of_one),
    one("triu", lambda u: Call(values(u)), lambda u: Call(values(u), k=1), wrap=of_one),
    one("linalg.spsolve", system, systems, wrap=solved(lambda x: matrix(x, "csc_array"))),
    one(
        "linalg.spsolve_triangular",
        lambda u: Call(values(u)[LOWER], u(-1, 1, N)),
        lambda u: Call(values(u)[LOWER], u(-1, 1, N, 2)),
        wrap=solved(triangular),
    ),
    one(
        "linalg.splu",
        system,
        lambda u: Call(values(u), u(-1, 1, N, 2), "T"),
        lambda u: Call(values(u), u(-1, 1, N), "H"),
        wrap=factors,
    ),
    one("linalg.cg", exact, wrap=solved(symmetric)),
    one("linalg.minres", exact, wrap=solved(symmetric)),
    one("linalg.gmres", exact, wrap=solved(matrix)),
    one("linalg.bicgstab", exact, wrap=solved(matrix)),
    one("linalg.norm", lambda u: Call(values(u)), wrap=lambda norm: lambda x: norm(matrix(x))),
]
