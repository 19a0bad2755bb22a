"""Distances and similarities of vectors: pairwise, between all pairs, and the cosine."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy import ndarray

from ...core.arrays import Array
from ...core.arrays.blas import beside_pool
from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import FLOATING, result_type
from ...core.arrays.layout import broadcast_shapes
from ...core.arrays.summation import accurate_sum
from ...core.errors import InvalidValue, describe
from ...core.graph.primitive import Primitive, apply, apply1, apply2, operand
from ...core.tensor.tensor import Tensor
from ...kernels import or_reference
from ...kernels.loops.matrices import distances
from ..linear.products.matmul import MATMUL
from ..math.bounds import CLAMP_MIN
from ..reduce.common import reduce_
from ..reduce.norms import p_norm
from ..reduce.reductions import SUM
from ..table.arguments import dimension, number
from ..table.batching import composed, in_front
from ..table.blocks import BLOCK
from ..table.composites import gradients_of, raw, second_order
from ..table.registry import operator


@operator(method=False, real=True, args="x1 and x2")
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """``<x1, x2> / (max(||x1||, eps) * max(||x2||, eps))`` along ``dim``.

    Derivative: with the unit vectors u1 and u2, x1: ``g (u2 - ans u1) / ||x1||``; x2: ``g (u1 - ans u2) / ||x2||``.
    A norm below ``eps`` counts as ``eps``, and the norm of a zero vector has derivative 0.
    Shape: the inputs broadcast; the result has the common shape without ``dim``.
    Dtype: real floating; the result has the common dtype of both arguments.

    Args:
        dim: the dimension of the vectors.
        eps: the smallest divisor for each norm.

    Raises:
        IndexError: ``dim`` is out of range of the common shape.
        RuntimeError: the shapes do not broadcast, or neither argument is floating.

    >>> rg.cosine_similarity(rg.tensor([[3.0, 4.0]]), rg.tensor([[4.0, 3.0]]))
    tensor([0.96])
    """
    x, y = operand(x1, "x1"), operand(x2, "x2")
    if x.array.dtype.kind not in FLOATING and y.array.dtype.kind not in FLOATING:
        raise RuntimeError(f"expected floating numbers, got {describe(x)} and {describe(y)}")
    try:
        shape = broadcast_shapes(x.array.shape, y.array.shape)
    except ValueError:
        raise RuntimeError(f"x1 {describe(x)} and x2 {describe(y)} do not broadcast") from None
    dim = dimension(dim, len(shape))
    dtype = result_type(x.array, y.array)
    x = x if x.array.dtype == dtype else x.to(dtype)
    y = y if y.array.dtype == dtype else y.to(dtype)
    x = x if x.array.shape == shape else x.expand(shape)
    y = y if y.array.shape == shape else y.expand(shape)
    # Normalizing first avoids overflow and underflow of squares.
    x = x / apply2(CLAMP_MIN, p_norm(x, 2, dim, True), eps)
    y = y / apply2(CLAMP_MIN, p_norm(y, 2, dim, True), eps)
    return reduce_(SUM, x * y, dim, False)


@lru_cache(maxsize=16)
def _pairs(count: int) -> tuple[Array, Array]:
    return np.triu_indices(count, 1)


@operator(method=False, raises="broadcast", dtype="only floating", args="p norm, x1 and x2, eps of differences")
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """``||x1 - x2 + eps||_p`` along the last dimension.

    Derivative: that of the norm; for ``p = 2`` x1: ``g (x1 - x2 + eps) / ans``, x2: the negative of that; 0 at distance
    0.
    Shape: ``(..., D)``, both broadcast, to ``(...)``, or with ``keepdim`` to ``(..., 1)``.

    Args:
        keepdim: keep the last dimension.

    >>> rg.pairwise_distance(rg.tensor([[0.0, 0.0]]), rg.tensor([[3.0, 4.0]]), eps=0.0)
    tensor([5.])
    """
    x, y = operand(x1, "x1"), operand(x2, "x2")
    return (x - y + eps).norm(number(p, "p"), -1, keepdim)


# Euclidean distances between all pairs

FEW = 4  # up to this number of coordinates, adding arrays is faster than a NumPy sum along the last dimension


def _cdist(x: Array, y: Array) -> Array:
    """Compute distances by differences of a block of rows, which is accurate for points that nearly coincide."""
    xp = array_module(x)
    rows, (count, width) = x.shape[-2], y.shape[-2:]
    lead = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    out = xp.empty((*lead, rows, count), x.dtype)
    several = max(1, BLOCK // max(1, math.prod(lead) * count * width))
    for start in range(0, rows, several):
        squares = _squared_distances(x[..., start : start + several, :], y)
        out[..., start : start + several, :] = np.sqrt(squares)
    return out


def _squared_distances(x: Array, y: Array) -> Array:
    width = y.shape[-1]
    if not 0 < width <= FEW:
        return np.square(x[..., None, :] - y[..., None, :, :]).sum(axis=-1)
    squares: Any = 0
    for k in range(width):
        squares = squares + np.square(x[..., k, None] - y[..., None, :, k])
    return squares


def _cdist_expanded(x: Array, y: Array) -> Array:
    """Compute distances by ``|x|^2 + |y|^2 - 2 x.y``, with one matrix product."""
    squares = np.square(x).sum(axis=-1)[..., :, None] + np.square(y).sum(axis=-1)[..., None, :]
    squares -= 2 * beside_pool(np.matmul, x, np.swapaxes(y, -1, -2))
    return np.sqrt(np.maximum(squares, 0))


def _slope(g: Array, ans: Array) -> Array:
    """``g / distance``, 0 where points coincide."""
    zero = raw(ans) == 0
    return g * (~zero).astype(ans.dtype) / (ans + zero.astype(ans.dtype))


def _cdist_vjp(g: Array, x: Array, y: Array, ans: Array) -> Array:
    """``d/dx_i sum_j g_ij |x_i - y_j| = sum_j w_ij (x_i - y_j)`` with ``w = g / |x - y|``."""
    w = _slope(g, ans)
    return w.sum(axis=-1).reshape(w.shape[:-1] + (1,)) * x - MATMUL(w, y)


CDIST = Primitive(
    "cdist",
    lambda x, y, expand: (_cdist_expanded if expand else _cdist)(x, y),
    "x y",
    [
        lambda g, x, y, ans: _cdist_vjp(g, x, y, ans),
        lambda g, x, y, ans: _cdist_vjp(np.swapaxes(g, -1, -2), y, x, np.swapaxes(ans, -1, -2)),
    ],
    promote="strict",
    batch=in_front,
    signals=True,
    contiguous=True,
)

_MODES = {
    "use_mm_for_euclid_dist_if_necessary": lambda rows, columns: rows > 25 or columns > 25,
    "use_mm_for_euclid_dist": lambda rows, columns: True,
    "donot_use_mm_for_euclid_dist": lambda rows, columns: False,
}


@operator(method=False, dtype="equal real", like=pairwise_distance, args="p coordinates")
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """``||x1_i - x2_j||_p`` for every row i of x1 and every row j of x2.

    Derivative: for ``p = 2`` ``x1_i``: ``sum_j g_ij (x1_i - x2_j) / ans_ij``; ``x2_j``:
    ``sum_i g_ij (x2_j - x1_i) / ans_ij``; terms whose points coincide are 0. For other p, that of the norm.
    Shape: ``(..., P, M)`` and ``(..., R, M)``, whose leading dimensions broadcast, to ``(..., P, R)``.

    Args:
        compute_mode: whether distances for ``p = 2`` are computed by a matrix product, which is fast but less exact for
            points that nearly coincide: ``"use_mm_for_euclid_dist"``, ``"donot_use_mm_for_euclid_dist"``, or by default
            if P or R is above 25.

    Raises:
        RuntimeError: the shapes do not match, p is negative, or the dtypes differ or are not floating.
        ValueError: ``compute_mode`` is unknown.

    >>> rg.cdist(rg.tensor([[0.0, 0.0]]), rg.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    x, y = operand(x1, "x1"), operand(x2, "x2")

    def shown() -> str:
        return f"got x1 {describe(x)} and x2 {describe(y)}"

    if x.array.ndim < 2 or y.array.ndim < 2:
        raise RuntimeError(f"only supports at least 2D tensors, {shown()}")
    if x.array.dtype.kind not in FLOATING or x.array.dtype != y.array.dtype:
        raise RuntimeError(f"expected the same floating dtype for both, {shown()}")
    if x.array.shape[-1] != y.array.shape[-1]:
        raise RuntimeError(f"x1 and x2 must have the same number of columns, {shown()}")
    if p < 0:
        raise RuntimeError(f"only supports non-negative p values, got {p}")
    if compute_mode not in _MODES:
        raise InvalidValue(f"{compute_mode} is not a valid value for compute_mode; expected one of {', '.join(_MODES)}")
    try:
        lead = broadcast_shapes(x.array.shape[:-2], y.array.shape[:-2])
    except ValueError:
        raise RuntimeError(f"the batches do not broadcast, {shown()}") from None
    if p == 2:
        if lead:
            x, y = x.expand(*lead, *x.array.shape[-2:]), y.expand(*lead, *y.array.shape[-2:])
        expand = _MODES[compute_mode](x.array.shape[-2], y.array.shape[-2])
        return apply(CDIST, (x, y), {"expand": expand})
    return _p_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p)


