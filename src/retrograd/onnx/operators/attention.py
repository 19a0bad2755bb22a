"""Attention and rotary embeddings (operators since opset 23)."""

from __future__ import annotations

import math

import numpy as np

from ... import _generated
from ...core.tensor.tensor import Tensor
from ...nn import functional as F
from ..table import Attributes, constant, ints, operator

rg = _generated.toplevel


def _heads(x: Tensor, count: int | None) -> Tensor:
    if x.ndim == 4:
        return x
    if count is None:
        raise ValueError("Attention: inputs with three axes need the attributes q_num_heads and kv_num_heads")
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


@operator("Attention")
def attention(
    at: Attributes, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, past_k: Tensor | None = None,
    past_v: Tensor | None = None, lengths: Tensor | None = None
) -> Tensor | tuple[Tensor | None, ...]:  # fmt: skip
    flat = q.ndim == 3
    q = _heads(q, at("q_num_heads"))
    k, v = _heads(k, at("kv_num_heads")), _heads(v, at("kv_num_heads"))
    past = 0
    if past_k is not None and past_v is not None:
        past = past_k.shape[2]
        k, v = rg.cat([past_k, k], 2), rg.cat([past_v, v], 2)
    present_k, present_v = k, v
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = rg.repeat_interleave(k, groups, 1), rg.repeat_interleave(v, groups, 1)
    scale = math.sqrt(at("scale", 1 / math.sqrt(q.shape[-1])))
    scores = (q * scale) @ (k * scale).transpose(-1, -2)
    products = scores
    queries, keys = scores.shape[-2:]
    bias = constant(np.zeros((queries, keys)), scores.dtype, q)
    least = -np.inf
    rows = np.arange(queries)[:, None] + past
    if lengths is not None:
        rows = np.arange(queries)[:, None] + np.asarray(ints(lengths)).reshape(-1, 1, 1, 1) - queries
    left, right = at("left_window_size", -1), 0 if at("is_causal", 0) else at("right_window_size", -1)
    for reach, outside in ((left, np.arange(keys) < rows - left), (right, np.arange(keys) > rows + right)):
        if reach >= 0:
            bias = bias + constant(np.where(outside, least, 0), scores.dtype, q)
    if mask is not None:
        if mask.dtype.kind == "b":
            mask = rg.where(
                mask, rg.zeros_like(mask, dtype=scores.dtype), rg.full_like(mask, least, dtype=scores.dtype)
            )
        if mask.shape[-1] < keys:
            mask = F.pad(mask, (0, keys - mask.shape[-1]), value=least)
        bias = bias + mask
    if lengths is not None:
        known = np.arange(keys) < np.asarray(ints(lengths)).reshape(-1, 1, 1, 1)
        bias = bias + constant(np.where(known, 0, least), scores.dtype, q)
    cap = at("softcap", 0.0)
    if cap:
        scores = cap * rg.tanh(scores / cap)
    capped = scores
    scores = scores + bias
    mode = at("qk_matmul_output_mode", 0)
    shown = {0: products, 1: capped, 2: scores}.get(mode)
    weights = F.softmax(scores, -1)
    weights = rg.where(rg.isnan(weights), rg.zeros_like(weights), weights)
    y = weights @ v
    if flat:
        y = y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)
    return (y, present_k, present_v, weights if mode == 3 else shown)[: at.outputs] if at.outputs > 1 else y


@operator("RotaryEmbedding")
def rotary(at: Attributes, x: Tensor, cosine: Tensor, sine: Tensor, places: Tensor | None = None) -> Tensor:
    flat = x.ndim == 3
    y = _heads(x, at("num_heads")) if flat else x
    if places is not None:
        cosine, sine = cosine[places], sine[places]
    cosine, sine = cosine.unsqueeze(1), sine.unsqueeze(1)
    width = at("rotary_embedding_dim", 0) or y.shape[-1]
    turned, rest = y[..., :width], y[..., width:]
    cosine, sine = cosine[..., : width // 2], sine[..., : width // 2]
    if at("interleaved", 0):
        a, b = turned[..., 0::2], turned[..., 1::2]
    else:
        a, b = turned[..., : width // 2], turned[..., width // 2 :]
    parts = [a * cosine - b * sine, b * cosine + a * sine]
    turned = rg.stack(parts, -1).reshape(turned.shape) if at("interleaved", 0) else rg.cat(parts, -1)
    y = rg.cat([turned, rest], -1) if rest.shape[-1] else turned
    return y.transpose(1, 2).reshape(x.shape) if flat else y
