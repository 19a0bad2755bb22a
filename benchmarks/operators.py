"""The time of single operators compared with PyTorch eager, forward and backward, on small and large tensors.

Both libraries run the same program texts, each in its own process with the same number of threads, alternating at
every program; ratios are of medians. ``--small`` measures only small tensors, and adds the calls of
``small_calls.py``. Tables start with the highest ratio to PyTorch; progress goes only to the terminal.

    python -m benchmarks.operators [--small] [--only softmax 'conv*'] [--rounds 3] [--threads 2] [--dtype float64]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from fnmatch import fnmatch
from functools import cache
from typing import Any

import numpy as np

try:
    from .small_calls import SMALL_CALLS
except ImportError:
    from small_calls import SMALL_CALLS  # type: ignore[import-not-found, no-redef]

IMAGE, IMAGES = {"x": (2, 4, 8, 8)}, {"x": (16, 32, 56, 56)}
VOLUME, VOLUMES = {"x": (2, 4, 4, 4, 4)}, {"x": (4, 8, 16, 16, 16)}
POINTS, MORE_POINTS = [{"g": f"torch.rand({n}, {size}, {size}, 2) * 2 - 1"} for n, size in ((2, 6), (16, 56))]

# name: program, small shapes, large shapes. A tuple is the shape of normal numbers with a gradient, a list the shape
# of integers followed by their exclusive bound, and a string an expression for a constant.
PROGRAMS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "add": ("x + y", {"x": (8, 8), "y": (8, 8)}, {"x": (1024, 1024), "y": (1024, 1024)}),
    "add row": ("x + y", {"x": (8, 8), "y": (8,)}, {"x": (1024, 1024), "y": (1024,)}),
    "mul": ("x * y", {"x": (8, 8), "y": (8, 8)}, {"x": (1024, 1024), "y": (1024, 1024)}),
    "exp": ("x.exp()", {"x": (8, 8)}, {"x": (1024, 1024)}),
    "tanh": ("x.tanh()", {"x": (8, 8)}, {"x": (1024, 1024)}),
    "sigmoid": ("x.sigmoid()", {"x": (8, 8)}, {"x": (1024, 1024)}),
    "relu": ("F.relu(x)", {"x": (8, 8)}, {"x": (1024, 1024)}),
    "gelu": ("F.gelu(x)", {"x": (8, 8)}, {"x": (768, 512)}),
    "gelu tanh": ("F.gelu(x, approximate='tanh')", {"x": (8, 8)}, {"x": (768, 512)}),
    "silu": ("F.silu(x)", {"x": (8, 8)}, {"x": (1024, 1024)}),
    "sum": ("x.sum()", {"x": (8, 8)}, {"x": (1024, 1024)}),
    "mean rows": ("x.mean(-1)", {"x": (8, 8)}, {"x": (1024, 1024)}),
    "var": ("x.var(-1)", {"x": (8, 8)}, {"x": (1024, 1024)}),
    "max": ("x.max(-1).values", {"x": (8, 8)}, {"x": (1024, 1024)}),
    "softmax": ("F.softmax(x, -1)", {"x": (8, 8)}, {"x": (1024, 1024)}),
    "log_softmax": ("F.log_softmax(x, -1)", {"x": (8, 8)}, {"x": (1024, 1024)}),
    "cross_entropy": ("F.cross_entropy(x, t)", {"x": (8, 10), "t": [8, 10]}, {"x": (4096, 128), "t": [4096, 128]}),
    "mse_loss": ("F.mse_loss(x, y)", {"x": (8, 8), "y": (8, 8)}, {"x": (1024, 1024), "y": (1024, 1024)}),
    "layer_norm": (
        "F.layer_norm(x, x.shape[-1:], w, b)",
        {"x": (8, 8), "w": (8,), "b": (8,)},
        {"x": (768, 512), "w": (512,), "b": (512,)},
    ),
    "batch_norm": (
        "F.batch_norm(x, None, None, w, b, True)",
        {"x": (8, 8), "w": (8,), "b": (8,)},
        {"x": (64, 32, 28, 28), "w": (32,), "b": (32,)},
    ),
    "linear": (
        "F.linear(x, w, b)",
        {"x": (8, 8), "w": (8, 8), "b": (8,)},
        {"x": (512, 784), "w": (1024, 784), "b": (1024,)},
    ),
    "matmul": ("x @ y", {"x": (8, 8), "y": (8, 8)}, {"x": (512, 512), "y": (512, 512)}),
    "batched matmul": ("x @ y", {"x": (2, 8, 8), "y": (2, 8, 8)}, {"x": (48, 64, 64), "y": (48, 64, 64)}),
    "embedding": ("F.embedding(t, w)", {"t": [8, 10], "w": (10, 8)}, {"t": [4096, 1000], "w": (1000, 128)}),
    "reshape": ("x.reshape(-1)", {"x": (8, 8)}, {"x": (1024, 1024)}),
    "transpose": ("x.transpose(0, 1)", {"x": (8, 8)}, {"x": (1024, 1024)}),
    "slice": ("x[1:, 2]", {"x": (8, 8)}, {"x": (1024, 1024)}),
    "take rows": ("x[t]", {"x": (10, 8), "t": [8, 10]}, {"x": (1000, 128), "t": [4096, 1000]}),
    "cat": ("torch.cat([x, y], 1)", {"x": (8, 8), "y": (8, 8)}, {"x": (1024, 512), "y": (1024, 512)}),
    "where": ("torch.where(x > 0, x, y)", {"x": (8, 8), "y": (8, 8)}, {"x": (1024, 1024), "y": (1024, 1024)}),
    "cumsum": ("x.cumsum(-1)", {"x": (8, 8)}, {"x": (1024, 1024)}),
    "attention": (
        "F.scaled_dot_product_attention(x, y, z, is_causal=True)",
        {"x": (2, 2, 8, 8), "y": (2, 2, 8, 8), "z": (2, 2, 8, 8)},
        {"x": (12, 4, 64, 32), "y": (12, 4, 64, 32), "z": (12, 4, 64, 32)},
    ),
    "conv2d": (
        "F.conv2d(x, w, b, padding=1)",
        {"x": (2, 2, 8, 8), "w": (4, 2, 3, 3), "b": (4,)},
        {"x": (32, 16, 28, 28), "w": (32, 16, 3, 3), "b": (32,)},
    ),
    "conv2d 14x14": (
        "F.conv2d(x, w, b, padding=1)",
        {"x": (1, 2, 6, 6), "w": (2, 2, 3, 3), "b": (2,)},
        {"x": (64, 32, 14, 14), "w": (32, 32, 3, 3), "b": (32,)},
    ),
    "max_pool2d": ("F.max_pool2d(x, 2)", {"x": (2, 2, 8, 8)}, {"x": (64, 32, 28, 28)}),
    "adaptive_avg_pool2d": ("F.adaptive_avg_pool2d(x, 3)", IMAGE, IMAGES),
    "fractional_max_pool2d": ("F.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.5))", IMAGE, IMAGES),
    "max_unpool2d": (
        "F.max_unpool2d(x, t, 2)",
        {"x": (2, 4, 4, 4), "t": "(torch.arange(16) * 4).reshape(4, 4).expand(2, 4, 4, 4)"},
        {"x": (16, 32, 28, 28), "t": "(torch.arange(784) * 4).reshape(28, 28).expand(16, 32, 28, 28)"},
    ),
    "interpolate nearest": ("F.interpolate(x, scale_factor=2)", IMAGE, IMAGES),
    "interpolate bilinear": ("F.interpolate(x, scale_factor=2, mode='bilinear')", IMAGE, IMAGES),
    "interpolate bicubic": ("F.interpolate(x, scale_factor=1.5, mode='bicubic')", IMAGE, IMAGES),
    "interpolate area": ("F.interpolate(x, scale_factor=0.5, mode='area')", IMAGE, IMAGES),
    "interpolate antialias": ("F.interpolate(x, scale_factor=0.4, mode='bilinear', antialias=True)", IMAGE, IMAGES),
    "interpolate trilinear": ("F.interpolate(x, scale_factor=2, mode='trilinear')", VOLUME, VOLUMES),
    "grid_sample": ("F.grid_sample(x, g, align_corners=False)", IMAGE | POINTS, IMAGES | MORE_POINTS),
    "grid_sample both": (
        "F.grid_sample(x, g, align_corners=False)",
        IMAGE | {"g": f"({POINTS['g']}).requires_grad_()"},
        IMAGES | {"g": f"({MORE_POINTS['g']}).requires_grad_()"},
    ),
    "grid_sample nearest": (
        "F.grid_sample(x, g, 'nearest', align_corners=False)",
        IMAGE | POINTS,
        IMAGES | MORE_POINTS,
    ),
    "grid_sample bicubic": (
        "F.grid_sample(x, g, 'bicubic', align_corners=False)",
        IMAGE | POINTS,
        IMAGES | MORE_POINTS,
    ),
    "grid_sample volume": (
        "F.grid_sample(x, g, align_corners=False)",
        VOLUME | {"g": "torch.rand(2, 3, 3, 3, 3) * 2 - 1"},
        VOLUMES | {"g": "torch.rand(4, 16, 16, 16, 3) * 2 - 1"},
    ),
}


LIBRARIES = ("retrograd", "torch")
READINGS = 20  # readings of the clock per measurement of small tensors
SECONDS = {"small": 0.01, "large": 0.1}  # per measurement of a program, library, round and direction


def program(library: str, name: str, size: str, dtype: str) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Return the forward with recording, and forward with backward, of one program."""
    text, *shapes = PROGRAMS[name] if name in PROGRAMS else SMALL_CALLS[name]
    rng = np.random.default_rng(0)
    if library == "torch":
        import torch
        import torch.nn.functional as F

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    else:
        import retrograd as torch  # type: ignore[no-redef]
        import retrograd.nn.functional as F  # type: ignore[no-redef]
    torch.set_default_dtype(getattr(torch, dtype))
    scope: dict[str, Any] = {"torch": torch, "F": F}
    for key, shape in shapes[size == "large"].items():
        if isinstance(shape, str):
            scope[key] = eval(shape, {"torch": torch})
        elif isinstance(shape, list):
            scope[key] = torch.from_numpy(rng.integers(shape[-1], size=shape[:-1]))
        else:
            scope[key] = torch.from_numpy(rng.standard_normal(shape).astype(dtype)).requires_grad_()
    leaves = [value for value in scope.values() if getattr(value, "requires_grad", False)]
    forward = eval(f"lambda: {text}", scope)
    cotangent = torch.ones_like(forward().detach()).contiguous()

    def both() -> None:
        forward().backward(cotangent)
        for leaf in leaves:
            leaf.grad = None

    return forward, both


