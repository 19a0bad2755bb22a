"""Inverses, solutions and factors that report failures per matrix instead of raising errors.

``info`` is 0 where the computation succeeded, and elsewhere the position of the failure. Inverses and solutions of
failed matrices are infinite or NaN, from divisions by zero pivots; a Cholesky factor has the columns computed before.
"""

from __future__ import annotations

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.arrays.fp_warnings import silently
from ....core.errors import LinAlgError, describe
from ....core.graph.primitive import operand
from ....core.named_tuples import NamedTuple
from ....core.tensor.tensor import Tensor, new_tensor
from ...indexing.selection import where
from ...table.registry import also_named, operator
from ..decompositions.factorizations import cholesky
from ..decompositions.lu import lu_factor
from ..matrices import is_vector_batch, matrices
from .inverses import inv
from .systems import solve


class InvExResult(NamedTuple):
    """The inverses, and ``info``."""

    inverse: Tensor
    info: Tensor


class SolveExResult(NamedTuple):
    """The solutions, and ``info``."""

    result: Tensor
    info: Tensor


class CholeskyExResult(NamedTuple):
    """The factors, and ``info``."""

    L: Tensor
    info: Tensor


class LUFactorExResult(NamedTuple):
    """L and U packed in one matrix, the row interchanges counted from 1, and ``info``, the first zero pivot."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


def _first_zero_pivot(packed: Array) -> Array:
    """Return for each matrix the position, from 1, of the first zero on the diagonal of U; 0 if there is none."""
    zero = np.diagonal(packed, axis1=-2, axis2=-1) == 0
    if not zero.shape[-1]:
        return array_module(packed).zeros(zero.shape[:-1], np.int32)
    return np.where(zero.any(axis=-1), zero.argmax(axis=-1) + 1, 0).astype(np.int32)


def _singular(x: Array) -> Array:
    """Return ``info`` of LU: 0 for invertible matrices."""
    info = np.asarray(_first_zero_pivot(lu_factor(new_tensor(x)).LU.array))
    if type(x) is np.ndarray:
        for place in np.ndindex(*x.shape[:-2]):
            try:
                np.linalg.inv(x[place])
                info[place] = 0
            except np.linalg.LinAlgError:
                info[place] = info[place] or x.shape[-1]
    return info


def _order_of_bad_minor(x: Array) -> Array:
    """Return for each matrix the order of the first leading minor that is not positive; 0 if positive-definite."""
    info = array_module(x).zeros(x.shape[:-2], np.int32)
    for place in np.ndindex(*x.shape[:-2]):
        for order in range(1, x.shape[-1] + 1):
            try:
                cholesky(new_tensor(x[place][:order, :order]))
            except LinAlgError:
                info[place] = order
                break
    return info


def _partial_factors(x: Array, info: Array, upper: bool) -> Array:
    """Return per matrix the columns that elimination computes before a bad pivot; 0 for matrices without a bad pivot.

    As in LAPACK, the matrix has the bad pivot on its diagonal, and unchanged elements of ``x`` after it.
    """
    xp = array_module(x)
    factors = xp.zeros_like(x)
    for place in np.ndindex(*info.shape):
        done = int(info[place]) - 1
        if done < 0:
            continue
        lower = xp.tril(x[place].conj().T if upper else x[place])
        if done:
            corner = xp.linalg.cholesky(lower[:done, :done])
            lower[done:, :done] = xp.linalg.solve(corner, lower[done:, :done].conj().T).conj().T
            lower[:done, :done] = corner
        lower[done, done] -= (xp.abs(lower[done, :done]) ** 2).sum()
        factors[place] = lower.conj().T if upper else lower
    return factors


def _without_failures(x: Tensor, info: object) -> Tensor:
    """Replace matrices that fail by the identity matrix, for which the function is defined."""
    eye = array_module(x).eye(x.array.shape[-1], dtype=x.dtype)
    return where(new_tensor(np.asarray(info != 0)[..., None, None]), eye, x)


@silently
def _divided_by_zero_pivots(a: Array, b: Array, left: bool) -> Array:
    """Solve ``a @ x = b``, or ``x @ a = b``, with the LU factors of a singular matrix, as LAPACK does."""
    packed, pivots = lu_factor(new_tensor(a))
    factors, order, size = packed.array, np.arange(a.shape[-1]), a.shape[-1]
    for row, other in enumerate(pivots.tolist()):
        order[[row, other - 1]] = order[[other - 1, row]]
    x, triangles = (b[order], factors) if left else (b.T.copy(), factors.T)
    # The lower triangle is L, whose diagonal is 1, if ``left``, and the transpose of U otherwise.
    for i in range(size):
        x[i] = (x[i] - (triangles[i, :i, None] * x[:i]).sum(axis=0)) / (1 if left else factors[i, i])
    for i in reversed(range(size)):
        x[i] = (x[i] - (triangles[i, i + 1 :, None] * x[i + 1 :]).sum(axis=0)) / (factors[i, i] if left else 1)
    if x.dtype.kind == "c":
        x[~np.isfinite(x)] = complex(np.nan, np.nan)
    return x if left else x[order.argsort()].T


def _with_failures(result: Tensor, a: Tensor, b: Array, info: Array, left: bool = True) -> Tensor:
    """Replace the results of singular matrices. The right sides ``b`` broadcast to the result's shape."""
    solved = array_module(result).zeros(result.array.shape, result.dtype)
    batch, b = result.array.shape[:-2], np.broadcast_to(b, result.array.shape)
    failed, matrix = np.broadcast_to(info != 0, batch), np.broadcast_to(a.array, (*batch, *a.array.shape[-2:]))
    for place in np.ndindex(*batch):
        if failed[place]:
            solved[place] = _divided_by_zero_pivots(matrix[place], b[place], left)
    return where(new_tensor(failed[..., None, None]), new_tensor(solved), result)


