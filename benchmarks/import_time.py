"""What ``import retrograd`` adds to ``import numpy``: fresh processes, alternating, medians.

python benchmarks/import_time.py [--rounds 15]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

PROGRAM = "import time, numpy; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    modules = ["retrograd", "torch", "autograd.numpy", "mygrad"]
    measured: dict[str, list[float]] = {module: [] for module in modules}
    for _ in range(options.rounds):
        for module in list(measured):
            run = subprocess.run([sys.executable, "-c", PROGRAM.format(module=module)], capture_output=True, text=True)
            if run.returncode:
                del measured[module]
            else:
                measured[module].append(float(run.stdout))
    for module, times in measured.items():
        print(f"import {module}: {1e3 * statistics.median(times):.1f} ms beyond import numpy")


if __name__ == "__main__":
    main()
