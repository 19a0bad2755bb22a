"""Attention: scaled dot products with masks, causality and dropout.

The fused operator (Dao et al., 2022) saves query, key, value, the output, and the maximum and sum of exponentials of
each row of scores. Its backward kernel recomputes the probabilities P:

    S = scale * Q K^T + mask        P = exp(S - max(S)) / total        out = P V
    dV = P^T dout        dS = P * (dout V^T - rowsum(dout * out))        dQ = scale * dS K        dK = scale * dS^T Q

Both kernels iterate over blocks of rows, so only the scores of one block are in memory, and a causal mask halves the
work. The NumPy code is the reference of the compiled loops in kernels/loops/sequences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from ....core.arrays import Array
from ....core.arrays.adjacent import like_slices
from ....core.arrays.bfloat16 import wide
from ....core.arrays.devices import array_module
from ....core.arrays.dtypes import FLOATING, bool_, conversion_advice, float32, limits
from ....core.arrays.layout import broadcast_shapes, cast
from ....core.errors import describe
from ....core.graph.fitting import unbroadcast
from ....core.graph.primitive import Primitive, apply, operand
from ....core.opaque_calls import LoopMissing
from ....core.tensor.tensor import Tensor, new_tensor
from ....kernels import or_reference
from ....kernels.loops.sequences import attention as loops
from ....kernels.runtime.result_arrays import empty, empty_like
from ...make.random_arrays import random_mask
from ...table.batching import aligned
from ...table.composites import raw, second_order, where_needed
from ...table.registry import operator

if TYPE_CHECKING:
    from ....core.mapping.batching import Call

BLOCK_ROWS = 128
BLOCK_ON_GPU = 1 << 26  # the number of scores in a block on a GPU, where kernel launches cost more than memory traffic


def _blocks(q: Any, k: Any, causal: bool) -> Iterator[tuple[slice, slice]]:
    rows, columns = q.shape[-2], k.shape[-2]
    step = BLOCK_ROWS if rows >= 2 * BLOCK_ROWS else max(rows, 1)
    if type(q) is not ndarray:
        step = max(step, min(rows, BLOCK_ON_GPU // max(math.prod(q.shape[:-2]) * columns, 1)))
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        yield slice(start, stop), slice(0, min(stop, columns) if causal else columns)


def _leading(q: Array, k: Array, v: Array) -> tuple[int, ...]:
    lead = q.shape[:-2]
    return lead if lead == k.shape[:-2] == v.shape[:-2] else broadcast_shapes(lead, k.shape[:-2], v.shape[:-2])


def _rows_of(array: Any, rows: slice, columns: slice) -> Any:
    """Return a block of a mask, whose rows or columns may have length 1."""
    i = rows if array.shape[-2] != 1 else slice(None)
    j = columns if array.shape[-1] != 1 else slice(None)
    return array[..., i, j]


def _scores(q: Any, k: Any, mask: Any, scale: float, rows: slice, columns: slice) -> Any:
    """Return a block of the scaled scores; masked scores are -inf."""
    s = np.matmul(q[..., rows, :] * q.dtype.type(scale), k[..., columns, :].swapaxes(-1, -2))
    if mask is not None:
        part = _rows_of(mask, rows, columns)
        s = np.where(part, s, s.dtype.type(-np.inf)) if mask.dtype == bool_ else s + part
    return s


def _causally(s: Array, first: int) -> Array:
    """Set the scores of the rows from ``first`` on to -inf above the diagonal."""
    rows, columns = s.shape[-2:]
    if type(s) is ndarray and rows * columns <= SMALL:
        allowed = _allowed(first, rows, columns)
    else:
        xp = array_module(s)
        allowed = xp.arange(first, first + rows)[:, None] >= xp.arange(columns)
    return np.where(allowed, s, _minus_infinity(s.dtype))


SMALL = 1 << 10  # up to this number of scores, the causal mask is cached


@lru_cache(maxsize=64)
def _allowed(first: int, rows: int, columns: int) -> Array:
    allowed = np.arange(first, first + rows)[:, None] >= np.arange(columns)
    allowed.flags.writeable = False
    return allowed


@cache
def _minus_infinity(dtype: Any) -> Array:
    return dtype.type(-np.inf)


def _weights(s: Any, first: int | None) -> tuple[Any, Any, Any]:
    """Return the exponentials of scores minus row maxima, the maxima, and the sums; the scores may be overwritten.

    ``first`` is the number of the first row for a causal mask, else None. A fully masked row has the sum 1.
    """
    p = s if first is None else _causally(s, first)
    if p.shape[-1]:
        top = np.maximum(p.max(axis=-1, keepdims=True), _lowest(p.dtype))  # not -inf, since -inf - (-inf) is NaN
    else:
        top = array_module(s).zeros(p.shape[:-1] + (1,), p.dtype)
    p -= top
    np.exp(p, out=p)
    total = p.sum(axis=-1, keepdims=True)
    return p, top, total + (total == 0)


@cache
def _lowest(dtype: Any) -> Any:
    return dtype.type(-limits(dtype).max)


def _onto(function: np.ufunc, s: Any, other: Any) -> Any:
    """Compute the function in place, unless ``other`` also has leading dimensions of the value, which s lacks."""
    lead = other.shape[:-2]
    return function(s, other, out=s if broadcast_shapes(s.shape[:-2], lead) == s.shape[:-2] else None)


def _weights_again(s: Array, first: int | None, top: Array) -> Array:
    p = _onto(np.subtract, s if first is None else _causally(s, first), top)
    return np.exp(p, out=p)


def _like(x: Any, shape: tuple[int, ...]) -> Any:
    """Return an array in x's memory order, as PyTorch does, so that heads can be merged by a view again."""
    if x.ndim == 4 and x.shape == shape and x.strides[-1] == x.itemsize and not x.flags.c_contiguous:
        return empty_like(x)
    return empty(shape, x.dtype, x)


