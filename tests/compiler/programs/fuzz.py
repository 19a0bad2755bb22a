"""The long fuzz: ``python -m tests.compiler.programs.fuzz --programs 5000 [--first 0] [--way regions] [--rich]``.

Every program is compiled with one size, and with several within one program; what differs from the eager numbers is
reported with its seed. ``--rich`` draws programs with everything there is, and trains parameters in half of them;
``--composed`` draws calls of the operator table. Ways to compile are those of ``ways.py``; besides them there are
``--float32``, ``--bfloat16``, and ``RETROGRAD_KERNELS=reference``, which is what those have who have no Numba.
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np

import retrograd as rg
from retrograd import nn, optim
from retrograd.testing.fuzzing import FuzzedProgram
from tests.compiler.programs.composed import check_composed
from tests.compiler.programs.ways import WAYS, compiling

OPTIMIZERS = (
    lambda p: optim.SGD(p, lr=0.1, momentum=0.9), lambda p: optim.AdamW(p, lr=0.01, eps=1e-3),
    lambda p: optim.RMSprop(p, lr=0.01, eps=1e-3), lambda p: optim.Adagrad(p, lr=0.01),
)  # fmt: skip


class TrainedProgram(FuzzedProgram):
    """A rich program with parameters beside its arguments, which an optimizer moves where the program walks."""

    def __init__(self, seed: int, steps: int, varied: bool, dtype: Any) -> None:
        super().__init__(seed, steps, varied, rich=True, dtype=dtype)
        rng = np.random.default_rng([seed, 1 << 21])
        self.start = [rg.tensor(rng.standard_normal(shape).astype(dtype)) for shape in ((), (1,), (1, 1))]
        self.parameters = [nn.Parameter(x.clone()) for x in self.start]
        self.optimizer = OPTIMIZERS[seed % len(OPTIMIZERS)](self.parameters)
        self.trains = seed % 2 == 0
        if self.trains:  # so that its state is there, and may be set to what it was
            for p in self.parameters:
                p.grad = rg.zeros_like(p)
            self.optimizer.step()
            self.state = copy.deepcopy(self.optimizer.state_dict())

    def function(self, *arguments: rg.Tensor) -> object:
        if not self.trains:
            return super().function(*arguments)
        self.optimizer.zero_grad()
        result = super().function(*arguments, *self.parameters)
        if self.walks:
            self.optimizer.step()
        return result

    def run(self, function: object, number: int) -> list[object]:
        if not self.trains:
            return super().run(function, number)
        with rg.no_grad():
            for p, start in zip(self.parameters, self.start, strict=True):
                p.copy_(start)
        self.optimizer.load_state_dict(self.state)  # a copy
        found = super().run(function, number)
        return found + [np.array(p.detach().numpy()) for p in self.parameters]


def check_fuzzed(
    seed: int, varied: bool = False, steps: int = 12, rich: bool = False, dtype: Any = np.float64, way: str = "usual"
) -> str:
    """Compare a program's calls with eager ones, to 1e-12, or within what float32 rounds.

    Returns:
        ``compiled``, ``eagerly`` where it was given up, ``refused`` where the eager program is an error, or ``refused a
        second derivative``, which not all programs have.
    """
    if rich:
        program: FuzzedProgram = TrainedProgram(seed, steps, varied, dtype)
    else:
        program = FuzzedProgram(seed, steps, varied, dtype=dtype)
    numbers = [0, 1, 2, 0, 1, 3, 2] if varied else [0, 1, 2]
    try:
        wanted = {number: program.run(program.function, number) for number in numbers}
    except (RuntimeError, ValueError, IndexError):
        return "refused"  # what it writes may not be written, or is no longer square
    tolerance = 1e-5 if rich else 1e-12  # numbers of float32 among the rich
    if dtype != np.float64:
        tolerance = 1e-4 if dtype == np.float32 else 0.1
    with compiling(way, seed):
        return _compared(program, numbers, wanted, tolerance)


def _compared(program: FuzzedProgram, numbers: list[int], wanted: dict[int, list[Any]], tolerance: float) -> str:
    function = rg.compile(program.function, dynamic=program.varied, fallback=False)
    for number in numbers:
        try:
            results = program.run(function, number)
        except RuntimeError as error:
            if "runs the function again" not in str(error):
                raise
            return "refused a second derivative"
        for got, want in zip(results, wanted[number], strict=True):
            assert (got is None) == (want is None)
            if want is not None:
                assert got.dtype == want.dtype and got.strides == want.strides
                np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    assert function.entries or function.why
    if not program.varied and function.entries:
        assert function.traces == 1
    return "compiled" if function.entries else "eagerly"


def main() -> None:
    """Run the programs and say how they went."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rich", action="store_true")
    parser.add_argument("--composed", action="store_true")
    parser.add_argument("--float32", action="store_true")
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--way", choices=WAYS, default="usual")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no further one is begun")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    started, counts, failed = time.process_time(), Counter[str](), 0
    half = rg.empty(0, dtype=rg.bfloat16).array.dtype  # primitives are wrapped when the first Tensor is made
    dtype = half if options.bfloat16 else np.float32 if options.float32 else np.float64
    for seed in range(options.first, options.first + options.programs):
        if time.process_time() - started > options.seconds:
            break
        for varied in (False,) if options.composed else (False, True):
            sizes = "several sizes" if varied else "one size"
            try:
                if options.composed:
                    how = check_composed(seed, options.way)
                else:
                    how = check_fuzzed(seed, varied, options.steps, options.rich, dtype, options.way)
                counts[f"{how}, {sizes}"] += 1
            except Exception as error:
                failed += 1
                print(f"seed {seed}, {sizes}: {type(error).__name__}: {str(error).strip()[:300]}", flush=True)
    checked = sum(counts.values()) + failed
    print(f"{checked} programs in {time.process_time() - started:.0f} s: {dict(counts)}, {failed} failed")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
