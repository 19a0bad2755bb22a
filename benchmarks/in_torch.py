"""GPT-2 with a cache of keys and values in PyTorch, with the names of ``retrograd.models.GPT2``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.qkv, self.projection = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.mlp = nn.Sequential(
            nn.Linear(channels, 4 * channels), nn.GELU("tanh"), nn.Linear(4 * channels, channels), nn.Dropout(0.0)
        )

    def forward(self, x: Any, cache: list[Any]) -> Any:
        n, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        if cache:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        cache[:] = k, v
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        x = x + self.projection(y.transpose(1, 2).reshape(n, t, c))
        return x + self.mlp(self.norm2(x))


class GPT2(nn.Module):
    def __init__(self, vocabulary: int, context: int, channels: int, layers: int, heads: int) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, channels), nn.Embedding(context, channels)
        self.blocks = nn.ModuleList([Block(channels, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(channels), nn.Linear(channels, vocabulary, bias=False)
        self.head.weight = self.token.weight

    def forward(self, tokens: Any, caches: list[list[Any]]) -> Any:
        start = caches[0][0].shape[2] if caches[0] else 0
        x = self.token(tokens) + self.position(torch.arange(start, start + tokens.shape[1]))
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, cache)
        return self.head(self.norm(x[:, -1:]))


def generator(weights: dict[str, Any]) -> Callable[[list[int], int], list[int]]:
    """Return a function that continues a prompt greedily, with these weights."""
    vocabulary, channels = weights["token.weight"].shape
    layers = len({name.split(".")[1] for name in weights if name.startswith("blocks.")})
    model = GPT2(vocabulary, len(weights["position.weight"]), channels, layers, channels // 64).eval()
    model.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in weights.items()})

    @torch.no_grad()
    def generate(prompt: list[int], count: int) -> list[int]:
        text, known, caches = list(prompt), 0, [[] for _ in range(layers)]  # type: ignore[var-annotated]
        for _ in range(count):
            logits = model(torch.tensor([text[known:]]), caches)[0, -1]
            known = len(text)
            text.append(int(logits.argmax()))
        return text[len(prompt) :]

    return generate
