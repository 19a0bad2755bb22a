"""Fusion: elementwise instructions on arrays of one shape, and sums of what they give, as one compiled loop.

Instructions wait until somebody reads what they compute, or writes what they read. All that wait together become one
loop: what nobody else reads never goes to memory, and is computed again where a walk needs it. In a loop of single
precision stand the functions of kernels/loops.py. No operation is contracted or reordered, but for sums.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..kernels import compiled, threads
from .expressions import expression
from .program import Instruction, Value

LEAST = 4096  # elements from which a loop of its own pays
PART = 1 << 13  # elements that are summed at once, and that a thread should at least be given


def fused(instructions: Sequence[Instruction], gives: Sequence[Value]) -> list[Instruction]:
    """The instructions with loops in the place of what can be fused; the same ones where Numba is missing."""
    if compiled() is None:
        return list(instructions)
    return _Fusion(instructions, gives).run()


class _Group:
    """Instructions that wait, of one shape and dtype."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = shape
        self.dtype = dtype
        self.members: list[Instruction] = []
        self.steps: list[tuple[Value, str, tuple[Any, ...]]] = []
        self.sums: list[tuple[Value, Value, bool]] = []  # out, of what, whether the mean
        self.made: set[Value] = set()
        self.reads: set[Value] = set()


class _Fusion:
    def __init__(self, instructions: Sequence[Instruction], gives: Sequence[Value]) -> None:
        self.instructions = instructions
        self.out: list[Instruction] = []
        self.groups: dict[Any, _Group] = {}
        self.readers: dict[Value, int] = {}
        self.scalars: dict[Value, Value] = {}  # arrays that repeat one element, and where that is
        for value in gives:
            self.readers[value] = self.readers.get(value, 0) + (1 << 20)
        for instruction in instructions:
            for value in set(instruction.reads()):
                self.readers[value] = self.readers.get(value, 0) + 1

    def run(self) -> list[Instruction]:
        for instruction in self.instructions:
            if not self._joins(instruction):
                self._before(instruction)
                self.out.append(instruction)
                self._note(instruction)
        for key in list(self.groups):
            self._flush(key)
        return self.out

    def _note(self, instruction: Instruction) -> None:
        if instruction.name == "broadcast_to" and instruction.outs:
            source = instruction.args[0]
            if isinstance(source, Value) and source.shape is not None and source.size == 1:
                self.scalars[instruction.outs[0]] = source

    def _joins(self, instruction: Instruction) -> bool:
        """Let an instruction wait in the group of its shape."""
        if len(instruction.outs) != 1 or instruction.kind not in ("array", "primitive", "whole"):
            return False
        (out,) = instruction.outs
        if out.shape == () and self._joins_as_sum(instruction):
            return True
        if out.shape is None or out.size < LEAST or not _row_major(out):
            return False
        floats = {v.dtype for v in instruction.reads() if v.shape is not None and v.dtype.kind == "f"}
        floats |= {out.dtype} if out.dtype.kind == "f" else set()
        if len(floats) != 1 or not floats <= {np.dtype(np.float32), np.dtype(np.float64)}:
            return False
        (dtype,) = floats
        steps = self._steps_of(instruction, dtype)
        if steps is None or not all(
            self._takes(x, out.shape, dtype, steps) for _, _, operands in steps for x in operands
        ):
            return False
        key = out.shape, dtype
        inner = {step[0] for step in steps}
        for _, _, operands in steps:
            for x in operands:
                if isinstance(x, Value) and x not in inner:
                    self._flush_maker(x, key)
        group = self.groups.setdefault(key, _Group(out.shape, dtype))
        group.members.append(instruction)
        group.steps += steps
        group.made |= inner
        group.reads.update(instruction.reads())
        return True

    def _steps_of(self, instruction: Instruction, dtype: Any, depth: int = 0) -> Any:
        form = expression(instruction, dtype)
        if form is None or depth > 4:
            return None
        if isinstance(form, tuple):
            return [(instruction.outs[0], form[0], form[1])]
        steps: list[Any] = []
        for inner in form:
            found = self._steps_of(inner, dtype, depth + 1)
            if found is None:
                return None
            steps += found
        return steps

    def _takes(self, x: Any, shape: tuple[int, ...], dtype: Any, steps: Any) -> bool:
        if isinstance(x, Value):
            if any(x is step[0] for step in steps):
                return True
            if x.shape is None or x.dtype.kind not in "fb":
                return False
            return x in self.scalars or x.size == 1 or x.shape == shape and _row_major(x)
        return isinstance(x, (bool, int, float)) or isinstance(x, (np.generic, np.ndarray)) and x.size == 1

    def _joins_as_sum(self, instruction: Instruction) -> bool:
        if instruction.name not in ("sum", "mean") or not isinstance(instruction.args[0], Value):
            return False
        options = [*instruction.args[1:], *instruction.kwargs.values()]
        if any(option is not None and option is not False for option in options):
            return False
        x, out = instruction.args[0], instruction.outs[0]
        for group in self.groups.values():
            if x in group.made and x.dtype == group.dtype == out.dtype:
                group.members.append(instruction)
                group.sums.append((out, x, instruction.name == "mean"))
                return True
        return False

    # Ends of groups

    def _before(self, instruction: Instruction) -> None:
        """End the groups that an instruction must not pass."""
        reads = set(instruction.reads())
        roots = {value.root for value in instruction.writes}
        for key, group in list(self.groups.items()):
            sums = {out for out, _, _ in group.sums}
            if reads & (group.made | sums) or roots and any(value.root in roots for value in group.reads):
                self._flush(key)

    def _flush_maker(self, x: Value, but: Any) -> None:
        source = self.scalars.get(x, x)
        for key, group in list(self.groups.items()):
            sums = {out for out, _, _ in group.sums}
            if source in sums or key != but and source in group.made:
                self._flush(key)

    def _flush(self, key: Any) -> None:
        group = self.groups.pop(key)
        if len(group.members) < 2:
            self.out += group.members
            return
        inside: dict[Value, int] = {}
        for member in group.members:
            for value in set(member.reads()):
                inside[value] = inside.get(value, 0) + 1
        kept = [out for out, _, _ in group.steps if self.readers.get(out, 0) > inside.get(out, 0)]
        self.out.append(_loop_of(group, list(dict.fromkeys(kept)), self.scalars))


