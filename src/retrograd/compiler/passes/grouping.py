"""Fusion: partition the instructions into groups, and order the groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from ..program import Instruction, Value
from .expressions import Step, row_major, steps_of
from .fused_loops import BLOCK_ELEMENTS, Group, Loop, Sum, as_instruction, dtypes_of, is_number
from .layouts import Layout, fits
from .order import dependencies

MAX_INSTRUCTIONS = 48  # maximum instructions of a loop
MAX_ARRAYS = 24  # maximum arrays that a loop reads
MAX_GROUPS_TRIED = 8  # maximum groups that are tried for an instruction
MIN_ELEMENTS = 4096  # minimum elements of a loop
MIN_ROW = 16  # minimum elements of a row for a loop along the row
# Maximum columns of sums over rows: partial sums of blocks of few rows would take as much memory as the rows.
MAX_COLUMNS = BLOCK_ELEMENTS // 4


class Part:
    """An instruction in a loop: elementwise steps, or a sum."""

    def __init__(self, shape: tuple[int, ...], steps: list[Step], total: Sum | None) -> None:
        self.shape, self.steps, self.total = shape, steps, total
        self.dtypes = dtypes_of(steps, [] if total is None else [total])
        made = {step.out for step in steps}
        read = [x for step in steps for x in step.operands if isinstance(x, Value) and x not in made]
        self.reads = set(read if total is None else [total.of])
        self.made = made


def part_of(step: Instruction) -> Part | None:
    """Return an instruction as a part of a loop, or None."""
    if step.kind not in ("array", "primitive", "whole") or step.writes or len(step.outs) != 1 or step.on_gpu:
        return None
    total = _sum_of(step)
    if total is not None:
        return Part(total.of.shape, [], total)
    (out,) = step.outs
    if step.view or out.shape is None or out.root is not out or out.size < MIN_ELEMENTS or not row_major(out):
        return None
    steps = steps_of(step)
    if steps is None:
        return None
    part = Part(out.shape, steps, None)
    if len(part.dtypes) > 1 or any(dtype.kind != "f" for dtype in part.dtypes):
        return None
    arrays = [x for x in part.reads if x.shape is not None and not is_number(x)]
    if not all(fits(x, out.shape) for x in arrays):
        return None
    lengths = Layout(out.shape, arrays).lengths
    return part if lengths and lengths[-1] >= MIN_ROW else None


def sum_of(step: Instruction) -> Sum | None:
    """Return an instruction as a ``Sum`` if it is the sum or mean of a floating-point array, else None."""
    x = step.args[0] if step.args else None
    if not isinstance(x, Value) or x.shape is None or x.dtype.kind != "f" or step.outs[0].dtype != x.dtype:
        return None
    if step.computes not in ("sum", "mean"):
        return None
    options = dict(zip(("axis", "keepdims"), step.args[1:], strict=False)) | step.kwargs
    axes = options.pop("axis", None)
    axes = options.pop("dim", axes)
    options.pop("keepdims", None)
    options.pop("keepdim", None)
    if any(option is not None for option in options.values()):
        return None
    axes = range(len(x.shape)) if axes is None else (axes,) if isinstance(axes, int) else axes
    if len(step.args) > (3 if step.kind == "whole" else 2) or not all(isinstance(axis, int) for axis in axes):
        return None
    return Sum(step.outs[0], x, frozenset(axis % len(x.shape) for axis in axes), step.computes == "mean")


def _sum_of(step: Instruction) -> Sum | None:
    """Return an instruction as a ``Sum``, or None if a CPU loop cannot compute it."""
    total = sum_of(step)
    if total is None or total.of.dtype.itemsize < 4 or total.of.size < MIN_ELEMENTS or not row_major(total.of):
        return None
    return total if _can_sum(total.of.shape, [total.of], [total.axes]) else None


def _can_sum(shape: tuple[int, ...], arrays: Sequence[Value], reduced: Sequence[frozenset[int]]) -> bool:
    """Return whether a loop can compute all sums: each over the last axis only, or over all other axes."""
    layout = Layout(shape, arrays, reduced)
    last = len(layout.lengths) - 1
    if last < 0 or layout.lengths[-1] < MIN_ROW:
        return False
    few = layout.lengths[-1] <= MAX_COLUMNS
    return all(over and (last in over or few and len(over) == last) for over in map(layout.reduces, reduced))


class _OpenGroup:
    """A group that grows."""

    def __init__(self, index: int, part: Part, target: Target) -> None:
        self.target = target
        self.indices = [index]
        self.parts = [part]
        self.dtypes = set(part.dtypes)
        self.made = set(part.made)
        self.sums: set[Value] = set() if part.total is None else {part.total.out}
        self.reads = set(part.reads)

    def suits(self, part: Part) -> bool:
        if len(self.indices) >= MAX_INSTRUCTIONS or part.reads & self.sums:
            return False
        if self.target.one_dtype and len(self.dtypes | part.dtypes) > 1:
            return False
        if part.total is not None:
            return not part.reads.isdisjoint(self.made) and self._can_sum(part)
        if part.reads.isdisjoint(self.made) and not any(x.size > 1 for x in part.reads & self.reads if x.shape):
            return False
        if len(self.reads | part.reads) > MAX_ARRAYS:
            return False
        return not self.sums or self._can_sum(part)

    def _can_sum(self, part: Part) -> bool:
        parts = [*self.parts, part]
        arrays = [x for x in (self.reads | part.reads) - self.made if x.shape is not None and not is_number(x)]
        return self.target.can_sum(part.shape, arrays, [other.total.axes for other in parts if other.total is not None])

    def add(self, index: int, part: Part) -> None:
        self.indices.append(index)
        self.parts.append(part)
        self.made |= part.made
        self.reads |= part.reads
        self.dtypes |= part.dtypes
        if part.total is not None:
            self.sums.add(part.total.out)


class Grouping:
    """A partition of instructions into groups without cyclic dependencies between groups."""

    def __init__(self, steps: Sequence[Instruction], gives: Sequence[Value], target: Target) -> None:
        self.steps = steps
        self.target = target
        self.gives = set(gives)
        made = {out for step in steps for out in step.outs}
        self.before = dependencies(steps, {x for step in steps for x in step.reads() if x not in made})
        self.group: dict[int, _OpenGroup] = {}  # the group of each instruction, by the index of the instruction
        self.open: dict[tuple[int, ...], list[_OpenGroup]] = {}
        self.latest = list(range(len(steps)))  # the last instruction that is reachable through dependencies and groups
        for index, step in enumerate(steps):
            part = target.part_of(step)
            if part is not None:
                self._place(index, part)

    def _place(self, index: int, part: Part) -> None:
        """Add an instruction to a group that shares an operand, else to a new group."""
        known = self.open.setdefault(part.shape, [])
        for group in reversed(known[-MAX_GROUPS_TRIED:]):
            if group.suits(part) and not self._reaches(group, index):
                group.add(index, part)
                self.group[index] = group
                first = group.indices[0]
                self.latest[:index] = [index if last >= first else last for last in self.latest[:index]]
                return
        if part.total is None:
            group = _OpenGroup(index, part, self.target)
            self.group[index] = group
            known.append(group)

    def _reaches(self, group: _OpenGroup, index: int) -> bool:
        """Return whether an instruction depends on the group through an instruction outside."""
        own, first = set(group.indices), group.indices[0]
        waiting = [other for other in self.before[index] if other not in own]
        seen: set[int] = set(waiting)
        while waiting:
            other = waiting.pop()
            if self.latest[other] < first:  # does not depend on the group
                continue
            for member in self.group[other].indices if other in self.group else [other]:
                for need in self.before[member]:
                    if need in own:
                        return True
                    if need not in seen:
                        seen.add(need)
                        waiting.append(need)
        return False

    def instructions(self) -> list[Instruction]:
        """Return the instructions in an order that respects dependencies, with each useful group as one loop."""
        units: dict[int, list[int]] = {}  # the instructions of each group, by the first of them
        of: dict[int, int] = {}
        for index in range(len(self.steps)):
            members = self.group[index].indices if index in self.group else [index]
            of[index] = members[0]
            units[members[0]] = members
        needs = {key: {of[n] for m in members for n in self.before[m]} - {key} for key, members in units.items()}
        after: dict[int, list[int]] = {}
        for key, others in needs.items():
            for other in others:
                after.setdefault(other, []).append(key)
        missing = {key: len(others) for key, others in needs.items()}
        ready = [(units[key][-1], key) for key, count in missing.items() if not count]
        heapify(ready)
        readers: dict[Value, set[int]] = {}
        for index, step in enumerate(self.steps):
            for value in step.reads():
                readers.setdefault(value, set()).add(of[index])
        result: list[Instruction] = []
        while ready:
            _, key = heappop(ready)
            result += self._unit(units[key], key, readers)
            for other in after.get(key, ()):
                missing[other] -= 1
                if not missing[other]:
                    heappush(ready, (units[other][-1], other))
        assert not any(missing.values()), "a group depends on itself"
        return result

    def _unit(self, indices: list[int], key: int, readers: dict[Value, set[int]]) -> list[Instruction]:
        members = [self.steps[index] for index in indices]
        group = self.group.get(key)
        if group is None:
            return members
        steps = [step for part in group.parts for step in part.steps]
        outs = [x for step in members for x in step.outs]
        read = [x for x in outs if x in self.gives or readers.get(x, set()) - {key}]
        alone = len(members) < 2
        if not read or alone and not (self.target.takes_one and (len(steps) > 1 or members[0].kind != "array")):
            return members
        sums = tuple(part.total for part in group.parts if part.total is not None)
        shape = group.parts[0].shape
        kept = tuple(x for x in read if not any(total.out is x for total in sums))
        fused = Group(tuple(members), shape, tuple(steps), sums, kept)
        try:
            loop = self.target.loop(fused)
        except ValueError:
            return members
        return [as_instruction(loop, fused, (*kept, *[total.out for total in sums]))]


class Target(NamedTuple):
    """Where loops run: which instructions and sums they support, and how a group becomes a loop.

    With ``takes_one`` a single instruction that the library runs as several calls becomes a loop. With
    ``one_dtype`` a loop computes in one dtype of floats.
    """

    part_of: Callable[[Instruction], Part | None]
    can_sum: Callable[[tuple[int, ...], Sequence[Value], Sequence[frozenset[int]]], bool]
    loop: Callable[[Group], Any]
    takes_one: bool
    one_dtype: bool


PROCESSOR = Target(part_of, _can_sum, Loop, False, True)


def grouped(steps: Sequence[Instruction], gives: Sequence[Value], target: Target = PROCESSOR) -> list[Instruction]:
    """Return the program with each group of instructions as one loop."""
    return Grouping(steps, gives, target).instructions()
