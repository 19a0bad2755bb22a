"""Character models of text, a decoder-only transformer and an LSTM, and sampling from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import nn
from ..core.graph.modes import no_grad
from ..core.tensor.tensor import Tensor
from ..nn import functional as F
from ..ops.make.creation import tensor
from ..ops.make.ranges import arange
from ..ops.table.documentation import like
from .cache import KeyValueCache
from .gpt2 import GPT2
from .llama import Llama


class CausalSelfAttention(nn.Module):
    """Multi-head attention of each position to itself and earlier positions: ``(N, T, C)`` to ``(N, T, C)``."""

    def __init__(self, channels: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(channels, 3 * channels, bias=False)
        self.projection = nn.Linear(channels, channels, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, channels = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, channels // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        return self.projection(y.transpose(1, 2).reshape(batch, length, channels))


class TransformerBlock(nn.Module):
    """``x + attention(norm(x))``, then ``x + mlp(norm(x))``: the pre-norm block of GPT-2, without biases."""

    def __init__(self, channels: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(channels, bias=False)
        self.attention = CausalSelfAttention(channels, heads, dropout)
        self.norm2 = nn.LayerNorm(channels, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(channels, 4 * channels, bias=False),
            nn.GELU(),
            nn.Linear(4 * channels, channels, bias=False),
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


@like(GPT2, raises="ValueError", source=True)
class CharTransformer(nn.Module):
    """A decoder-only transformer in the shape of GPT-2, with tied input and output embeddings and without biases.

    Args:
        vocabulary: the number of characters.

    Shape: characters ``(N, T)``, T at most ``context``, to logits ``(N, T, vocabulary)``.

    Weights start from ``N(0, 0.02^2)``, the last weights of a residual branch from ``N(0, 0.02^2 / (2 layers))``.

    >>> from retrograd.models import CharTransformer
    >>> model = CharTransformer(vocabulary=65, context=8, layers=2, heads=2, channels=16)
    >>> model(rg.zeros(3, 8, dtype=rg.int64)).shape
    (3, 8, 65)
    """

    def __init__(
        self,
        vocabulary: int,
        context: int = 64,
        layers: int = 4,
        heads: int = 4,
        channels: int = 128,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if channels % heads:
            raise ValueError(f"CharTransformer: channels={channels} must be divisible by heads={heads}")
        self.context = context
        self.token = nn.Embedding(vocabulary, channels)
        self.position = nn.Embedding(context, channels)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*[TransformerBlock(channels, heads, dropout) for _ in range(layers)])
        self.norm = nn.LayerNorm(channels, bias=False)
        self.head = nn.Linear(channels, vocabulary, bias=False)
        self.head.weight = self.token.weight
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                ends_branch = name.endswith(("projection.weight", "mlp.2.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if ends_branch else 0.02)

    def forward(self, characters: Tensor) -> Tensor:
        length = characters.shape[1]
        if length > self.context:
            raise ValueError(f"CharTransformer: {length} positions do not fit in a context of {self.context}")
        positions = arange(length, device=characters.device)
        x = self.blocks(self.dropout(self.token(characters) + self.position(positions)))
        return self.head(self.norm(x))


class NamesLSTM(nn.Module):
    """An LSTM over embedded characters, and a Linear layer to the logits of the next character.

    Args:
        vocabulary: the number of characters, including the separator of names.
        channels: the size of the embedding.
        hidden: the size of the LSTM.
        layers: the number of LSTM layers.
        context: the maximum number of positions in sampling.

    Shape: characters ``(N, T)`` to logits ``(N, T, vocabulary)``.

    Source: Hochreiter and Schmidhuber, Long short-term memory, 1997.

    >>> from retrograd.models import NamesLSTM
    >>> NamesLSTM(vocabulary=27)(rg.zeros(3, 8, dtype=rg.int64)).shape
    (3, 8, 27)
    """

    def __init__(
        self, vocabulary: int, channels: int = 32, hidden: int = 128, layers: int = 1, context: int = 32
    ) -> None:
        super().__init__()
        self.context = context
        self.token = nn.Embedding(vocabulary, channels)
        self.lstm = nn.LSTM(channels, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, characters: Tensor) -> Tensor:
        output, _ = self.lstm(self.token(characters))
        return self.head(output)


@no_grad()
def generate(
    model: Any,
    prompt: Sequence[int],
    length: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    stop: int | None = None,
    random: np.random.Generator | None = None,
) -> list[int]:
    """Sample characters one by one, each from ``softmax(logits / temperature)`` given the previous characters.

    Args:
        model: maps characters ``(1, T)`` to logits ``(1, T, vocabulary)``; has a ``context``. GPT2 and Llama are called
            with a ``KeyValueCache``, so that a step computes one character only, until the context is full.
        prompt: the characters to continue, at least one.
        length: the number of characters to sample.
        temperature: below 1, likely characters become likelier; 0 takes the most likely character.
        top_k: sample only from the k most likely characters.
        stop: stop after this character.
        random: the random generator; by default a generator with a seed from the operating system.

    Returns:
        The sampled characters, without the prompt.

    Raises:
        ValueError: an empty prompt, a negative temperature, or ``top_k`` below 1.

    >>> from retrograd.models import CharTransformer, generate
    >>> model = CharTransformer(vocabulary=5, context=4, layers=1, heads=1, channels=8)
    >>> len(generate(model, [0], length=6))
    6
    """
    if not len(prompt):
        raise ValueError("generate: the prompt must have at least one character")
    if not temperature >= 0:
        raise ValueError(f"generate: temperature must not be negative, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"generate: top_k must be at least 1, got {top_k}")
    random = random or np.random.default_rng()
    parameter = next(model.parameters())
    trained, _ = model.training, model.eval()
    text = list(prompt)
    cached = isinstance(model, (GPT2, Llama))
    cache = KeyValueCache() if cached else None
    try:
        for _ in range(length):
            if cache is not None and len(text) > model.context:
                cache = None  # all positions change when the window moves
            known = max(0, len(text) - model.context) if cache is None else cache.length
            window = tensor([text[known:]], device=parameter.device)
            logits = (model(window, cache, last=True) if cached else model(window))[0, -1]
            text.append(_draw(logits.cpu().numpy().astype(np.float64), temperature, top_k, random))
            if text[-1] == stop:
                break
    finally:
        model.train(trained)
    return text[len(prompt) :]


def _draw(logits: np.ndarray, temperature: float, top_k: int | None, random: np.random.Generator) -> int:
    if temperature == 0:
        return int(logits.argmax())
    scaled = (logits - logits.max()) / temperature
    if top_k is not None and top_k < len(scaled):
        scaled[scaled < np.partition(scaled, -top_k)[-top_k]] = -np.inf
    weights = np.exp(scaled)
    return int(random.choice(len(weights), p=weights / weights.sum()))
