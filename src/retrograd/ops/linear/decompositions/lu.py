"""LU decompositions of stacks of matrices, by Gaussian elimination with row interchanges, and solutions with them."""

from __future__ import annotations

from math import prod
from typing import Any, Literal, overload

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import all_examples, array_module, extent
from ....core.arrays.layout import broadcast_shapes, row_major
from ....core.errors import describe
from ....core.graph.primitive import Primitive, apply1, operand
from ....core.named_tuples import NamedTuple
from ....core.tensor.tensor import Tensor, new_tensor
from ...indexing.gather import take_along_dim
from ...shape.joining import cat
from ...table.batching import in_front
from ...table.composites import one_node
from ...table.registry import operator
from ...table.types import Operand
from ..matrices import as_rows, lower_part, matrices, transposed, upper_part
from ..products.matmul import MATMUL
from ..solving.systems import SOLVE_TRIANGULAR, solve_triangular


def _stacked(x: Array) -> Array:
    """Reshape stacked matrices to one batch axis; without elements, reshape cannot infer -1."""
    return x.reshape((prod(x.shape[:-2]), *x.shape[-2:]))


def _magnitude(x: Array) -> Array:
    """Return the magnitude by which LAPACK compares pivots: |Re x| + |Im x| for complex numbers."""
    return abs(x.real) + abs(x.imag) if x.dtype.kind == "c" else abs(x)


def _eliminate(x: Array, pivots: Array | None) -> Array:
    """Eliminate in place; if ``pivots`` is given, choose the largest pivots and store their rows (1-based)."""
    xp = array_module(x)
    rows, columns = x.shape[-2:]
    batch = xp.arange(x.shape[0])
    for k in range(min(rows, columns)):
        if pivots is not None:
            best = _magnitude(x[:, k:, k]).argmax(axis=1) + k
            pivots[:, k] = best + 1
            chosen = x[batch, best].copy()
            x[batch, best] = x[:, k]
            x[:, k] = chosen
        pivot = x[:, k, k][:, None]
        x[:, k + 1 :, k] = xp.where(pivot == 0, 0, x[:, k + 1 :, k] / xp.where(pivot == 0, 1, pivot))
        x[:, k + 1 :, k + 1 :] -= x[:, k + 1 :, k, None] * x[:, k, None, k + 1 :]
    return x


def _lu_compact(x: Array) -> Array:
    """Return L (below the diagonal) and U of square matrices, without pivoting."""
    flat = _stacked(x).copy()
    return _eliminate(flat, None).reshape(x.shape)


def _lu_rule(g: Array, ans: Array) -> Array:
    """L^-T [tril(L^T gL, -1) + triu(gU U^T)] U^-T, with L and U packed in one matrix."""
    xp = array_module(ans)
    lower = lower_part(ans, 0.0) + xp.eye(ans.shape[-1], dtype=ans.dtype)
    of_lower = lower_part(MATMUL(transposed(lower), lower_part(g, 0.0)), 0.0)
    inner = of_lower + upper_part(MATMUL(upper_part(g), transposed(upper_part(ans))))
    left = SOLVE_TRIANGULAR(transposed(ans), inner, upper=True, unit=True)
    return transposed(SOLVE_TRIANGULAR(ans, transposed(left), upper=True, unit=False))


LU = Primitive("linalg.lu_factor", _lu_compact, "x", [_lu_rule], batch=in_front)


def _pivot(x: Array) -> Array:
    """Return LAPACK's row interchanges, counted from 1."""
    xp = array_module(x)
    rows, columns = x.shape[-2:]
    flat = _stacked(x).copy()
    pivots = xp.zeros((flat.shape[0], min(rows, columns)), dtype=np.int32)
    _eliminate(flat, pivots)
    return pivots.reshape((*x.shape[:-2], pivots.shape[-1]))


PIVOT = Primitive("linalg.lu_factor", _pivot, "x", [None], batch=in_front)


def _order(pivots: Array, rows: int) -> Array:
    xp = array_module(pivots)
    flat = as_rows(pivots)
    order = xp.zeros((flat.shape[0], rows), dtype=np.int64) + xp.arange(rows)
    batch = xp.arange(flat.shape[0])
    for k in range(flat.shape[-1]):
        other = flat[:, k] - 1
        chosen = order[batch, other].copy()
        order[batch, other] = order[:, k]
        order[:, k] = chosen
    return order.reshape((*pivots.shape[:-1], rows))


