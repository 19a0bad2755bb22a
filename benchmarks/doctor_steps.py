"""What the doctor adds to the steps that it watches between those that it records in full.

A step of an MLP (SGD and Adam), of a small convolutional network and of a small GPT runs in blocks of a few steps,
without and with the doctor in turn, in one process. The CPU time of the thread is measured, and the ratio of the
medians is printed. Norms for the page, which the doctor measures in up to 2 % of the time, are part of it.

    python benchmarks/doctor_steps.py [--rounds 6] [--profile] [mlp-sgd mlp-adam cnn gpt]
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import time
from collections.abc import Callable

import retrograd as rg
from retrograd import nn
from retrograd.inspect.diagnosing.observing import Observation
from retrograd.inspect.diagnosing.run import Run
from retrograd.nn import functional as F
from retrograd.optim import SGD, Adam, Optimizer

RECORDED = 101  # steps, of which the doctor records four in full, and after which it records none ...
WATCHED = 390  # ... in this number of steps
SECONDS = 0.02  # of a block
BLOCKS = 10  # without and with the doctor in each round

Step = Callable[[], None]


def training(model: nn.Module, optimizer: Optimizer, x: rg.Tensor, y: rg.Tensor) -> Step:
    """Return a training step of a classifier."""

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def mlp(kind: type[Optimizer]) -> Step:
    """Return a step of 784-256-10 on 64 examples."""
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    return training(model, kind(model.parameters(), lr=1e-3), rg.randn(64, 784), rg.randint(0, 10, (64,)))


def cnn() -> Step:
    """Return a step of two convolutions on 32 images of 28 x 28."""
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * 49, 10),
    )  # fmt: skip
    return training(model, Adam(model.parameters(), lr=1e-3), rg.randn(32, 1, 28, 28), rg.randint(0, 10, (32,)))


class Block(nn.Module):
    """A block of a transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.drop = nn.Dropout(0.1)

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        batch, time_steps, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, time_steps, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.out(mixed.transpose(1, 2).reshape(batch, time_steps, width)))
        return x + self.drop(self.mlp(self.norm2(x)))


def gpt() -> Step:
    """Return a step of a GPT of two blocks of width 64 on 8 sequences of 32 tokens."""

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.place = nn.Embedding(65, 64), nn.Embedding(32, 64)
            self.blocks = nn.ModuleList([Block(64, 4) for _ in range(2)])
            self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, 65)

        def forward(self, x: rg.Tensor) -> rg.Tensor:
            h = self.token(x) + self.place(rg.arange(x.shape[1]))
            for block in self.blocks:
                h = block(h)
            return self.head(self.norm(h)).flatten(0, 1)

    model = GPT()
    return training(model, Adam(model.parameters(), lr=1e-3), rg.randint(0, 65, (8, 32)), rg.randint(0, 65, (256,)))


def watched(step: Step) -> Observation:
    """Return the doctor's observation of a training after the steps that it records in full."""
    observation = Observation(Run())
    observation.start()
    for _ in range(RECORDED):
        step()
    return observation


def measure(step: Step, count: int) -> float:
    """Return the CPU seconds per step of a block."""
    began = time.thread_time()
    for _ in range(count):
        step()
    return (time.thread_time() - began) / count


def compare(name: str, step: Step, rounds: int) -> None:
    """Print the ratio of the medians of blocks with and without the doctor, which alternate round by round."""
    measure(step, 5)
    count = max(2, round(SECONDS / measure(step, 5)))
    blocks = min(BLOCKS, WATCHED // count)
    plain: list[float] = []
    doctored: list[float] = []
    for _ in range(rounds):
        observation = watched(step)
        doctored += [measure(step, count) for _ in range(blocks)]
        observation.stop()
        measure(step, count)
        plain += [measure(step, count) for _ in range(blocks)]
    base, with_doctor = (statistics.median(x) * 1e6 for x in (plain, doctored))
    low = min(doctored) / min(plain)
    print(
        f"{name:9} {base:6.0f} us; watched {with_doctor / base:.3f} times, {with_doctor - base:+.0f} us; "
        f"minima {low:.3f} times"
    )


def profile(step: Step, steps: int) -> None:
    """Print where the time of watched steps goes."""
    observation = watched(step)
    profiler = cProfile.Profile(time.thread_time)
    profiler.enable()
    measure(step, steps)
    profiler.disable()
    observation.stop()
    pstats.Stats(profiler).sort_stats("tottime").print_stats("diagnosing|global_hooks|module.py|source_location", 30)


def main() -> None:
    workloads = {"mlp-sgd": lambda: mlp(SGD), "mlp-adam": lambda: mlp(Adam), "cnn": cnn, "gpt": gpt}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--profile", action="store_true", help="print where the time of watched steps goes instead")
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", default=list(workloads))
    options = parser.parse_args()
    rg.manual_seed(0)
    for name in options.workloads:
        if options.profile:
            profile(workloads[name](), WATCHED)
        else:
            compare(name, workloads[name](), options.rounds)


if __name__ == "__main__":
    main()
