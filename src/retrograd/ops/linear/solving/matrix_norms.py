"""Norms and condition numbers of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

from ....core.arrays.dtypes import INEXACT
from ....core.errors import describe
from ....core.graph.primitive import operand
from ....core.tensor.tensor import Tensor
from ...indexing.selection import where
from ...reduce.common import for_norm
from ...reduce.norms import p_norm
from ...table.arguments import dimensions
from ...table.registry import also_named, operator
from ...table.types import Dims, DTypeLike, Operand
from ..decompositions.spectral import svdvals
from ..matrices import identity_like, matrices
from .inverses import inv, slogdet

# The order of a norm: a word or a number.
Order: TypeAlias = float | Literal["fro", "nuc"]


def _matrix_norm(x: Tensor, ord: Order, dims: Sequence[int], keepdim: bool) -> Tensor:
    if len(dims) != 2:
        raise RuntimeError(f"dim must be a 2-tuple, got {dims}")
    row, column = dimensions(tuple(dims), x.array.ndim)
    if ord == "fro":
        return p_norm(x, 2, (row, column), keepdim)
    if ord in ("nuc", 2, -2):
        values = svdvals(x.movedim((row, column), (-2, -1)))
        result = values.sum(-1) if ord == "nuc" else _largest(values, -1) if ord == 2 else values.amin(-1)
        return result.unsqueeze(min(row, column)).unsqueeze(max(row, column)) if keepdim else result
    if isinstance(ord, str) or ord not in (1, -1, float("inf"), -float("inf")):
        raise RuntimeError(f"order {ord!r} is not supported for matrices")
    summed, other = (row, column) if abs(ord) == 1 else (column, row)
    sums = p_norm(x, 1, summed, True)
    result = _largest(sums, other, keepdim=True) if ord > 0 else sums.amin(other, keepdim=True)
    return result if keepdim else result.squeeze((row, column))


def _largest(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Return the maximum along a dimension; 0 if it has length 0, since an empty matrix has norm 0 (as in PyTorch)."""
    return x.amax(dim, keepdim=keepdim) if x.array.shape[dim] else x.sum(dim, keepdim=keepdim)


