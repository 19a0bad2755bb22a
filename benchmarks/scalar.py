"""The time of a training epoch of MLP(2, [16, 16, 1]) on 100 two-moons points: ``retrograd.scalar``,
``scalar.compile`` and micrograd.

Each measurement is a process of its own, the libraries alternate, and medians are compared:

    python benchmarks/scalar.py --rounds 5
"""

from __future__ import annotations

import argparse
import importlib
import math
import random
import statistics
import subprocess
import sys
import time
from typing import Any

MODULES = {
    "retrograd": ("retrograd.scalar", "retrograd.scalar"),
    "compiled": ("retrograd.scalar", "retrograd.scalar"),
    "micrograd": ("micrograd.engine", "micrograd.nn"),
}


def two_moons(count: int, noise: float = 0.1) -> list[tuple[tuple[float, float], int]]:
    """Return points of two interleaved half circles with labels -1 and 1."""
    points = []
    for i in range(count):
        angle, label = math.pi * random.random(), 1 if i % 2 else -1
        x, y = math.cos(angle), math.sin(angle)
        if label == 1:
            x, y = 1 - x, 0.5 - y
        points.append(((x + random.gauss(0, noise), y + random.gauss(0, noise)), label))
    return points


def seconds_per_epoch(library: str, epochs: int) -> tuple[float, float]:
    """Return the median time of forward, backward and update over all points, and the last loss."""
    engine, networks = map(importlib.import_module, MODULES[library])
    random.seed(1337)
    options = {} if library == "micrograd" else {"activation": "relu"}  # micrograd supports no other
    points, model = two_moons(100), networks.MLP(2, [16, 16, 1], **options)
    if library == "compiled":
        return compiled_epochs(engine, points, model, epochs)
    times = []
    for _ in range(epochs + 1):
        start = time.perf_counter()
        scores = [model(list(map(engine.Value, x))) for x, _ in points]
        losses = [(1 + -label * score).relu() for score, (_, label) in zip(scores, points, strict=True)]
        loss = sum(losses) * (1.0 / len(losses)) + 1e-4 * sum(p * p for p in model.parameters())
        model.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.data -= 0.1 * p.grad
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:]), loss.data


def compiled_epochs(engine: Any, points: Any, model: Any, epochs: int) -> tuple[float, float]:
    """Measure the same epoch with the model recorded once and evaluated for all points together."""
    import numpy as np

    xs, ys = np.array([x for x, _ in points]).T
    labels = np.array([label for _, label in points], dtype=float)
    score = engine.compile(lambda x, y: model([x, y]))
    penalty = engine.compile(lambda: sum(p * p for p in model.parameters()))
    times = []
    for _ in range(epochs + 1):
        start = time.perf_counter()
        loss = (1 - labels * score(xs, ys)).relu().mean() + 1e-4 * penalty()
        model.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.data -= 0.1 * p.grad
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:]), loss.item()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="processes per library")
    parser.add_argument("--epochs", type=int, default=5, help="timed epochs per process")
    parser.add_argument("--library", choices=MODULES, help="measure only this library, in this process")
    options = parser.parse_args(arguments)
    if options.library:
        print(*seconds_per_epoch(options.library, options.epochs))
        return
    times: dict[str, list[float]] = {library: [] for library in MODULES}
    for _ in range(options.rounds):
        for library in MODULES:
            command = [sys.executable, __file__, "--library", library, "--epochs", str(options.epochs)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            seconds, loss = map(float, output.split())
            times[library].append(seconds)
            print(f"{library:10} {1000 * seconds:8.1f} ms per epoch, loss {loss:.12f}", flush=True)
    medians = {library: statistics.median(values) for library, values in times.items()}
    print(f"retrograd / micrograd: {medians['retrograd'] / medians['micrograd']:.3f} (target: at most 0.5)")
    print(f"micrograd / compiled: {medians['micrograd'] / medians['compiled']:.0f} (target: at least 50)")


if __name__ == "__main__":
    main()
