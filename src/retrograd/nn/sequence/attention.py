"""Multi-head attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.errors import describe
from ...core.missing_names import legacy_names
from ...core.tensor.tensor import Tensor
from .. import functional as F
from .. import init
from ..base.arguments import DeviceLike, DTypeLike
from ..base.module import Module
from ..layers.linear import Linear
from ..parameter import Parameter, new_parameter


class MultiheadAttention(Module):
    """Multi-head attention: ``softmax(q k^T / sqrt(d)) v`` of ``num_heads`` projections of length ``d``, concatenated.

    Maps queries ``(L, N, E)``, keys ``(S, N, kdim)`` and values ``(S, N, vdim)`` to ``(L, N, E)``; N is optional.

    Args:
        embed_dim: E, the length of queries and results; ``num_heads`` must divide it.
        num_heads: the number of heads.
        dropout: the probability of setting an attention weight to zero in training.
        bias: whether the projections have a bias.
        add_bias_kv: append a learned key and value.
        add_zero_attn: append a key and value of zeros.
        kdim, vdim: the lengths of keys and values, by default E.
        batch_first: inputs and results are ``(N, L, E)`` instead of ``(L, N, E)``.

    Raises:
        ValueError: ``embed_dim`` or ``num_heads`` is not positive.
        AssertionError: ``num_heads`` does not divide ``embed_dim``.

    Attributes:
        in_proj_weight: ``(3 E, E)``, Xavier-uniform; if kdim or vdim is not E, q_proj_weight, k_proj_weight and
            v_proj_weight instead.
        in_proj_bias: ``(3 E,)``, initially zero, or None.
        out_proj: the Linear layer on the concatenated heads.

    Source: Vaswani et al., Attention is all you need, 2017.

    >>> attention = rg.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = rg.ones(3, 5, 8)
    >>> output, weights = attention(x, x, x)
    >>> output.shape, weights.shape
    ((3, 5, 8), (3, 5, 5))
    """

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"MultiheadAttention: embed_dim and num_heads must be greater than 0, got {embed_dim} and {num_heads}"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(
                f"MultiheadAttention: embed_dim={embed_dim} must be divisible by num_heads={num_heads}"
            )
        shared = self._qkv_same_embed_dim
        lengths = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        for name, length in lengths.items():
            self.register_parameter(name, None if shared else new_parameter((embed_dim, length), device, dtype))
        self.register_parameter(
            "in_proj_weight", new_parameter((3 * embed_dim, embed_dim), device, dtype) if shared else None
        )
        self.register_parameter("in_proj_bias", new_parameter((3 * embed_dim,), device, dtype) if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, new_parameter((1, 1, embed_dim), device, dtype) if add_bias_kv else None)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the attention output and, if requested, the attention weights.

        Args:
            query: ``(L, N, E)``; ``(L, E)`` without a batch.
            key, value: ``(S, N, kdim)`` and ``(S, N, vdim)``.
            key_padding_mask: ``(N, S)``: True for keys that are ignored, or numbers added to the scores.
            need_weights: also return the attention weights.
            attn_mask: ``(L, S)`` or ``(N * num_heads, L, S)``: True where attention is not allowed, or numbers to add
                to the scores.
            average_attn_weights: average the weights over the heads.
            is_causal: a hint that ``attn_mask`` is the causal mask.

        Returns:
            The output, in the shape of the query, and the weights ``(N, L, S)`` or None.
        """
        if query.ndim not in (2, 3):
            raise AssertionError(f"MultiheadAttention: expected a query of 2 or 3 dimensions, got {describe(query)}")
        swap = self.batch_first and query.ndim == 3
        if swap:
            # Transpose each Tensor once: if query, key and value are identical, one product computes all projections.
            swapped = {id(x): x.transpose(0, 1) for x in (query, key, value)}
            query, key, value = swapped[id(query)], swapped[id(key)], swapped[id(value)]
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (output.transpose(0, 1) if swap else output), weights


if not TYPE_CHECKING:
    __getattr__ = legacy_names("retrograd.nn.attention")  # also used as retrograd.nn.attention
