"""LDL decompositions of symmetric and Hermitian matrices with Bunch-Kaufman pivoting, and solutions with them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import all_examples, backend_of
from ....core.errors import LinAlgError, describe
from ....core.graph.primitive import operand
from ....core.named_tuples import NamedTuple
from ....core.tensor.tensor import Tensor, new_tensor
from ...table.batching import called_per_example
from ...table.registry import operator
from ...table.types import Operand
from ..matrices import matrices
from ..solving.systems import solve

_ALPHA = (1 + 17**0.5) / 8  # Bunch and Kaufman's threshold, which bounds the growth of elements


class LDLFactors(NamedTuple):
    """L and D packed in one matrix, and the interchanges of rows and columns, counted from 1."""

    LD: Tensor
    pivots: Tensor


class LDLFactorsInfo(NamedTuple):
    """LD and pivots, and for each matrix the position of the first zero pivot, counted from 1, or 0."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


def _pivot(a: Array, k: int) -> tuple[int, int]:
    """Return the row to swap with row k, and the number of rows of the block of D (1 or 2)."""
    n, size = len(a), abs(a.real) + abs(a.imag)
    here = size[k, k]
    largest = k + 1 + int(size[k + 1 :, k].argmax()) if k < n - 1 else k
    below = size[largest, k] if k < n - 1 else 0.0
    if max(here, below) == 0 or here >= _ALPHA * below:
        return k, 1
    row = max(size[largest, k:largest].max(), size[largest + 1 :, largest].max(initial=0.0))
    if here >= _ALPHA * below * (below / row):
        return k, 1
    return largest, 1 if size[largest, largest] >= _ALPHA * row else 2


def _interchange(a: Array, k: int, i: int, j: int, conjugate: Any) -> None:
    """Swap rows and columns i < j of the lower triangle from column k on."""
    a[j + 1 :, [i, j]] = a[j + 1 :, [j, i]]
    between = a[i + 1 : j, i].copy()
    a[i + 1 : j, i] = conjugate(a[j, i + 1 : j])
    a[j, i + 1 : j] = conjugate(between)
    a[j, i] = conjugate(a[j, i])
    a[[i, j], [i, j]] = a[[j, i], [j, i]]
    if i > k:
        a[[i, j], k] = a[[j, i], k]


def _factor(a: Array, hermitian: bool) -> tuple[Array, Array, int]:
    """Factorize the lower triangle of one matrix in place, as LAPACK's sytf2 and hetf2."""
    conjugate = np.conj if hermitian else np.positive
    a[np.triu_indices(len(a), 1)] = 0
    if hermitian:
        a[np.diag_indices(len(a))] = a.diagonal().real
    n, k, info = len(a), 0, 0
    pivots = np.zeros(n, np.int32)
    while k < n:
        p, step = _pivot(a, k)
        last = k + step
        if p != last - 1:
            _interchange(a, k, last - 1, p, conjugate)
        block, rest = a[k:last, k:last].copy(), a[last:, k:last]
        if step == 2:
            block[0, 1] = conjugate(block[1, 0])
        if step == 1 and block[0, 0] == 0:
            info = info or k + 1
        elif last < n:
            multipliers = np.linalg.solve(block.T, rest.T).T
            a[last:, last:] -= np.tril(multipliers @ conjugate(rest).T)
            a[last:, k:last] = multipliers
        pivots[k:last] = p + 1 if step == 1 else -(p + 1)
        k = last
    return a, pivots, info


@called_per_example
def _factored(x: Tensor, hermitian: bool) -> tuple[Tensor, Tensor, Tensor]:
    backend = backend_of(x.array)
    array = backend.to_numpy(x.array)
    stack = array.reshape(prod(array.shape[:-2]), *array.shape[-2:]).copy()
    pivots, info = np.zeros(stack.shape[:2], np.int32), np.zeros(len(stack), np.int32)
    for index, a in enumerate(stack):
        stack[index], pivots[index], info[index] = _factor(a, hermitian and array.dtype.kind == "c")
    ld, at, flags = stack.reshape(array.shape), pivots.reshape(array.shape[:-1]), info.reshape(array.shape[:-2])
    return tuple(new_tensor(backend.asarray(part)) for part in (ld, at, flags))  # type: ignore[return-value]