def median_time(function: Callable[[], Any], seconds: float) -> float:
    """Return the median time of a call. The first call may compile; the second determines the calls per reading."""
    function()
    start = time.perf_counter()
    function()
    calls = max(1, int(seconds / READINGS / (time.perf_counter() - start)))
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        for _ in range(calls):
            function()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times)


def work(library: str, dtype: str, seconds: float | None) -> None:
    """Print, for each line ``[program, size]``, the times of the forward, and of forward and backward."""
    known = cache(lambda name, size: program(library, name, size, dtype))
    for line in sys.stdin:
        name, size = json.loads(line)
        times = [median_time(function, seconds or SECONDS[size]) for function in known(name, size)]
        print(json.dumps(times), flush=True)


class Worker:
    """A process that runs a library."""

    def __init__(self, library: str, options: argparse.Namespace) -> None:
        command = [sys.executable, __file__, "--worker", library, "--dtype", options.dtype]
        if options.seconds:
            command += ["--seconds", str(options.seconds)]
        variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment = os.environ | dict.fromkeys(variables, str(options.threads))
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment
        )

    def times(self, name: str, size: str) -> list[float]:
        """Return the times of one program; its errors are already on standard error."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps([name, size]), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline() or sys.exit(f"{name}, {size}: failed"))


Row = tuple[str, list[float], list[float]]  # a program, and the times of both libraries for both directions


def measured(names: list[str], size: str, workers: list[Worker], rounds: int) -> list[Row]:
    """Measure programs; those with the highest ratio to PyTorch come first."""
    rows: list[Row] = []
    for number, name in enumerate(names, 1):
        if sys.stderr.isatty():
            print(f"\r\033[K{size} {number}/{len(names)} {name}", end="", file=sys.stderr, flush=True)
        times: list[list[list[float]]] = [[], []]
        for _ in range(rounds):
            for worker, found in zip(workers, times):
                found.append(worker.times(name, size))
        mine, theirs = [[statistics.median(column) for column in zip(*found)] for found in times]
        rows.append((name, mine, theirs))
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return sorted(rows, key=lambda row: -max(mine / theirs for mine, theirs in zip(*row[1:])))


def measure_small(threads: int, rounds: int) -> dict[str, float]:
    """Return, by program, the ratio of times of forward and backward to PyTorch's, the highest first."""
    options = argparse.Namespace(threads=threads, dtype="float32", seconds=None)
    workers = [Worker(library, options) for library in LIBRARIES]
    rows = measured(list(PROGRAMS | SMALL_CALLS), "small", workers, rounds)
    for worker in workers:
        worker.process.terminate()
    ratios = {name: mine[1] / theirs[1] for name, mine, theirs in rows}
    return dict(sorted(ratios.items(), key=lambda item: -item[1]))


