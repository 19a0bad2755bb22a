"""Systems of linear equations, and the inverses of linear maps between tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.errors import LinAlgError, describe
from ....core.graph.primitive import Primitive, apply, operand
from ....core.named_tuples import NamedTuple
from ....core.tensor.tensor import Tensor
from ....kernels.loops.matrices import triangular
from ...shape.arrangement import TRIL, TRIU
from ...table.arguments import dimension
from ...table.batching import in_front
from ...table.composites import one_node
from ...table.registry import also_named, operator
from ...table.types import Operand
from ..matrices import identity_like, is_vector_batch, matrices, transposed
from ..products.matmul import MATMUL
from .inverses import inv


def _solve(a: Array, b: Array) -> Array:
    xp = array_module(a)
    if xp is not np and a.shape[:-2] != b.shape[:-2]:  # CuPy's solve does not broadcast
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = xp.broadcast_to(a, lead + a.shape[-2:]), xp.broadcast_to(b, lead + b.shape[-2:])
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"{error}: the system has no unique solution") from None


def _solve_rule(g: Array, ans: Array, a: Array, needs: tuple[bool, bool]) -> tuple[Array | None, Array | None]:
    below = SOLVE(transposed(a), g)
    return -MATMUL(below, transposed(ans)) if needs[0] else None, below


def _solve_triangular(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    if not unit and bool((a.diagonal(0, -2, -1) == 0).any()):
        raise LinAlgError("Singular matrix: the system has no unique solution")
    found = triangular.solve(a, b, upper, unit)
    if found is not None:
        return found
    xp = array_module(a)
    half = (xp.triu if upper else xp.tril)(a, int(unit) if upper else -int(unit))
    return _solve(half + identity_like(a) if unit else half, b)


def _solve_triangular_rule(
    g: Array, ans: Array, a: Array, upper: bool, unit: bool, needs: tuple[bool, bool]
) -> tuple[Any, Any]:
    below = SOLVE_TRIANGULAR(transposed(a), g, upper=not upper, unit=unit)
    if not needs[0]:
        return None, below
    whole = -MATMUL(below, transposed(ans))
    return TRIU(whole, diagonal=int(unit)) if upper else TRIL(whole, diagonal=-int(unit)), below


SOLVE: Primitive = Primitive(
    "linalg.solve", _solve, "a b", vjp=_solve_rule, promote="strict", batch=in_front, contiguous=True, shaped=True
)
SOLVE_TRIANGULAR: Primitive = Primitive(
    "linalg.solve_triangular",
    _solve_triangular,
    "a b",
    vjp=_solve_triangular_rule,
    promote="strict",
    batch=in_front,
    contiguous=True,
    shaped=True,
)


@operator(namespace="linalg", method=False, dtype="equal matrix", raises="dtypes, singular")
def solve(A: Operand, B: Operand, *, left: bool = True) -> Tensor:
    """``X`` with ``A @ X = B``, for each square matrix ``A``.

    Derivative: B: ``G = A^-T g``; A: ``-G X^T``.
    Shape: A (..., n, n), B (..., n, k) or vectors (..., n), batches broadcast; X has B's shape. Without ``left`` B is
    (..., k, n).

    Args:
        B: the right-hand sides; B holds vectors if it has one dimension, or A's shape without the last dimension.

    >>> rg.linalg.solve(rg.tensor([[2.0, 0.0], [0.0, 4.0]]), rg.tensor([2.0, 2.0]))
    tensor([1. , 0.5])
    """
    a, b = matrices(A, square=True), operand(B, "B")
    vector = is_vector_batch(a, b)
    if vector and not left:
        raise RuntimeError("left=False needs matrices for B, not vectors")
    if not left:
        return solve(a.mT, b.mT).mT.contiguous()
    b = b.unsqueeze(-1) if vector else b
    if b.array.ndim < 2 or b.array.shape[-2] != a.array.shape[-1]:
        raise RuntimeError(f"B must have as many rows as A, got {describe(B)} and {describe(A)}")
    x = apply(SOLVE, (a, b), {})
    return x.squeeze(-1) if vector else x


@operator(namespace="linalg", method=False, dtype="equal matrix", raises="dtypes, singular", args="upper triangle")
@also_named(input="A")
def solve_triangular(A: Operand, B: Operand, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """``X`` with ``A @ X = B``, for each triangular matrix ``A``, whose other triangle is not read.

    Derivative: B: ``G = A^-T g``; A: the triangle of ``-G X^T``.
    Shape: A (..., n, n), B (..., n, k), batches broadcast; X has B's shape. Without ``left`` B is (..., k, n).

    Args:
        unitriangular: assume ones on the diagonal, which is not read either.

    >>> rg.linalg.solve_triangular(rg.tensor([[2.0, 9.0], [1.0, 1.0]]), rg.tensor([[2.0], [3.0]]), upper=False)
    tensor([[1.],
            [2.]])
    """
    a, b = matrices(A, square=True), matrices(B, "B")
    if not left:
        return solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular).mT.contiguous()
    if b.array.shape[-2] != a.array.shape[-1]:
        raise RuntimeError(f"B must have as many rows as A, got {describe(B)} and {describe(A)}")
    return apply(SOLVE_TRIANGULAR, (a, b), {"upper": bool(upper), "unit": bool(unitriangular)})


_triangular_solve_node = one_node("triangular_solve")


class TriangularSolution(NamedTuple):
    """The solution, and a copy of the coefficients."""

    solution: Tensor
    cloned_coefficient: Tensor


@operator(dtype="equal matrix", raises="dtypes, singular", args="input right-hand sides, upper triangle")
def triangular_solve(
    input: Operand, A: Operand, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolution:
    """``X`` with ``A @ X = input``, for each triangular matrix ``A``: ``linalg.solve_triangular``.

    Derivative: as ``linalg.solve_triangular``.
    Shape: A (..., n, n), input (..., n, k), batches broadcast; X has the input's shape.

    Args:
        transpose: solve ``A^T @ X = input``.
        unitriangular: assume ones on the diagonal, which is not read.

    Returns:
        The named tuple ``(solution, cloned_coefficient)``, where the second is a copy of A.

    >>> rg.triangular_solve(rg.tensor([[4.0]]), rg.tensor([[2.0]])).solution
    tensor([[2.]])
    """
    a = matrices(A, square=True)
    solution = solve_triangular(a.mT if transpose else a, input, upper=upper != transpose, unitriangular=unitriangular)
    return TriangularSolution(*_triangular_solve_node(solution, a.clone()))


@operator(namespace="linalg", method=False, dtype="equal matrix", raises="singular", args="A coefficients")
@also_named(input="A", other="B")
def tensorsolve(A: Operand, B: Operand, dims: Sequence[int] | None = None) -> Tensor:
    """``X`` with ``tensordot(A, X, X.ndim) = B``.

    Derivative: as ``linalg.solve`` of A as a square matrix.
    Shape: A (*b, *x) with as many elements in b as in x, B (b); X is (x).

    Args:
        dims: dimensions of A that are first moved to the end.

    Raises:
        RuntimeError: A's shape is not B's shape followed by dimensions with as many elements as B.

    >>> rg.linalg.tensorsolve(rg.eye(4).reshape(2, 2, 4), rg.ones(2, 2))
    tensor([1., 1., 1., 1.])
    """
    a, b = operand(A, "A"), operand(B, "B")
    if dims is not None:
        moved = [dimension(dim, a.array.ndim) for dim in ([dims] if isinstance(dims, int) else dims)]
        a = a.permute(*[dim for dim in range(a.array.ndim) if dim not in moved], *moved)
    shape = a.array.shape[b.array.ndim :]
    size = prod(shape)
    if size != b.array.size or a.array.size != size * size:
        raise RuntimeError(
            f"expected A to be square over {b.array.size} elements of B, got {describe(A)}, B {describe(B)}"
        )
    return solve(a.reshape(size, size), b.reshape(size)).reshape(shape)


@operator(namespace="linalg", method=False, dtype="matrix", raises="singular", args="A coefficients")
@also_named(input="A")
def tensorinv(A: Operand, ind: int = 2) -> Tensor:
    """``X`` with ``tensordot(X, tensordot(A, Y, Y.ndim), ind) = Y``: the inverse of A as a map between tensors.

    Derivative: as ``linalg.inv`` of A as a square matrix.
    Shape: A (*b, *x) with as many elements in b as in x; X is (*x, *b).

    Args:
        ind: the number of leading dimensions of A that belong to b.

    Raises:
        RuntimeError: A is not square, or ``ind`` is not positive.

    >>> rg.linalg.tensorinv(rg.eye(4).reshape(2, 2, 4)).shape
    (4, 2, 2)
    """
    a = operand(A, "A")
    if ind <= 0:
        raise RuntimeError(f"ind must be positive, got {ind}")
    first, last = a.array.shape[:ind], a.array.shape[ind:]
    size = prod(last)
    if a.array.ndim < ind or prod(first) != size:
        raise RuntimeError(f"the first {ind} dimensions of {describe(a)} must have as many elements as the others")
    return inv(a.reshape(size, size)).reshape((*last, *first))
