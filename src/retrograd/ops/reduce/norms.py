"""Norms of vectors, over all or some dimensions."""

from __future__ import annotations

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.summation import accurate_sum
from ...core.errors import describe
from ...core.graph.primitive import Primitive, apply, operand
from ...core.tensor.tensor import Tensor
from ...kernels.chunked import by_lanes
from ...kernels.loops.statistics import moments
from ..indexing.selection import where
from ..math.arithmetic import sub
from ..table import batching
from ..table.arguments import dimension
from ..table.registry import also_named, operator
from ..table.types import Dim, Dims, DTypeLike, Operand
from .common import count, floating, for_norm, kept, reduced

INFINITY = float("inf")


def _norm(x: Array, p: float, dim: tuple[int, ...] | None = None, keepdim: bool = False) -> Array:
    if x.dtype == np.float16:  # squares of float16 numbers overflow from 256 on
        return _norm(x.astype(np.float32), p, dim, keepdim).astype(np.float16)
    xp = array_module(x)
    if p == 2:
        total = moments.squares(x, dim, keepdim, False)
        return xp.sqrt(accurate_sum(x * x, dim, keepdim) if total is None else total)
    if p == 0:
        return accurate_sum((x != 0).astype(x.dtype), dim, keepdim)
    size = xp.abs(x)
    if p == 1:
        return accurate_sum(size, dim, keepdim)
    if p == INFINITY:
        return size.max(axis=dim, keepdims=keepdim)
    if p == -INFINITY:
        return size.min(axis=dim, keepdims=keepdim)
    return accurate_sum(size**p, dim, keepdim) ** (1 / p)


def _norm_vjp(g: Array, x: Array, ans: Array, p: float, dim: tuple[int, ...] | None, keepdim: bool) -> Array:
    """``sign(x) (|x| / ||x||)^(p-1)``; 0 where the norm is 0 and, unless p = 2, where x is 0, as in PyTorch."""
    if p == 0:
        return np.zeros_like(x)
    g, ans = kept(g, x.shape, dim, keepdim), kept(ans, x.shape, dim, keepdim)
    if p == 1:
        return g * np.sign(x)
    if abs(p) == INFINITY:
        hits = np.abs(x) == ans
        ties = hits.sum(axis=dim, keepdims=True, dtype=g.dtype)
        return g / ties * hits * np.sign(x)
    zero = ans == 0
    size = np.where(zero, 1, ans)
    g = np.where(zero, 0, g)
    if p == 2:
        return g / size * x
    length = np.abs(x)
    # Elements on which the norm does not depend; a norm of NaN has no gradient.
    nothing = ((length == 0) | (length == INFINITY) & (p < 0)) & (ans == ans)
    ratio = np.where(nothing, 1, length) / size
    return g * np.where(nothing, 0, np.sign(x) * ratio ** (p - 1))


# The p-norm for any real p, including 0 (the number of non-zeros), inf and -inf; for complex numbers, apply abs first.
NORM = Primitive(
    "norm", by_lanes(_norm), "x", [_norm_vjp], signals=True, contiguous=True, batch=batching.along("dim"), by_rows=True
)


def p_norm(x: Tensor, p: float, dim: Dims | None, keepdim: bool) -> Tensor:
    """Return the p-norm over all dimensions, one, or several.

    Raises:
        IndexError: a dimension is out of range.
        RuntimeError: there are no elements and p is infinite or negative.
    """
    if x.array.dtype.kind == "c":
        x = abs(x)
    axes = reduced(dim, x.array.ndim)
    if (p < 0 or p == INFINITY) and count(x.array.shape, axes) == 0:
        raise RuntimeError(f"the {p} norm of no elements is undefined, got {describe(x)} with dim={dim}")
    return apply(NORM, (x,), {"p": float(p), "dim": axes, "keepdim": keepdim})


@operator(namespace="linalg", method=False, dtype="magnitude", args="dtype widens")
@also_named(input="x")
def vector_norm(
    x: Operand, ord: float = 2, dim: Dims | None = None, keepdim: bool = False, *, dtype: DTypeLike | None = None
) -> Tensor:
    """``(sum_i |x_i|^ord)^(1/ord)`` of all elements as one vector, or over one or several dimensions.

    Derivative: that of ``norm``.

    Args:
        x: the elements of the vector.
        ord: any number: 0 counts the non-zeros, ``inf`` and ``-inf`` give the largest and the smallest ``|x_i|``.

    Raises:
        RuntimeError: the input holds integers, ``dtype`` is narrower, or the norm of no elements is undefined.

    >>> rg.linalg.vector_norm(rg.tensor([[3.0, 4.0], [0.0, 1.0]]), dim=1)
    tensor([5., 1.])
    """
    return p_norm(for_norm(x, dtype), ord, dim, keepdim)


@operator(args="input one vector, other vector")
def dist(input: Operand, other: Operand, p: float = 2) -> Tensor:
    """``norm(input - other, p)``: the distance between the two inputs as vectors.

    Derivative: input: that of ``norm`` at the difference, 0 where the distance is 0; other: the negative of that.
    Shape: the inputs broadcast; the result is 0-d.
    Dtype: floating and complex, whose distance is real.

    Args:
        p: the order of the norm, any number.

    Raises:
        RuntimeError: the shapes do not broadcast, or the inputs hold integers.

    >>> rg.dist(rg.tensor([1.0, 2.0]), rg.tensor([4.0, 6.0]))
    tensor(5.)
    """
    return p_norm(floating(sub(operand(input), operand(other, "other"))), p, None, False)


@operator(inplace=True, dtype="floating and complex")
def renorm(input: Operand, p: float, dim: Dim, maxnorm: float) -> Tensor:
    """``x_i min(1, maxnorm / norm(x_i))`` for every slice ``x_i`` along ``dim``.

    Derivative: ``g`` where the norm is at most ``maxnorm``; elsewhere that of ``maxnorm x / norm(x)``.
    Shape: at least 2 dimensions; the result has the input's shape.

    Args:
        input: the Tensor of slices.
        p: the order of the norm, positive.
        dim: the dimension whose slices are scaled.
        maxnorm: the norm to which slices with a larger norm are scaled, at least 0.

    Raises:
        RuntimeError: the input has fewer than two dimensions, ``p`` is not positive or ``maxnorm`` is negative.

    >>> rg.renorm(rg.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    tensor([[0.6, 0.8],
            [0.3, 0.4]])
    """
    x = floating(input)
    if x.array.ndim < 2:
        raise RuntimeError(f"expected an input of at least 2 dimensions, got {describe(x)}")
    if not (p > 0 and maxnorm >= 0):
        raise RuntimeError(f"expected a positive p and a maxnorm of at least 0, got p={p}, maxnorm={maxnorm}")
    dim = dimension(dim, x.array.ndim)
    size = p_norm(x, p, tuple(axis for axis in range(x.array.ndim) if axis != dim), True)
    # 1e-7 is PyTorch's guard against a division by zero.
    return (x * where(size > maxnorm, maxnorm / (size + 1e-7), 1)).contiguous()