def _p_norm(difference: Tensor, p: float) -> Tensor:
    if math.prod(difference.array.shape) == 0:
        return difference.abs().sum(-1)
    return difference.norm(p, -1)


def _pairs_of(x: Array) -> tuple[Array, Array]:
    return _pairs(len(x)) if type(x) is ndarray else array_module(x).triu_indices(x.shape[0], 1)


@or_reference
def _pdist(x: Array) -> Array:
    if distances.takes(x):
        return distances.pdist(x)
    i, j = _pairs_of(x)
    difference = x[i] - x[j]
    difference *= difference
    return np.sqrt(accurate_sum(difference, (1,)))


@or_reference
def _pdist_backward(g: Array, x: Array, distance: Array) -> Array:
    """``dx_i = sum_j w_ij (x_i - x_j)`` with ``w = g / distance``, symmetric."""
    w = _slope(g, distance)
    if distances.takes(x):
        return distances.pdist_backward(w, x)
    i, j = _pairs_of(x)
    weights = array_module(x).zeros((len(x), len(x)), x.dtype)
    weights[i, j] = weights[j, i] = w
    return np.matmul(weights[:, None], x[:, None] - x)[:, 0]


def _all_pairs(x: Tensor) -> Tensor:
    i, j = _pairs_of(x.array)
    return _p_norm(x[i] - x[j], 2)


