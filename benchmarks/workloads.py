"""Training steps, written once for Retrograd and PyTorch.

A workload takes the library (``retrograd`` or ``torch``) and returns a function that runs one step and returns its
loss. Weights and data come from seeded NumPy generators, so both libraries compute with equal numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Step = Callable[[], Any]


def floats(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    """Normal numbers in float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def classes(seed: int, count: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(count, size=shape)


def same_weights(lib: Any, model: Any) -> Any:
    """Set the weights to scale ``1 / sqrt(fan-in)``, independently of the library, and the biases to zero."""
    rng = np.random.default_rng(0)
    with lib.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name:
                parameter.zero_()
            elif parameter.ndim > 1:
                shape = tuple(parameter.shape)
                drawn = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
                parameter.copy_(lib.from_numpy(drawn.astype(np.float32)))
    return model


def classifier(lib: Any, model: Any, optimizer: Any, x: Any, y: Any, clip: float | None = None) -> Step:
    """Return a training step with cross entropy."""
    F = lib.nn.functional

    def step() -> Any:
        loss = F.cross_entropy(model(x).flatten(0, -2), y)
        optimizer.zero_grad()
        loss.backward()
        if clip is not None:
            lib.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        return loss

    return step


def mlp_small(lib: Any) -> Step:
    """MLP 784-128-10, batch 32, SGD."""
    nn = lib.nn
    model = same_weights(lib, nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)))
    x, y = lib.from_numpy(floats(1, 32, 784)), lib.from_numpy(classes(2, 10, 32))
    return classifier(lib, model, lib.optim.SGD(model.parameters(), lr=0.01), x, y)


def mlp_large(lib: Any) -> Step:
    """MLP 784-1024-1024-1024-10, batch 512, RMSprop with momentum."""
    nn = lib.nn
    widths = (784, 1024, 1024, 1024)
    layers = [layer for n, m in zip(widths, widths[1:], strict=False) for layer in (nn.Linear(n, m), nn.ReLU())]
    model = same_weights(lib, nn.Sequential(*layers, nn.Linear(1024, 10)))
    x, y = lib.from_numpy(floats(1, 512, 784)), lib.from_numpy(classes(2, 10, 512))
    return classifier(lib, model, lib.optim.RMSprop(model.parameters(), lr=1e-4, momentum=0.9), x, y)


def call(module: Any, x: Any) -> Any:
    return module(x)


def gpt(
    lib: Any,
    layers: int,
    channels: int,
    heads: int,
    length: int,
    batch: int,
    vocabulary: int = 65,
    run: Callable[[Any, Any], Any] = call,
    tied: bool = False,
    step_of: Callable[..., Step] | None = None,
) -> Step:
    """A decoder-only transformer with AdamW and clipping, whose blocks ``run`` calls.

    With ``tied`` the token embedding is also the weight of the last layer, as in GPT-2. ``step_of`` replaces
    ``classifier``.
    """
    nn, F = lib.nn, lib.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(channels, bias=False), nn.LayerNorm(channels, bias=False)
            self.qkv = nn.Linear(channels, 3 * channels, bias=False)
            self.projection = nn.Linear(channels, channels, bias=False)
            self.up = nn.Linear(channels, 4 * channels, bias=False)
            self.down = nn.Linear(4 * channels, channels, bias=False)

        def forward(self, x: Any) -> Any:
            n, t, c = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, heads, c // heads).permute(2, 0, 3, 1, 4).unbind(0)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.projection(y.transpose(1, 2).reshape(n, t, c))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class Transformer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.token, self.position = nn.Embedding(vocabulary, channels), nn.Embedding(length, channels)
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
            self.norm = nn.LayerNorm(channels, bias=False)
            self.head = nn.Linear(channels, vocabulary, bias=False)
            if tied:
                self.head.weight = self.token.weight

        def forward(self, characters: Any) -> Any:
            x = self.token(characters) + self.position(lib.arange(characters.shape[1]))
            for block in self.blocks:
                x = run(block, x)
            return self.head(self.norm(x))

    model = same_weights(lib, Transformer())
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    x = lib.from_numpy(classes(1, vocabulary, batch, length))
    y = lib.from_numpy(classes(2, vocabulary, batch * length))
    return (step_of or classifier)(lib, model, optimizer, x, y, clip=1.0)


def gpt_small(lib: Any) -> Step:
    """GPT of 4 layers, 128 channels, 4 heads, context 64, batch 12, AdamW, clipping."""
    return gpt(lib, layers=4, channels=128, heads=4, length=64, batch=12)


