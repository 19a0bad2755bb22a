"""LU decompositions: Gaussian elimination with row interchanges, for stacks of matrices, and what it solves."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...core.devices import array_module
from ...core.errors import describe
from ...core.primitive import Primitive, apply1, operand
from ...core.tensor import Tensor, new_tensor
from ..shape.joining import cat
from ..table.registry import OPERATORS, operator
from .decompositions import lower_part, require_real, upper_part
from .linalg import SOLVE, matrices, solve_triangular, transposed
from .matmul import MATMUL, as_rows


def _stacked(x: Any) -> Any:
    """All matrices along one axis. Where there are no elements, -1 would not say how long it is."""
    return x.reshape((prod(x.shape[:-2]), *x.shape[-2:]))


def _eliminate(x: Any, pivots: Any) -> Any:
    """Gaussian elimination in place, choosing the largest pivot where there are pivots to be set (1-based rows)."""
    xp = array_module(x)
    rows, columns = x.shape[-2:]
    batch = xp.arange(x.shape[0])
    for k in range(min(rows, columns)):
        if pivots is not None:
            best = xp.abs(x[:, k:, k]).argmax(axis=1) + k
            pivots[:, k] = best + 1
            chosen = x[batch, best].copy()
            x[batch, best] = x[:, k]
            x[:, k] = chosen
        pivot = x[:, k, k][:, None]
        x[:, k + 1 :, k] = xp.where(pivot == 0, 0, x[:, k + 1 :, k] / xp.where(pivot == 0, 1, pivot))
        x[:, k + 1 :, k + 1 :] -= x[:, k + 1 :, k, None] * x[:, k, None, k + 1 :]
    return x


def _lu_compact(x: Any) -> Any:
    """L (below the diagonal) and U of square matrices that need no pivoting."""
    flat = _stacked(x).copy()
    return _eliminate(flat, None).reshape(x.shape)


def _lu_rule(g: Any, ans: Any) -> Any:
    """L^-T [tril(L^T gL, -1) + triu(gU U^T)] U^-T, L and U packed in one matrix."""
    xp = array_module(ans)
    lower = lower_part(ans, 0.0) + xp.eye(ans.shape[-1], dtype=ans.dtype)
    upper = upper_part(ans, 1.0)
    inner = lower_part(MATMUL(transposed(lower), lower_part(g, 0.0)), 0.0) + upper_part(
        MATMUL(upper_part(g, 1.0), transposed(upper)), 1.0
    )
    left = SOLVE(transposed(lower), inner)
    return transposed(SOLVE(upper, transposed(left)))


LU = Primitive("linalg.lu_factor", _lu_compact, "x", [_lu_rule])


def _pivot(x: Any) -> tuple[Any, Any]:
    """Row interchanges (1-based, as LAPACK's) and the permutation of rows they amount to."""
    xp = array_module(x)
    rows, columns = x.shape[-2:]
    flat = _stacked(x).copy()
    pivots = xp.zeros((flat.shape[0], min(rows, columns)), dtype=np.int32)
    _eliminate(flat, pivots)
    shape = x.shape[:-2]
    return pivots.reshape((*shape, pivots.shape[-1])), _permutation(pivots.reshape((*shape, pivots.shape[-1])), rows)


def _permutation(pivots: Any, rows: int) -> Any:
    """The rows of the original matrix in the order in which elimination left them."""
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


def _rows(x: Tensor, order: Any) -> Tensor:
    """The rows of each matrix in the given order."""
    index = order[..., None]
    return OPERATORS["take_along_dim"].function(x, new_tensor(index), -2)


def _packed(permuted: Tensor) -> Tensor:
    """L and U of matrices whose rows are in pivot order; the square part first, the rest by a triangular system."""
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


@operator(namespace="linalg", method=False)
def lu_factor(A: Tensor, *, pivot: bool = True) -> LUFactors:
    """Gaussian elimination with row interchanges: ``A = P @ L @ U``, L and U packed in one matrix.

    >>> rg.linalg.lu_factor(rg.tensor([[1.0, 2.0], [2.0, 2.0]]))
    LUFactors(LU=tensor([[2. , 2. ],
            [0.5, 1. ]]), pivots=tensor([2, 2], dtype=int32))
    """
    return _lu_factor(A, pivot)


def _lu_factor(value: Any, pivot: bool) -> LUFactors:
    x = matrices(value)
    require_real(x)
    if pivot:
        pivots, order = _pivot(x.array)
        return LUFactors(_packed(_rows(x, order)), new_tensor(pivots))
    xp = array_module(x)
    count = min(x.array.shape[-2:])
    pivots = xp.zeros((*x.array.shape[:-2], count), dtype=np.int32) + xp.arange(1, count + 1, dtype=np.int32)
    return LUFactors(_packed(x), new_tensor(pivots))


@operator(name="lu", method=True)
def lu_(input: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """As ``linalg.lu_factor``; with ``get_infos`` also the index of the first zero pivot of each matrix, or 0.

    >>> packed, pivots = rg.lu(rg.tensor([[2.0]]))
    >>> packed
    tensor([[2.]])
    """
    packed, pivots = _lu_factor(input, pivot)
    if not get_infos:
        return packed, pivots
    diagonal = np.diagonal(packed.array, axis1=-2, axis2=-1) == 0
    infos = np.where(diagonal.any(axis=-1), diagonal.argmax(axis=-1) + 1, 0)
    return packed, pivots, new_tensor(array_module(packed).asarray(infos, dtype=np.int32))


class LUResult(NamedTuple):
    """The factors of ``A = P @ L @ U``."""

    P: Tensor
    L: Tensor
    U: Tensor


@operator(namespace="linalg", method=False)
def lu(A: Tensor, *, pivot: bool = True) -> LUResult:
    """``A = P @ L @ U``: a permutation, a unit lower triangular and an upper triangular matrix.

    >>> rg.linalg.lu(rg.tensor([[1.0, 2.0], [2.0, 2.0]])).U
    tensor([[2., 2.],
            [0., 1.]])
    """
    x = matrices(A)
    packed, pivots = _lu_factor(x, pivot)
    xp = array_module(x)
    rows, columns = x.array.shape[-2:]
    k = min(rows, columns)
    eye = new_tensor(xp.eye(rows, k, dtype=x.dtype))
    order = _permutation(pivots.array, rows)
    p = new_tensor(np.swapaxes(xp.eye(rows, dtype=x.dtype)[order], -1, -2))
    if not pivot:
        p = new_tensor(xp.empty((0,), x.dtype))
    return LUResult(p, packed[..., :k].tril(-1) + eye, packed[..., :k, :].triu())


def _lu_solve(name: str, packed: Any, pivots: Any, b: Any, left: bool, adjoint: bool) -> Tensor:
    factors, right = matrices(packed, "LU", square=True), matrices(b, "B")
    swaps = operand(pivots, "pivots").array
    rows = factors.array.shape[-1]
    if swaps.dtype != np.int32 or swaps.shape != factors.array.shape[:-1]:
        raise RuntimeError(
            f"pivots must be int32{factors.array.shape[:-1]} for LU {describe(factors)}, got {describe(swaps)}"
        )
    if swaps.size and not 1 <= int(swaps.min()) <= int(swaps.max()) <= rows:
        raise RuntimeError(f"pivots must be between 1 and {rows}; are they those of lu_factor?")
    order = _permutation(swaps, rows)
    if not left:
        return _lu_solve(name, factors, pivots, right.mT, True, not adjoint).mT
    if right.array.shape[-2] != factors.array.shape[-1]:
        raise RuntimeError(f"incompatible shapes {describe(factors)} and {describe(right)}")
    batch = np.broadcast_shapes(order.shape[:-1], right.array.shape[:-2])
    right, order = right.expand(*batch, *right.array.shape[-2:]), np.broadcast_to(order, (*batch, rows))
    if adjoint:
        y = solve_triangular(factors.mT, right, upper=False)
        y = solve_triangular(factors.mT, y, upper=True, unitriangular=True)
        return _rows(y, order.argsort(axis=-1))
    y = solve_triangular(factors, _rows(right, order), upper=False, unitriangular=True)
    return solve_triangular(factors, y, upper=True)


@operator(namespace="linalg", method=False)
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """The X with ``A @ X = B``, given ``lu_factor(A)``; ``X @ A = B`` without ``left``, A transposed with ``adjoint``.

    >>> factors = rg.linalg.lu_factor(rg.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> rg.linalg.lu_solve(*factors, rg.ones(2, 1))
    tensor([[0.5 ],
            [0.25]])
    """
    return _lu_solve("linalg.lu_solve", LU, pivots, B, left, adjoint)


@operator(name="lu_solve")
def lu_solve_(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """As ``linalg.lu_solve``, with the right-hand side first.

    >>> rg.lu_solve(rg.ones(1, 1), *rg.lu(rg.tensor([[2.0]])))
    tensor([[0.5]])
    """
    return _lu_solve("lu_solve", LU_data, LU_pivots, input, True, False)