def print_table(size: str, rows: list[Row]) -> None:
    """Print the ratios, and the microseconds of both libraries."""
    print(f"{size:32} {'ratios':^13} {'us':^19} {'PyTorch, us':^19}")
    for name, mine, theirs in rows:
        ratios = " ".join(f"{a / b:6.2f}" for a, b in zip(mine, theirs))
        print(f"{name:32} {ratios} " + " ".join(f"{1e6 * value:9.2f}" for value in (*mine, *theirs)))
    for index, direction in enumerate(("forward", "forward and backward")):
        ratios = [mine[index] / theirs[index] for _, mine, theirs in rows]
        mean, median = statistics.geometric_mean(ratios), statistics.median(ratios)
        print(
            f"{direction}: geometric mean {mean:.2f}, median {median:.2f}, "
            f"{sum(ratio > 1.5 for ratio in ratios)} above 1.5, {sum(ratio > 3 for ratio in ratios)} above 3"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="OPERATOR", help="names, or patterns like 'conv*'")
    parser.add_argument("--small", action="store_true", help="only small tensors, with more programs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, help="per program, library and round, each way")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.dtype, options.seconds)
        return
    known = PROGRAMS | SMALL_CALLS if options.small else PROGRAMS
    names = [name for name in known if any(fnmatch(name, wanted) for wanted in options.only or ["*"])]
    if not names:
        parser.error(f"--only must match one of {', '.join(known)}; got {', '.join(options.only)}")
    workers = [Worker(library, options) for library in LIBRARIES]
    print(f"time relative to PyTorch eager, {options.dtype}, {options.threads} threads: forward, forward and backward")
    for size in ("small",) if options.small else ("small", "large"):
        print_table(size, measured(names, size, workers, options.rounds))


if __name__ == "__main__":
    main()