def gpt_middle(lib: Any) -> Step:
    """GPT of 6 layers, 384 channels, 6 heads, context 256, batch 4, AdamW, clipping."""
    return gpt(lib, layers=6, channels=384, heads=6, length=256, batch=4)


# GPT of 124 million parameters, the size of GPT-2: 2 x 256 tokens of 50,257, AdamW, clipping (``language.py``).
GPT_124M: dict[str, Any] = {
    "layers": 12, "channels": 768, "heads": 12, "length": 256, "batch": 2, "vocabulary": 50257, "tied": True,
}  # fmt: skip


def cnn(lib: Any) -> Step:
    """CNN 1-32-64 with batch norm and max pooling, 28 x 28, batch 64, Adam."""
    nn = lib.nn

    def block(n: int, m: int) -> list[Any]:
        return [nn.Conv2d(n, m, 3, padding=1), nn.BatchNorm2d(m), nn.ReLU(), nn.MaxPool2d(2)]

    model = nn.Sequential(*block(1, 32), *block(32, 64), nn.Flatten(), nn.Linear(64 * 49, 10))
    same_weights(lib, model)
    x, y = lib.from_numpy(floats(1, 64, 1, 28, 28)), lib.from_numpy(classes(2, 10, 64))
    return classifier(lib, model, lib.optim.Adam(model.parameters(), lr=1e-3), x, y)


def lstm(lib: Any) -> Step:
    """LSTM 128-256 over 64 steps, batch 32, a Linear layer at every step, Adam."""
    nn = lib.nn

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(128, 256, batch_first=True), nn.Linear(256, 65)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0])

    model = same_weights(lib, Model())
    x, y = lib.from_numpy(floats(1, 32, 64, 128)), lib.from_numpy(classes(2, 65, 32 * 64))
    return classifier(lib, model, lib.optim.Adam(model.parameters(), lr=1e-3), x, y)


def elementwise(lib: Any) -> Step:
    """A chain of elementwise operators on 4 million numbers, forward and backward."""
    x = lib.from_numpy(floats(1, 4_000_000)).requires_grad_()

    def step() -> Any:
        x.grad = None
        loss = (lib.tanh(x * 1.5 + 0.5) * lib.sigmoid(x)).mean()
        loss.backward()
        return loss

    return step


def chain(lib: Any) -> Step:
    """100 operators (matmul, mul, add, tanh) on 8 x 8 matrices, forward and backward: the cost of an operator."""
    x, w, s, b = [lib.from_numpy(floats(seed, 8, 8) / 3).requires_grad_() for seed in range(1, 5)]

    def step() -> Any:
        x.grad = w.grad = s.grad = b.grad = None  # drop the previous step's gradients
        y = x
        for _ in range(25):
            y = lib.tanh((y @ w) * s + b)
        loss = y.sum()
        loss.backward()
        return loss

    return step


def optimizer(lib: Any) -> Step:
    """Only AdamW, over the parameters of the middle GPT (10.8 million numbers in 50 Tensors)."""
    shapes = [(1152, 384), (384, 384), (1536, 384), (384, 1536)] * 6 + [(384,)] * 13 + [(65, 384)] * 2
    parameters = [lib.nn.Parameter(lib.from_numpy(floats(index, *shape))) for index, shape in enumerate(shapes)]
    for index, parameter in enumerate(parameters):
        parameter.grad = lib.from_numpy(floats(index + 1000, *tuple(parameter.shape)))
    adamw = lib.optim.AdamW(parameters, lr=1e-3)

    def step() -> Any:
        adamw.step()
        return parameters[0][0, 0]

    return step


def loader(lib: Any) -> Step:
    """An epoch of a shuffling DataLoader in batches of 64 over 6,000 examples of 784 numbers."""
    if lib.__name__ == "torch":
        from torch.utils import data
    else:
        from retrograd import data  # type: ignore[no-redef]
    lib.manual_seed(0)
    dataset = data.TensorDataset(lib.from_numpy(floats(1, 6000, 784)), lib.from_numpy(classes(2, 10, 6000)))
    batches = data.DataLoader(dataset, batch_size=64, shuffle=True)

    def step() -> Any:
        total = lib.zeros(())
        for x, _ in batches:
            total += len(x)
        return total

    return step


STEPS: dict[str, Callable[[Any], Step]] = {
    step.__name__: step for step in (mlp_small, mlp_large, gpt_small, gpt_middle, cnn, lstm, elementwise, chain)
}
PARTS: dict[str, Callable[[Any], Step]] = {step.__name__: step for step in (optimizer, loader)}
