"""The time of a training step beside PyTorch eager: the MLP, CNN and transformer of `retrograd train`.

Each library runs in a process of its own, in alternation, with the same number of threads; the medians of the steps'
times are compared.

    python benchmarks/training.py [--models mlp cnn gpt] [--rounds 5] [--threads 2]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

LIBRARIES = ("retrograd", "torch")
MODELS = ("mlp", "cnn", "gpt")


def batch(model: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    if model == "gpt":
        return rng.integers(65, size=(12, 64)), rng.integers(65, size=(12, 64))
    shape = (512, 784) if model == "mlp" else (128, 1, 28, 28)
    return rng.standard_normal(shape).astype(np.float32), rng.integers(10, size=shape[0])


def retrograd_step(name: str) -> Callable[[], float]:
    import retrograd as rg
    from retrograd import nn, optim
    from retrograd.models import CNN, MLP, CharTransformer

    rg.manual_seed(0)
    if name == "mlp":
        return make_step(name, MLP([784, 1024, 1024, 1024, 10]), rg.from_numpy, nn, optim)
    return make_step(name, CNN() if name == "cnn" else CharTransformer(65), rg.from_numpy, nn, optim)


def torch_step(name: str) -> Callable[[], float]:
    import torch
    from torch import nn, optim

    torch.manual_seed(0)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if name == "mlp":
        model: Any = nn.Sequential(
            *(layer for n, m in ((784, 1024), (1024, 1024), (1024, 1024)) for layer in (nn.Linear(n, m), nn.ReLU())),
            nn.Linear(1024, 10),
        )
    elif name == "cnn":
        layers = [
            [nn.Conv2d(n, m, 5, padding=2, bias=False), nn.BatchNorm2d(m), nn.MaxPool2d(2), nn.ReLU()]
            for n, m in ((1, 16), (16, 32))
        ]
        head = [nn.Flatten(), nn.Linear(32 * 49, 128), nn.ReLU(), nn.Dropout(0.25), nn.Linear(128, 10)]
        model = nn.Sequential(*layers[0], *layers[1], *head)
    else:
        model = torch_transformer()
    return make_step(name, model, torch.from_numpy, nn, optim)


def torch_transformer() -> Any:
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(128, bias=False), nn.LayerNorm(128, bias=False)
            self.qkv = nn.Linear(128, 384, bias=False)
            self.projection = nn.Linear(128, 128, bias=False)
            self.mlp = nn.Sequential(nn.Linear(128, 512, bias=False), nn.GELU(), nn.Linear(512, 128, bias=False))

        def forward(self, x: Any) -> Any:
            n, length, channels = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(n, length, 3, 4, 32).permute(2, 0, 3, 1, 4).unbind(0)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.projection(y.transpose(1, 2).reshape(n, length, channels))
            return x + self.mlp(self.norm2(x))

    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.position = nn.Embedding(65, 128), nn.Embedding(64, 128)
            self.blocks = nn.Sequential(*[Block() for _ in range(4)])
            self.norm = nn.LayerNorm(128, bias=False)
            self.head = nn.Linear(128, 65, bias=False)
            self.head.weight = self.token.weight
            for parameter in self.parameters():
                if parameter.ndim == 2:
                    nn.init.normal_(parameter, std=0.02)

        def forward(self, characters: Any) -> Any:
            x = self.token(characters) + self.position(torch.arange(characters.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    return Transformer()


def make_step(
    name: str, model: Any, from_numpy: Callable[[np.ndarray], Any], nn: Any, optim: Any
) -> Callable[[], float]:
    """One step, in words that both libraries understand."""
    x, y = map(from_numpy, batch(name))
    if name == "mlp":
        optimizer = optim.RMSprop(model.parameters(), lr=1e-4, momentum=0.9)
    else:
        optimizer = optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)

    def step() -> float:
        loss = nn.functional.cross_entropy(model(x).flatten(0, -2), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        if name == "gpt":
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def measure(library: str, model: str, seconds: float) -> float:
    """Median seconds per step."""
    step = globals()[f"{library}_step"](model)
    for _ in range(2):
        step()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="per library and round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--worker", choices=LIBRARIES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(measure(options.worker, options.models[0], options.seconds))
        return
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = os.environ | {name: str(options.threads) for name in names}
    for model in options.models:
        times: dict[str, list[float]] = {library: [] for library in LIBRARIES}
        for _ in range(options.rounds):
            for library in LIBRARIES:
                command = [sys.executable, __file__, "--worker", library, "--models", model]
                run = subprocess.run(
                    [*command, "--seconds", str(options.seconds)],
                    stdout=subprocess.PIPE,
                    text=True,
                    env=environment,
                    check=True,
                )
                times[library].append(float(run.stdout))
        ours, theirs = (1e3 * statistics.median(times[library]) for library in LIBRARIES)
        print(f"{model}: {ours:.1f} ms per step, PyTorch eager {theirs:.1f} ms, ratio {ours / theirs:.2f}", flush=True)


if __name__ == "__main__":
    main()
