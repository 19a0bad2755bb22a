"""Transformers: encoder and decoder layers, stacks of these layers, and the whole model (Vaswani et al., 2017)."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from math import inf
from typing import Any

import numpy as np

from ...core.arrays.dtypes import get_default_dtype
from ...core.tensor.tensor import Tensor
from ...ops.make.filled import full
from ...ops.table.documentation import like
from .. import functional as F
from .. import init
from ..base.arguments import DeviceLike, DTypeLike
from ..base.containers import ModuleList
from ..base.module import Module
from ..layers.dropout import Dropout
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from .attention import MultiheadAttention

Activation = str | Callable[[Tensor], Tensor]


def _activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    if callable(activation):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu or gelu, not {activation!r}")
    return getattr(F, activation)


def _independent_copies(module: Module, count: int) -> ModuleList:
    return ModuleList([deepcopy(module) for _ in range(count)])


def _is_causal(mask: Tensor | None, declared: bool | None) -> bool:
    """Return whether a mask is causal, which makes attention faster."""
    if declared is not None or mask is None:
        return bool(declared)
    length = mask.shape[-2]
    if mask.shape != (length, length):
        return False
    causal = Transformer.generate_square_subsequent_mask(length, mask.device, np.float32)
    if mask.dtype.kind == "b":
        causal = causal != 0
    return bool((mask == causal).all())


class _SelfAttentive(Module):
    """The base class of layers that begin with self-attention."""

    attentions: tuple[str, ...] = ("self_attn",)

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        for name in self.attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **factory))
        self.linear1 = Linear(d_model, dim_feedforward, bias, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **factory)
        self.norm_first = norm_first
        places = range(1, len(self.attentions) + 2)
        for place in places:
            setattr(self, f"norm{place}", LayerNorm(d_model, layer_norm_eps, bias=bias, **factory))
        for place in places:
            setattr(self, f"dropout{place}", Dropout(dropout))
        self.activation = _activation(activation)

    def _attend(self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool) -> Tensor:
        output, _ = self.self_attn(
            x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=is_causal
        )
        return self.dropout1(output)


class TransformerEncoderLayer(_SelfAttentive):
    """``x = norm(x + attention(x))``, then ``x = norm(x + linear2(activation(linear1(x))))``, with dropout.

    Shape: ``(S, N, E)`` or ``(S, E)``, preserved. ``forward`` accepts the masks of ``MultiheadAttention``.

    Args:
        d_model: E, the length of the vectors.
        nhead: the number of heads.
        dim_feedforward: the hidden size of the feed-forward network.
        dropout: the probability of dropout in training.
        activation: ``"relu"``, ``"gelu"`` or a function, between the two linear layers.
        layer_norm_eps: added to the variances.
        batch_first: inputs are ``(N, S, E)`` instead of ``(S, N, E)``.
        norm_first: normalize before attention and feed-forward network, instead of after the sums.
        bias: whether the layers have biases.

    Raises:
        RuntimeError: the activation is unknown.

    Source: Vaswani et al., Attention is all you need, 2017.

    >>> rg.nn.TransformerEncoderLayer(8, 2, 16)(rg.ones(5, 2, 8)).shape
    (5, 2, 8)
    """

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        x = src
        masks = (src_mask, src_key_padding_mask, is_causal)
        if self.norm_first:
            x = x + self._attend(self.norm1(x), *masks)
            return x + self._transform(self.norm2(x))
        x = self.norm1(x + self._attend(x, *masks))
        return self.norm2(x + self._transform(x))

    def _transform(self, x: Tensor) -> Tensor:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(_SelfAttentive):
    """``TransformerEncoderLayer`` with additional attention to the encoder's output, the memory.

    Maps target ``(T, N, E)`` and memory ``(S, N, E)`` to ``(T, N, E)``; arguments as ``TransformerEncoderLayer``.

    >>> rg.nn.TransformerDecoderLayer(8, 2, 16)(rg.ones(5, 2, 8), memory=rg.ones(3, 2, 8)).shape
    (5, 2, 8)
    """

    attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        x = tgt
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self._attend(self.norm1(x), *own)
            x = x + self._attend_memory(self.norm2(x), memory, *other)
            return x + self._transform(self.norm3(x))
        x = self.norm1(x + self._attend(x, *own))
        x = self.norm2(x + self._attend_memory(x, memory, *other))
        return self.norm3(x + self._transform(x))

    def _attend_memory(
        self, x: Tensor, memory: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool
    ) -> Tensor:
        output, _ = self.multihead_attn(
            x, memory, memory, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=is_causal
        )
        return self.dropout2(output)

    def _transform(self, x: Tensor) -> Tensor:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoder(Module):
    """A stack of ``num_layers`` copies of an encoder layer, for ``(S, N, E)``.

    Args:
        encoder_layer: the layer to copy.
        num_layers: the number of copies.
        norm: a module applied to the output, or None.
        enable_nested_tensor, mask_check: accepted for compatibility, without effect.

    >>> layer = rg.nn.TransformerEncoderLayer(8, 2, 16)
    >>> rg.nn.TransformerEncoder(layer, num_layers=2)(rg.ones(5, 2, 8)).shape
    (5, 2, 8)
    """

    norm: Module | None

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _independent_copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        causal = _is_causal(mask, is_causal)
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=causal, src_key_padding_mask=src_key_padding_mask)
        return output if self.norm is None else self.norm(output)


@like(TransformerEncoder)
class TransformerDecoder(Module):
    """A stack of ``num_layers`` copies of a decoder layer.

    Maps target ``(T, N, E)`` and memory ``(S, N, E)`` to ``(T, N, E)``.

    Args:
        decoder_layer: the layer to copy.

    >>> layer = rg.nn.TransformerDecoderLayer(8, 2, 16)
    >>> rg.nn.TransformerDecoder(layer, num_layers=2)(rg.ones(5, 2, 8), rg.ones(3, 2, 8)).shape
    (5, 2, 8)
    """

    norm: Module | None

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _independent_copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        causal = _is_causal(tgt_mask, tgt_is_causal)
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """A transformer: maps source ``(S, N, E)`` and target ``(T, N, E)`` to ``(T, N, E)``.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias: as for
            ``TransformerEncoderLayer``.
        num_encoder_layers, num_decoder_layers: the numbers of layers.
        custom_encoder, custom_decoder: modules to use instead of encoder and decoder.

    Raises:
        RuntimeError: when called, batch sizes differ, or the feature sizes are not ``d_model``.

    Source: Vaswani et al., Attention is all you need, 2017.

    >>> model = rg.nn.Transformer(8, 2, 1, 1, 16)
    >>> model(rg.ones(3, 2, 8), rg.ones(5, 2, 8)).shape
    (5, 2, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        shape = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, **factory)

        if custom_encoder is None:
            custom_encoder = TransformerEncoder(TransformerEncoderLayer(*shape, **factory), num_encoder_layers, norm())
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(TransformerDecoderLayer(*shape, **factory), num_decoder_layers, norm())
        self.encoder = custom_encoder
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError(f"Transformer: the batch number of src {src.shape} and tgt {tgt.shape} must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                f"Transformer: the feature number of src {src.shape} and tgt {tgt.shape} must be d_model={self.d_model}"
            )
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: DeviceLike = None, dtype: DTypeLike = None) -> Tensor:
        """Return the causal mask ``(sz, sz)``: minus infinity above the diagonal, zero elsewhere.

        >>> rg.nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[  0., -inf],
                [  0.,   0.]])
        """
        return full((sz, sz), -inf, dtype=get_default_dtype() if dtype is None else dtype, device=device).triu(1)
