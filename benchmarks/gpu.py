"""Training steps on a GPU: Retrograd on CuPy, eager and compiled, beside PyTorch eager on CUDA.

``python -m benchmarks.gpu [ROUNDS] [WORKLOAD,...]`` runs one process per library in turns, ``ROUNDS`` times, and prints
medians. A step is timed from its call to the end of all its work on the device.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from importlib import import_module
from typing import Any

from .workloads import STEPS, Step, gpt

SECONDS = 1.0  # of timed steps per process and workload
LIBRARIES = ("torch", "retrograd", "compiled")
WORKLOADS: dict[str, Callable[[Any], Step]] = {
    **{name: STEPS[name] for name in ("chain", "mlp_small", "mlp_large", "gpt_small", "gpt_middle", "cnn", "lstm")},
    "elementwise": STEPS["elementwise"],
    "gpt_124m": lambda lib: gpt(lib, layers=12, channels=768, heads=12, length=512, batch=8, vocabulary=50257),
}


class OnGpu:
    """A library whose arrays from NumPy are copied to the GPU."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def __getattr__(self, name: str) -> Any:
        return getattr(self.library, name)

    def from_numpy(self, array: Any) -> Any:
        return self.library.from_numpy(array).to("cuda")


def prepared(name: str) -> tuple[Any, Callable[[], object], Callable[[], int]]:
    """The library with the GPU as its default device, its synchronization, and its bytes of GPU memory in use."""
    if name == "torch":
        torch = import_module("torch")
        torch.set_default_device("cuda")
        return torch, torch.cuda.synchronize, torch.cuda.max_memory_reserved
    cupy, retrograd = import_module("cupy"), import_module("retrograd")
    retrograd.set_default_device("cuda")
    device = cupy.cuda.Device()
    return retrograd, device.synchronize, lambda: device.mem_info[1] - device.mem_info[0]


def work(name: str, workloads: list[str]) -> None:
    """Print a JSON line of figures per workload."""
    library, synchronize, memory = prepared(name)
    for workload in workloads:
        start = time.perf_counter()
        step: Any = WORKLOADS[workload](OnGpu(library))
        if name == "compiled":
            step = library.compile(step)
        loss = float(step().detach())
        first = time.perf_counter() - start
        for _ in range(5):
            step()
        synchronize()
        times: list[float] = []
        end = time.perf_counter() + SECONDS
        while len(times) < 5 or time.perf_counter() < end:
            start = time.perf_counter()
            step()
            synchronize()
            times.append(time.perf_counter() - start)
        figures = {"workload": workload, "step": statistics.median(times), "first": first, "loss": loss}
        if name == "compiled":
            figures["how"] = next(line.strip() for line in step.explain().splitlines() if "on a GPU" in line)
        print(json.dumps(figures | {"memory": memory()}), flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2], sys.argv[3].split(","))
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    workloads = sys.argv[2] if len(sys.argv) > 2 else ",".join(WORKLOADS)
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for _ in range(rounds):
        for library in LIBRARIES:
            command = [sys.executable, "-m", "benchmarks.gpu", "--worker", library, workloads]
            run = subprocess.run(command, capture_output=True, text=True)
            for line in run.stdout.splitlines():
                figures = json.loads(line)
                found[figures["workload"], library].append(figures)
            if run.returncode:
                print(f"{library} failed: {run.stderr[-2000:]}")
    print(
        "| workload | PyTorch eager, ms | Retrograd eager / PyTorch | compiled / PyTorch | losses at the first step |"
    )
    print("|---|---|---|---|---|")
    for workload in workloads.split(","):
        steps = {
            library: statistics.median([figures["step"] for figures in found[workload, library]] or [float("nan")])
            for library in LIBRARIES
        }
        losses = [figures["loss"] for library in LIBRARIES for figures in found[workload, library][:1]]
        ratios = [f"{steps[library] / steps['torch']:.2f}" for library in LIBRARIES[1:]]
        row = [workload, f"{1e3 * steps['torch']:.3f}", *ratios, " ".join(f"{x:.6g}" for x in losses)]
        print(f"| {' | '.join(row)} |")
    for workload in workloads.split(","):
        for figures in found[workload, "compiled"][:1]:
            print(f"{workload}: {figures['how']}; first step {figures['first']:.1f} s")


if __name__ == "__main__":
    main()