@operator(namespace="linalg", method=False, args="dtype widens")
@also_named(input="A")
def matrix_norm(
    A: Operand, ord: Order = "fro", dim: Dims = (-2, -1), keepdim: bool = False, *, dtype: DTypeLike | None = None
) -> Tensor:
    """``||A||`` of each matrix: Frobenius, nuclear, or an operator norm.

    Derivative: that of the sums, extremes or singular values in the formula. At 0 the Frobenius norm has derivative 0;
    equal largest sums share ``g`` evenly.
    Shape: at least 2 dimensions; the dimensions ``dim`` are removed, or have length 1 with ``keepdim``.
    Dtype: float32, float64 and complex, whose norm is real.

    Args:
        ord: ``"fro"``: the root of the sum of squares; ``"nuc"``: the sum of the singular values; ``2``, ``-2``: the
            largest and the smallest singular value; ``1``, ``-1``: the largest and the smallest sum of a column's
            magnitudes; ``inf``, ``-inf``: the same of the rows.
        dim: the dimensions of the rows and columns.

    Raises:
        RuntimeError: the input has fewer than two dimensions or another dtype, ``dim`` does not name two dimensions, or
            ``ord`` is unknown.

    >>> rg.linalg.matrix_norm(rg.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    x = matrices(A if dtype is None else for_norm(A, dtype))
    return _matrix_norm(x, "fro" if ord is None else ord, (dim,) if isinstance(dim, int) else tuple(dim), keepdim)


@operator(namespace="linalg", method=False, name="norm", like=matrix_norm)
@also_named(input="A")
def linalg_norm(
    A: Operand,
    ord: Order | None = None,
    dim: Dims | None = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """``||A||``: ``vector_norm`` of all elements or along one dimension, ``matrix_norm`` along two.

    Derivative: as ``linalg.vector_norm`` and ``linalg.matrix_norm``.
    Shape: any; the dimensions ``dim`` are removed, or have length 1 with ``keepdim``.
    Dtype: floating and complex, whose norm is real; float32, float64 and complex for matrices.

    Args:
        A: the vectors or matrices.
        ord: which norm; by default the root of the sum of squares.
        dim: one dimension or two. By default all elements count as one vector; if ``ord`` is given, the input must have
            one or two dimensions.

    Raises:
        RuntimeError: the input is neither floating nor complex, it has more than two dimensions and ``ord`` is given
            without ``dim``, or ``ord`` is unknown.

    >>> rg.linalg.norm(rg.tensor([3.0, 4.0]))
    tensor(5.)
    """
    x = operand(A, "A")
    x = x if dtype is None else for_norm(x, dtype)
    if x.dtype.kind not in INEXACT:
        raise RuntimeError(f"expected floating or complex numbers, got {describe(x)}")
    dims = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if ord is None and (dims is None or len(dims) != 2):
        return p_norm(x, 2, dims, keepdim)
    if dims is None:
        if x.array.ndim not in (1, 2):
            raise RuntimeError(f"with ord but no dim the input must be 1-d or 2-d, got {describe(x)}")
        dims = tuple(range(x.array.ndim))
    if len(dims) == 1:
        if isinstance(ord, str):
            raise RuntimeError(f"order {ord!r} is a norm of matrices; dim must name two dimensions, got {dims[0]}")
        return p_norm(x, 2 if ord is None else ord, dims, keepdim)
    if len(dims) != 2:
        raise RuntimeError(f"dim must name one or two dimensions, got {dims}")
    return _matrix_norm(x, "fro" if ord is None else ord, dims, keepdim)


@operator(namespace="linalg", method=False)
@also_named(input="A")
def cond(A: Operand, p: Order | None = None) -> Tensor:
    """``||A|| ||A^-1||``: the condition number of each matrix.

    Derivative: that of the norms, or of the quotient of singular values.
    Shape: (..., m, n) to (...), (..., n, n) for other norms than 2 and -2.
    Dtype: float32, float64 and complex; the result is real.

    Args:
        p: the norm, as ``ord`` in ``linalg.matrix_norm``; None means 2, the largest singular value divided by the
            smallest.

    Raises:
        RuntimeError: the input is not a matrix of float32, float64 or complex numbers, or ``p`` is unknown.

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
    singular = slogdet(square.detach()).sign == 0
    invertible = where(singular[..., None, None], identity_like(square), square)
    norms = [_matrix_norm(x, p, (-2, -1), False) for x in (invertible, inv(invertible))]
    return where(singular, math.inf, norms[0] * norms[1])


@operator(dtype="magnitude", args="dtype widens")
def norm(
    input: Operand,
    p: float | Literal["fro", "nuc"] | None = "fro",
    dim: Dims | None = None,
    keepdim: bool = False,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """``(sum_i |x_i|^p)^(1/p)`` of all elements, or over one or several dimensions.

    Derivative: ``g sign(x) (|x| / norm)^(p-1)``; 0 where the norm is 0 and, except for ``p = 2``, where ``x`` is 0.
    Infinite p: ``g sign(x)`` at the extreme element, shared evenly by equal extremes. ``p = 0``: zeros.

    Args:
        input: the elements of the vector.
        p: any number: 0 counts the non-zeros, ``inf`` and ``-inf`` give the largest and the smallest ``|x_i|``;
            ``"fro"`` and None mean 2; ``"nuc"`` is the sum of a matrix's singular values.

    Raises:
        RuntimeError: the input holds integers, ``p`` is unknown, or the norm of no elements does not exist.

    >>> rg.norm(rg.tensor([3.0, 4.0])), rg.norm(rg.tensor([3.0, -4.0]), 1)
    (tensor(5.), tensor(7.))
    """
    x = for_norm(input, dtype)
    if p == "nuc":
        return matrix_norm(x, "nuc", (-2, -1) if dim is None else dim, keepdim)
    if p in ("fro", None):
        p = 2
    elif isinstance(p, str):
        raise RuntimeError(f"argument p must be a number, 'fro' or 'nuc', not {p!r}")
    return p_norm(x, p, dim, keepdim)
