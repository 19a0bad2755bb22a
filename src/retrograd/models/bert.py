"""BERT: a bidirectional transformer encoder."""

from __future__ import annotations

from typing import Any

from .. import nn
from ..core.tensor.tensor import Tensor
from ..nn import functional as F
from ..ops.make.filled import zeros_like
from ..ops.make.ranges import arange
from ..ops.table.documentation import like
from .cache import check_positions
from .gpt2 import GPT2


class BertBlock(nn.Module):
    """``norm(x + attention(x))``, then ``norm(x + mlp(x))``: the post-norm block of the original transformer."""

    def __init__(
        self, channels: int, heads: int, hidden: int, dropout: float, eps: float, activation: nn.Module
    ) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(channels, channels) for _ in range(3))
        self.projection = nn.Linear(channels, channels)
        self.norm1 = nn.LayerNorm(channels, eps)
        self.mlp = nn.Sequential(nn.Linear(channels, hidden), activation, nn.Linear(hidden, channels))
        self.norm2 = nn.LayerNorm(channels, eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, channels = x.shape
        q, k, v = (
            part(x).view(batch, length, self.heads, -1).transpose(1, 2) for part in (self.q, self.k, self.v)
        )  # fmt: skip
        dropout = self.dropout.p if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, mask, dropout_p=dropout)
        y = self.projection(y.transpose(1, 2).reshape(batch, length, channels))
        x = self.norm1(x + self.dropout(y))
        return self.norm2(x + self.dropout(self.mlp(x)))


@like(GPT2)
class BERT(nn.Module):
    """The encoder of BERT with its pooler, ``tanh(linear(x_0))`` of the first token's output.

    Args:
        types: the number of segment types.
        activation: the activation function of the MLP: ``"gelu"``, ``"gelu_new"`` or ``"relu"``.
        pooler: whether the model has a pooler.

    Shape: tokens ``(N, T)``, ``attention_mask``, which is 0 for padding, and ``token_type_ids`` of the same shape, to
    the pair of ``(N, T, channels)`` and ``(N, channels)``; without a pooler the second element is None.

    Raises:
        ValueError: heads do not divide channels, an unknown activation, or more positions than ``context``.

    Source: Devlin et al., BERT: Pre-training of deep bidirectional transformers for language understanding, 2018.

    >>> from retrograd.models import BERT
    >>> model = BERT(vocabulary=65, context=8, layers=2, heads=2, channels=16)
    >>> states, pooled = model(rg.zeros(3, 8, dtype=rg.int64))
    >>> states.shape, pooled.shape
    ((3, 8, 16), (3, 16))
    """

    def __init__(
        self,
        vocabulary: int = 30522,
        context: int = 512,
        layers: int = 12,
        heads: int = 12,
        channels: int = 768,
        hidden: int | None = None,
        types: int = 2,
        dropout: float = 0.0,
        eps: float = 1e-12,
        activation: str = "gelu",
        pooler: bool = True,
    ) -> None:
        super().__init__()
        activations: dict[str, Any] = {"gelu": nn.GELU, "gelu_new": lambda: nn.GELU("tanh"), "relu": nn.ReLU}
        if channels % heads:
            raise ValueError(f"BERT: channels={channels} must be divisible by heads={heads}")
        if activation not in activations:
            raise ValueError(f"BERT: activation must be one of {', '.join(activations)}, got {activation!r}")
        self.context = context
        self.token = nn.Embedding(vocabulary, channels)
        self.position = nn.Embedding(context, channels)
        self.segment = nn.Embedding(types, channels)
        self.norm = nn.LayerNorm(channels, eps)
        self.dropout = nn.Dropout(dropout)
        hidden = 4 * channels if hidden is None else hidden
        self.blocks = nn.ModuleList(
            [BertBlock(channels, heads, hidden, dropout, eps, activations[activation]()) for _ in range(layers)]
        )
        self.pooler = nn.Linear(channels, channels) if pooler else None
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(
        self, tokens: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        check_positions("BERT", tokens.shape[1], self.context)
        segments = zeros_like(tokens) if token_type_ids is None else token_type_ids
        positions = arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.norm(self.token(tokens) + self.position(positions) + self.segment(segments)))
        mask = None if attention_mask is None else (attention_mask != 0)[:, None, None, :]
        for block in self.blocks:
            x = block(x, mask)
        return x, None if self.pooler is None else self.pooler(x[:, 0]).tanh()