def _forward(
    q: Array, k: Array, v: Array, mask: Array | None, keep: Array | None, out: Array, top: Array, total: Array,
    scale: float, causal: bool, dropout_p: float,
) -> None:  # fmt: skip
    """Fill the output, and the maximum and sum of exponentials of each row of scores (1 for a fully masked row).

    Maximum and sum are not combined into a log-sum-exp, whose rounding error matters for large scores.
    """
    for rows, columns in _blocks(q, k, causal):
        s = _scores(q, k, mask, scale, rows, columns)
        p, top[..., rows, :], whole = _weights(s, rows.start if causal else None)
        total[..., rows, :] = whole
        if keep is not None:
            p = _onto(np.multiply, p, _rows_of(keep, rows, columns))
            whole = whole * whole.dtype.type(1 - dropout_p)
        # Scale the product with V, which is smaller than the weights.
        out[..., rows, :] = np.matmul(p, v[..., columns, :]) / whole


def _backward(
    dout: Array, q: Array, k: Array, v: Array, mask: Array | None, keep: Array | None, out: Array, top: Array,
    total: Array, dq: Array, dk: Array, dv: Array, scale: float, causal: bool, dropout_p: float,
    dmask: Array | None = None,
) -> None:  # fmt: skip
    """Fill the gradients, whose arrays have the leading axes of all inputs, broadcast."""
    dk[...] = dv[...] = 0
    dout = dout / total  # cheaper than to scale the larger array of probabilities
    inner = (dout * out).sum(axis=-1, keepdims=True)
    for rows, columns in _blocks(q, k, causal):
        g = dout[..., rows, :]
        s = _scores(q, k, mask, scale, rows, columns)
        p = _weights_again(s, rows.start if causal else None, top[..., rows, :])
        ds = np.matmul(g, v[..., columns, :].swapaxes(-1, -2))
        if keep is None:
            dv[..., columns, :] += np.matmul(np.swapaxes(p, -1, -2), g)
        else:
            kept = _rows_of(keep, rows, columns)
            factor = p.dtype.type(1 / (1 - dropout_p))
            dv[..., columns, :] += np.matmul(np.swapaxes(p * kept, -1, -2), g * factor)
            ds *= kept
            ds *= factor
        ds -= inner[..., rows, :]
        ds *= p
        if dmask is not None:
            dmask[..., rows, columns] = ds
        ds *= ds.dtype.type(scale)
        dq[..., rows, :] = np.matmul(ds, k[..., columns, :])
        dk[..., columns, :] += np.matmul(np.swapaxes(ds, -1, -2), q[..., rows, :])


