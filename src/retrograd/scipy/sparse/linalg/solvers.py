"""Solutions of sparse linear systems: ``spsolve``, ``splu``, and Krylov methods, with SciPy's signatures.

Derivatives do not depend on the method: they are solutions of the transposed system, which the same method computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.errors import describe
from ....core.graph.modes import no_grad
from ....core.graph.primitive import apply
from ....core.tensor.tensor import Tensor
from ....func.implicit.attach import LinearSolve, attached
from ....func.implicit.linear_solvers import KRYLOV
from ....func.implicit.vectors import Vectors
from ....func.nests import Structure, flatten
from ....ops.linear.sparse.systems import SPSOLVE, Factorized, Krylov
from ..arrays import MatrixLike, SparseArray, as_sparse, promoted, sparse, tensor
from ..construct import tril, triu
from .operators import LinearOperator, constant, square


def _right_side(b: MatrixLike, size: int, name: str) -> Tensor:
    found = as_sparse(b)
    dense = tensor(b) if found is None else found.toarray()
    if dense.ndim not in (1, 2) or dense.shape[0] != size:
        raise ValueError(f"{name}: the right-hand side must have {size} rows, got {describe(dense)}")
    return dense if dense.dtype.kind in "fc" else dense.to(np.float64)


def _solution(A: SparseArray, b: Tensor, solver: Factorized | Krylov, transposed: bool = False) -> Tensor:
    array = A.sum_duplicates()
    data, right = promoted(array.data if array.dtype.kind in "fc" else array.data.to(np.float64), b)
    params = {"places": array.places, "solver": solver, "transposed": transposed}
    x: Tensor = apply(SPSOLVE, (data, right.reshape((right.shape[0], -1))), params)
    return x.reshape(right.shape)


def spsolve(A: MatrixLike, b: MatrixLike, permc_spec: str | None = None, use_umfpack: bool = True) -> Tensor:
    """Return x with ``A @ x = b`` by sparse LU factorization, which the derivatives reuse.

    The gradient of b is ``w = A^-T g``; the gradient of the value of A at (i, j) is ``-w_i x_j``.

    Args:
        A: a square sparse array.
        b: a vector, or a matrix of right-hand sides; a sparse matrix is converted to a dense one.
        permc_spec: the order of the columns, as in SciPy.
        use_umfpack: accepted for compatibility; SuperLU is used.

    Raises:
        ValueError: A is not square, or b does not fit.
        LinAlgError: A is singular.

    >>> A = rg.scipy.sparse.csr_array(rg.tensor([[2.0, 0.0], [1.0, 4.0]]))
    >>> rg.scipy.sparse.linalg.spsolve(A, rg.tensor([2.0, 5.0]))
    tensor([1., 1.])
    """
    return splu(A, permc_spec).solve(b)


class SuperLU:
    """The factors of a sparse matrix: the result of ``splu``, with a differentiable ``solve``."""

    def __init__(self, A: SparseArray, options: dict[str, object]) -> None:
        self._matrix = A.sum_duplicates()
        self._solver = Factorized(**options)
        self.shape, self.nnz = A.shape, A.nnz

    def solve(self, rhs: MatrixLike, trans: str = "N") -> Tensor:
        """Return the solution for a right-hand side; ``trans`` "T" ("H") solves the (conjugate) transposed system."""
        if trans not in ("N", "T", "H"):
            raise ValueError(f"solve: trans must be 'N', 'T' or 'H', got {trans!r}")
        b = _right_side(rhs, self.shape[0], "solve")
        if trans == "H":
            return _solution(self._matrix, b.conj(), self._solver, True).conj()
        return _solution(self._matrix, b, self._solver, trans == "T")


def splu(A: MatrixLike, permc_spec: str | None = None, **options: object) -> SuperLU:
    """Return the LU factorization of a square sparse array; its ``solve`` is differentiable.

    Args:
        A: the square sparse array to factorize.
        permc_spec: the order of the columns in the factorization, as in SciPy.
        options: further arguments of ``scipy.sparse.linalg.splu``.

    >>> lu = rg.scipy.sparse.linalg.splu(rg.scipy.sparse.csc_array(rg.tensor([[2.0, 0.0], [1.0, 4.0]])))
    >>> lu.solve(rg.tensor([2.0, 5.0])), lu.solve(rg.tensor([2.0, 4.0]), "T")
    (tensor([1., 1.]), tensor([0.5, 1. ]))
    """
    found = as_sparse(A)
    if found is None:
        raise TypeError(f"splu: expected a sparse array, got {describe(A)}; use linalg.solve for dense matrices")
    square(found, "splu")
    given = options if permc_spec is None else {**options, "permc_spec": permc_spec}
    return SuperLU(found, given)


def spsolve_triangular(
    A: MatrixLike,
    b: MatrixLike,
    lower: bool = True,
    overwrite_A: bool = False,
    overwrite_b: bool = False,
    unit_diagonal: bool = False,
) -> Tensor:
    """Return x with ``A @ x = b`` for a triangular sparse array, like ``spsolve``.

    Args:
        A: a square sparse array without elements on the other side of its diagonal.
        b: a vector, or a matrix of right-hand sides.
        lower: whether A is lower triangular, else it is upper triangular.
        overwrite_A, overwrite_b: accepted for compatibility; neither is overwritten.
        unit_diagonal: assume a diagonal of ones, which is not read.

    Raises:
        ValueError: A is not triangular or not square, or b does not fit.
        LinAlgError: A has a zero on its diagonal.

    >>> A = rg.scipy.sparse.csr_array(rg.tensor([[4.0, 0.0], [1.0, 2.0]]))
    >>> rg.scipy.sparse.linalg.spsolve_triangular(A, rg.tensor([4.0, 5.0]))
    tensor([1., 2.])
    """
    found = as_sparse(A)
    if found is None:
        raise TypeError(f"spsolve_triangular: expected a sparse array, got {describe(A)}")
    matrix = found.sum_duplicates()
    offsets = matrix.places.columns.astype(np.int64) - matrix.places.rows
    if (offsets > 0 if lower else offsets < 0).any():
        raise ValueError(
            f"spsolve_triangular: A has elements {'above' if lower else 'below'} its diagonal; pass "
            f"{'tril(A)' if lower else 'triu(A)'}, or lower={not lower}"
        )
    if unit_diagonal:
        strict = tril(matrix, -1) if lower else triu(matrix, 1)
        matrix = strict + sparse().eye_array(matrix.shape[0], dtype=matrix.dtype.dtype)
    return splu(matrix, "NATURAL", diag_pivot_thresh=0.0).solve(b)


def factorized(A: MatrixLike) -> Callable[[MatrixLike], Tensor]:
    """Return a function that solves systems with the matrix, which is factorized once."""
    return splu(A).solve


def _krylov(
    name: str, A: MatrixLike, b: MatrixLike, x0: MatrixLike, M: MatrixLike, **options: object
) -> tuple[Tensor, int]:
    """Return a solution and SciPy's ``info``: 0, or the number of iterations if the method did not converge."""
    matrix = square(A, name)
    right = _right_side(b, matrix.shape[0], name)
    if right.ndim == 2 and right.shape[1] != 1:
        raise ValueError(f"{name}: the right-hand side must be a vector, got {describe(right)}; use vmap for a matrix")
    start = None if x0 is None else np.asarray(tensor(x0).detach()).reshape(-1)
    given = {key: value for key, value in options.items() if value is not None}
    if isinstance(matrix, SparseArray):
        solver = Krylov(getattr(sparse().linalg, name), given, None if M is None else constant(M), start)
        x = _solution(matrix, right, solver)
        info = solver.info or 0
    else:
        x, info = _matrix_free(name, matrix, right, start, M, given)
    if info and x.requires_grad:
        raise RuntimeError(
            f"{name}: did not converge in {info} iterations, so the solution has no derivative; pass a larger maxiter "
            "or a preconditioner M, or call it in no_grad()"
        )
    return x, info


