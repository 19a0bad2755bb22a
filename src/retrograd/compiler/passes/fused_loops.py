"""Compile groups of elementwise instructions and sums to loops.

A loop runs along the last axis of its layout; threads share the rows, or blocks of a single axis. Values that only the
group reads stay in registers. No operation is contracted or reordered, except sums: each block is summed in double
precision, so that the result does not depend on the number of threads. Equal sources are compiled once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import Array
from ...kernels import MAPPED
from ...kernels.build.compile_ahead import Job
from ...kernels.build.object_layout import Kind, kind_of_array
from ...kernels.runtime.result_arrays import empty
from ...kernels.runtime.threads import launch
from ..program import Asked, Instruction, Value
from .expressions import Step
from .layouts import Layout, Operand

BLOCK_ELEMENTS = 1 << 13  # elements per block
_NUMBER = {"float32": "f32", "float64": "f64", "bool": "b1", "int64": "i64", "int32": "i32", "uint8": "u8"}


class Sum(NamedTuple):
    """A sum, or mean, of a value over some axes of the loop's shape."""

    out: Value
    of: Value
    axes: frozenset[int]
    mean: bool


class Group(NamedTuple):
    """The content of one loop: instructions, as steps and sums, in an order in which they may run."""

    members: tuple[Instruction, ...]
    shape: tuple[int, ...]
    steps: tuple[Step, ...]
    sums: tuple[Sum, ...]
    outs: tuple[Value, ...]  # results of steps that other instructions read

    @property
    def operands(self) -> tuple[list[Value], list[Any]]:
        """The arrays that the loop reads, and the numbers, constants included."""
        made = {step.out for step in self.steps}
        read = [x for step in self.steps for x in step.operands]
        read += [total.of for total in self.sums]
        arrays: dict[Value, Value] = {}
        numbers: dict[Any, Any] = {}  # constants by position, since equal constants are separate operands
        for place, x in enumerate(read):
            if isinstance(x, Value):
                if x not in made:
                    (numbers if x.shape is None or is_number(x) else arrays)[x] = x
            elif not isinstance(x, (bool, np.bool_)):
                numbers[place] = x
        return list(arrays), list(numbers.values())


def is_number(value: Value) -> bool:
    """Return whether all elements of a value are at the same address."""
    return value.size == 1 or all(
        stride == 0 or length == 1 for length, stride in zip(value.shape, value.strides, strict=True)
    )


class Names:
    """The variable names of a loop's operands, and the source lines of its steps."""

    def __init__(self, group: Group) -> None:
        self.arrays, self.numbers = group.operands
        self.names: dict[Value, str] = {x: f"v{number}" for number, x in enumerate(self.arrays)}
        self._constants = iter([f"s{n}" for n, x in enumerate(self.numbers) if not isinstance(x, Value)])
        self.names |= {x: f"s{n}" for n, x in enumerate(self.numbers) if isinstance(x, Value)}
        self.dtypes: dict[Value, Any] = {}
        self.functions: set[str] = set()
        self.once = [
            f"s{n} = {_NUMBER[x.dtype.name]}(s{n})"
            for n, x in enumerate(self.numbers)
            if isinstance(x, (Value, np.generic, np.ndarray)) and getattr(x, "shape", None) is not None
        ]
        self.lines: list[str] = []
        for number, step in enumerate(group.steps):
            texts = [self._operand(x, step, index in step.tests) for index, x in enumerate(step.operands)]
            real = _NUMBER[step.dtype.name]
            text = step.form.format(*texts, zero=f"{real}(0)")
            self.names[step.out] = f"t{number}"
            self.lines.append(f"t{number} = {text}")
            self.functions |= MAPPED & {step.form.partition("(")[0]}

    def _operand(self, x: object, step: Step, test: bool) -> str:
        real = _NUMBER[step.dtype.name]
        if isinstance(x, Value):
            name = self.names[x]
            return name if test or x.shape is not None and x.dtype == step.dtype else f"{real}({name})"
        if isinstance(x, (bool, np.bool_)):
            return str(bool(x)) if step.dtype == np.bool_ else f"{real}({int(x)})"
        return f"{real}({next(self._constants)})"

    def head(self) -> str:
        """Return the source before the loop's definition."""
        own = "".join(f'{name} = BY_ELEMENT["{name}"]\n' for name in sorted(self.functions))
        return f"{_HEAD}{own}\n\n"


