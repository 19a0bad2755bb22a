"""Run one library on one workload in its own process, controlled by lines on standard input.

``SECONDS`` runs steps for that time and prints their times as a JSON list; ``end`` prints the first loss, the last
loss, and the peak resident memory, in total and beyond that of importing the library.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module
from typing import Any

from .others import OTHERS
from .workloads import PARTS, STEPS


def resident(field: str) -> int:
    """Return the bytes of resident memory, now (``VmRSS``) or at most (``VmHWM``); 0 if the system reports none."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))
    except OSError:
        return 0


def load(library: str, workload: str) -> int:
    """Import a library and return the resident memory afterwards."""
    import_module(library)
    if (library, workload) not in OTHERS:
        import_module(f"{library}.nn")
        import_module(f"{library}.optim")
    return resident("VmRSS")


def make(library: str, workload: str) -> Any:
    """Return the step, with the number of threads in ``OMP_NUM_THREADS``."""
    if (library, workload) in OTHERS:
        return OTHERS[library, workload]()
    lib = import_module(library)
    if library == "torch":
        lib.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    step = (STEPS | PARTS)[workload](lib)
    if "BENCHMARK_BFLOAT16" in os.environ:
        step = lib.autocast("cpu", dtype=lib.bfloat16)(step)
    return lib.compile(step) if "BENCHMARK_COMPILED" in os.environ else step


def number(loss: Any) -> float:
    """Return the loss of any library as a number."""
    return float(loss.detach() if hasattr(loss, "detach") else loss)


def main() -> None:
    library, workload = sys.argv[1:]
    imported = load(library, workload)
    start = time.perf_counter()
    step = make(library, workload)
    first = number(step())
    print(json.dumps(time.perf_counter() - start), flush=True)
    last = first
    for line in sys.stdin:
        if line.strip() == "end":
            peak = resident("VmHWM")
            print(json.dumps({"first": first, "last": last, "peak": peak, "beyond_import": peak - imported}))
            return
        times = []
        end = time.perf_counter() + float(line)
        while not times or time.perf_counter() < end:
            start = time.perf_counter()
            loss = step()
            times.append(time.perf_counter() - start)
        last = number(loss)
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
