"""Overhead per operator: forward and backward of a chain of matmul, mul, add and tanh on 8x8 float32.

Each library runs in its own process with two threads, alternating; medians are compared. Libraries that are not
installed are skipped.

    python benchmarks/overhead.py [--rounds 7]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable

import numpy as np

REPEATS = 25  # of four operators: a chain of 100
LIBRARIES = ("retrograd", "torch", "autograd", "mygrad")


def draws() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((8, 8)).astype(np.float32) / 3 for _ in range(4)]


def retrograd_step() -> Callable[[], object]:
    import retrograd as rg

    x, w, s, b = [rg.tensor(a, requires_grad=True) for a in draws()]

    def step() -> None:
        y = x
        for _ in range(REPEATS):
            y = rg.tanh((y @ w) * s + b)
        y.sum().backward()
        x.grad = w.grad = s.grad = b.grad = None

    return step


def torch_step() -> Callable[[], object]:
    import torch

    torch.set_num_threads(2)
    x, w, s, b = [torch.tensor(a, requires_grad=True) for a in draws()]

    def step() -> None:
        y = x
        for _ in range(REPEATS):
            y = torch.tanh((y @ w) * s + b)
        y.sum().backward()
        x.grad = w.grad = s.grad = b.grad = None

    return step


def autograd_step() -> Callable[[], object]:
    import autograd
    import autograd.numpy as anp

    def loss(x, w, s, b):  # type: ignore[no-untyped-def]
        for _ in range(REPEATS):
            x = anp.tanh((x @ w) * s + b)
        return anp.sum(x)

    gradient = autograd.grad(loss, argnum=(0, 1, 2, 3))
    arrays = draws()
    return lambda: gradient(*arrays)


def mygrad_step() -> Callable[[], object]:
    import mygrad as mg

    tensors = [mg.tensor(a) for a in draws()]
    x, w, s, b = tensors

    def step() -> None:
        y = x
        for _ in range(REPEATS):
            y = mg.tanh((y @ w) * s + b)
        y.sum().backward()
        for tensor in tensors:
            tensor.null_grad()

    return step


def measure(library: str, seconds: float) -> float:
    """Return the median seconds per operator, forward and backward together."""
    step = globals()[f"{library}_step"]()
    for _ in range(5):
        step()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times) / (4 * REPEATS + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="per library and round")
    parser.add_argument("--worker", choices=LIBRARIES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(measure(options.worker, options.seconds))
        return
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "2")
    measured: dict[str, list[float]] = defaultdict(list)
    libraries = list(LIBRARIES)
    for _ in range(options.rounds):
        for library in list(libraries):
            run = subprocess.run(
                [sys.executable, __file__, "--worker", library, "--seconds", str(options.seconds)],
                capture_output=True,
                text=True,
                env=environment,
            )
            if run.returncode:
                print(f"{library} skipped: {run.stderr.strip().splitlines()[-1]}")
                libraries.remove(library)
            else:
                measured[library].append(float(run.stdout))
    mine = statistics.median(measured["retrograd"])
    print(f"retrograd: {mine * 1e6:.2f} us per operator, forward and backward")
    for library, times in measured.items():
        if library != "retrograd" and times:
            print(f"  {mine / statistics.median(times):.3f} of {library} ({statistics.median(times) * 1e6:.2f} us)")


if __name__ == "__main__":
    main()