@operator(namespace="linalg", method=False, differentiable=False, raises="square", args="A lower, hermitian")
def ldl_factor_ex(A: Operand, *, hermitian: bool = False, check_errors: bool = False) -> LDLFactorsInfo:
    """``ldl_factor`` that reports zero pivots in ``info``, a number per matrix, instead of raising an error.

    Shape: (..., n, n) to LD (..., n, n), pivots (..., n) and info (...).
    Dtype: float32, float64 and complex, preserved; pivots and info int32.

    Returns:
        The named tuple ``(LD, pivots, info)``.

    Raises:
        LinAlgError: with ``check_errors``, a pivot is zero.

    >>> rg.linalg.ldl_factor_ex(rg.zeros(2, 2)).info
    tensor(1, dtype=int32)
    """
    result = LDLFactorsInfo(*_factored(matrices(A, square=True), hermitian))
    if check_errors and all_examples(result.info.array).any():
        raise LinAlgError("a pivot of D is zero, so A is singular")
    return result


@operator(
    namespace="linalg", method=False, differentiable=False, raises="square", dtype="pivots", args="A lower, hermitian"
)
def ldl_factor(A: Operand, *, hermitian: bool = False) -> LDLFactors:
    """``LD, pivots`` with ``A = P L D L^T P^T``: L unit triangular, D of blocks of one or two rows, both in one matrix.

    Derivative: none, as in PyTorch.
    Shape: (..., n, n) to LD (..., n, n) and pivots (..., n).

    Returns:
        The named tuple ``(LD, pivots)``, as LAPACK's sytrf gives them.

    Source: Bunch and Kaufman, Some stable methods for calculating inertia, 1977.

    >>> rg.linalg.ldl_factor(rg.tensor([[2.0, 1.0], [1.0, 3.0]])).LD
    tensor([[2. , 0. ],
            [0.5, 2.5]])
    """
    return LDLFactors(*_factored(matrices(A, square=True), hermitian)[:2])


def _product(ld: Array, pivots: Array, hermitian: bool) -> Array:
    conjugate = np.conj if hermitian else np.positive
    n = len(ld)
    out = np.zeros_like(ld)
    k = n
    while k > 0:
        step = 1 if pivots[k - 1] >= 0 else 2  # pivots are 0 inside vmap without examples
        k -= step
        last = k + step
        block = ld[k:last, k:last].copy()
        if step == 2:
            block[0, 1] = conjugate(block[1, 0])
        lower = np.eye(n, step, -k, dtype=ld.dtype)
        lower[last:] = ld[last:, k:last]
        out += lower @ block @ conjugate(lower).T
        i, j = last - 1, abs(int(pivots[k])) - 1
        out[[i, j]] = out[[j, i]]
        out[:, [i, j]] = out[:, [j, i]]
    return out


@called_per_example
def _products(x: Tensor, pivots: Tensor, hermitian: bool) -> Tensor:
    backend = backend_of(x.array)
    if backend.name == "meta":
        return x
    array, at = backend.to_numpy(x.array), backend.to_numpy(pivots.array)
    count = prod(array.shape[:-2])
    stack, rows = array.reshape(count, *array.shape[-2:]), at.reshape(count, array.shape[-1])
    of_complex = hermitian and array.dtype.kind == "c"
    whole = np.array([_product(a, p, of_complex) for a, p in zip(stack, rows, strict=True)], array.dtype)
    return new_tensor(backend.asarray(whole.reshape(array.shape)))


@operator(namespace="linalg", method=False, dtype="equal matrix")
def ldl_solve(LD: Operand, pivots: Tensor, B: Operand, *, hermitian: bool = False) -> Tensor:
    """``X`` with ``A X = B``, from the result of ``ldl_factor(A)``.

    Derivative: B: ``A^-H g``; LD: none, as in PyTorch.
    Shape: LD (..., n, n), pivots (..., n), B (..., n, k), batches broadcast; the result has B's shape.

    Args:
        LD: the packed factors.
        pivots: the interchanges.
        hermitian: the argument ``hermitian`` that ``ldl_factor`` was called with.

    Raises:
        LinAlgError: D is singular.
        RuntimeError: the shapes of LD, pivots and B do not match.

    >>> factors = rg.linalg.ldl_factor(rg.tensor([[2.0, 1.0], [1.0, 3.0]]))
    >>> rg.linalg.ldl_solve(*factors, rg.tensor([[3.0], [4.0]]))
    tensor([[1.],
            [1.]])
    """
    x, right = matrices(LD, "LD", square=True), operand(B, "B")
    if right.array.ndim < 2 or operand(pivots, "pivots").array.shape != x.array.shape[:-1]:
        raise RuntimeError(
            f"expected pivots {x.array.shape[:-1]} and matrices B for LD {describe(x)}, "
            f"got {describe(pivots)} and {describe(right)}"
        )
    return solve(_products(x, pivots, hermitian), right)