PERMUTATION = Primitive("linalg.lu_factor", _order, "pivots", [None], batch=in_front)


def permutation_matrix(pivots: Array, rows: int, dtype: np.dtype[Any]) -> Array:
    """Return P of ``A = P @ L @ U`` for row interchanges."""
    order, xp = PERMUTATION(pivots, rows=rows), array_module(pivots)
    return row_major(np.swapaxes((order[..., None] == xp.arange(rows)).astype(dtype), -1, -2))


def within_rows(pivots: Array, rows: int) -> bool:
    """Return whether all row interchanges are between 1 and the number of rows."""
    least, most = extent(pivots) if all_examples(pivots).size else (1, rows)
    return least >= 1 and most <= rows


def _rows(x: Tensor, order: Array) -> Tensor:
    return take_along_dim(x, new_tensor(order[..., None]), -2)


def _packed(permuted: Tensor) -> Tensor:
    """Return L and U, packed, of matrices with rows in pivot order.

    The first k rows and columns are factorized, the remaining ones follow by solving a triangular system."""
    rows, columns = permuted.array.shape[-2:]
    k = min(rows, columns)
    square = apply1(LU, permuted[..., :k, :k])
    if columns > k:
        rest = solve_triangular(square, permuted[..., k:], upper=False, unitriangular=True)
        return cat([square, rest], -1)
    if rows > k:
        rest = solve_triangular(square, permuted[..., k:, :], upper=True, left=False)
        return cat([square, rest], -2)
    return square


class LUFactors(NamedTuple):
    """L and U packed in one matrix, and the row interchanges, counted from 1."""

    LU: Tensor
    pivots: Tensor


@operator(namespace="linalg", method=False, raises="matrix", dtype="pivots")
def lu_factor(A: Operand, *, pivot: bool = True) -> LUFactors:
    """``LU, pivots`` with ``A = P @ L @ U``: Gaussian elimination with row interchanges, L and U packed in one matrix.

    Derivative: ``L^-H (tril(L^H gL, -1) + triu(gU U^H)) U^-H`` for square matrices, with the rows in pivot order; in
    other matrices the remaining rows or columns follow by triangular systems. The pivots are constant.
    Shape: (..., m, n) to LU (..., m, n) and pivots (..., min(m, n)).

    Args:
        pivot: interchange rows, so that each pivot is the largest of its column.

    Returns:
        The named tuple ``(LU, pivots)``; row i was interchanged with row ``pivots[i]``, counted from 1.

    >>> rg.linalg.lu_factor(rg.tensor([[1.0, 2.0], [2.0, 2.0]]))
    LUFactors(LU=tensor([[2. , 2. ],
            [0.5, 1. ]]), pivots=tensor([2, 2], dtype=int32))
    """
    return _lu_factor(A, "A", pivot)


def _lu_factor(value: Operand, argument: str, pivot: bool) -> LUFactors:
    x = matrices(value, argument)
    if pivot:
        pivots = PIVOT(x.array)
        return LUFactors(_packed(_rows(x, PERMUTATION(pivots, rows=x.array.shape[-2]))), new_tensor(pivots))
    xp = array_module(x)
    count = min(x.array.shape[-2:])
    pivots = xp.zeros((*x.array.shape[:-2], count), dtype=np.int32) + xp.arange(1, count + 1, dtype=np.int32)
    return LUFactors(_packed(x), new_tensor(pivots))


