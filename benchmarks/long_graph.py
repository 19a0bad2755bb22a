"""A graph of a million operators, without a loop that anything could roll: its time and memory.

python -m benchmarks.long_graph [--rounds 3] [--operators 1000000]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

from .worker import resident

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = ("retrograd", "torch")


def run(library: str, operators: int) -> dict[str, float]:
    """Record a chain of products and sines on four numbers, and differentiate it."""
    lib = import_module(library)
    x = lib.ones(4, requires_grad=True)
    before, start, y = resident("VmRSS"), time.perf_counter(), x
    for _ in range(operators // 2):
        y = (y * 1.0000001).sin()
    recorded = time.perf_counter()
    y.sum().backward()
    return {
        "forward": recorded - start,
        "backward": time.perf_counter() - recorded,
        "memory": resident("VmHWM") - before,
        "gradient": x.grad[0].item(),
    }


def measure(operators: int = 1_000_000, rounds: int = 3) -> dict[str, float]:
    """Return the ratios to PyTorch of the seconds of both passes and of the memory, as medians over processes."""
    runs: dict[str, list[dict[str, float]]] = {library: [] for library in LIBRARIES}
    for _ in range(rounds):
        for library, found in runs.items():
            command = [
                sys.executable,
                "-m",
                "benchmarks.long_graph",
                "--library",
                library,
                "--operators",
                str(operators),
            ]
            environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            result = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            found.append(json.loads(result.stdout))
    ours, theirs = runs.values()
    if abs(ours[0]["gradient"] / theirs[0]["gradient"] - 1) > 0.01:
        raise SystemExit(f"gradients differ: {ours[0]['gradient']}, PyTorch {theirs[0]['gradient']}")
    return {
        name: statistics.median(x[name] for x in ours) / statistics.median(x[name] for x in theirs)
        for name in ("forward", "backward", "memory")
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.long_graph", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--operators", type=int, default=1_000_000)
    parser.add_argument("--library", choices=LIBRARIES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.library:
        print(json.dumps(run(options.library, options.operators)))
        return
    for name, value in measure(options.operators, options.rounds).items():
        print(f"{name}: {value:.2f} of PyTorch's")


if __name__ == "__main__":
    main()
