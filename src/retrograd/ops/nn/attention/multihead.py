"""Multi-head attention as a function: projections, additional keys, and two kinds of masks."""

from __future__ import annotations

import math

from ....core.arrays.dtypes import FLOATING, DType, bool_
from ....core.errors import describe
from ....core.graph.primitive import operand
from ....core.tensor.tensor import Tensor
from ...linear.products.affine import linear
from ...shape.joining import cat
from ...table.registry import operator
from ...table.types import Operand
from ..dropout import dropout
from .scaled_dot_product import scaled_dot_product_attention


def _projected(
    query: Tensor, key: Tensor, value: Tensor, weights: tuple[Tensor | None, ...], bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    packed = weights[0]
    if packed is not None and query is key and key is value:
        q, k, v = linear(query, packed, bias).chunk(3, -1)
        return q, k, v
    split = [w for w in (packed.chunk(3) if packed is not None else weights[1:]) if w is not None]
    if len(split) != 3:
        if packed is not None:
            raise RuntimeError(f"expected in_proj_weight (3 * E, E), got {describe(packed)}")
        raise AssertionError("a projection weight is None")
    biases = (None, None, None) if bias is None else bias.chunk(3)
    if packed is None:
        width = query.array.shape[-1]
        for x, w, b in zip((query, key, value), split, biases, strict=True):
            if w.array.shape != (width, x.array.shape[-1]) or b is not None and b.array.shape != (width,):
                raise AssertionError(
                    f"expected a projection weight ({width}, {x.array.shape[-1]}) and bias ({width},), "
                    f"got {describe(w)} and {describe(b)}"
                )
    q, k, v = (linear(x, w, b) for x, w, b in zip((query, key, value), split, biases, strict=True))
    return q, k, v


def _additive(argument: str, mask: Operand | None, dtype: DType) -> Tensor | None:
    """Return a mask as numbers to add to the scores: True becomes -inf."""
    if mask is None:
        return None
    added = operand(mask, argument)
    if added.array.dtype == bool_:
        return added.astype(dtype).masked_fill(added, -math.inf)
    if added.array.dtype.kind not in FLOATING:
        raise AssertionError(f"only bool and floating types of {argument} are supported, got {describe(added)}")
    return added


def _extended(mask: Tensor | None) -> Tensor | None:
    """Extend the mask by one key that is visible to all queries."""
    if mask is None:
        return None
    return cat([mask, mask.new_zeros((*mask.array.shape[:-1], 1))], -1)


def _check(query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None, heads: int) -> None:
    ndim = query.array.ndim
    if ndim not in (2, 3) or key.array.ndim != ndim or value.array.ndim != ndim:
        raise AssertionError(
            f"expected query, key and value all (L, N, E), or all (L, E), got {describe(query)}, "
            f"{describe(key)}, {describe(value)}"
        )
    if padding is not None and padding.array.ndim != ndim - 1:
        raise AssertionError(
            f"expected a {ndim - 1}-D key_padding_mask for query {describe(query)}, got {describe(padding)}"
        )
    if mask is not None:
        if mask.array.ndim not in (2, 3):
            raise AssertionError(f"expected a 2-D or 3-D attn_mask, got {describe(mask)}")
        rows, columns = query.array.shape[0], key.array.shape[0]
        batch = 1 if ndim == 2 else query.array.shape[1]
        wanted = (rows, columns) if mask.array.ndim == 2 else (batch * heads, rows, columns)
        if mask.array.shape != wanted:
            kind = AssertionError if ndim == 2 and mask.array.ndim == 3 else RuntimeError
            raise kind(f"the shape of attn_mask should be {wanted}, got {describe(mask)}")


@operator(namespace="nn.functional", method=False, like=scaled_dot_product_attention)
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """``concat(heads) @ W_out^T + b_out``: attention with several heads, each with its own slice of the projections.

    Derivative: that of ``scaled_dot_product_attention`` and the projections; every floating Tensor has one.
    Shape: query ``(L, N, E)``, key ``(S, N, Ek)`` and value ``(S, N, Ev)``, or all without N; the result has the
    query's shape.
    Dtype: real floating, the same for all arguments; masks may be bool.

    Args:
        embed_dim_to_check: ``E``.
        num_heads: the number of heads; it divides E.
        in_proj_weight: the projections of query, key and value, stacked, ``(3 E, E)``.
        in_proj_bias: ``(3 E,)``, of any floating dtype.
        bias_k, bias_v: an additional key and value, ``(1, 1, E)``, not projected; pass both or neither.
        add_zero_attn: add a key and a value of zeros.
        dropout_p: dropout of the attention weights in training.
        out_proj_weight, out_proj_bias: the last projection, ``(E, E)`` and ``(E,)``.
        training: whether to apply dropout.
        key_padding_mask: ``(N, S)``: True for keys that are ignored, or numbers added to the scores.
        need_weights: also return the attention weights (slower, since the scores are then stored).
        attn_mask: ``(L, S)`` or ``(N * num_heads, L, S)``: True where attention is not allowed, or numbers that are
            added to the scores.
        use_separate_proj_weight: use the next three arguments instead of ``in_proj_weight``.
        q_proj_weight, k_proj_weight, v_proj_weight: ``(E, E)``, ``(E, Ek)``, ``(E, Ev)``.
        static_k, static_v: replace the projected keys and values, ``(N * num_heads, S, E / num_heads)``.
        average_attn_weights: average the returned weights over the heads.
        is_causal: promises that ``attn_mask``, which must be given, is the causal mask.

    Returns:
        The output, and the weights ``(N, L, S)`` (``(N, num_heads, L, S)`` per head) or None.

    Raises:
        AssertionError: an argument is missing or has a wrong shape or dtype (PyTorch's exception).
        RuntimeError: a mask or a weight has a wrong shape.

    Source: Vaswani et al., "Attention is all you need", 2017.

    >>> x = rg.ones(5, 2, 4)
    >>> out, weights = F.multi_head_attention_forward(
    ...     x, x, x, 4, 2, rg.ones(12, 4), None, None, None, False, 0.0, rg.eye(4), None
    ... )
    >>> out.shape, weights.shape
    ((5, 2, 4), (2, 5, 5))
    """
    query = operand(query, "query")
    same = key is query, value is query or value is key
    key = query if same[0] else operand(key, "key")
    value = key if same[1] else operand(value, "value")
    _check(query, key, value, key_padding_mask, attn_mask, num_heads)
    batched = query.array.ndim == 3
    if not batched:
        self_attention = query is key and key is value
        query = query.unsqueeze(1)
        key, value = (query, query) if self_attention else (key.unsqueeze(1), value.unsqueeze(1))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    rows, batch, width = query.array.shape
    if width != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, got {describe(query)}")
    if width % num_heads:
        raise AssertionError(f"embed_dim {width} is not divisible by num_heads {num_heads}")
    if (
        key.array.shape[:2] != value.array.shape[:2]
        or not use_separate_proj_weight
        and key.array.shape != value.array.shape
    ):
        equal = "first two dimensions" if use_separate_proj_weight else "shape"
        raise AssertionError(f"key and value must have the same {equal}, got {describe(key)} and {describe(value)}")
    if is_causal and attn_mask is None:
        raise RuntimeError("need attn_mask if specifying the is_causal hint")
    padding = _additive("key_padding_mask", key_padding_mask, query.array.dtype)
    causal = is_causal and padding is None and not need_weights
    mask = None if causal else _additive("attn_mask", attn_mask, query.array.dtype)
    packed = None if use_separate_proj_weight else in_proj_weight
    if packed is None and not use_separate_proj_weight:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    if in_proj_bias is not None and in_proj_bias.array.dtype.kind in FLOATING:
        in_proj_bias = in_proj_bias.to(query.array.dtype)
    q, k, v = _projected(query, key, value, (packed, q_proj_weight, k_proj_weight, v_proj_weight), in_proj_bias)
    if (bias_k is None) != (bias_v is None):
        raise AssertionError("bias_k and bias_v must both be given or both be None")
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias_k and bias_v cannot be added to static keys and values")
        k, v = cat([k, bias_k.expand(1, batch, width)]), cat([v, bias_v.expand(1, batch, width)])
        mask, padding = _extended(mask), _extended(padding)
    head = width // num_heads

    def split(x: Tensor) -> Tensor:
        return x.reshape(x.array.shape[0], batch, num_heads, head).permute(1, 2, 0, 3)

    def static(argument: str, x: Tensor) -> Tensor:
        if x.array.ndim != 3 or x.array.shape[0] != batch * num_heads or x.array.shape[2] != head:
            raise AssertionError(f"expected {argument} ({batch * num_heads}, S, {head}), got {describe(x)}")
        return x.reshape(batch, num_heads, -1, head)

    q = split(q)
    k = split(k) if static_k is None else static("static_k", static_k)
    v = split(v) if static_v is None else static("static_v", static_v)
    if add_zero_attn:
        zero = k.new_zeros((batch, num_heads, 1, head))
        k, v = cat([k, zero], 2), cat([v, zero], 2)
        mask, padding = _extended(mask), _extended(padding)
    columns = k.array.shape[2]
    if mask is not None and mask.array.ndim == 3:
        mask = mask.reshape(batch, num_heads, rows, columns)
    if padding is not None:
        if padding.array.shape != (batch, columns):
            raise AssertionError(f"expected key_padding_mask ({batch}, {columns}), got {describe(padding)}")
        padding = padding.reshape(batch, 1, 1, columns)
        mask = padding if mask is None else mask + padding
    dropout_p = dropout_p if training else 0.0
    weights = None
    if need_weights:
        scores = (q * math.sqrt(1 / head)) @ k.transpose(-1, -2)
        weights = (scores if mask is None else scores + mask.to(scores.array.dtype)).softmax(-1)
        if dropout_p > 0:
            weights = dropout(weights, dropout_p)
        out = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        out = scaled_dot_product_attention(q, k, v, mask, dropout_p, causal)
    if out_proj_weight.array.ndim != 2:
        raise RuntimeError(f"expected out_proj_weight ({width}, {width}), got {describe(out_proj_weight)}")
    out = linear(out.permute(2, 0, 1, 3).reshape(rows, batch, width), out_proj_weight, out_proj_bias)
    if not batched:
        out = out.squeeze(1)
        weights = None if weights is None else weights.squeeze(0)
    return out, weights