def _matrix_free(
    name: str, A: LinearOperator, b: Tensor, x0: Array | None, M: MatrixLike, options: dict[str, Any]
) -> tuple[Tensor, int]:
    """Solve with the matrix given as a LinearOperator; differentiable with respect to the Tensors that it reads."""
    vector = b.reshape(-1)
    (leaf,), structure = flatten(vector)
    solver = _MatrixFree(name, structure, x0, None if M is None else constant(M), options)

    def product(leaves: list[Tensor]) -> list[Tensor]:
        return [A.matvec(leaves[0]).astype(vector.dtype, copy=False)]

    with no_grad():
        solution = solver(product, [leaf.detach()], Vectors.of([leaf]))
    result = attached(solution, lambda leaves: [product(leaves)[0] - leaf], solver)[0]
    return result.reshape(b.shape), solver.info or 0


class _MatrixFree(LinearSolve):
    """Solve with the function ``x -> A @ x``: one system by SciPy, the examples of ``vmap`` by batched methods."""

    def __init__(
        self, name: str, structure: Structure, x0: Array | None, M: MatrixLike, options: dict[str, Any]
    ) -> None:
        super().__init__(name, structure)
        self.x0, self.preconditioner, self.options = x0, M, options
        self.info: int | None = None  # SciPy's info for the first system, None before

    @property
    def transpose(self) -> _MatrixFree:
        """Return the solver of the transposed system."""
        other = None if self.preconditioner is None else self.preconditioner.T
        solver = _MatrixFree(self.what, self.structure, None, other, self.options)
        solver.info = 0
        return solver

    def __call__(
        self, product: Callable[[list[Tensor]], list[Tensor]], b: list[Tensor], space: Vectors
    ) -> list[Tensor]:
        """Return the solution of ``product(x) = b``, without a history."""
        with no_grad():
            right = space.vector(b)

            def multiply(x: Array) -> Array:
                return space.vector(product(space.leaves(x)))

            if right.ndim == 1:
                return space.leaves(self._by_scipy(multiply, right))
            if self.what in KRYLOV:
                rtol, maxiter = self.options["rtol"], self.options.get("maxiter", 10 * space.size + 100)
                self.info = 0
                return space.leaves(KRYLOV[self.what](multiply, right, rtol, maxiter, self.what))
            solutions = np.zeros_like(right)
            for place in np.ndindex(right.shape[:-1]):  # ``product`` multiplies all examples together

                def multiply_one(x: Array, place: tuple[int, ...] = place) -> Array:
                    whole = np.zeros_like(right)
                    whole[place] = x
                    return multiply(whole)[place]

                solutions[place] = self._by_scipy(multiply_one, right[place])
            return space.leaves(solutions)

    def _by_scipy(self, multiply: Callable[[Array], Array], right: Array) -> Array:
        linalg, size = sparse().linalg, len(right)
        operator = linalg.LinearOperator((size, size), lambda x: multiply(x.astype(right.dtype)), dtype=right.dtype)
        start = {} if self.x0 is None else {"x0": self.x0}
        method, M = getattr(linalg, self.what), self.preconditioner
        x, info = method(operator, right, M=M, **start, **self.options)
        if info and self.info is not None:
            raise RuntimeError(
                f"{self.what}: the linear system of the derivative did not converge in {info} iterations; "
                "pass a larger maxiter"
            )
        self.info = int(info) if self.info is None else self.info
        return x.astype(right.dtype, copy=False)


