"""Optimizer steps as kernels: one launch for all parameters, for optimizers whose ``update_form`` describes the update.

The formulas are the terms of ``cpu/optimizer_updates.py``. The CPU computes the numbers of a step (learning rate, bias
corrections, ...) as the optimizer does, and copies them to the GPU once for all parameters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

from ...core.arrays.devices import cupy_backend
from ...core.arrays.dtypes import DType
from ..cpu.optimizer_updates import Terms, Update, gradients_of
from ..cpu.region_steps import Unlowered
from ..passes.expressions import row_major
from ..program import Instruction, Value
from ..trace.effects import run_step
from .cpp_expressions import DTYPES, cast, expression, held, load, store, stored
from .kernels import Module
from .source import BLOCK_LOOP, MAX_POINTERS, Kernel, split_blocks

_DOUBLE = np.dtype(np.float64)
_indices = count(1 << 40)  # indices of values that are neither in the trace nor in regions


def with_updates(instructions: Sequence[Instruction], module: Module) -> list[Instruction]:
    """Replace the steps of optimizers that have an update form by kernels."""
    asked: list[Instruction] = []
    out: list[Instruction] = []
    for step in instructions:
        try:
            if step.function is not run_step:
                raise Unlowered
            update = CudaUpdate(step, module)
        except Unlowered:
            out.append(step)
            continue
        asked.append(Instruction("guard", update.ready, ()))
        out += [made.changed(site=step.site) for made in update.instructions_of(step)]
    return [*asked, *out]  # checks come before all writes


class CudaUpdate(Update):
    """A step of an optimizer with all parameters on the GPU."""

    def __init__(self, step: Instruction, module: Module) -> None:
        optimizer, pairs = step.args[0], gradients_of(step)
        moved = [[p for p in group["params"] if id(p) in pairs] for group in optimizer.param_groups]
        if not all(x.on_gpu for pair in pairs.values() for x in pair):
            raise Unlowered("on the CPU")
        super().__init__(optimizer, moved, pairs)
        self.module = module
        arrays = [optimizer.state[parameter][name].array for parameter, name in self._wanted]
        self._held = [at for at, (_, name) in enumerate(self._wanted) if name != "step"]
        self.states = [Value(next(_indices), arrays[at], name=self._names[at]) for at in self._held]
        rows: list[list[Value]] = []
        updates: list[
            tuple[object, int, int]
        ] = []  # per parameter: form, offsets of its group's numbers and of its rates
        rest, at = iter(self.states), 0
        rates = sum(len(form.numbers) for form in self.forms)
        for form, some in zip(self.forms, moved, strict=True):
            for parameter in some:
                row = [*pairs[id(parameter)], *[next(rest) for name in form.state if name != "step"]]
                if len({x.dtype for x in row}) != 1 or row[0].dtype.kind != "f" or row[0].dtype not in DTYPES:
                    raise Unlowered(f"an update of {row[0].dtype}")
                if not all(map(row_major, row)) or row[0].root is row[1].root or not all(x.on_gpu for x in row):
                    raise Unlowered("a parameter that is not contiguous")
                rows.append(row)
                updates.append((form, at, rates))
                rates += 2
            at += len(form.numbers)
        self.numbers = self._numbers_as(cupy_backend().xp.empty(rates))
        self.rows = rows
        self.launches: list[tuple[str, Kernel, int, int]] = []  # name, kernel, and its range of rows
        begin = 0
        while begin < len(rows):
            end, pointers = begin, 0
            while end < len(rows) and pointers + len(rows[end]) <= MAX_POINTERS:
                pointers += len(rows[end])
                end += 1
            kernel = _kernel(rows[begin:end], updates[begin:end])
            self.launches.append((module.enter(kernel), kernel, begin, end))
            begin = end

    def rates(self) -> np.ndarray:
        """Increment the step counts; return the numbers of this step."""
        numbers = self._current_numbers().tolist()
        for form, group, some in zip(self.forms, self.optimizer.param_groups, self.moved, strict=True):
            for parameter in some:
                pair = (0.0, 0.0)
                if "step" in form.state:
                    step = self.optimizer.state[parameter]["step"].array
                    step += 1
                    pair = self.optimizer.rates_of_step(group, int(step)) if form.of_step else pair
                numbers += pair
        return np.array(numbers, np.float64)

    def fetch(self) -> tuple[Any, ...]:
        """Return the numbers and the current state arrays."""
        _, *arrays = super().fetch()
        return cupy_backend().xp.asarray(self.rates()), *[arrays[at] for at in self._held]

    def instructions_of(self, step: Instruction) -> tuple[Instruction, Instruction]:
        """Return the instruction that fetches numbers and arrays, and the update."""
        fetch = Instruction("effect", self.fetch, (), None, (self.numbers, *self.states), several=True)
        fetch.paths = tuple((index,) for index in range(1 + len(self.states)))
        flat = [x for row in self.rows for x in row]
        update = Instruction("whole", Launches(self), (self.numbers, *flat))
        update.writes = tuple(x for row in self.rows for x in (row[0], *row[2:]))
        update.operator = f"{type(self.optimizer).__name__}.step"
        return fetch, update


class Launches:
    """The kernels of an update, as a function of its numbers and arrays."""

    def __init__(self, update: CudaUpdate) -> None:
        self.widths = list(map(len, update.rows))
        self.launches, self.module = update.launches, update.module
        kernels = "one CUDA kernel" if len(self.launches) == 1 else f"{len(self.launches)} CUDA kernels"
        names = ", ".join(name for name, *_ in self.launches)
        self.note = f"{kernels} ({names}) for {len(self.widths)} parameters"
        self.__name__ = "update"

    def __call__(self, numbers: object, *arrays: object) -> None:
        at = 0
        for name, kernel, begin, end in self.launches:
            width = sum(self.widths[begin:end])
            self.module.launch(name, kernel.grid, [numbers, *arrays[at : at + width]])
            at += width


_FORMS = {
    "add": "({0} + {1})", "subtract": "({0} - {1})", "multiply": "({0} * {1})", "divide": "({0} / {1})",
    "sqrt": "sqrt({0})",
}  # fmt: skip


def _function(form: Any, dtype: DType) -> tuple[str, str]:
    """Return name and definition of the function that updates a block of a parameter."""
    lines: list[str] = []
    written: list[str] = []

    def operate(name: str, *operands: str) -> str:
        return expression(_FORMS[name], list(operands), dtype)

    def loop(out: str, inputs: Sequence[str], formula: Callable[..., str]) -> None:
        lines.append(f"{out} = {formula(operate, *inputs)};")
        written.append(out)

    terms = Terms(form)
    terms.write(loop)
    real, memory = held(dtype), stored(dtype)
    given = [f"numbers[{n}]" for n in range(len(form.numbers))]
    places = ["rates[0]", "rates[1]", *given[len(form.rates) :]] if form.of_step else given
    arrays = ["p", "g", *[name for name in form.state if name != "step"]]
    parameters = [f"{'const ' if x == 'g' else ''}{memory}* __restrict__ {x}_" for x in arrays]
    text = "".join(
        f"  {line}\n"
        for line in [
            *[
                f"const {real} {name} = {cast(place, _DOUBLE, dtype)};"
                for name, place in zip(terms.numbers, places, strict=True)
            ],
            *BLOCK_LOOP,
            *[f"  {real} {x} = {load(f'{x}_[i]', dtype)};" for x in arrays],
            *["  " + line for line in lines],
            *[f"  {x}_[i] = {store(x, dtype)};" for x in written],
            "}",
        ]
    )
    head = f"({', '.join(parameters)}, const double* numbers, const double* rates, long long size, int block) {{\n"
    name = f"update_{hashlib.sha256((head + text).encode()).hexdigest()[:12]}"
    return name, f"__device__ void {name}{head}{text}}}\n"


def _kernel(rows: Sequence[Sequence[Value]], updates: Sequence[tuple[object, int, int]]) -> Kernel:
    """Return a kernel over several parameters; a block finds its parameter and its range of elements."""
    parameters, calls, functions = ["const double* __restrict__ numbers"], [], []
    for n, (row, (form, numbers, rates)) in enumerate(zip(rows, updates, strict=True)):
        name, text = _function(form, row[0].dtype)
        functions.append(text)
        memory, size = stored(row[0].dtype), row[0].size
        names = [f"p{n}", f"g{n}", *[f"s{n}_{k}" for k in range(len(row) - 2)]]
        parameters += [f"{'const ' if x[0] == 'g' else ''}{memory}* __restrict__ {x}" for x in names]
        calls.append((f"{name}({', '.join(names)}, numbers + {numbers}, numbers + {rates}, {size}LL, block)", size))
    lines, blocks = split_blocks(calls)
    body = "".join(f"  {line}\n" for line in lines)
    return Kernel(", ".join(parameters), body, (blocks, 1), tuple(dict.fromkeys(functions)))
