"""A training step while another process keeps one core busy, beside PyTorch's.

    python -m benchmarks.neighbour [--workload gpt_small] [--threads 2] [--seconds 4]

Threads that wait in loops for each other collapse when one of them cannot run: the slow-down says by how much.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .__main__ import Worker, can
from .workloads import STEPS


@contextmanager
def neighbour() -> Iterator[None]:
    """A process that never waits."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def slow_down(library: str, workload: str, threads: int, seconds: float) -> tuple[float, float]:
    """The median times of a step alone, and beside the neighbour."""
    worker = Worker(library, workload, threads)
    worker.tell(seconds / 4)
    alone = statistics.median(worker.tell(seconds))
    with neighbour():
        beside = statistics.median(worker.tell(seconds))
    worker.tell("end")
    worker.process.wait()
    return alone, beside


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.neighbour")
    parser.add_argument("--workload", choices=list(STEPS), default="gpt_small")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    for library in ("retrograd", "retrograd-numpy", "torch"):
        if can(library, options.workload):
            alone, beside = slow_down(library, options.workload, options.threads, options.seconds)
            figures = f"{1e3 * alone:.3g} ms alone, {1e3 * beside:.3g} ms beside: {beside / alone:.1f} times"
            print(f"{library}: {figures}", flush=True)


if __name__ == "__main__":
    main()
