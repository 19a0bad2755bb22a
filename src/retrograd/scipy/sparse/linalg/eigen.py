"""``eigsh``: some eigenvalues and eigenvectors of a symmetric matrix, with implicit derivatives of any order.

For each pair, ``A v = w M v`` and ``v^T M v = 1``. The derivative of these equations is a bordered symmetric system

    [ A - w M   -M v ] [dv]   [-dA v + w dM v ]
    [ -(M v)^T    0  ] [dw] = [ v^T dM v / 2  ]

which has one solution where w is a simple eigenvalue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.errors import LinAlgError, describe
from ....core.graph.modes import no_grad
from ....core.tensor.tensor import Tensor, new_tensor
from ....func.implicit.attach import LinearSolve, attached
from ....func.nests import flatten
from ....ops.table.types import DTypeLike
from ..arrays import MatrixLike, SparseArray, sparse, tensor
from .operators import LinearOperator, constant, square

_TOLERANCE = 1e-10  # tolerance for derivatives of a matrix that is given by a function


def eigsh(
    A: MatrixLike,
    k: int = 6,
    M: MatrixLike = None,
    sigma: float | None = None,
    which: str = "LM",
    v0: MatrixLike = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    tol: float = 0.0,
    return_eigenvectors: bool = True,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return ``k`` eigenvalues of a real symmetric matrix, and the eigenvectors as columns.

    The derivatives of ``w_i`` with respect to A are ``v_i v_i^T``. The derivatives of eigenvectors are
    solutions of bordered systems, by LU factorization for sparse arrays, else by MINRES without a matrix.

    Args:
        A: a sparse array, a matrix, or a LinearOperator; symmetric, which is not checked.
        k: the number of eigenvalues.
        M: for ``A v = w M v``, a symmetric positive definite matrix.
        sigma: find the eigenvalues nearest to this number, by solving systems of ``A - sigma M``, which must be sparse.
        which: the largest ("LA"), smallest ("SA"), or largest in magnitude ("LM") eigenvalues; SciPy has more names.
        v0: the start vector; by default the same random vector in each call, so that signs do not change.
        ncv, maxiter, tol: as in SciPy.
        return_eigenvectors: whether to return the vectors.

    Returns:
        ``(w, v)`` in ascending order of w, or only ``w``.

    Raises:
        LinAlgError: an eigenvector with a repeated eigenvalue is differentiated.
        ValueError: A is complex or not square.

    >>> A = rg.scipy.sparse.diags_array(rg.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=rg.float64))
    >>> rg.scipy.sparse.linalg.eigsh(A, k=2, which="SA", return_eigenvectors=False)
    tensor([1., 2.], dtype=float64)
    """
    matrix, mass = square(A, "eigsh"), None if M is None else square(M, "eigsh")
    if np.dtype(getattr(matrix.dtype, "dtype", matrix.dtype)).kind == "c":
        raise ValueError(f"eigsh: the matrix must be real, got {describe(A)}; use retrograd.linalg.eigh")
    size = matrix.shape[0]
    start = np.random.default_rng(0).normal(size=size) if v0 is None else np.asarray(tensor(v0).detach())
    lefts, rights = constant(matrix), None if mass is None else constant(mass)
    w, v = sparse().linalg.eigsh(
        lefts, k, rights, sigma, which, v0=start.astype(_floating(lefts.dtype)), ncv=ncv, maxiter=maxiter, tol=tol
    )
    order = np.argsort(w)
    w, v = w[order], np.ascontiguousarray(v[:, order])
    leaves, structure = flatten([new_tensor(v), new_tensor(w)])

    def residual(pair: list[Tensor]) -> list[Tensor]:
        vectors, values = pair
        weighted = vectors if mass is None else mass @ vectors
        rows = matrix @ vectors - weighted * values
        return [rows.astype(v.dtype, copy=False), (1 - (vectors * weighted).sum(0)) / 2]

    bordered = _Bordered(lefts, rights, w, v, isinstance(matrix, SparseArray) and not isinstance(mass, LinearOperator))
    values: Tensor
    vectors, values = attached(leaves, residual, LinearSolve("eigsh", structure, bordered, bordered))
    return (values, vectors) if return_eigenvectors else values


def _floating(dtype: DTypeLike) -> DTypeLike:
    return dtype if np.dtype(dtype).kind == "f" else np.float64


class _Bordered:
    """Solve the bordered systems of all pairs. They are symmetric, so transposed systems are the same."""

    def __init__(self, A: MatrixLike, M: MatrixLike, w: Array, v: Array, explicit: bool) -> None:
        self.A, self.M, self.w, self.v, self.explicit = A, M, w, v, explicit
        self.weighted = v if M is None else M @ v
        self.factors: dict[int, Any] = {}

    def __call__(self, product: object, right: Sequence[Tensor]) -> list[Tensor]:
        with no_grad():
            rows, ends = (x.numpy() for x in right)
        solved = [self._solve(index, np.append(rows[:, index], ends[index])) for index in range(len(self.w))]
        vectors, values = np.stack([x[:-1] for x in solved], 1), np.array([x[-1] for x in solved])
        return [new_tensor(vectors.astype(rows.dtype)), new_tensor(values.astype(ends.dtype))]

    def _solve(self, index: int, right: Array) -> Array:
        if not right.any():
            return right
        border = self.weighted[:, index]
        if self.explicit:
            if index not in self.factors:
                self.factors[index] = self._factorized(index, border)
            found: Array = self.factors[index].solve(right)
        else:
            linalg, n = sparse().linalg, len(border)

            def multiply(x: Array) -> Array:
                head = x[:-1].astype(self.v.dtype)
                middle = head if self.M is None else self.M @ head
                return np.append(self.A @ head - self.w[index] * middle - border * x[-1], -border @ head)

            operator = linalg.LinearOperator((n + 1, n + 1), multiply, dtype=right.dtype)
            found, info = linalg.minres(operator, right, rtol=_TOLERANCE, maxiter=20 * n + 200)
            if info:
                raise self._equal(index)
        if not np.isfinite(found).all() or abs(found).max() > 1e12 * abs(right).max():
            raise self._equal(index)
        return found

    def _factorized(self, index: int, border: Array) -> Any:
        names = sparse()
        shifted = self.A - self.w[index] * (names.eye_array(len(border)) if self.M is None else self.M)
        column = names.csr_array(-border[:, None])
        try:
            return names.linalg.splu(names.block_array([[shifted, column], [column.T, None]]).tocsc())
        except RuntimeError as error:
            raise self._equal(index) from error

    def _equal(self, index: int) -> LinAlgError:
        return LinAlgError(
            f"eigsh: eigenvalue {index}, {self.w[index]:.6g}, has no derivative: another eigenvalue is equal to it "
            "within rounding; differentiate a function of all equal eigenvalues, such as their sum"
        )
