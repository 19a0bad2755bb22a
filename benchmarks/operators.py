"""The time of single operators beside PyTorch eager, forward and backward, on small and on large float32 tensors.

The programs are the same text for both libraries. Each library runs in a process of its own, in alternation, with the
same number of threads; the ratios are of medians. With ``--small`` it is small tensors alone, with the calls of
``small_calls.py``, too, the dearest beside PyTorch first.

    python benchmarks/operators.py [--small] [--only softmax conv2d] [--rounds 3] [--threads 2]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

try:
    from .small_calls import SMALL_CALLS
except ImportError:
    from small_calls import SMALL_CALLS  # type: ignore[import-not-found, no-redef]

# name: program, small shapes, large shapes. A shape in a list is that of integers below its last number.
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
    "max_pool2d": ("F.max_pool2d(x, 2)", {"x": (2, 2, 8, 8)}, {"x": (64, 32, 28, 28)}),
}


CALLS_AT_ONCE = 20  # of small tensors, between two looks at the clock


def program(library: str, name: str, large: bool) -> tuple[Callable[[], Any], Callable[[], None]]:
    """The forward alone under recording, and forward with backward, of one program."""
    text, *shapes = PROGRAMS[name] if name in PROGRAMS else SMALL_CALLS[name]
    rng = np.random.default_rng(0)
    if library == "torch":
        import torch
        import torch.nn.functional as F

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    else:
        import retrograd as torch  # type: ignore[no-redef]
        import retrograd.nn.functional as F  # type: ignore[no-redef]
    scope: dict[str, Any] = {"torch": torch, "F": F}
    leaves = []
    for key, shape in shapes[large].items():
        if isinstance(shape, str):
            scope[key] = eval(shape, {"torch": torch})
        elif isinstance(shape, list):
            scope[key] = torch.from_numpy(rng.integers(shape[-1], size=shape[:-1]))
        else:
            scope[key] = torch.from_numpy(rng.standard_normal(shape).astype(np.float32)).requires_grad_()
            leaves.append(scope[key])
    forward = eval(f"lambda: {text}", scope)
    cotangent = torch.ones_like(forward().detach()).contiguous()

    def both() -> None:
        forward().backward(cotangent)
        for leaf in leaves:
            leaf.grad = None

    return forward, both


def median_time(function: Callable[[], Any], seconds: float, calls: int) -> float:
    for _ in range(3):
        function()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        for _ in range(calls):
            function()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="OPERATOR")
    parser.add_argument("--small", action="store_true", help="small tensors alone, with more programs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.1, help="per program, library and round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    programs = [*PROGRAMS, *SMALL_CALLS] if options.small else list(PROGRAMS)
    names = options.only or programs
    unknown = set(names) - set(programs)
    if unknown:
        parser.error(f"unknown operators {sorted(unknown)}; there are {', '.join(programs)}")
    sizes = ("small",) if options.small else ("small", "large")
    if options.worker:
        measured = {
            f"{name}/{size}": [
                median_time(function, options.seconds, CALLS_AT_ONCE if size == "small" else 1)
                for function in program(options.worker, name, size == "large")
            ]
            for name in names
            for size in sizes
        }
        print(json.dumps(measured))
        return
    threads = str(options.threads)
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
    times: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for _ in range(options.rounds):
        for library in ("retrograd", "torch"):
            command = [sys.executable, __file__, "--worker", library, "--seconds", str(options.seconds)]
            command += ["--small"] * options.small + ["--only", *names]
            run = subprocess.run(command, capture_output=True, text=True, env=environment)
            if run.returncode:
                sys.exit(run.stderr)
            for key, pair in json.loads(run.stdout).items():
                times[library, key].append(pair)

    def medians(library: str, name: str, size: str) -> list[float]:
        return [statistics.median(column) for column in zip(*times[library, f"{name}/{size}"], strict=True)]

    print(f"time of PyTorch eager's, {threads} threads: forward, forward and backward")
    if options.small:
        _print_small([(name, medians("retrograd", name, "small"), medians("torch", name, "small")) for name in names])
        return
    print(f"{'':16} {'small':^13} {'large':^13}")
    for name in names:
        cells = []
        for size in sizes:
            mine, theirs = medians("retrograd", name, size), medians("torch", name, size)
            cells += [f"{a / b:6.2f}" for a, b in zip(mine, theirs, strict=True)]
        print(f"{name:16} {' '.join(cells)}")


def _print_small(rows: list[tuple[str, list[float], list[float]]]) -> None:
    """The ratios, the largest of the forward first, and the microseconds of both libraries."""
    print(f"{'':28} {'ratios':^13} {'us':^16} {'PyTorch, us':^16}")
    for name, mine, theirs in sorted(rows, key=lambda row: row[2][0] / row[1][0]):
        ratios = " ".join(f"{a / b:6.2f}" for a, b in zip(mine, theirs, strict=True))
        print(f"{name:28} {ratios} " + " ".join(f"{1e6 * value:7.2f}" for value in (*mine, *theirs)))
    for index, direction in enumerate(("forward", "forward and backward")):
        ratios = sorted(mine[index] / theirs[index] for _, mine, theirs in rows)
        mean, median = statistics.geometric_mean(ratios), statistics.median(ratios)
        print(
            f"{direction}: geometric mean {mean:.2f}, median {median:.2f}, "
            f"{sum(ratio > 1.5 for ratio in ratios)} above 1.5, {sum(ratio > 3 for ratio in ratios)} above 3"
        )


if __name__ == "__main__":
    main()
