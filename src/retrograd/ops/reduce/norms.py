"""Norms of vectors, over all or some dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.devices import array_module
from ...core.errors import describe
from ...core.primitive import Primitive, apply, operand
from ...core.summation import accurate_sum
from ...core.tensor import Tensor
from ..indexing.selection import where
from ..table.arguments import dimension
from ..table.registry import OPERATORS, also_named, numpy_names, operator
from .reductions import count, floating, kept, reduced

INFINITY = float("inf")


def _norm(x: Any, p: float, dim: tuple[int, ...] | None = None, keepdim: bool = False) -> Any:
    if x.dtype == np.float16:  # squares of float16 overflow from 256
        return _norm(x.astype(np.float32), p, dim, keepdim).astype(np.float16)
    xp = array_module(x)
    if p == 2:
        return xp.sqrt(accurate_sum(x * x, dim, keepdim))
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


def _norm_vjp(g: Any, x: Any, ans: Any, p: float, dim: tuple[int, ...] | None, keepdim: bool) -> Any:
    """``sign(x) (|x| / ||x||)^(p-1)``; 0 where the norm is 0 and, for p < 2, where x is 0, as in PyTorch."""
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
    ratio = np.abs(x) / size
    if p < 2:
        nothing = x == 0
        return np.where(nothing, 0, g * np.sign(x) * np.where(nothing, 1, ratio) ** (p - 1))
    return g * (x / size) * ratio ** (p - 2)


# The p-norm for any real p, also 0 (the number of non-zeros), inf and -inf. Of complex numbers take abs first.
NORM = Primitive("norm", _norm, "x", [_norm_vjp], signals=True)


def vector_norm(name: str, x: Tensor, p: Any, dim: Any, keepdim: bool) -> Tensor:
    """The p-norm over all dimensions, one, or several, for operator ``name``.

    Raises:
        IndexError: a dimension is out of range.
        RuntimeError: the infinity norms, or those for negative p, of no elements.
    """
    if x.array.dtype.kind == "c":
        x = OPERATORS["abs"].function(x)
    axes = reduced(name, dim, x.array.ndim)
    if (p < 0 or p == INFINITY) and count(x.array.shape, axes) == 0:
        raise RuntimeError(f"the {p} norm of no elements does not exist, got {describe(x)} with dim={dim}")
    return apply(NORM, (x,), {"p": float(p), "dim": axes, "keepdim": keepdim})


AT_ZERO = "the gradient is 0 where the norm is 0; p = inf: ties share it evenly"


@operator(note=AT_ZERO)
@numpy_names
def norm(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The p-norm ``(sum |x|^p)^(1/p)`` of all elements, or over one or several dimensions.

    Args:
        input: a floating or complex Tensor.
        p: a number, ``inf``, ``-inf``, ``"fro"`` (the 2-norm) or ``"nuc"`` (the sum of a matrix's singular values).
        dim: the dimensions, all by default.
        keepdim: keep the reduced dimensions with length 1.
        dtype: converts the input first.

    Raises:
        RuntimeError: the input holds integers, or ``p`` is another word.
        IndexError: a dimension is out of range.

    >>> rg.norm(rg.tensor([3.0, 4.0])), rg.norm(rg.tensor([3.0, -4.0]), 1)
    (tensor(5.), tensor(7.))
    """
    x = floating("norm", input, dtype)
    if p == "nuc":
        return OPERATORS["linalg.matrix_norm"].function(x, "nuc", (-2, -1) if dim is None else dim, keepdim)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"argument p must be a number, 'fro' or 'nuc', not {p!r}")
    return vector_norm("norm", x, 2 if p in ("fro", None) else p, dim, keepdim)


@operator(namespace="linalg", method=False, note=AT_ZERO, name="vector_norm")
@also_named(input="x", axis="dim", keepdims="keepdim")
def linalg_vector_norm(x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm ``(sum |x|^ord)^(1/ord)`` of all elements as one vector, or over one or several dimensions.

    Raises:
        RuntimeError: the input holds integers.
        IndexError: a dimension is out of range.

    >>> rg.linalg.vector_norm(rg.tensor([[3.0, 4.0], [0.0, 1.0]]), dim=1)
    tensor([5., 1.])
    """
    return vector_norm("linalg.vector_norm", floating("linalg.vector_norm", x, dtype), ord, dim, keepdim)


@operator(note=AT_ZERO)
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of ``input - other``, which may broadcast.

    Raises:
        RuntimeError: the shapes do not broadcast, or the inputs hold integers.

    >>> rg.dist(rg.tensor([1.0, 2.0]), rg.tensor([4.0, 6.0]))
    tensor(5.)
    """
    difference = OPERATORS["sub"].function(operand(input), operand(other, "other"))
    return vector_norm("dist", floating("dist", difference), p, None, False)


@operator(inplace=True)
@numpy_names
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The input with every slice along ``dim`` whose p-norm is larger than ``maxnorm`` scaled down to that norm.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: the input has no two dimensions, ``p`` is not positive or ``maxnorm`` is negative.

    >>> rg.renorm(rg.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    tensor([[0.6, 0.8],
            [0.3, 0.4]])
    """
    x = floating("renorm", input)
    if x.array.ndim < 2:
        raise RuntimeError(f"wanted an input of at least 2 dimensions, got {describe(x)}")
    if p <= 0 or maxnorm < 0:
        raise RuntimeError(f"wanted a positive p and a maxnorm of at least 0, got p={p}, maxnorm={maxnorm}")
    dim = dimension(dim, x.array.ndim)
    others = tuple(axis for axis in range(x.array.ndim) if axis != dim)
    size: Any = vector_norm("renorm", x, p, others, True)
    # 1e-7 is PyTorch's guard against a division by zero.
    return x * where(size > maxnorm, maxnorm / (size + 1e-7), 1)