@or_reference
def _attention(
    q: Array, k: Array, v: Array, mask: Array | None, keep: Array | None, scale: float, causal: bool, dropout_p: float
) -> tuple[Array, ...]:
    lead = _leading(q, k, v)
    out = _like(q, (*lead, q.shape[-2], v.shape[-1]))
    kind = float32 if q.dtype.char == "E" else q.dtype
    top, total = [empty((*lead, q.shape[-2], 1), kind, q) for _ in range(2)]
    fill = loops.forward if kind is not q.dtype or loops.takes(q, k, v, mask) else _forward
    fill(q, k, v, mask, keep, out, top, total, scale, causal, dropout_p)
    return out, top, total


@or_reference
def _attention_of_halves(q: Array, k: Array, v: Array, mask: Array | None, **params: Any) -> tuple[Array, ...]:
    """Compute attention of bfloat16 arrays, with scores and weights in float32."""
    if loops.takes_pairs(q, k, v, mask):
        return _attention(q, k, v, wide(mask), **params)
    out, *residuals = _attention(*wide((q, k, v, mask)), **params)
    return cast(out, q.dtype), *residuals


@or_reference
def _backward_of_halves(
    dout: Array, q: Array, k: Array, v: Array, mask: Array | None, out: Array, **params: Any
) -> tuple[Array, ...]:
    if loops.takes_pairs(q, k, v, mask) and dout.dtype == out.dtype == q.dtype and not params["wanted"][3]:
        return _attention_backward(dout, q, k, v, wide(mask), out=out, **params)
    dout, q, k, v, mask, out = wide((dout, q, k, v, mask, out))
    return _attention_backward(dout, q, k, v, mask, out=out, **params)


@or_reference
def _attention_backward(
    dout: Any, q: Any, k: Any, v: Any, mask: Any, keep: Any, out: Any, top: Any, total: Any, scale: float,
    causal: bool, dropout_p: float, wanted: tuple[bool, ...],
) -> tuple[Any, ...]:  # fmt: skip
    lead = out.shape[:-2]
    if dout.shape[:-2] != lead:  # inside vmap only dout may be mapped
        lead = broadcast_shapes(dout.shape[:-2], lead)
    found = like_slices((q, k, v), empty) if q.shape[:-2] == lead else None
    found = found or [_like(x, lead + x.shape[-2:]) for x in (q, k, v)]
    by_loops = q.dtype.char == "E" or loops.takes(q, k, v, mask)
    fill: Callable[..., None] = loops.backward if by_loops else _backward
    if wanted[3]:
        found.append(array_module(q).zeros(lead + (q.shape[-2], k.shape[-2]), q.dtype))
        fill = partial(_backward, dmask=found[3])
    fill(dout, q, k, v, mask, keep, out, top, total, *found[:3], scale, causal, dropout_p)
    inputs = q, k, v, mask
    return tuple([unbroadcast(dx, x.shape) for dx, x, want in zip(found, inputs, wanted, strict=False) if want])


def _backward_vjp(
    g: tuple[Any, ...], dout: Any, q: Any, k: Any, v: Any, mask: Any, keep: Any, top: Any, total: Any, scale: float,
    causal: bool, dropout_p: float, wanted: tuple[bool, ...], needs: tuple[bool, ...],
) -> list[Any]:  # fmt: skip
    """The rule of the backward kernel. With D = dout V^T, r = rowsum(P * D) and cotangents gq, gk, gv, gmask,

        A = scale * (gq K^T + Q gk^T) + gmask        E = P * (A - a),    a = rowsum(P * A)
        B = dout gv^T + A * (D - r) - a * D          C = P * (B - rowsum(P * B))

    are the cotangents of dS, D, P and S.
    """
    if any(isinstance(x, Tensor) for x in (*g, dout, q, k, v, mask)):
        composite = partial(_composite, keep=keep, scale=scale, causal=causal, dropout_p=dropout_p)
        return second_order(composite, g, dout, (q, k, v, mask), wanted, needs)
    xp = array_module(q)
    lead = broadcast_shapes(*[x.shape[:-2] for x in (dout, q, k, v)])
    by_dout, by_q, by_k, by_v = [_like(x, lead + x.shape[-2:]) for x in (dout, q, k, v)]
    found = by_dout, by_q, by_k, by_v
    by_mask = xp.zeros(lead + (q.shape[-2], k.shape[-2]), q.dtype) if needs[4] else None
    gq, gk, gv, gmask = [
        xp.zeros_like(x) if gradient is None and x is not None else gradient
        for x, gradient in zip((q, k, v, None), where_needed(g, wanted), strict=True)
    ]
    args = (gq, gk, gv), dout, q, k, v, mask, keep, top, total, *found, scale, causal, dropout_p
    try:
        by_loops = by_mask is None and gmask is None and loops.takes(q, k, v, mask)
        loops.second(*args) if by_loops else _second(*args, gmask, by_mask)
    except LoopMissing:
        _second(*args, gmask, by_mask)
    every = zip((*found, by_mask), (dout, q, k, v, mask), needs, strict=True)
    return [unbroadcast(gradient, x.shape) if need else None for gradient, x, need in every]