def cg(
    A: MatrixLike,
    b: MatrixLike,
    x0: MatrixLike = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: MatrixLike = None,
    callback: Callable[[Array], object] | None = None,
) -> tuple[Tensor, int]:
    """Solve ``A @ x = b`` with a symmetric positive definite matrix by conjugate gradients; return ``(x, info)``.

    Derivatives with respect to b and the values of A, or all Tensors that a LinearOperator reads, are computed by
    solving further systems with the same tolerance.

    Args:
        A: a sparse array, a matrix, or a LinearOperator.
        b: the right-hand side, a vector.
        x0: the first iterate, which has no gradient.
        rtol, atol: the residual at which the iteration ends, ``max(rtol * norm(b), atol)``.
        maxiter: the largest number of iterations.
        M: a preconditioner, which approximates the inverse matrix; it has no gradient.
        callback: called with the solution after each iteration.

    Raises:
        RuntimeError: a system did not converge, and a gradient is required.

    >>> A = rg.scipy.sparse.csr_array(rg.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> rg.scipy.sparse.linalg.cg(A, rg.tensor([2.0, 2.0]))
    (tensor([1. , 0.5]), 0)
    """
    return _krylov("cg", A, b, x0, M, rtol=rtol, atol=atol, maxiter=maxiter, callback=callback)


def bicgstab(
    A: MatrixLike,
    b: MatrixLike,
    x0: MatrixLike = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: MatrixLike = None,
    callback: Callable[[Array], object] | None = None,
) -> tuple[Tensor, int]:
    """Solve ``A @ x = b`` by the stabilized biconjugate gradient method; return ``(x, info)``, as ``cg``."""
    return _krylov("bicgstab", A, b, x0, M, rtol=rtol, atol=atol, maxiter=maxiter, callback=callback)


def gmres(
    A: MatrixLike,
    b: MatrixLike,
    x0: MatrixLike = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: MatrixLike = None,
    callback: Callable[[Array], object] | None = None,
    callback_type: str | None = None,
) -> tuple[Tensor, int]:
    """Solve ``A @ x = b`` by GMRES with restarts; return ``(x, info)``, as ``cg``."""
    return _krylov(
        "gmres", A, b, x0, M, rtol=rtol, atol=atol, restart=restart, maxiter=maxiter, callback=callback,
        callback_type=callback_type,
    )  # fmt: skip


def minres(
    A: MatrixLike,
    b: MatrixLike,
    x0: MatrixLike = None,
    *,
    rtol: float = 1e-5,
    shift: float = 0.0,
    maxiter: int | None = None,
    M: MatrixLike = None,
    callback: Callable[[Array], object] | None = None,
) -> tuple[Tensor, int]:
    """Solve ``(A - shift * 1) @ x = b`` with a symmetric matrix by MINRES; return ``(x, info)``, as ``cg``."""
    if shift:
        return minres(_shifted(A, shift), b, x0, rtol=rtol, maxiter=maxiter, M=M, callback=callback)
    return _krylov("minres", A, b, x0, M, rtol=rtol, maxiter=maxiter, callback=callback)


def _shifted(A: MatrixLike, shift: float) -> MatrixLike:
    matrix = square(A, "minres")
    if isinstance(matrix, SparseArray):
        return matrix - sparse().eye_array(matrix.shape[0]) * shift
    return LinearOperator(matrix.shape, lambda x: matrix.matvec(x) - shift * x, dtype=matrix.dtype)


def norm(x: MatrixLike, ord: str | None = None) -> Tensor:
    """Return the Frobenius norm of a sparse array."""
    if ord not in (None, "fro"):
        raise NotImplementedError(f"norm: only the Frobenius norm is differentiable here, got ord={ord!r}")
    found = as_sparse(x)
    if found is None:
        raise TypeError(f"norm: expected a sparse array, got {describe(x)}")
    return found.sum_duplicates().data.norm()