@overload
def lu_(input: Operand, pivot: bool = True, get_infos: Literal[False] = False) -> tuple[Tensor, Tensor]: ...
@overload
def lu_(input: Operand, pivot: bool = True, *, get_infos: Literal[True]) -> tuple[Tensor, Tensor, Tensor]: ...
@operator(name="lu", like=lu_factor)
def lu_(input: Operand, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """``LU, pivots`` with ``input = P @ L @ U``: ``linalg.lu_factor``.

    Derivative: as ``linalg.lu_factor``.

    Args:
        input: the matrices.
        pivot: interchange rows.
        get_infos: also return, per matrix, the position of the first zero pivot, counted from 1, or 0.

    Returns:
        The tuple ``(LU, pivots)``, or with ``get_infos`` ``(LU, pivots, infos)``.

    Raises:
        TypeError: ``input`` is not a Tensor, array or number.
        RuntimeError: the errors of ``linalg.lu_factor``.

    >>> packed, pivots = rg.lu(rg.tensor([[2.0]]))
    >>> packed
    tensor([[2.]])
    """
    packed, pivots = _lu_factor(input, "input", pivot)
    if not get_infos:
        return packed, pivots
    diagonal = np.diagonal(packed.array, axis1=-2, axis2=-1) == 0
    infos = np.where(diagonal.any(axis=-1), diagonal.argmax(axis=-1) + 1, 0)
    return packed, pivots, new_tensor(array_module(packed).asarray(infos, dtype=np.int32))


_lu_node = one_node("linalg.lu")


class LUResult(NamedTuple):
    """The factors of ``A = P @ L @ U``."""

    P: Tensor
    L: Tensor
    U: Tensor


@operator(namespace="linalg", method=False, dtype="matrix", raises="as lu_factor")
def lu(A: Operand, *, pivot: bool = True) -> LUResult:
    """``P, L, U`` with ``A = P @ L @ U``: a permutation, a unit lower and an upper triangular matrix.

    Derivative: as ``linalg.lu_factor``; P is constant.
    Shape: (..., m, n) to P (..., m, m), L (..., m, k), U (..., k, n), ``k = min(m, n)``.

    Args:
        pivot: interchange rows; if False, P is empty.

    Returns:
        The named tuple ``(P, L, U)``.

    >>> rg.linalg.lu(rg.tensor([[1.0, 2.0], [2.0, 2.0]])).U
    tensor([[2., 2.],
            [0., 1.]])
    """
    x = matrices(A)
    packed, pivots = _lu_factor(x, "A", pivot)
    xp = array_module(x)
    rows, columns = x.array.shape[-2:]
    k = min(rows, columns)
    eye = new_tensor(xp.eye(rows, k, dtype=x.dtype))
    p = new_tensor(permutation_matrix(pivots.array, rows, x.dtype) if pivot else xp.empty((0,), x.dtype))
    return LUResult(p, *_lu_node(packed[..., :k].tril(-1) + eye, packed[..., :k, :].triu()))


def _lu_solve(packed: Operand, pivots: Operand, b: Operand, left: bool, adjoint: bool) -> Tensor:
    factors, right = matrices(packed, "LU", square=True), matrices(b, "B")
    swaps = operand(pivots, "pivots").array
    rows = factors.array.shape[-1]
    if swaps.dtype != np.int32 or swaps.shape != factors.array.shape[:-1]:
        raise RuntimeError(
            f"pivots must be int32{factors.array.shape[:-1]} for LU {describe(factors)}, got {describe(swaps)}"
        )
    if not within_rows(swaps, rows):
        raise RuntimeError(f"pivots must be between 1 and {rows}; pass the pivots that lu_factor returned")
    order = PERMUTATION(swaps, rows=rows)
    if not left:
        return _lu_solve(factors, pivots, right.mH, True, not adjoint).mH.contiguous()
    if right.array.shape[-2] != factors.array.shape[-1]:
        raise RuntimeError(f"B must have as many rows as LU, got {describe(right)} and {describe(factors)}")
    batch = broadcast_shapes(order.shape[:-1], right.array.shape[:-2])
    right, order = right.expand(*batch, *right.array.shape[-2:]), np.broadcast_to(order, (*batch, rows))
    if adjoint:
        y = solve_triangular(factors.mH, right, upper=False)
        y = solve_triangular(factors.mH, y, upper=True, unitriangular=True)
        return _rows(y, order.argsort(axis=-1))
    y = solve_triangular(factors, _rows(right, order), upper=False, unitriangular=True)
    return solve_triangular(factors, y, upper=True)


@operator(namespace="linalg", method=False, raises="singular", derivative="triangular systems")
def lu_solve(LU: Operand, pivots: Operand, B: Operand, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """``X`` with ``A @ X = B``, from ``LU, pivots = lu_factor(A)``.

    Shape: LU (..., n, n), pivots (..., n), B (..., n, k), or (..., k, n) without ``left``; batches broadcast, and
    X has B's shape.
    Dtype: float32, float64 and complex, the same for LU and B, preserved; pivots int32.

    Args:
        LU: L and U, packed in one matrix.
        pivots: the row interchanges, counted from 1.
        adjoint: solve with ``A^H`` instead of A.

    Raises:
        RuntimeError: the shapes do not fit, the dtypes differ, or a pivot is out of range.

    >>> factors = rg.linalg.lu_factor(rg.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> rg.linalg.lu_solve(*factors, rg.ones(2, 1))
    tensor([[0.5 ],
            [0.25]])
    """
    return _lu_solve(LU, pivots, B, left, adjoint)


@operator(name="lu_solve", raises="singular", args="input right-hand sides", like=lu_solve)
def lu_solve_(input: Operand, LU_data: Operand, LU_pivots: Operand) -> Tensor:
    """``X`` with ``A @ X = input``, from ``LU_data, LU_pivots = lu(A)``: ``linalg.lu_solve``.

    Derivative: as ``linalg.lu_solve``.
    Shape: LU_data (..., n, n), LU_pivots (..., n), input (..., n, k), batches broadcast; X has the input's shape.
    Dtype: float32, float64 and complex, the same for LU_data and input, preserved; LU_pivots int32.

    Args:
        LU_data: L and U, packed in one matrix.
        LU_pivots: the row interchanges, counted from 1.

    >>> rg.lu_solve(rg.ones(1, 1), *rg.lu(rg.tensor([[2.0]])))
    tensor([[0.5]])
    """
    return _lu_solve(LU_data, LU_pivots, input, True, False)


_lu_unpack_node = one_node("lu_unpack")


class LUParts(NamedTuple):
    """The factors of ``A = P @ L @ U``; factors that were not requested are empty."""

    P: Tensor
    L: Tensor
    U: Tensor


@operator(method=False)
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> LUParts:
    """P, L and U from the result of ``linalg.lu_factor``: ``A = P @ L @ U``.

    Derivative: LU_data: ``tril(gL, -1) + triu(gU)``; the permutation has none.
    Shape: ``(..., m, n)`` and ``(..., k)`` to P ``(..., m, m)``, L ``(..., m, k)``, U ``(..., k, n)``, ``k = min(m,
    n)``.
    Dtype: float32, float64 and complex; the results have the dtype of LU_data.

    Args:
        LU_data: L below the diagonal, U on and above it.
        LU_pivots: the row interchanges, counted from 1, as int32.
        unpack_data: whether to return L and U.
        unpack_pivots: whether to return P.

    Returns: (P, L, U); factors that were not requested are empty.

    Raises:
        RuntimeError: the pivots have another dtype or shape than those of ``lu_factor``, or are out of range.

    >>> packed, pivots = rg.linalg.lu_factor(rg.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> rg.lu_unpack(packed, pivots).U
    tensor([[2., 2.],
            [0., 1.]])
    """
    packed, swaps = matrices(LU_data, "LU_data"), operand(LU_pivots, "LU_pivots").array
    rows, columns = packed.array.shape[-2:]
    k = min(rows, columns)
    fits = swaps.shape[:-1] == packed.array.shape[:-2] and swaps.ndim and swaps.shape[-1] <= rows
    if unpack_pivots and (swaps.dtype != np.int32 or not fits):
        raise RuntimeError(f"LU_pivots must be lu_factor's int32 pivots for {describe(packed)}, got {describe(swaps)}")
    if unpack_pivots and not within_rows(swaps, rows):
        raise RuntimeError(f"LU_pivots must be between 1 and {rows}; pass the pivots that lu_factor returned")
    xp = array_module(packed)
    empty = new_tensor(xp.empty((0,), packed.dtype))
    p, lower, upper = empty, empty, empty
    if unpack_pivots:
        p = new_tensor(permutation_matrix(swaps[..., :k], rows, packed.dtype))
    if unpack_data:
        lower = packed[..., :k].tril(-1) + new_tensor(xp.eye(rows, k, dtype=packed.dtype))
        upper = packed[..., :k, :].triu()
        lower, upper = _lu_unpack_node(lower, upper)
    return LUParts(p, lower, upper)
