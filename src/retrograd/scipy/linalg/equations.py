"""Linear systems, matrix equations, inverses and norms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._generated import linalg as ours
from ..._generated import toplevel as ops
from ...core.arrays import Array
from ...core.graph.primitive import Primitive, apply
from ...core.named_tuples import NamedTuple
from ...core.tensor.tensor import Tensor
from ...ops.linear.matrices import transposed
from ...ops.numpy.arguments import alike, tensor
from ...ops.table.batching import in_front
from ..decorators import ArrayLike, is_mapped, scipys
from .matrices import as_columns, each, linalg, matrix, pair

# A x + x B = Q. The cotangent of Q solves the transposed equation; its products with x are the cotangents of A, B.


def _sylvester_rule(
    g: Array, ans: Array, a: Array, b: Array, needs: tuple[bool, bool, bool]
) -> tuple[Array | None, Array | None, Array]:
    below = SYLVESTER(transposed(a), transposed(b), g)
    by_a = -(below @ transposed(ans)) if needs[0] else None
    return by_a, -(transposed(ans) @ below) if needs[1] else None, below


SYLVESTER = Primitive(
    "scipy.linalg.solve_sylvester",
    lambda a, b, q: each("solve_sylvester", a, b, q),
    "a b q",
    vjp=_sylvester_rule,
    batch=in_front,
)

# Systems with a band matrix, stored by diagonals: row u + i - j of column j has the element (i, j).


def _band(lower: int, upper: int, n: int) -> tuple[Array, Array]:
    """Return the row index ``i`` of each element of ``ab``, and a mask of the elements that are inside the matrix."""
    rows = np.arange(n) + np.arange(lower + upper + 1)[:, None] - upper
    inside = (rows >= 0) & (rows < n)
    return np.where(inside, rows, 0), inside


def _transposed_band(ab: Array, lower: int, upper: int) -> Array:
    columns, inside = _band(upper, lower, ab.shape[-1])
    rows = np.arange(lower + upper, -1, -1)[:, None]
    return ab[..., rows, columns] * inside


def _solve_banded_rule(
    g: Array, ans: Array, ab: Array, lower: int, upper: int, needs: tuple[bool, bool]
) -> tuple[Array | None, Array]:
    below = SOLVE_BANDED(_transposed_band(ab, lower, upper), g, lower=upper, upper=lower)
    if not needs[0]:
        return None, below
    rows, inside = _band(lower, upper, ab.shape[-1])
    return -(below[..., rows, :] * ans[..., None, :, :]).sum(-1) * inside, below


SOLVE_BANDED = Primitive(
    "scipy.linalg.solve_banded",
    lambda ab, b, lower, upper: _each_banded(ab, b, (lower, upper)),
    "ab b",
    vjp=_solve_banded_rule,
    batch=in_front,
)


def _each_banded(ab: Array, b: Array, widths: tuple[int, int]) -> Array:
    function = scipys("scipy.linalg").solve_banded
    lead = np.broadcast_shapes(ab.shape[:-2], b.shape[:-2])
    if not lead:
        return np.asarray(function(widths, ab, b, check_finite=False))
    bands, sides = np.broadcast_to(ab, lead + ab.shape[-2:]), np.broadcast_to(b, lead + b.shape[-2:])
    out = np.empty(sides.shape, np.result_type(ab, b))
    for index in np.ndindex(*lead):
        out[index] = function(widths, bands[index], sides[index], check_finite=False)
    return out


# Systems with a Toeplitz matrix with the column c and the row r, each passed as a matrix of one row.


def _diagonal_sums(x: Array, y: Array) -> Array:
    """Return ``sum_j x[j + k] y[j]`` for each ``k``, summed over right-hand sides."""
    n = x.shape[-2]
    places = np.arange(n)[:, None] + np.arange(n)
    inside = places < n
    shifted = x[..., np.where(inside, places, 0), :] * inside[..., None]
    return (shifted * y[..., None, :, :]).sum((-2, -1))[..., None, :]


def _solve_toeplitz_rule(
    g: Array, ans: Array, c: Array, r: Array, needs: tuple[bool, bool, bool]
) -> tuple[Array | None, Array | None, Array]:
    # the transposed matrix has the row (c[0], c[1:]) and the column (c[0], r[1:])
    column = np.concatenate([c[..., :1], r[..., 1:]], axis=-1)
    below = SOLVE_TOEPLITZ(column, c, g)
    by_c = -_diagonal_sums(below, ans) if needs[0] else None
    by_r = -_diagonal_sums(ans, below) * (np.arange(c.shape[-1]) > 0) if needs[1] else None
    return by_c, by_r, below


SOLVE_TOEPLITZ = Primitive(
    "scipy.linalg.solve_toeplitz",
    lambda c, r, b: _each_toeplitz(c, r, b),
    "c r b",
    vjp=_solve_toeplitz_rule,
    batch=in_front,
)


def _each_toeplitz(c: Array, r: Array, b: Array) -> Array:
    function = scipys("scipy.linalg").solve_toeplitz
    lead = np.broadcast_shapes(c.shape[:-2], r.shape[:-2], b.shape[:-2])
    stacks = [np.broadcast_to(x, lead + x.shape[-2:]) for x in (c, r, b)]
    out = np.empty(stacks[2].shape, np.result_type(c, r, b))
    for index in np.ndindex(*lead):
        column, row, side = [stack[index] for stack in stacks]
        out[index] = function((column[0], row[0]), side, check_finite=False)
    return out


# The functions


def assumed(a: Tensor, assume: str | None, lower: bool) -> Tensor:
    """Return the matrix that SciPy's solvers read for an assumed structure."""
    if assume in (None, "gen", "general", "banded"):
        return a
    if assume in ("diagonal",):
        return ops.diag_embed(ops.diagonal(a, 0, -2, -1))
    if assume in ("tridiagonal",):
        return ops.triu(ops.tril(a, 1), -1)
    if assume in ("upper triangular", "lower triangular"):
        return (ops.triu if assume.startswith("upper") else ops.tril)(a)
    if assume not in ("sym", "symmetric", "her", "hermitian", "pos", "positive definite"):
        raise ValueError(f"{assume} is not a recognized matrix structure")
    half = (ops.tril if lower else ops.triu)(a)
    strict = ops.tril(a, -1) if lower else ops.triu(a, 1)
    return half + (strict.mT if assume.startswith("sym") else strict.mH)


