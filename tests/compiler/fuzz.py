"""The long fuzz: ``python -m tests.compiler.fuzz --programs 5000 [--first 0] [--rich]``.

Every program is compiled with one size, and with several within one program; what differs from the eager numbers is
reported with its seed. ``--rich`` draws programs with everything there is, and trains parameters in half of them.
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from collections import Counter

import numpy as np

import retrograd as rg
from retrograd import nn, optim
from retrograd.testing.fuzzing import FuzzedProgram

OPTIMIZERS = (
    lambda p: optim.SGD(p, lr=0.1, momentum=0.9), lambda p: optim.AdamW(p, lr=0.01, eps=1e-3),
    lambda p: optim.RMSprop(p, lr=0.01, eps=1e-3), lambda p: optim.Adagrad(p, lr=0.01),
)  # fmt: skip


class TrainedProgram(FuzzedProgram):
    """A rich program with parameters beside its arguments, which an optimizer moves where the program walks."""

    def __init__(self, seed: int, steps: int, varied: bool) -> None:
        super().__init__(seed, steps, varied, rich=True)
        rng = np.random.default_rng([seed, 1 << 21])
        self.start = [rg.tensor(rng.standard_normal(shape)) for shape in ((), (1,), (1, 1))]
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
        self.optimizer.load_state_dict(copy.deepcopy(self.state))
        found = super().run(function, number)
        return found + [np.array(p.detach().numpy()) for p in self.parameters]


def check_fuzzed(seed: int, varied: bool = False, steps: int = 12, rich: bool = False) -> str:
    """Compare a program's calls with eager ones, to 1e-12.

    Returns:
        ``compiled``, ``eagerly`` where it was given up, ``refused`` where the eager program is an error, or ``refused a
        second derivative``, which not all programs have.
    """
    program = TrainedProgram(seed, steps, varied) if rich else FuzzedProgram(seed, steps, varied)
    numbers = [0, 1, 2, 0, 1, 3, 2] if varied else [0, 1, 2]
    try:
        wanted = {number: program.run(program.function, number) for number in numbers}
    except (RuntimeError, ValueError, IndexError):
        return "refused"  # what it writes may not be written, or is no longer square
    tolerance = 1e-5 if rich else 1e-12  # numbers of float32 among them
    function = rg.compile(program.function, dynamic=varied, fallback=False)
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
                assert got.dtype == want.dtype
                np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    assert function.entries or function.why
    if not varied and function.entries:
        assert function.traces == 1
    return "compiled" if function.entries else "eagerly"


def main() -> None:
    """Run the programs and say how they went."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rich", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    started, counts, failed = time.perf_counter(), Counter[str](), []
    for seed in range(options.first, options.first + options.programs):
        for varied in (False, True):
            try:
                counts[
                    check_fuzzed(seed, varied, options.steps, options.rich) + (", several sizes" if varied else "")
                ] += 1
            except Exception as error:
                failed.append((seed, varied))
                print(
                    f"seed {seed}, {'several sizes' if varied else 'one size'}: {str(error).strip()[:200]}", flush=True
                )
    print(f"{options.programs} programs in {time.perf_counter() - started:.0f} s: {dict(counts)}, {len(failed)} failed")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
