"""Slowdown of a training step by a competing process on one core, compared with PyTorch's.

    python -m benchmarks.neighbor [--workload gpt_small] [--threads 2] [--seconds 4]

Threads that spin on each other slow down severely when one of them is preempted.
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
def neighbor() -> Iterator[None]:
    """Run a process that spins."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def slow_down(library: str, workload: str, threads: int, seconds: float) -> tuple[float, float]:
    """Return the median times of a step without and with the competing process."""
    worker = Worker(library, workload, threads)
    worker.tell(seconds / 4)
    alone = statistics.median(worker.tell(seconds))
    with neighbor():
        beside = statistics.median(worker.tell(seconds))
    worker.tell("end")
    worker.process.wait()
    return alone, beside


def slow_downs(workload: str, threads: int, seconds: float) -> dict[str, list[float]]:
    """Return, for each installed library, the times of a step in seconds without and with the competing process."""
    libraries = [library for library in ("retrograd", "retrograd-numpy", "torch") if can(library, workload)]
    return {library: list(slow_down(library, workload, threads, seconds)) for library in libraries}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.neighbor")
    parser.add_argument("--workload", choices=list(STEPS), default="gpt_small")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    for library, (alone, beside) in slow_downs(options.workload, options.threads, options.seconds).items():
        figures = f"{1e3 * alone:.3g} ms alone, {1e3 * beside:.3g} ms competing: {beside / alone:.1f} times"
        print(f"{library}: {figures}", flush=True)


if __name__ == "__main__":
    main()
