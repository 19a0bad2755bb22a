"""Solve systems with a sparse matrix by a factorization or by SciPy's Krylov methods.

All methods use one primitive. Its derivatives are dot products at the coordinates of the matrix, and solutions with the
transposed matrix by the same primitive, so derivatives of higher order, forward mode and ``vmap`` need no further
rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.arrays import Array
from ....core.errors import LinAlgError
from ....core.graph.primitive import Primitive
from ....core.tensor.tensor import new_tensor
from .products import SAMPLED, Places, in_blocks

if TYPE_CHECKING:
    from ....core.mapping.batching import Call


class Factorized:
    """Solve by sparse LU factorization (SuperLU); the last factors are cached for further systems with the same values.

    Args:
        options: arguments of ``scipy.sparse.linalg.splu``.
    """

    def __init__(self, **options: object) -> None:
        self.options = options
        self._kept: tuple[Array, Places, Any] | None = None

    def factors(self, values: Array, places: Places) -> Any:
        """Return SciPy's factorization of the matrix.

        Raises:
            LinAlgError: the matrix is singular.
        """
        kept = self._kept
        if kept is not None and kept[1] is places and (kept[0] is values or np.array_equal(kept[0], values)):
            return kept[2]
        from scipy.sparse.linalg import splu

        matrix = places.matrix(values)
        try:
            found = splu(matrix.tocsc(), **self.options)
        except RuntimeError as error:
            if "singular" not in str(error):
                raise
            shape = matrix.shape
            raise LinAlgError(
                f"the sparse matrix of shape {shape} is singular: the system has no unique solution"
            ) from None
        self._kept = values.copy(), places, found
        return found

    def __call__(self, values: Array, b: Array, places: Places, transposed: bool) -> Array:
        """Return the solutions for the columns of b."""
        factors = self.factors(values, places)
        if b.dtype.kind == "c" and values.dtype.kind != "c":
            x = self(values, b.real, places, transposed) + 1j * self(values, b.imag, places, transposed)
        else:
            x = factors.solve(np.asfortranarray(b, values.dtype), "T" if transposed else "N")
        if not np.isfinite(x).all() and np.isfinite(b).all():
            raise LinAlgError(
                f"the sparse matrix of shape {(places.height, places.width)} is singular to working precision"
            )
        return np.ascontiguousarray(x)


class Krylov:
    """Solve by an iterative method of ``scipy.sparse.linalg``.

    Args:
        method: the function, such as ``scipy.sparse.linalg.cg``.
        options: arguments of the function other than matrix, right-hand side, preconditioner and ``x0``.
        preconditioner: an approximation of the inverse matrix: a matrix or linear operator of SciPy, or None.
        x0: the initial guess in the first call.
    """

    def __init__(
        self,
        method: Callable[..., Any],
        options: dict[str, object],
        preconditioner: Any = None,
        x0: Array | None = None,
    ) -> None:
        self.method, self.options, self.preconditioner, self.x0 = method, options, preconditioner, x0
        self.info: int | None = None  # SciPy's ``info`` from the first call

    def __call__(self, values: Array, b: Array, places: Places, transposed: bool) -> Array:
        """Return the solutions for the columns of b.

        Raises:
            RuntimeError: a system in a later call, which solves for a derivative, did not converge.
        """
        matrix, m = places.matrix(values), self.preconditioner
        if transposed:
            matrix, m = matrix.T, None if m is None else m.T
        first, columns = self.info is None, []
        for column in b.T:
            start = {"x0": self.x0} if first and self.x0 is not None else {}
            x, info = self.method(matrix, column, M=m, **start, **self.options)
            if first:
                self.info = max(self.info or 0, int(info))
            elif info:
                name = self.method.__name__
                raise RuntimeError(
                    f"{name}: the linear system of the derivative did not converge in {info} iterations; pass a larger "
                    "maxiter, a preconditioner M, or use spsolve"
                )
            columns.append(x)
        return np.stack(columns, 1).astype(np.result_type(values, b), copy=False) if columns else b.copy()


Solver = Factorized | Krylov


def _solve(values: Array, b: Array, places: Places, solver: Solver, transposed: bool) -> Array:
    return solver(values, b, places, transposed)


def _solve_rule(
    g: Array, ans: Array, values: Array, places: Places, solver: Solver, transposed: bool, needs: tuple[bool, bool]
) -> tuple[Array | None, Array | None]:
    below = SPSOLVE(values, g, places=places, solver=solver, transposed=not transposed)
    if not needs[0]:
        return None, below
    pair = (ans, below) if transposed else (below, ans)
    return -SAMPLED(*pair, places=places), below


def _batched(call: Call) -> object:
    """Solve for all examples by one block diagonal matrix; without examples, return an empty result."""
    if call.size:
        return in_blocks(call)
    values, b = (x.array for x in call.values)
    shape = b.shape[1:] if call.mapped[1] else b.shape
    return new_tensor(np.zeros((0, *shape), np.result_type(values, b)))


SPSOLVE: Primitive = Primitive(
    "sparse.spsolve", _solve, "values b", vjp=_solve_rule, promote="strict", batch=_batched, contiguous=True
)
