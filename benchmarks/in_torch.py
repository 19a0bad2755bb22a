"""GPT-2 and Llama with a cache of keys and values in PyTorch, with the names of ``retrograd.models``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Generate = Callable[[list[int], int], list[int]]


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


def generator(weights: dict[str, Any]) -> Generate:
    """Return a function that continues a prompt greedily, with these weights."""
    vocabulary, channels = weights["token.weight"].shape
    layers = len({name.split(".")[1] for name in weights if name.startswith("blocks.")})
    model = GPT2(vocabulary, len(weights["position.weight"]), channels, layers, channels // 64).eval()
    model.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in weights.items()})
    return greedy(model, layers)


def greedy(model: Any, layers: int) -> Generate:
    """Return a function that continues a prompt greedily."""

    @torch.no_grad()
    def generate(prompt: list[int], count: int) -> list[int]:
        text, known, caches = list(prompt), 0, [[] for _ in range(layers)]  # type: ignore[var-annotated]
        for _ in range(count):
            logits = model(torch.tensor([text[known:]]), caches)[0, -1]
            known = len(text)
            text.append(int(logits.argmax()))
        return text[len(prompt) :]

    return generate


class LlamaBlock(nn.Module):
    def __init__(self, channels: int, heads: int, groups: int, head: int, hidden: int, eps: float) -> None:
        super().__init__()
        self.head = head
        self.norm1, self.norm2 = nn.RMSNorm(channels, eps), nn.RMSNorm(channels, eps)
        linear = partial(nn.Linear, bias=False)
        self.q, self.projection = linear(channels, heads * head), linear(heads * head, channels)
        self.k, self.v = linear(channels, groups * head), linear(channels, groups * head)
        self.gate, self.up, self.down = linear(channels, hidden), linear(channels, hidden), linear(hidden, channels)

    def forward(self, x: Any, cosine: Any, sine: Any, cache: list[Any]) -> Any:
        n, t, _ = x.shape
        y = self.norm1(x)
        q, k, v = (part(y).view(n, t, -1, self.head).transpose(1, 2) for part in (self.q, self.k, self.v))
        q, k = (
            z * cosine + torch.cat([-z[..., self.head // 2 :], z[..., : self.head // 2]], -1) * sine for z in (q, k)
        )
        if cache:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        cache[:] = k, v
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1, enable_gqa=True)
        x = x + self.projection(y.transpose(1, 2).reshape(n, t, -1))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """The Llama of a ``config.json``, with the names of ``retrograd.models.Llama``."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        channels, eps = config["hidden_size"], config["rms_norm_eps"]
        heads, groups, head = (config[name] for name in ("num_attention_heads", "num_key_value_heads", "head_dim"))
        self.token = nn.Embedding(config["vocab_size"], channels)
        self.blocks = nn.ModuleList(
            LlamaBlock(channels, heads, groups, head, config["intermediate_size"], eps)
            for _ in range(config["num_hidden_layers"])
        )
        self.norm, self.head = nn.RMSNorm(channels, eps), nn.Linear(channels, config["vocab_size"], bias=False)
        if config["tie_word_embeddings"]:
            self.head.weight = self.token.weight
        self.frequencies = 1.0 / config["rope_theta"] ** (torch.arange(0, head, 2) / head)

    def forward(self, tokens: Any, caches: list[list[Any]]) -> Any:
        start = caches[0][0].shape[2] if caches[0] else 0
        angles = torch.arange(start, start + tokens.shape[1])[:, None] * self.frequencies.repeat(2)
        x = self.token(tokens)
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, cosine, sine, cache)
        return self.head(self.norm(x[:, -1:]))


def llama(config: dict[str, Any], weights: dict[str, Any], dtype: str) -> Generate:
    """Return a function that continues a prompt greedily, by a Llama with these float32 weights, in a dtype."""
    model = Llama(config).eval()
    model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    return greedy(model.to(getattr(torch, dtype)), config["num_hidden_layers"])
