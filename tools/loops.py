"""Find the compiled loops of each operator by tracing its calls.

Running an operator's example and its backward pass calls all functions of ops/ that compute it. The names of kernels/
in these functions are the loops that large arrays use.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType

import numpy as np

import retrograd as rg
from retrograd import kernels, ops
from retrograd.ops.table.registry import OPERATORS
from retrograd.testing.cases import all_cases
from retrograd.testing.harness import differentiable_outputs, programs, tensors_of
from retrograd.testing.programs import Program

KERNELS = str(Path(kernels.__file__).parent)
OPS = str(Path(ops.__file__).parent)
# Closures of ``by_rows``, ``of_pairs`` and ``scanning``, whose variable ``name`` is that of the loop.
LAUNCHING = {"run_row_loop", "dispatch_pair_loop", "run_scan"}


def loops() -> dict[str, set[str]]:
    """Return, for each operator, the loops of basic_loops.py and the modules of kernels/ that compute it.

    Without SciPy, the operators that need it are missing.
    """
    found: dict[str, set[str]] = {}
    missing: set[str] = set()
    for case in all_cases():
        try:
            with watched(found.setdefault(case.name, set())), np.errstate(all="ignore"), rg.enable_grad():
                for program in programs(OPERATORS[case.name], case):
                    run_with_backward(program)
        except RuntimeError as error:
            if "needs SciPy" not in str(error):
                raise
            missing.add(case.name)
    return {name: kernels for name, kernels in found.items() if name not in missing}


def run_with_backward(program: Program) -> None:
    """Run a program of a case and its backward pass."""
    inputs = program.inputs()
    outputs = differentiable_outputs(list(tensors_of(program(*inputs))))
    for output in outputs if inputs else ():
        # from_numpy is not an operator, so it is not traced
        ones = rg.from_numpy(np.ones(output.shape, output.dtype))
        rg.autograd.grad(output, inputs, grad_outputs=ones, allow_unused=True, retain_graph=True)


@contextmanager
def watched(found: set[str]) -> Iterator[None]:
    """Record which functions of kernels/ are called from outside, and which names of kernels/ the callers contain."""
    seen: set[CodeType] = set()

    def trace_call(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "call":
            return
        if code.co_filename.startswith(KERNELS):
            found.update(loop_of(frame))
        elif code.co_filename.startswith(OPS) and code not in seen:
            seen.add(code)
            found.update(named(code, frame.f_globals))

    before = sys.getprofile()
    sys.setprofile(trace_call)
    try:
        yield
    finally:
        sys.setprofile(before)


def loop_of(frame: FrameType) -> Iterator[str]:
    """Yield the loop that a closure of kernels/ launches."""
    code, known = frame.f_code, frame.f_locals
    if "shared" in known and hasattr(known["shared"], "loop"):  # a closure of ``mapped``
        yield known["shared"].loop
    elif code.co_name in LAUNCHING and "name" in known:
        yield known["name"]
    elif code.co_name == "dispatch_loop" and "run_loop" in known:  # a closure of ``in_one_pass``
        yield known["run_loop"].__module__.rpartition(".")[2]


def named(code: CodeType, names: dict[str, object]) -> Iterator[str]:
    """Yield the loops and modules of kernels/ that a function names."""
    for value in map(names.get, code.co_names):
        if isinstance(value, FunctionType) and hasattr(value, "loop"):
            yield value.loop
        elif isinstance(value, FunctionType | ModuleType):
            home = value.__module__ if isinstance(value, FunctionType) else value.__name__
            room, _, module = home.rpartition(".")
            if room.startswith(kernels.__name__) and module != "result_arrays":  # allocates results for all modules
                yield module