def _second(
    g: tuple[Any, Any, Any], dout: Any, q: Any, k: Any, v: Any, mask: Any, keep: Any, top: Any, total: Any,
    by_dout: Any, by_q: Any, by_k: Any, by_v: Any, scale: float, causal: bool, dropout_p: float, gmask: Any = None,
    by_mask: Any = None,
) -> None:  # fmt: skip
    """Fill the gradients of the rule, whose arrays have the leading axes of all inputs."""
    gq, gk, gv = g
    by_k[...] = by_v[...] = 0
    for rows, columns in _blocks(q, k, causal):
        s = _scores(q, k, mask, scale, rows, columns)
        p = _weights_again(s, rows.start if causal else None, top[..., rows, :])
        p /= total[..., rows, :]
        kept = None if keep is None else _rows_of(keep, rows, columns) * p.dtype.type(1 / (1 - dropout_p))

        def dropped(z: Any, kept: Any = kept) -> Any:
            return z if kept is None else z * kept

        dy, q_rows, gq_rows = dout[..., rows, :], q[..., rows, :], gq[..., rows, :]
        k_rows, v_rows = k[..., columns, :], v[..., columns, :]
        gk_rows, gv_rows = gk[..., columns, :], gv[..., columns, :]
        d = dropped(np.matmul(dy, np.swapaxes(v_rows, -1, -2)))
        a = np.matmul(gq_rows, np.swapaxes(k_rows, -1, -2)) + np.matmul(q_rows, np.swapaxes(gk_rows, -1, -2))
        a *= a.dtype.type(scale)
        if gmask is not None:
            a = _onto(np.add, a, _rows_of(gmask, rows, columns))
        pa, pd = p * a, p * d
        inner, level = (z.sum(axis=-1, keepdims=True) for z in (pa, pd))
        ds = pd - p * level
        e = dropped(pa - p * inner)
        b = dropped(np.matmul(dy, np.swapaxes(gv_rows, -1, -2))) + a * (d - level) - inner * d
        c = p * b
        c -= p * c.sum(axis=-1, keepdims=True)
        if by_mask is not None:
            by_mask[..., rows, columns] = c
        c, ds = c * c.dtype.type(scale), ds * ds.dtype.type(scale)
        by_dout[..., rows, :] = np.matmul(dropped(p), gv_rows) + np.matmul(e, v_rows)
        by_v[..., columns, :] += np.matmul(np.swapaxes(e, -1, -2), dy)
        by_q[..., rows, :] = np.matmul(c, k_rows) + np.matmul(ds, gk_rows)
        by_k[..., columns, :] += np.matmul(np.swapaxes(c, -1, -2), q_rows) + np.matmul(np.swapaxes(ds, -1, -2), gq_rows)


def _composite(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, keep: Any, scale: float, causal: bool, dropout_p: float
) -> Tensor:
    s = (q @ k.transpose(-1, -2)) * scale
    blocked = None  # True where the probability is 0 for any score
    if mask is not None and mask.array.dtype != bool_:
        s = s + mask
        blocked = s.array == -np.inf
    elif mask is not None:
        blocked = ~np.broadcast_to(mask.array, s.array.shape)
    if causal:
        xp = array_module(s)
        above = xp.arange(s.array.shape[-2])[:, None] < xp.arange(s.array.shape[-1])
        blocked = above if blocked is None else blocked | above
    if blocked is None:
        p = s.softmax(-1)
    else:
        blocked = np.broadcast_to(blocked, s.array.shape)
        # A fully masked row gets the softmax of zeros, which the mask then removes.
        fill = np.where(blocked.all(axis=-1, keepdims=True), 0.0, -np.inf).astype(s.array.dtype)
        s = s.masked_fill(new_tensor(blocked), 0.0) + np.where(blocked, fill, s.array.dtype.type(0))
        p = s.softmax(-1).masked_fill(new_tensor(blocked), 0.0)
    if keep is not None:
        p = p * (keep.astype(s.array.dtype) / (1 - dropout_p))
    return p @ v


