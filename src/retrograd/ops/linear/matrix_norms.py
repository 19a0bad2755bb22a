"""Norms and condition numbers of matrices."""

from __future__ import annotations

import math
from typing import Any

from ...core.errors import describe
from ...core.primitive import operand
from ...core.tensor import Tensor
from ..reduce.norms import p_norm
from ..table.registry import OPERATORS, also_named, operator
from .decompositions import svdvals
from .linalg import identity_like, inv, matrices, slogdet


def _matrix_norm(name: str, x: Tensor, ord: Any, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    ndim = x.array.ndim
    if len(dims) != 2:
        raise RuntimeError(f"dim must be a 2-tuple, got {dims}")
    row, column = (dim % ndim if -ndim <= dim < ndim else dim for dim in dims)
    if not (0 <= row < ndim and 0 <= column < ndim):
        raise IndexError(f"dimensions {dims} are out of range for {describe(x)}")
    if row == column:
        raise RuntimeError(f"dims must be different, got {dims}")
    if ord in ("fro", None):
        return p_norm(x, 2, (row, column), keepdim)
    if ord in ("nuc", 2, -2):
        values = svdvals(x.movedim((row, column), (-2, -1)))
        result = values.sum(-1) if ord == "nuc" else _largest(values, -1) if ord == 2 else values.amin(-1)
        return result.unsqueeze(min(row, column)).unsqueeze(max(row, column)) if keepdim else result
    if ord not in (1, -1, float("inf"), -float("inf")):
        raise RuntimeError(f"order {ord!r} is not supported for matrices")
    summed, other = (row, column) if abs(ord) == 1 else (column, row)
    sums = p_norm(x, 1, summed, True)
    result = _largest(sums, other, keepdim=True) if ord > 0 else sums.amin(other, keepdim=True)
    return result if keepdim else result.squeeze((row, column))


def _largest(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """The largest along a dimension; 0, the norm of an empty matrix, where there are none (as PyTorch)."""
    return x.amax(dim, keepdim=keepdim) if x.array.shape[dim] else x.sum(dim, keepdim=keepdim)


@operator(namespace="linalg", method=False)
@also_named(input="A")
def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """A norm of each matrix: ``"fro"``, ``"nuc"``, or the operator norms ``1``, ``-1``, ``inf``, ``-inf``, ``2``,
    ``-2``.

    >>> rg.linalg.matrix_norm(rg.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    x = matrices(A if dtype is None else operand(A).to(dtype))
    return _matrix_norm("linalg.matrix_norm", x, ord, (dim,) if isinstance(dim, int) else tuple(dim), keepdim)


@operator(namespace="linalg", method=False)
@also_named(input="A")
def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """A norm of vectors or matrices: of all elements without ``ord`` and ``dim``, along one dimension, or of matrices
    along two.

    >>> rg.linalg.norm(rg.tensor([3.0, 4.0]))
    tensor(5.)
    """
    x = operand(A, "A")
    x = x if dtype is None else x.to(dtype)
    if x.dtype.kind not in "fc":
        raise RuntimeError(f"expected floating or complex numbers, got {describe(x)}")
    dims = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if ord is None and (dims is None or len(dims) != 2):
        return p_norm(x, 2, dims, keepdim)
    if dims is None:
        if x.array.ndim not in (1, 2):
            raise RuntimeError(f"with ord but no dim the input must be 1-d or 2-d, got {describe(x)}")
        dims = tuple(range(x.array.ndim))
    if len(dims) == 1:
        return p_norm(x, ord, dims, keepdim)
    if len(dims) != 2:
        raise RuntimeError(f"dim must name one or two dimensions, got {dims}")
    return _matrix_norm("linalg.norm", x, ord, (dims[0], dims[1]), keepdim)


@operator(namespace="linalg", method=False)
@also_named(input="A")
def cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition number ``||A|| ||A^-1||`` of each matrix, by default from its singular values.

    >>> rg.linalg.cond(rg.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor(2.)
    """
    x = matrices(A)
    if not x.array.size:
        return abs(x).sum((-2, -1))
    if p in (None, 2, -2):
        values = svdvals(x)
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    square = matrices(A, square=True)
    where, singular = OPERATORS["where"].function, slogdet(square.detach()).sign == 0
    invertible = where(singular[..., None, None], identity_like(square), square)
    norms = [_matrix_norm("linalg.cond", x, p, (-2, -1), False) for x in (invertible, inv(invertible))]
    return where(singular, math.inf, norms[0] * norms[1])