_HEAD = (
    "import numpy as np\nfrom numpy import sqrt\n"
    "from retrograd.kernels.loops.elements.basic_loops import BY_ELEMENT, _sum\n"
    "from retrograd.kernels.runtime.thread_protocol import apart, shared\n"
    "from retrograd.kernels.loops.matrices.product_loops import parts\n\n"
    + "".join(f"{short} = np.{name if name != 'bool' else 'bool_'}\n" for name, short in _NUMBER.items())
)


def kinds_of(operands: Sequence[Operand], reads: Sequence[Any]) -> list[Kind]:
    """Return the kinds of a loop's arguments, arrays first, then numbers."""
    arrays = [kind_of_array(x.dtype, len(o.shape), o.row_major) for o, x in zip(operands, reads, strict=False)]
    numbers = [np.dtype(getattr(x, "dtype", type(x))).kind for x in reads[len(operands) :]]
    return arrays + [{"f": "float64", "b": "bool"}.get(kind, "int") for kind in numbers]


def job_of(loop: Any, *kinds: Kind) -> Job:
    """Return the job that compiles a loop for arguments of some kinds, which follow the launch arguments."""
    return Job(loop.module, loop.name, repr((*["int"] * 5, *kinds)), loop.source)


def values_of(numbers: Sequence[object]) -> list[Any]:
    """Return the numbers of a call as Python numbers."""
    return [
        x.flat[0].item() if isinstance(x, np.ndarray) else x.item() if isinstance(x, np.generic) else x for x in numbers
    ]


