"""GPT-2, with the biases and names that published weights need."""

from __future__ import annotations

import math

from .. import nn
from ..core.tensor.tensor import Tensor
from ..ops.make.ranges import arange
from .cache import KeyValueCache, causal_attention, check_positions


class GPT2Block(nn.Module):
    """``x + attention(norm(x))``, then ``x + mlp(norm(x))``."""

    def __init__(self, layer: int, channels: int, heads: int, hidden: int, dropout: float, eps: float) -> None:
        super().__init__()
        self.layer, self.heads = layer, heads
        self.norm1 = nn.LayerNorm(channels, eps)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.projection = nn.Linear(channels, channels)
        self.norm2 = nn.LayerNorm(channels, eps)
        self.mlp = nn.Sequential(nn.Linear(channels, hidden), nn.GELU("tanh"), nn.Linear(hidden, channels))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, cache: KeyValueCache | None = None) -> Tensor:
        batch, length, channels = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, channels // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        y = causal_attention(q, k, v, self.layer, cache, self.dropout.p if self.training else 0.0)
        x = x + self.dropout(self.projection(y.transpose(1, 2).reshape(batch, length, channels)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT2(nn.Module):
    """The decoder-only transformer of GPT-2 with tied input and output embeddings, learned positions and biases.

    Args:
        vocabulary: the number of tokens.
        context: the maximum number of positions.
        layers, heads, channels: the numbers of blocks, of attention heads and of channels.
        hidden: features in a block's MLP, by default ``4 * channels``.
        dropout: the dropout probability of embeddings, attention and residual branches.
        eps: added to the variances in the layer norms.

    Shape: tokens ``(N, T)`` to logits ``(N, T, vocabulary)``; with a ``KeyValueCache`` as second argument, T plus the
    cache's length is at most ``context``. With ``last=True`` only the logits of the last token are computed.

    Raises:
        ValueError: heads do not divide channels, or there are more positions than ``context``.

    Source: Radford et al., Language models are unsupervised multitask learners, 2019.

    >>> from retrograd.models import GPT2
    >>> model = GPT2(vocabulary=65, context=8, layers=2, heads=2, channels=16)
    >>> model(rg.zeros(3, 8, dtype=rg.int64)).shape
    (3, 8, 65)
    """

    def __init__(
        self,
        vocabulary: int = 50257,
        context: int = 1024,
        layers: int = 12,
        heads: int = 12,
        channels: int = 768,
        hidden: int | None = None,
        dropout: float = 0.0,
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        if channels % heads:
            raise ValueError(f"GPT2: channels={channels} must be divisible by heads={heads}")
        self.context = context
        self.token = nn.Embedding(vocabulary, channels)
        self.position = nn.Embedding(context, channels)
        self.dropout = nn.Dropout(dropout)
        hidden = 4 * channels if hidden is None else hidden
        self.blocks = nn.ModuleList([GPT2Block(i, channels, heads, hidden, dropout, eps) for i in range(layers)])
        self.norm = nn.LayerNorm(channels, eps)
        self.head = nn.Linear(channels, vocabulary, bias=False)
        self.head.weight = self.token.weight
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                ends_branch = name.endswith(("projection.weight", "mlp.2.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if ends_branch else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor, cache: KeyValueCache | None = None, last: bool = False) -> Tensor:
        start = 0 if cache is None else cache.length
        length = start + tokens.shape[1]
        check_positions("GPT2", length, self.context)
        x = self.dropout(self.token(tokens) + self.position(arange(start, length, device=tokens.device)))
        for block in self.blocks:
            x = block(x, cache)
        return self.head(self.norm(x[:, -1:] if last else x))