@linalg
def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str | None = None,
    transposed: bool = False,
) -> Tensor:
    """Return the solution of ``a @ x = b``. Only the part of ``a`` that ``assume_a`` names is read.

    >>> rg.scipy.linalg.solve(rg.tensor([[2.0]]), rg.tensor([4.0]))
    tensor([2.])
    """
    x, y = pair(matrix(a, check_finite, square=True), b, check_finite)
    x = assumed(x, assume_a, lower)
    if transposed:
        if x.dtype.kind == "c":
            raise NotImplementedError("scipy.linalg.solve can currently not solve a^T x = b for complex matrices.")
        x = x.mT
    columns, single = as_columns(y)
    if columns.ndim < x.ndim:  # linalg.solve would interpret b as a stack of vectors
        columns = columns[(None,) * (x.ndim - columns.ndim)]
    result = ours.solve(x, columns)
    return result[..., 0] if single else result


@linalg
def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Tensor:
    """Return the solution of ``a @ x = b`` for triangular ``a``; ``trans`` replaces ``a`` by its transpose or adjoint.

    >>> rg.scipy.linalg.solve_triangular(rg.tensor([[2.0, 1.0], [5.0, 1.0]]), rg.tensor([4.0, 2.0]))
    tensor([1., 2.])
    """
    x, y = pair(matrix(a, check_finite, square=True), b, check_finite)
    step = {"N": 0, "T": 1, "C": 2}.get(trans, trans) if isinstance(trans, str) else trans
    if step not in (0, 1, 2):
        raise ValueError(f"scipy.linalg.solve_triangular: trans must be 0, 1, 2, 'N', 'T' or 'C', got {trans!r}")
    x = (x, x.mT, x.mH)[step]
    columns, single = as_columns(y)
    result = ours.solve_triangular(x, columns, upper=lower != (step == 0), unitriangular=unit_diagonal)
    return result[..., 0] if single else result