PDIST_BACKWARD = Primitive(
    "pdist_backward",
    lambda dy, x, distance: (_pdist_backward(dy, x, distance),),
    "dy x",
    vjp=lambda g, dy, x, needs: second_order(_all_pairs, g, dy, (x,), (True,), needs),
    outputs=-1,
    signals=True,
    batch=composed(gradients_of(_all_pairs, 1, "distance")),
)
PDIST = Primitive(
    "pdist", _pdist, "x", [lambda g, x, ans: PDIST_BACKWARD(g, x, distance=raw(ans))[0]], batch=composed(_all_pairs)
)


@operator(namespace="nn.functional", method=False, real=True, dtype="real floating", args="p coordinates")
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """``||input_i - input_j||_p`` for every pair of rows ``i < j``.

    Derivative: that of the norm; for ``p = 2`` ``input_i``: ``g (input_i - input_j) / ans``, ``input_j``: the negative
    of that; 0 where points coincide.
    Shape: ``(N, M)`` to ``(N (N - 1) / 2,)``, the pairs in the order (0, 1), (0, 2), ...

    Raises:
        RuntimeError: the input is not 2-D, or p is negative.

    >>> F.pdist(rg.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.    , 1.    , 4.2426])
    """
    x = operand(input)
    if x.array.ndim != 2:
        raise RuntimeError(f"only supports 2D tensors, got {describe(x)}")
    if p < 0:
        raise RuntimeError(f"only supports non-negative p values, got {p}")
    if p == 2 and x.array.dtype.char in "fd" and x.array.size:
        return apply1(PDIST, x)
    i, j = _pairs_of(x.array)
    return _p_norm(x[i] - x[j], p)