def _attention_examples(call: Call) -> Any:
    """Batch by an additional leading dimension, since dimensions before the last two broadcast."""
    ndim = _dimensions(call)
    values = [x if x is None else aligned(call.full(place), ndim) for place, x in enumerate(call.values)]
    keep = _aligned_array(call.params["keep"], ndim)
    out, top, total = call.below(values, {**call.params, "keep": keep})
    return out, top, total


def _dimensions(call: Call) -> int:
    return max(call.ndim(place) for place, x in enumerate(call.values) if x is not None)


def _aligned_array(value: Tensor | None, ndim: int) -> Any:
    return aligned(value, ndim).array if isinstance(value, Tensor) else value


def _attention_backward_examples(call: Call) -> tuple[Tensor, ...]:
    ndim = _dimensions(call)
    values = [x if x is None else aligned(call.full(place), ndim) for place, x in enumerate(call.values)]
    saved = {name: _aligned_array(call.params[name], ndim) for name in ("keep", "out", "top", "total")}
    found = call.below(values, {**call.params, **saved})
    chosen = [place + 1 for place, want in enumerate(call.params["wanted"]) if want]
    return tuple([x.reshape((call.size, *call.shape(place))) for place, x in zip(chosen, found, strict=True)])


ATTENTION_BACKWARD = Primitive(
    "scaled_dot_product_attention_backward",
    _attention_backward,
    "dout q k v mask",
    vjp=_backward_vjp,
    outputs=-1,
    signals=True,
    batch=_attention_backward_examples,
    halves=_backward_of_halves,
)


def _attention_rule(
    g: Array, q: Array, k: Array, v: Array, mask: Array | None, ans: Array, top: Array, total: Array,
    keep: Array | None, scale: float, causal: bool, dropout_p: float, needs: tuple[bool, ...],
) -> list[Array | None]:  # fmt: skip
    saved = {"keep": keep, "out": raw(ans), "top": top, "total": total}
    params = {"scale": scale, "causal": causal, "dropout_p": dropout_p}
    return where_needed(ATTENTION_BACKWARD(g, q, k, v, mask, **saved, **params, wanted=needs), needs)


def _attention_shape(
    make: Callable[..., ndarray], q: ndarray, k: ndarray, v: ndarray, mask: ndarray | None, **params: object
) -> tuple[ndarray, ...]:
    lead = _leading(q, k, v)
    rows = [make((*lead, q.shape[-2], 1), q.dtype) for _ in range(2)]
    return make((*lead, q.shape[-2], v.shape[-1]), q.dtype, q), *rows


ATTENTION = Primitive(
    "scaled_dot_product_attention",
    _attention,
    "q k v mask",
    vjp=_attention_rule,
    residuals="top total",
    signals=True,
    batch=_attention_examples,
    shaped=_attention_shape,
    halves=_attention_of_halves,
)


def _check_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float) -> None:
    def shown() -> str:
        return f"got query {describe(q)}, key {describe(k)}, value {describe(v)}"

    x, y, z = q.array, k.array, v.array
    if x.ndim < 2 or y.ndim < 2 or z.ndim < 2:
        raise RuntimeError(f"expected query, key and value of at least 2 dimensions, {shown()}")
    if not x.dtype == y.dtype == z.dtype or x.dtype.kind not in FLOATING:
        raise RuntimeError(f"query, key and value must have one floating dtype, {shown()}{conversion_advice(x, y, z)}")
    if x.shape[-1] != y.shape[-1]:
        raise RuntimeError(f"expected query (..., L, E) and key (..., S, E), {shown()}")
    if y.shape[-2] != z.shape[-2]:
        raise RuntimeError(f"expected key (..., S, E) and value (..., S, Ev), {shown()}")
    if not 0 <= dropout_p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, got {dropout_p}")
    try:
        lead = _leading(x, y, z)
        if mask is not None:
            scores = (*lead, x.shape[-2], y.shape[-2])
            if broadcast_shapes(scores, mask.array.shape) != scores:
                raise RuntimeError(f"attn_mask {describe(mask)} does not broadcast to the scores {scores}")
    except ValueError:
        masks = "" if mask is None else f", attn_mask {describe(mask)}"
        raise RuntimeError(f"the shapes do not broadcast: {shown()}{masks}") from None
    if mask is not None and mask.array.dtype not in (bool_, x.dtype):
        raise RuntimeError(f"expected attn_mask of dtype bool or {x.dtype}, got {describe(mask)}")