@linalg
def cho_solve(
    c_and_lower: tuple[ArrayLike, bool], b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True
) -> Tensor:
    """Return the solution of ``A @ x = b`` from ``cho_factor(A)``.

    >>> rg.scipy.linalg.cho_solve((rg.tensor([[2.0]]), True), rg.tensor([4.0]))
    tensor([1.])
    """
    c, lower = c_and_lower
    factor, y = pair(matrix(c, check_finite, square=True), b, check_finite)
    columns, single = as_columns(y)
    result = ops.cholesky_solve(columns, (ops.tril if lower else ops.triu)(factor), upper=not lower)
    return result[..., 0] if single else result


@linalg
def lu_solve(
    lu_and_piv: tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Tensor:
    """Return the solution of ``A @ x = b`` from ``lu_factor(A)``.

    >>> rg.scipy.linalg.lu_solve(rg.scipy.linalg.lu_factor(rg.tensor([[2.0]])), rg.tensor([4.0]))
    tensor([2.])
    """
    factors, y = pair(matrix(lu_and_piv[0], check_finite, square=True), b, check_finite)
    pivots = tensor(lu_and_piv[1])
    if trans not in (0, 1, 2):
        raise ValueError(f"scipy.linalg.lu_solve: trans must be 0, 1 or 2, got {trans}")
    columns, single = as_columns(y)
    if trans == 1:
        result = ours.lu_solve(factors.conj(), (pivots + 1).int(), columns, adjoint=True)
    else:
        result = ours.lu_solve(factors, (pivots + 1).int(), columns, adjoint=trans == 2)
    return result[..., 0] if single else result


@linalg
def solve_banded(
    l_and_u: tuple[int, int],
    ab: ArrayLike,
    b: ArrayLike,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Tensor:
    """Return the solution of a system with a band matrix, whose diagonals are the rows of ``ab``.

    Derivative: ``b`` gets the solution ``y`` of the transposed system for ``g``; ``ab`` gets ``-y_i x_j`` in its band.

    >>> rg.scipy.linalg.solve_banded((0, 0), rg.tensor([[2.0, 4.0]]), rg.tensor([2.0, 2.0]))
    tensor([1. , 0.5])
    """
    lower, upper = l_and_u
    band, y = pair(matrix(ab, check_finite), b, check_finite)
    if lower + upper + 1 != band.shape[-2]:
        raise ValueError(f"invalid values for the number of lower and upper diagonals: {lower} and {upper}")
    columns, single = as_columns(y)
    result = apply(SOLVE_BANDED, (band, columns), {"lower": int(lower), "upper": int(upper)})
    return result[..., 0] if single else result


@linalg
def solveh_banded(
    ab: ArrayLike,
    b: ArrayLike,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = True,
) -> Tensor:
    """Return the solution of a system with a positive definite band matrix; ``ab`` has its upper or lower diagonals.

    >>> rg.scipy.linalg.solveh_banded(rg.tensor([[2.0, 4.0]]), rg.tensor([2.0, 2.0]))
    tensor([1. , 0.5])
    """
    half, y = pair(matrix(ab, check_finite), b, check_finite)
    width = half.shape[-2] - 1
    if not lower:  # convert the upper to the lower form, whose first row is the diagonal
        n = half.shape[-1]
        places = np.arange(n) + np.arange(width + 1)[:, None]
        inside = places < n
        half = half[..., np.arange(width, -1, -1)[:, None], np.where(inside, places, 0)].conj() * tensor(inside)
    upper_rows = np.arange(width, 0, -1)[:, None]
    places = np.arange(half.shape[-1]) - upper_rows
    inside = places >= 0
    above = half[..., upper_rows, np.where(inside, places, 0)].conj() * tensor(inside)
    columns, single = as_columns(y)
    band = ops.cat([above, half], -2)
    result = apply(SOLVE_BANDED, (band, columns), {"lower": width, "upper": width})
    return result[..., 0] if single else result


@linalg
def solve_toeplitz(c_or_cr: ArrayLike | tuple[ArrayLike, ArrayLike], b: ArrayLike, check_finite: bool = True) -> Tensor:
    """Return the solution of a system with a Toeplitz matrix, given by its first column or by column and row.

    Derivative: ``b`` gets the solution ``y`` of the transposed system for ``g``; column and row get the sums of
    ``-y_i x_j`` along the diagonals.

    >>> rg.scipy.linalg.solve_toeplitz(rg.tensor([2.0, 1.0]), rg.tensor([3.0, 3.0]))
    tensor([1., 1.])
    """
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    column = tensor(c)
    column, row, y = alike(*pair(column, column.conj() if r is None else r, check_finite), pair(column, b)[1])
    if column.ndim != 1 or row.shape != column.shape:
        raise ValueError("scipy.linalg.solve_toeplitz: column and row must be vectors of the same length")
    columns, single = as_columns(y)
    result = apply(SOLVE_TOEPLITZ, (column[None], row[None], columns), {})
    return result[..., 0] if single else result


@linalg
def solve_circulant(
    c: ArrayLike,
    b: ArrayLike,
    singular: str = "raise",
    tol: float | None = None,
    caxis: int = -1,
    baxis: int = 0,
    outaxis: int = 0,
) -> Tensor:
    """Return the solution of a system with the circulant matrix whose first column is ``c``, by Fourier transforms.

    >>> rg.scipy.linalg.solve_circulant(rg.tensor([2.0, 1.0]), rg.tensor([3.0, 3.0]))
    tensor([1., 1.])
    """
    from ..._generated import fft

    x, y = pair(c, b)
    if singular != "raise" or x.ndim != 1 or (caxis, baxis, outaxis) != (-1, 0, 0):
        raise NotImplementedError(
            "scipy.linalg.solve_circulant of Tensors: c must be a vector, singular='raise', and axes the defaults"
        )
    spectrum = fft.fft(x)
    size = ops.abs(spectrum.detach())
    if bool((size <= (size.max() * x.shape[0] * np.finfo(x.array.dtype).eps if tol is None else tol)).any()):
        raise np.linalg.LinAlgError("singular circulant matrix.")
    columns, single = as_columns(y)
    result = fft.ifft(fft.fft(columns, dim=0) / spectrum[:, None], dim=0)
    result = result[:, 0] if single else result
    return result if "c" in (x.dtype.kind, y.dtype.kind) else result.real


@linalg
def solve_sylvester(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> Tensor:
    """Return the solution of ``a @ x + x @ b = q``.

    Derivative: ``q`` gets the solution ``y`` of the equation with ``a^T`` and ``b^T`` for ``g``, ``a`` gets
    ``-y @ x^T``, and ``b`` gets ``-x^T @ y``.

    >>> rg.scipy.linalg.solve_sylvester(rg.tensor([[1.0]]), rg.tensor([[1.0]]), rg.tensor([[4.0]]))
    tensor([[2.]])
    """
    x, y, z = alike(matrix(a, square=True), matrix(b, square=True), matrix(q))
    return apply(SYLVESTER, (x, y, z), {})


@linalg
def solve_continuous_lyapunov(a: ArrayLike, q: ArrayLike) -> Tensor:
    """Return the solution of ``a @ x + x @ a^H = q``.

    >>> rg.scipy.linalg.solve_continuous_lyapunov(rg.tensor([[1.0]]), rg.tensor([[4.0]]))
    tensor([[2.]])
    """
    x, z = alike(matrix(a, square=True), matrix(q, square=True))
    return apply(SYLVESTER, (x, x.mH, z), {})


solve_lyapunov = solve_continuous_lyapunov


@linalg
def solve_discrete_lyapunov(a: ArrayLike, q: ArrayLike, method: str | None = None) -> Tensor:
    """Return the solution of ``a @ x @ a^H - x + q = 0``.

    >>> rg.scipy.linalg.solve_discrete_lyapunov(rg.tensor([[0.5]]), rg.tensor([[3.0]]))
    tensor([[4.]])
    """
    x, z = alike(matrix(a, square=True), matrix(q, square=True))
    n = x.shape[-1]
    if method == "bilinear" or method is None and n >= 10:
        eye = ops.eye(n, dtype=x.dtype)
        inverse = ours.inv(x.mH + eye)
        c = 2 * ours.inv(x + eye) @ z @ inverse
        return solve_continuous_lyapunov(((x.mH - eye) @ inverse).mH, -c)
    if method not in (None, "direct"):
        raise ValueError(f"Unknown solver {method}")
    whole = ops.kron(x, x.conj())
    return ours.solve(ops.eye(n * n, dtype=x.dtype) - whole, z.reshape(n * n, 1)).reshape(n, n)


@linalg
def inv(
    a: ArrayLike,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    assume_a: str | None = None,
    lower: bool = False,
) -> Tensor:
    """Return the inverse of each square matrix.

    >>> rg.scipy.linalg.inv(rg.tensor([[2.0]]))
    tensor([[0.5]])
    """
    return ours.inv(assumed(matrix(a, check_finite, square=True), assume_a, lower))


@linalg
def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """Return the determinant of each square matrix.

    >>> rg.scipy.linalg.det(rg.tensor([[2.0]]))
    tensor(2.)
    """
    return ours.det(matrix(a, check_finite, square=True))


@linalg
def pinv(
    a: ArrayLike,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the pseudoinverse of each matrix, and with ``return_rank`` its rank; derivatives assume a constant rank.

    >>> rg.scipy.linalg.pinv(rg.tensor([[2.0]]))
    tensor([[0.5]])
    """
    x = matrix(a, check_finite)
    largest = max(x.shape[-2:]) * np.finfo(x.array.dtype).eps if rtol is None else rtol
    result = ours.pinv(x, atol=0.0 if atol is None else atol, rtol=largest)
    if not return_rank:
        return result
    return result, ours.matrix_rank(x.detach(), atol=0.0 if atol is None else atol, rtol=largest)


@linalg
def pinvh(
    a: ArrayLike,
    atol: float | None = None,
    rtol: float | None = None,
    lower: bool = True,
    return_rank: bool = False,
    check_finite: bool = True,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the pseudoinverse of each Hermitian matrix; only one triangle is read.

    >>> rg.scipy.linalg.pinvh(rg.tensor([[2.0]]))
    tensor([[0.5]])
    """
    whole = assumed(matrix(a, check_finite, square=True), "her", lower)
    return pinv(whole, atol=atol, rtol=rtol, return_rank=return_rank, check_finite=False)


class LstsqResult(NamedTuple):
    """The result of ``lstsq``, in SciPy's order."""

    x: Tensor
    residues: Tensor
    rank: int | Tensor
    s: Tensor


@linalg
def lstsq(
    a: ArrayLike,
    b: ArrayLike,
    cond: float | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: str | None = None,
) -> LstsqResult:
    """Return the least-squares solution of least norm of ``a @ x = b``, residues, rank and singular values ``s``.

    Inside ``vmap`` the rank is a Tensor, and residues are returned for every rank.

    >>> rg.scipy.linalg.lstsq(rg.tensor([[1.0], [1.0]]), rg.tensor([1.0, 3.0])).x
    tensor([2.])
    """
    x, y = pair(matrix(a, check_finite), b, check_finite)
    columns, single = as_columns(y)
    if x.shape[-2] != columns.shape[-2]:
        raise ValueError(f"Shape mismatch: a and b should have the same number of rows ({x.shape} != {y.shape}).")
    cut = np.finfo(x.array.dtype).eps if cond is None else cond
    singular = ours.svdvals(x)
    counted = (singular.detach() > cut * singular.detach().max()).sum()
    rank = counted if is_mapped([counted]) else int(counted.item())
    solution = ours.pinv(x, atol=0.0, rtol=cut) @ columns
    m, n = x.shape[-2:]
    if m > n and (isinstance(rank, Tensor) or rank == n):
        difference = columns - x @ solution
        residues = (difference * difference.conj()).real.sum(-2)
    else:
        residues = ops.zeros(0, dtype=singular.dtype)
    if single:
        solution, residues = solution[:, 0], residues[0] if residues.shape[0] else residues
    return LstsqResult(solution, residues, rank, singular)


@linalg
def norm(
    a: ArrayLike,
    ord: float | str | None = None,
    axis: int | tuple[int, int] | None = None,
    keepdims: bool = False,
    check_finite: bool = True,
) -> Tensor:
    """Return a norm of vectors or matrices, as ``numpy.linalg.norm`` does.

    >>> rg.scipy.linalg.norm(rg.tensor([3.0, 4.0]))
    tensor(5.)
    """
    order: Any = ord
    return np.linalg.norm(tensor(a), order, axis, keepdims)