def _info(x: Array) -> Tensor:
    return new_tensor(array_module(x).asarray(x, dtype=np.int32))


@operator(namespace="linalg", method=False, shape="with info")
@also_named(input="A")
def inv_ex(A: Tensor, *, check_errors: bool = False) -> InvExResult:
    """The inverse of each square matrix, and whether it exists: ``inv`` that raises no error.

    Derivative: ``inv``'s; 0 where there is no inverse.
    Dtype: float32, float64 and complex; the inverse has A's dtype, info is int32.

    Args:
        A: square matrices.

    Returns: (inverse, info): info is the position, from 1, of a zero pivot of a singular matrix. Its inverse is
        infinite or NaN.

    Raises:
        RuntimeError: A is not square, or with ``check_errors`` singular.

    >>> rg.linalg.inv_ex(rg.tensor([[[2.0]], [[0.0]]])).info
    tensor([0, 1], dtype=int32)
    """
    x = matrices(A, square=True)
    info = array_module(x).zeros(x.array.shape[:-2], np.int32)
    try:
        return InvExResult(inv(x), _info(info))
    except LinAlgError:
        if check_errors:
            raise
    info = _singular(x.array)
    inverses = inv(_without_failures(x, info))
    eye = array_module(x).eye(x.array.shape[-1], dtype=x.dtype)
    return InvExResult(_with_failures(inverses, x, eye, info), _info(info))