def _row_major(value: Value) -> bool:
    step = value.dtype.itemsize
    for length, stride in zip(reversed(value.shape), reversed(value.strides), strict=True):
        if length > 1 and stride != step:
            return False
        step *= length
    return True


def _loop_of(group: _Group, kept: list[Value], scalars: dict[Value, Value]) -> Instruction:
    """The group as one instruction: a compiled loop on its arrays and numbers."""
    arrays: list[Value] = []
    numbers: list[Any] = []
    names: dict[Any, str] = {}
    lines: list[str] = []

    def operand(x: Any) -> str:
        if isinstance(x, Value):
            if x in names:
                return names[x]
            if x in scalars or x.size == 1 and x.shape != group.shape:
                source = scalars.get(x, x)
                numbers.append(source)
                names[x] = f"s{len(numbers) - 1}"
            else:
                arrays.append(x)
                names[x] = f"a{len(arrays) - 1}[i]"
            return names[x]
        if isinstance(x, (bool, np.bool_)):
            return str(bool(x))
        numbers.append(float(x))
        return f"s{len(numbers) - 1}"

    for out, form, operands in group.steps:
        expression = form.format(*[operand(x) for x in operands])
        names[out] = f"t{len(lines)}"
        lines.append(f"t{len(lines)} = {expression}")
    stores = [f"o{index}[i] = {names[out]}" for index, out in enumerate(kept)]
    sums = list(dict.fromkeys(x for _, x, _ in group.sums))
    stores += [f"b{index}[i] = {names[x]}" for index, x in enumerate(sums)]
    source = _source(len(arrays), len(numbers), len(kept), len(sums), lines + stores, group.dtype.name)
    loop = _compiled_loop(source)
    shape, kinds = group.shape, [value.dtype for value in kept]
    size = int(np.prod(shape))
    parts = -(-size // PART)
    means = [(sums.index(x), mean) for _, x, mean in group.sums]
    kind, width = group.dtype.type, len(arrays)

    def run(*args: Any) -> Any:
        flat = [x.reshape(-1) for x in args[:width]]
        outs = [np.empty(shape, dtype) for dtype in kinds]
        totals = np.empty((len(sums), parts))
        values = [x.item() if isinstance(x, np.ndarray) else x for x in args[width:]]
        threads.launch(loop, parts, 1, *flat, *values, *[y.reshape(-1) for y in outs], totals, size)
        found: list[Any] = list(outs)
        if means:
            whole = totals.sum(axis=1)
            found += [np.asarray(kind(whole[at] / size if mean else whole[at])) for at, mean in means]
        return tuple(found) if len(found) != 1 else found[0]

    run.__name__ = "+".join(dict.fromkeys(member.operator or member.name for member in group.members))[:60]
    outs = (*kept, *[out for out, _, _ in group.sums])
    several = len(outs) != 1
    instruction = Instruction("loop", run, (*arrays, *numbers), None, outs, several=several)
    instruction.paths = tuple((index,) for index in range(len(outs)))
    last = group.members[-1]
    instruction.operator, instruction.site, instruction.backward = run.__name__, last.site, last.backward
    instruction.parts = tuple(group.members)
    return instruction


def _source(arrays: int, numbers: int, outs: int, sums: int, lines: list[str], dtype: str) -> str:
    given = [f"x{k}" for k in range(arrays)] + [f"s{k}" for k in range(numbers)] + [f"y{k}" for k in range(outs)]
    body = [f"s{k} = real(s{k})" for k in range(numbers)]
    body += [f"b{k} = np.empty({PART}, np.{dtype})" for k in range(sums)]
    body += ["for part in range(start, stop):", f"    low = part * {PART}", f"    high = min(low + {PART}, size)"]
    # Places from 0 on in slices: a place that might be negative would keep the compiler from vector instructions.
    body += [f"    a{k} = x{k}[low:high]" for k in range(arrays)] + [f"    o{k} = y{k}[low:high]" for k in range(outs)]
    body += ["    for i in range(high - low):", *["        " + line for line in lines]]
    body += [f"    totals[{k}, part] = _sum(b{k}[: high - low])" for k in range(sums)]
    head = (
        "import numpy as np\nfrom retrograd.kernels.loops import _erf, _exp, _sigmoid, _sum, _tanh\n"
        "from retrograd.kernels.native import shared\n\n"
        f"real = np.{dtype}\nzero = real(0)\n\n\n@shared()\n"
    )
    return (
        head
        + f"def loop({', '.join([*given, 'totals', 'size', 'start', 'stop'])}):\n"
        + "".join(f"    {line}\n" for line in body)
    )


@cache
def _compiled_loop(source: str) -> Callable[..., Any]:
    """The loop of a source, which is kept in a file so that what is compiled of it can be kept on disk, too."""
    name = f"loop_{hashlib.sha256(source.encode()).hexdigest()[:24]}"
    path = _folder() / f"{name}.py"
    try:
        if not path.exists():
            temporary = path.with_suffix(f".{os.getpid()}")
            temporary.write_text(source)
            os.replace(temporary, path)
        file = str(path)
    except OSError:  # no folder that can be written: the loop is compiled in every process
        file = f"<{name}>"
    scope: dict[str, Any] = {"__name__": name, "__file__": file}
    exec(compile(source, file, "exec"), scope)
    found: Callable[..., Any] = scope["loop"]
    return found


@cache
def _folder() -> Path:
    """Where loops are kept: ``RETROGRAD_CACHE``, or below the user's folder for caches."""
    base = os.environ.get("RETROGRAD_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "retrograd"
    )
    folder = Path(base) / "loops"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
