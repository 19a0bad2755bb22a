"""A training step under memory budgets, compared with hand-placed checkpoints and PyTorch.

    python -m benchmarks.memory_budget [--models transformer mlp chain rk4 in_place] [--threads 2] [--rounds 1]
        [--steps 3] [--json FILE]

The transformer has 8 blocks of 256 channels (8 texts of 128 characters); the MLP 64 layers of 256 (1,024 examples).
Checkpoints by hand wrap every block, every 8 layers of the MLP, or 20 of the 400 steps of a loop: ``chain`` (one
operator per step), ``rk4`` and ``in_place``. Each variant runs in its own process, alternating.
``graph`` is what the budget limits: the memory referenced by nodes of the graph. ``process`` is the increase of the
process's resident memory over that with model and kernels loaded; it includes gradients and the optimizer's state.
``time`` is the median over the steps, ``over plain`` its ratio to the library's plain step.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .worker import number, resident
from .workloads import Step, call, classes, classifier, floats, gpt, same_weights

ROOT = Path(__file__).resolve().parent.parent
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
SHARES = (0.5, 0.2, 0.1, 0.05)
LAYERS = {"transformer": 8, "mlp": 64, "chain": 20, "rk4": 20, "in_place": 20}
Run = Callable[[Any, Any], Any]


def transformer(lib: Any, layers: int, run: Run) -> Step:
    """A GPT of 256 channels."""
    return gpt(lib, layers=layers, channels=256, heads=4, length=128, batch=8, run=run)


def mlp(lib: Any, layers: int, run: Run) -> Step:
    """Linear layers of width 256 with ReLU, in groups of 8."""
    nn = lib.nn
    parts = [
        nn.Sequential(*[each for _ in range(min(8, layers)) for each in (nn.Linear(256, 256), nn.ReLU())])
        for _ in range(max(1, layers // 8))
    ]

    class Parts(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.parts, self.head = nn.Sequential(*parts), nn.Linear(256, 10)

        def forward(self, x: Any) -> Any:
            for part in self.parts:
                x = run(part, x)
            return self.head(x)

    model = same_weights(lib, Parts())
    x, y = lib.from_numpy(floats(1, 1024, 256)), lib.from_numpy(classes(2, 10, 1024))
    return classifier(lib, model, lib.optim.SGD(model.parameters(), lr=0.01), x, y)


def loop(lib: Any, parts: int, run: Run, step: Callable[[Any, Any], Any], *shape: int) -> Step:
    """Parts of 20 steps each, which ``run`` may checkpoint, and the gradients of the start and of a coefficient."""
    start, c = lib.from_numpy(abs(floats(1, *shape))).requires_grad_(), lib.tensor(0.3, requires_grad=True)

    def part(x: Any) -> Any:
        for _ in range(20):
            x = step(x, c)
        return x

    def train() -> Any:
        start.grad = c.grad = None
        x = start.clone()
        for _ in range(parts):
            x = run(part, x)
        loss = x.square().mean()
        loss.backward()
        return loss

    return train


def chain(lib: Any, parts: int, run: Run) -> Step:
    """One operator per step, on 100,000 numbers."""
    return loop(lib, parts, run, lambda x, c: x.sin(), 100_000)


def rk4(lib: Any, parts: int, run: Run) -> Step:
    """The method of Runge and Kutta for a pendulum with friction, 20,000 of them."""

    def slope(x: Any, c: Any) -> Any:
        return lib.stack([x[1], -x[0].sin() - c * x[1]])

    def step(x: Any, c: Any) -> Any:
        k1 = slope(x, c)
        k2 = slope(x + 0.005 * k1, c)
        k3 = slope(x + 0.005 * k2, c)
        return x + (k1 + 2 * k2 + 2 * k3 + slope(x + 0.01 * k3, c)) * (0.01 / 6)

    return loop(lib, parts, run, step, 2, 20_000)


def in_place(lib: Any, parts: int, run: Run) -> Step:
    """A state of 100,000 numbers, which each step writes twice."""

    def step(x: Any, c: Any) -> Any:
        x += 0.01 * (c * x.sin() - x * x)
        return x.mul_(1 - 0.001 * c)

    return loop(lib, parts, run, step, 100_000)


MODELS = {"transformer": transformer, "mlp": mlp, "chain": chain, "rk4": rk4, "in_place": in_place}


def give_back(lib: Any) -> None:
    """Return freed memory to the system, and reset the peak, where supported."""
    gc.collect()
    if hasattr(lib, "empty_cache"):
        lib.empty_cache()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):
        pass


def measure(library: str, model: str, way: str, steps: int) -> dict[str, Any]:
    """Measure one variant: ``plain``, ``checkpoint``, or a budget in bytes."""
    lib = import_module(library)
    import_module(f"{library}.nn")
    import_module(f"{library}.optim")
    if library == "torch":
        lib.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    run: Run = call
    if way == "checkpoint":
        checkpoint = import_module(f"{library}.utils.checkpoint").checkpoint

        def run(module: Any, x: Any) -> Any:
            return checkpoint(module, x, use_reentrant=False)

    MODELS[model](lib, 1, call)()  # load and compile what the step needs
    step = MODELS[model](lib, LAYERS[model], run)
    give_back(lib)
    before = resident("VmRSS")
    times, figures = [], {}
    for _ in range(steps + 1):
        block = lib.memory_budget(int(way)) if way.isdigit() else nullcontext()
        start = time.perf_counter()
        try:
            with block:
                loss = number(step())
        except RuntimeError as error:
            if "is too small" not in str(error):
                raise
            return {"error": str(error).rpartition("; ")[2]}
        times.append(time.perf_counter() - start)
        if way.isdigit():
            figures = {"graph": block.peak, "recomputations": block.recomputations, "again": block.seconds}
    return figures | {"process": resident("VmHWM") - before, "times": times[1:], "loss": loss}


def child(library: str, model: str, way: str, threads: int, steps: int) -> dict[str, Any]:
    """Run ``measure`` in a new process."""
    environment = os.environ | {name: str(threads) for name in THREADS}
    command = [
        sys.executable,
        "-m",
        "benchmarks.memory_budget",
        "--measure",
        library,
        model,
        way,
        "--steps",
        str(steps),
    ]
    result = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout)


def compare(model: str, threads: int, rounds: int, steps: int) -> dict[str, dict[str, Any]]:
    """Measure all variants, by name; the budgets are fractions of the graph's memory without a budget."""
    full = child("retrograd", model, str(10**15), threads, 1)["graph"]
    ways = {"retrograd": ("retrograd", "plain")}
    ways |= {f"budget {share:.0%}": ("retrograd", str(int(full * share))) for share in (1.0, *SHARES)}
    ways["checkpoint by hand"] = "retrograd", "checkpoint"
    if find_spec("torch"):
        ways |= {"torch": ("torch", "plain"), "torch, checkpoint": ("torch", "checkpoint")}
    found: dict[str, dict[str, Any]] = {}
    for _ in range(rounds):
        for name, (library, way) in ways.items():
            result = child(library, model, way, threads, steps)
            if name in found and "error" not in result:
                result["times"] += found[name]["times"]
                result["process"] = max(result["process"], found[name]["process"])
            found[name] = result
    for result in found.values():
        if "times" in result:
            result["seconds"] = statistics.median(result["times"])
    found["retrograd"]["graph"] = full
    return found


def table(found: dict[str, dict[str, Any]]) -> str:
    lines = [
        "| way | graph, MB | process, MB | time, ms | over plain | calls made again |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, result in found.items():
        if "error" in result:
            lines.append(f"| {name} | {result['error']} | | | | |")
            continue
        plain = found["torch" if name.startswith("torch") else "retrograd"]["seconds"]
        graph = f"{result['graph'] / 1e6:.1f}" if "graph" in result else ""
        lines.append(
            f"| {name} | {graph} | {result['process'] / 1e6:.0f} | {1e3 * result['seconds']:.0f} | "
            f"{result['seconds'] / plain:.2f} | {result.get('recomputations', '')} |"
        )
    losses = {result["loss"] for name, result in found.items() if "loss" in result and not name.startswith("torch")}
    lines.append(f"\nThe losses of Retrograd's variants are {'equal' if len(losses) == 1 else f'different: {losses}'}.")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.memory_budget", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3, help="per process and round")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", nargs=3, metavar=("LIBRARY", "MODEL", "WAY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*options.measure, options.steps)))
        return
    results = {}
    for model in options.models:
        results[model] = compare(model, options.threads, options.rounds, options.steps)
        print(f"\n{model}, {options.threads} threads\n\n{table(results[model])}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
