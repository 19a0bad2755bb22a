"""Time and memory of forward and backward for long chains of operators, which must be linear in the length.

python benchmarks/chain.py [--lengths 25000 50000 100000]
"""

from __future__ import annotations

import argparse
import subprocess
import sys

PROGRAM = """
import resource, time
import retrograd as rg
x = rg.ones(8, requires_grad=True)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
y = x
for _ in range({length}):
    y = y * 1.0000001
built = time.perf_counter()
y.sum().backward()
walked = time.perf_counter()
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(built - start, walked - built, memory)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[25_000, 50_000, 100_000])
    options = parser.parse_args()
    for length in options.lengths:
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(length=length)], capture_output=True, text=True, check=True
        )
        forward, backward, kibibytes = map(float, run.stdout.split())
        print(
            f"{length:7} operators: forward {forward:.3f} s, backward {backward:.3f} s, "
            f"{kibibytes / 1024:.1f} MiB ({1024 * kibibytes / length:.0f} bytes per operator)"
        )


if __name__ == "__main__":
    main()