class Loop:
    """A group as a function of its arrays and numbers, to its results, sums last; a single result is not in a tuple."""

    def __init__(self, group: Group) -> None:
        self.group = group
        names = Names(group)
        self.reads = (*names.arrays, *names.numbers)
        self.layout = Layout(group.shape, names.arrays, [total.axes for total in group.sums])
        self.operands = [self.layout.operands[x] for x in names.arrays]
        self.__name__ = "+".join(dict.fromkeys(member.operator or member.name for member in group.members))[:60]
        *outer, self.columns = self.layout.lengths
        self.rows = prod(outer)
        self.flat = not outer
        self.block = BLOCK_ELEMENTS if self.flat else max(1, BLOCK_ELEMENTS // self.columns)  # columns or rows
        self.parts = -(-(self.columns if self.flat else self.rows) // self.block)
        self.loop = compiled_loop(self._source(names, len(outer)))
        self.lengths = (*outer[1:], self.columns)
        self.partial: list[tuple[int, ...]] = []  # the shapes of the blocks' sums
        for total in group.sums:
            by_row = len(outer) in self.layout.reduces(total.axes)
            rows = self.parts if self.flat or not by_row else self.rows
            self.partial.append((rows,) if by_row else (rows, self.columns))
        results = [Asked(group.shape, x.dtype, number) for number, x in enumerate(group.outs)]
        self.asked = (*results, *[Asked(shape, np.dtype(float), None) for shape in self.partial])

    def _source(self, names: Names, outer: int) -> str:
        group, layout = self.group, self.layout
        last = outer  # the loop's last axis
        given = [f"a{n}" for n in range(len(names.arrays))] + [f"s{n}" for n in range(len(names.numbers))]
        given += [f"o{n}" for n in range(len(group.outs))] + [f"p{n}" for n in range(len(group.sums))]
        lengths = [f"n{n}" for n in range(1, outer)] + ["n"]
        rows: list[str] = []  # lines per row
        each: list[str] = []  # lines per element
        for number, operand in enumerate(self.operands):
            place = ", ".join(f"r{axis}" for axis in operand.axes if axis != last)
            if last not in operand.axes:
                rows.append(f"v{number} = a{number}[{place}]")
            else:
                rows.append(f"x{number} = a{number}[{'low:high' if self.flat else place or ':'}]")
                each.append(f"v{number} = x{number}[j]")
        every = "low:high" if self.flat else ", ".join(f"r{axis}" for axis in range(outer))
        rows += [f"y{n} = o{n}[{every}]" for n in range(len(group.outs))]
        each += names.lines
        each += [f"y{n}[j] = {names.names[x]}" for n, x in enumerate(group.outs)]
        before, ends, begins = list(names.once), [], []
        for number, total in enumerate(group.sums):
            if last in layout.reduces(total.axes):
                before.append(f"b{number} = np.empty({BLOCK_ELEMENTS if self.flat else 'n'}, np.{total.of.dtype.name})")
                each.append(f"b{number}[j] = {names.names[total.of]}")
                place, width = ("part", "high - low") if self.flat else ("r", "n")
                ends.append(f"p{number}[{place}] = _sum(b{number}[:{width}])")
            else:
                begins += [f"q{number} = p{number}[part]", f"q{number}[:] = 0"]
                each.append(f"q{number}[j] += f64({names.names[total.of]})")
        body = [*before, "for part in range(start, stop):"]
        if self.flat:
            inner = ["low = part * block", "high = min(low + block, n)", *rows, "for j in range(high - low):"]
            inner += ["    " + line for line in each] + ends
        else:
            inner = [*begins, "for r in range(part * block, min(rows, part * block + block)):"]
            rest, places = "r", []
            for axis in range(outer - 1, 0, -1):
                places += [f"r{axis} = {rest} % n{axis}", f"m{axis} = {rest} // n{axis}"]
                rest = f"m{axis}"
            inner += ["    " + line for line in (*places, f"r0 = {rest}", *rows, "for j in range(n):")]
            inner += ["        " + line for line in each] + ["    " + line for line in ends]
        body += ["    " + line for line in inner]
        arguments = ", ".join([*given, *lengths, "rows", "block", "start", "stop"])
        return names.head() + f"@shared(noalias=True)\ndef loop({arguments}):\n" + "".join(f"    {x}\n" for x in body)

    def __call__(self, *args: Any) -> Any:
        width, group, layout = len(self.operands), self.group, self.layout
        arrays = [operand.bind(x) for operand, x in zip(self.operands, args, strict=False)]
        outs = [empty(group.shape, x.dtype) for x in group.outs]
        partial = [empty(shape, float) for shape in self.partial]
        shaped = [x.reshape(layout.lengths) for x in outs]
        sizes = *self.lengths, self.rows, self.block
        launch(self.loop, self.parts, 1, *arrays, *values_of(args[width:]), *shaped, *partial, *sizes)
        sums = [self._total(total, parts) for total, parts in zip(group.sums, partial, strict=True)]
        found = (*outs, *sums)
        return found if len(found) != 1 else found[0]

    @property
    def job(self) -> Job:
        """The job that compiles the loop before its first call."""
        axes = len(self.layout.lengths)
        kinds = kinds_of(self.operands, self.reads)
        kinds += [kind_of_array(x.dtype, axes) for x in self.group.outs]
        kinds += [kind_of_array(np.dtype(float), len(shape)) for shape in self.partial]
        return job_of(self.loop, *kinds, *["int"] * (len(self.lengths) + 2))

    def _total(self, total: Sum, partial: Array) -> Array:
        """Return a sum from the sums of rows or blocks."""
        axes = self.layout.reduces(total.axes)
        *outer, columns = self.layout.lengths
        if len(outer) not in axes or self.flat:
            whole = partial.sum(axis=0)
        else:
            whole = partial.reshape(outer).sum(axis=tuple(axis for axis in axes if axis != len(outer)))
        if total.mean:
            whole = whole / prod(self.layout.lengths[axis] for axis in axes)
        return np.asarray(whole, total.out.dtype).reshape(total.out.shape)


def as_instruction(run: Any, group: Group, outs: Sequence[Value]) -> Instruction:
    """Return a loop as one instruction of the program."""
    instruction = Instruction("loop", run, run.reads, None, tuple(outs), several=len(outs) != 1)
    instruction.paths = tuple((index,) for index in range(len(outs)))
    last = group.members[-1]
    instruction.operator, instruction.site, instruction.backward = run.__name__, last.site, last.backward
    instruction.parts = group.members
    instruction.asked = run.asked
    return instruction


@cache
def compiled_loop(source: str) -> Callable[..., Any]:
    """Return the loop of a source; machine code on disk is found by the source's digest."""
    from ...kernels.runtime.loop_calls import Loop as Compiled

    return Compiled(f"loop_{hashlib.sha256(source.encode()).hexdigest()[:24]}", "loop", source=source)