@operator(namespace="nn.functional", method=False, raises="dtypes")
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``softmax(query @ key^T * scale + mask) @ value``; the scores are not saved, but recomputed backward.

    Derivative: with the probabilities p, value: ``p^T g``; the scores s: ``ds = p (g value^T - sum(g ans))``, of which
    query: ``scale ds key``, key: ``scale ds^T query``, attn_mask: ``ds``. A row that is masked out entirely gives
    zeros, with zero gradient.
    Shape: query ``(..., L, E)``, key ``(..., S, E)`` and value ``(..., S, Ev)``, whose leading dimensions broadcast, to
    ``(..., L, Ev)``.
    Dtype: real floating, the same for all arguments; attn_mask may be bool or float32.

    Args:
        query, key, value: the vectors to compare, to compare with, and to average.
        attn_mask: broadcasts to ``(..., L, S)``: bool, True where attention is allowed, or floating, added to the
            scores.
        dropout_p: the probability of setting an attention weight to zero (also outside of training).
        is_causal: query i attends only to keys 0 to i; then ``attn_mask`` must be None.
        scale: by default ``1 / sqrt(E)``.
        enable_gqa: key and value have fewer heads (dimension -3), each of which serves an equal number of query heads.

    Source: Vaswani et al., "Attention is all you need", 2017; the fused form: Dao et al., "FlashAttention", 2022.

    >>> x = rg.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> F.scaled_dot_product_attention(x, x, x, is_causal=True, scale=1e3)
    tensor([[1., 0.],
            [0., 1.]])
    """
    q, k, v = operand(query, "query"), operand(key, "key"), operand(value, "value")
    mask = None if attn_mask is None else operand(attn_mask, "attn_mask")
    heads = None
    if enable_gqa and min(x.array.ndim for x in (q, k, v)) >= 3 and q.array.shape[-3] != k.array.shape[-3]:
        heads, groups = q.array.shape[-3], k.array.shape[-3]
        if groups == 0 or heads % groups or v.array.shape[-3] != groups:
            raise RuntimeError(
                f"enable_gqa: heads of query must be a multiple of those of key and value, got {describe(q)}, "
                f"key {describe(k)}, value {describe(v)}"
            )
        q = q.reshape(*q.array.shape[:-3], groups, heads // groups, *q.array.shape[-2:])
        k, v = k.unsqueeze(-3), v.unsqueeze(-3)
        if mask is not None and mask.array.ndim >= 3:
            h = mask.array.shape[-3]
            split = (groups, heads // groups) if h == heads else (1, 1)
            mask = mask.reshape(*mask.array.shape[:-3], *split, *mask.array.shape[-2:])
    if mask is not None and mask.array.ndim < 2:
        mask = mask.reshape(1, -1) if mask.array.ndim else mask.reshape(1, 1)
    if mask is not None and is_causal:
        raise RuntimeError(f"attn_mask must be None with is_causal=True, got {describe(mask)}")
    narrow = None
    if mask is not None and mask.array.dtype == np.float32 and q.array.dtype.kind in FLOATING:
        if q.array.dtype == np.float64:
            mask = mask.double()
        elif q.array.dtype == k.array.dtype == v.array.dtype != np.float32:
            narrow = q.array.dtype
            q, k, v = q.float(), k.float(), v.float()
    _check_attention(q, k, v, mask, dropout_p)
    keep = None
    if dropout_p > 0:
        lead = _leading(q.array, k.array, v.array)
        keep = ~random_mask(array_module(q), (*lead, q.array.shape[-2], k.array.shape[-2]), dropout_p)
    if dropout_p == 1:
        dropout_p = 0.0  # all weights are dropped, and there is nothing to scale
    params = {
        "keep": keep,
        "scale": 1 / math.sqrt(max(q.array.shape[-1], 1)) if scale is None else float(scale),
        "causal": is_causal,
        "dropout_p": dropout_p,
    }
    out = apply(ATTENTION, (q, k, v, mask), params)
    out = out if narrow is None else out.to(narrow)
    return out if heads is None else out.reshape(*out.array.shape[:-4], heads, *out.array.shape[-2:])
