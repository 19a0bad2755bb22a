"""The long fuzz: ``python -m tests.compiler.fuzz --programs 5000 [--first 0]``.

Every program is compiled with one size, and with several within one program; what differs from the eager numbers is
reported with its seed.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter

import numpy as np

import retrograd as rg
from retrograd.testing.fuzzing import FuzzedProgram


def check_fuzzed(seed: int, varied: bool = False, steps: int = 12) -> str:
    """Compare a program's calls with eager ones, to 1e-12.

    Returns:
        ``compiled``, ``eagerly`` where it was given up, or ``refused`` where the eager program is an error.
    """
    program = FuzzedProgram(seed, steps, varied)
    numbers = [0, 1, 2, 0, 1, 3, 2] if varied else [0, 1, 2]
    try:
        wanted = {number: program.run(program.function, number) for number in numbers}
    except (RuntimeError, ValueError, IndexError):
        return "refused"  # what it writes may not be written, or is no longer square
    function = rg.compile(program.function, dynamic=varied, fallback=False)
    for number in numbers:
        for got, want in zip(program.run(function, number), wanted[number], strict=True):
            assert (got is None) == (want is None)
            if want is not None:
                assert got.dtype == want.dtype
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    assert function.entries or function.why
    if not varied:
        assert function.traces == 1
    return "compiled" if function.entries else "eagerly"


def main() -> None:
    """Run the programs and say how they went."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    started, counts, failed = time.perf_counter(), Counter[str](), []
    for seed in range(options.first, options.first + options.programs):
        for varied in (False, True):
            try:
                counts[check_fuzzed(seed, varied, options.steps) + (", several sizes" if varied else "")] += 1
            except Exception as error:
                failed.append((seed, varied))
                print(f"seed {seed}, {'several sizes' if varied else 'one size'}: {str(error).strip()[:200]}")
    print(f"{options.programs} programs in {time.perf_counter() - started:.0f} s: {dict(counts)}, {len(failed)} failed")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
