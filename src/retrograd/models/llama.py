"""Llama: RMS norms, rotary position embeddings, grouped-query attention and gated linear units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import nn
from ..core.tensor.tensor import Tensor
from ..nn import functional as F
from ..ops.make.creation import tensor
from ..ops.make.ranges import arange
from ..ops.table.documentation import like
from .cache import KeyValueCache, causal_attention, check_positions
from .gpt2 import GPT2


def rotary_frequencies(channels: int, base: float, scaling: Mapping[str, Any] | None = None) -> np.ndarray:
    """Return the angle per position by which each pair of channels is rotated: ``base ** (-2 i / channels)``.

    Args:
        channels: the channels of a head.
        base: the base of the frequencies.
        scaling: the scaling for longer contexts: ``{"rope_type": "linear", "factor": 2.0}``, or "llama3" with
            "factor", "low_freq_factor", "high_freq_factor" and "original_max_position_embeddings", or "factors" with
            "factors", the numbers by which the frequencies are divided.

    Raises:
        ValueError: an unknown ``rope_type``.

    Source: Su et al., RoFormer, 2021; for "llama3" Dubey et al., The Llama 3 herd of models, 2024.
    """
    frequencies = 1.0 / base ** (np.arange(0, channels, 2, dtype=np.float64) / channels)
    kind = "default" if scaling is None else scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default" or scaling is None:
        return frequencies
    if kind == "linear":
        return frequencies / scaling["factor"]
    if kind == "factors":
        return frequencies / np.array(scaling["factors"], np.float64)
    if kind != "llama3":
        raise ValueError(f"Llama: rope_type must be 'default', 'linear', 'factors' or 'llama3', got {kind!r}")
    turns = scaling["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    # High frequencies are unchanged, low ones are divided by the factor, and those in between are interpolated.
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return frequencies * (kept + (1 - kept) / scaling["factor"])


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Return ``(N, H, T, C)`` with channels i and i + C/2 rotated as a pair; the first half of ``sine`` is negative."""
    return x * cosine + x.roll(x.shape[-1] // 2, -1) * sine


class LlamaBlock(nn.Module):
    """``x + attention(norm(x))``, then ``x + down(silu(gate(norm(x))) * up(norm(x)))``."""

    def __init__(
        self, layer: int, channels: int, heads: int, groups: int, head: int, hidden: int, eps: float, biases: bool
    ) -> None:
        super().__init__()
        self.layer, self.head = layer, head
        self.norm1 = nn.RMSNorm(channels, eps)
        self.q = nn.Linear(channels, heads * head, bias=biases)
        self.k = nn.Linear(channels, groups * head, bias=biases)
        self.v = nn.Linear(channels, groups * head, bias=biases)
        self.projection = nn.Linear(heads * head, channels, bias=biases)
        self.norm2 = nn.RMSNorm(channels, eps)
        self.gate = nn.Linear(channels, hidden, bias=False)
        self.up = nn.Linear(channels, hidden, bias=False)
        self.down = nn.Linear(hidden, channels, bias=False)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor, cache: KeyValueCache | None = None) -> Tensor:
        batch, length, _ = x.shape
        y = self.norm1(x)
        q, k, v = (part(y).view(batch, length, -1, self.head).transpose(1, 2) for part in (self.q, self.k, self.v))
        y = causal_attention(rotated(q, cosine, sine), rotated(k, cosine, sine), v, self.layer, cache)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, length, -1))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


@like(GPT2)
class Llama(nn.Module):
    """The decoder-only transformer of Llama 1 to 3.

    Args:
        groups: heads of keys and values, each for ``heads / groups`` query heads; by default ``heads``.
        hidden: features in a block's gated unit.
        head: channels of one head, by default ``channels / heads``.
        eps: added to the mean squares in the RMS norms.
        base: the base of the frequencies of the rotary position embeddings.
        scaling: the scaling of these frequencies, see ``rotary_frequencies``.
        biases: whether the four Linear layers of attention have biases.
        tied: share the weights of input and output embedding.

    Shape: tokens ``(N, T)`` to logits ``(N, T, vocabulary)``; with a ``KeyValueCache`` as second argument, T plus the
    cache's length is at most ``context``. With ``last=True`` only the logits of the last token are computed.

    Raises:
        ValueError: heads do not divide channels, or groups do not divide heads; more positions than
            ``context``; an unknown scaling.

    Source: Touvron et al., LLaMA, 2023; Ainslie et al., GQA, 2023; Shazeer, GLU variants improve transformer, 2020.

    >>> from retrograd.models import Llama
    >>> model = Llama(vocabulary=65, context=8, layers=2, heads=4, groups=2, channels=16, hidden=32)
    >>> model(rg.zeros(3, 8, dtype=rg.int64)).shape
    (3, 8, 65)
    """

    def __init__(
        self,
        vocabulary: int = 32000,
        context: int = 2048,
        layers: int = 32,
        heads: int = 32,
        channels: int = 4096,
        groups: int | None = None,
        hidden: int = 11008,
        head: int | None = None,
        eps: float = 1e-6,
        base: float = 10000.0,
        scaling: Mapping[str, object] | None = None,
        biases: bool = False,
        tied: bool = False,
    ) -> None:
        super().__init__()
        groups = heads if groups is None else groups
        if head is None and channels % heads:
            raise ValueError(f"Llama: channels={channels} must be divisible by heads={heads}")
        if heads % groups:
            raise ValueError(f"Llama: heads={heads} must be divisible by groups={groups}")
        self.context = context
        self.size = head = channels // heads if head is None else head
        self.frequencies = rotary_frequencies(head, base, scaling)
        self.token = nn.Embedding(vocabulary, channels)
        self.blocks = nn.ModuleList(
            [LlamaBlock(i, channels, heads, groups, head, hidden, eps, biases) for i in range(layers)]
        )
        self.norm = nn.RMSNorm(channels, eps)
        self.head = nn.Linear(channels, vocabulary, bias=False)
        if tied:
            self.head.weight = self.token.weight
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor, cache: KeyValueCache | None = None, last: bool = False) -> Tensor:
        start = 0 if cache is None else cache.length
        length = start + tokens.shape[1]
        check_positions("Llama", length, self.context)
        x = self.token(tokens)
        places = arange(start, length, dtype=np.float32, device=tokens.device)
        frequencies = np.concatenate([-self.frequencies, self.frequencies])
        angles = places.unsqueeze(1) * tensor(frequencies, dtype=np.float32, device=tokens.device)
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for block in self.blocks:
            x = block(x, cosine, sine, cache)
        return self.head(self.norm(x[:, -1:] if last else x))