@operator(namespace="linalg", method=False, like=inv_ex)
@also_named(input="A", b="B")
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> SolveExResult:
    """The X with ``A @ X = B``, and whether there is exactly one: ``solve`` that raises no error.

    Derivative: ``solve``'s; 0 where there is no solution.
    Shape: that of ``solve``; info ``(...)``.
    Dtype: float32, float64 and complex; info is int32.

    Args:
        left: solve ``A @ X = B`` instead of ``X @ A = B``.

    Returns: (result, info): info is the position, from 1, of a zero pivot of a singular A. Its result is not finite.

    Raises:
        RuntimeError: the shapes do not fit, or with ``check_errors`` A is singular.

    >>> rg.linalg.solve_ex(rg.tensor([[2.0]]), rg.tensor([4.0]))
    SolveExResult(result=tensor([2.]), info=tensor(0, dtype=int32))
    """
    a, b = matrices(A, square=True), operand(B, "B")
    info = array_module(a).zeros(a.array.shape[:-2], np.int32)
    try:
        return SolveExResult(solve(a, b, left=left), _info(info))
    except LinAlgError:
        if check_errors:
            raise
    info = _singular(a.array)
    solutions = solve(_without_failures(a, info), b, left=left)
    if is_vector_batch(a, b):
        columns = _with_failures(solutions.unsqueeze(-1), a, b.array[..., None], info)
        return SolveExResult(columns.squeeze(-1), _info(info))
    return SolveExResult(_with_failures(solutions, a, b.array, info, left), _info(info))


@operator(namespace="linalg", method=False, shape="with info")
@also_named(input="A")
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> CholeskyExResult:
    """The Cholesky factor of each matrix, and whether it exists: ``cholesky`` that raises no error.

    Derivative: ``cholesky``'s; 0 where there is no factor.
    Dtype: float32, float64 and complex; the factor has A's dtype, info is int32.

    Args:
        A: symmetric or Hermitian matrices.
        upper: return ``U`` with ``A = U^H @ U`` instead.

    Returns: (L, info): info is the order of the first leading minor that is not positive. If there is one, the factor
    has the columns computed before it, then the bad pivot and elements of A.

    Raises:
        RuntimeError: A is not square, or with ``check_errors`` not positive-definite.

    >>> rg.linalg.cholesky_ex(rg.tensor([[[4.0]], [[-1.0]]])).info
    tensor([0, 1], dtype=int32)
    """
    x = matrices(A, square=True)
    info = array_module(x).zeros(x.array.shape[:-2], np.int32)
    try:
        return CholeskyExResult(cholesky(x, upper=upper), _info(info))
    except LinAlgError:
        if check_errors:
            raise
    info = _order_of_bad_minor(x.array)
    factor = cholesky(_without_failures(x, info), upper=upper)
    partial = new_tensor(_partial_factors(x.array, info, upper))
    return CholeskyExResult(where(new_tensor(np.asarray(info != 0)[..., None, None]), partial, factor), _info(info))


@operator(namespace="linalg", method=False)
@also_named(input="A")
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LUFactorExResult:
    """``lu_factor`` with the position of the first zero pivot, for which ``lu_solve`` would divide by zero.

    Derivative: ``lu_factor``'s.
    Shape: ``(..., m, n)`` to LU ``(..., m, n)``, pivots ``(..., min(m, n))`` and info ``(...)``.
    Dtype: float32, float64 and complex; LU has A's dtype, pivots and info are int32.

    Args:
        pivot: whether rows are interchanged.
        check_errors: raise an error if a pivot is zero.

    Returns: (LU, pivots, info): info is the position, from 1, of the first zero pivot, or 0.

    Raises:
        RuntimeError: A is not a matrix, or with ``check_errors`` a pivot is zero.

    >>> rg.linalg.lu_factor_ex(rg.tensor([[1.0, 2.0], [2.0, 4.0]])).info
    tensor(2, dtype=int32)
    """
    x = matrices(A)
    packed, pivots = lu_factor(x, pivot=pivot)
    info = (
        np.asarray(_first_zero_pivot(packed.array))
        if type(packed.array) is np.ndarray
        else (_first_zero_pivot(packed.array))
    )
    if check_errors and bool((info != 0).any()):
        raise RuntimeError(f"U has a zero on its diagonal, at position {int(info.max())} (from 1) of {describe(x)}")
    return LUFactorExResult(packed, pivots, _info(info))
