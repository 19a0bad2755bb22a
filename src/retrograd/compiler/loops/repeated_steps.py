"""Roll the repeated steps of a traced Python loop: the instructions of all steps become one loop of a program.

The steps of a Python loop are traced one by one, so a program has the same instructions again and again, with other
values. ``roll_repeats`` finds runs of blocks with equal instructions. In each block an argument is a value of the same
block, of the block before (a carry), the same value from outside in all blocks, or another one for each block (a
slice). The blocks become one instruction, which runs a single block for all steps (``execution``).
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import Array
from ...core.arrays.dtypes import DType
from ..cpu.steps import row_major
from ..passes.common_subexpressions import key_of
from ..passes.order import versions
from ..program import Instruction, Program, Value
from .body import Body
from .execution import Execution
from .rolled import Forward

MIN_INSTRUCTIONS = 400  # of a program; shorter ones compile fast, and one region for all steps is faster
MIN_BLOCKS = 4
MAX_PERIODS_TRIED = 12
_WINDOW = 8  # instructions that are compared to find periods
_KINDS = ("array", "primitive", "whole")


class _Run(NamedTuple):
    """``blocks`` blocks of ``period`` instructions, from ``start`` on."""

    start: int
    period: int
    blocks: int

    @property
    def stop(self) -> int:
        return self.start + self.period * self.blocks


def roll_repeats(instructions: Sequence[Instruction], gives: Sequence[Value]) -> list[Instruction]:
    """Return a program that computes the same, with loops for repeated blocks of instructions.

    Args:
        instructions: the instructions in their order.
        gives: the results of the program.
    """
    if len(instructions) < MIN_INSTRUCTIONS:
        return list(instructions)
    made = {out for step in instructions for out in step.outs}
    takes = {value for step in instructions for value in step.reads() if value not in made}
    rolling = _Rolling(versions(instructions, takes), gives)
    return rolling.result() if rolling.found else list(instructions)


class _Rolling:
    """The instructions of a program while loops replace some of them."""

    def __init__(self, steps: Sequence[Instruction], gives: Sequence[Value]) -> None:
        self.steps: list[Instruction] = list(steps)
        self.gives = set(gives)
        self.found = 0
        self.rows: dict[Value, tuple[Value, int]] = {}  # the stacked value, and the row, of a block's value
        self._number = 1 + max((v.index for step in steps for v in (*step.reads(), *step.outs)), default=0)
        known: dict[object, int] = {}
        self._signatures = [known.setdefault(_signature(step), len(known)) for step in steps]
        at = 0
        while (run := self._longest(at)) is not None:
            replacement = self._roll(run)
            if replacement is None:
                at = run.start + run.period
                continue
            self.found += 1
            self.steps[run.start : run.stop] = replacement
            self._signatures[run.start : run.stop] = [-1 - k - at for k in range(len(replacement))]
            at = 0 if at == 0 else at

    def result(self) -> list[Instruction]:
        """Return the instructions, with views of those rows of stacked results that are still read."""
        read = {value for step in self.steps for value in step.reads()} | self.gives
        views: dict[Value, list[Instruction]] = {}
        for value, (stack, row) in self.rows.items():
            if value in read:
                view = Instruction("array", operator.getitem, (stack, (row, Ellipsis)), None, (value,), view=True)
                view.paths = ((),)
                value.root = stack
                views.setdefault(stack, []).append(view)
        out: list[Instruction] = []
        for step in self.steps:
            for value in step.outs:
                if value.root in self.rows and value not in self.rows:
                    value.root = value.root.root
            out.append(step)
            for value in step.outs:
                out += views.get(value, ())
        return out

    # Periods

    def _longest(self, first: int) -> _Run | None:
        """Return the run that saves most instructions, not before instruction ``first``."""
        codes = np.array(self._signatures[first:], np.int64)
        if len(codes) < MIN_INSTRUCTIONS // 2:
            return None
        best: _Run | None = None
        for period in _periods(codes):
            same = np.concatenate(([False], codes[:-period] == codes[period:], [False]))
            edges = np.flatnonzero(same[1:] != same[:-1])
            begins, ends = edges[::2], edges[1::2]
            at = int(np.argmax(ends - begins))
            begin, length = int(begins[at]), int(ends[at] - begins[at]) + period
            run = _Run(first + begin, period, length // period)
            if run.blocks >= MIN_BLOCKS and (best is None or _saved(run) > _saved(best)):
                best = self._best_phase(run, length - period * run.blocks)
        if best is None or _saved(best) < MIN_INSTRUCTIONS // 2:
            return None
        return best

    def _best_phase(self, run: _Run, spare: int) -> _Run:
        """Return the run that begins where fewest values pass from block to block."""
        makers = {out: at for at, step in enumerate(self.steps[run.start : run.stop]) for out in step.outs}
        last: dict[Value, int] = {}
        for at, step in enumerate(self.steps[run.start : run.stop]):
            for value in step.reads():
                if value in makers:
                    last[value] = at
        change = np.zeros(run.period * run.blocks + 2, np.int64)
        for value, at in last.items():
            change[makers[value] + 1] += 1
            change[at + 1] -= 1
        crossing = np.cumsum(change)[run.period : 2 * run.period]
        phase = int(np.argmin(crossing))
        if phase <= spare:
            return run._replace(start=run.start + phase)
        return run._replace(start=run.start + phase, blocks=run.blocks - 1)

    # Rolling

    def _roll(self, run: _Run) -> list[Instruction] | None:
        """Return the instructions that replace a run, or None if the blocks are no loop."""
        steps, period, count = self.steps, run.period, run.blocks
        template = steps[run.start + period : run.start + 2 * period]
        if count < MIN_BLOCKS or any(step.kind not in _KINDS or step.checks or step.on_gpu for step in template):
            return None
        makers: dict[Value, tuple[int, int, int]] = {}  # block, instruction, result
        for at in range(run.start, run.stop):
            block, number = divmod(at - run.start, period)
            for k, out in enumerate(steps[at].outs):
                makers[out] = block, number, k
        inputs = _Inputs()
        for block in range(count):
            for number, step in enumerate(steps[run.start + block * period : run.start + (block + 1) * period]):
                pattern = template[number]
                for value, like in zip((*step.reads(), *step.writes), (*pattern.reads(), *pattern.writes), strict=True):
                    if not inputs.take(block, makers.get(value), makers.get(like), value, like):
                        return None
                if any(makers.get(value.root, (-1,))[0] != block for value in step.writes):
                    return None
        outer = {value for step in (*steps[: run.start], *steps[run.stop :]) for value in step.reads()} | self.gives
        used: dict[tuple[int, int], set[int]] = {}
        for value in outer:
            if value in makers:
                block, number, k = makers[value]
                used.setdefault((number, k), set()).add(block)
        kept = [key for key, blocks in used.items() if blocks != {count - 1} or key not in inputs.carried]
        of_last = [[*steps[run.stop - period + number].outs][k] for number, k in inputs.carried]
        values = [*inputs.starts.values(), *[v for row in inputs.slices.values() for v in row], *of_last]
        values += [template[number].outs[k] for number, k in kept]
        if any(v.shape is None or not v.size or not _is_row_major(v) for v in values):
            return None
        program = Program()
        program.count = self._number
        program.instructions = [step.changed() for step in template]
        order = [*inputs.carried.values(), *inputs.slices, *inputs.same]
        program.inputs = [(value, ("given", None)) for value in order]
        carries = [template[number].outs[k] for number, k in inputs.carried]
        results = [template[number].outs[k] for number, k in kept]
        execution = Execution(Body(program, [], carries, results), len(carries), len(inputs.slices), False)
        execution.compile((False,) * len(carries))
        self._number = program.count
        return self._instructions(run, inputs, kept, of_last, execution)

    def _instructions(
        self,
        run: _Run,
        inputs: _Inputs,
        kept: Sequence[tuple[int, int]],
        of_last: Sequence[Value],
        execution: Execution,
    ) -> list[Instruction]:
        out: list[Instruction] = []
        slices: list[Value] = []
        for row in inputs.slices.values():
            slices.append(self._stacked(row, out))
        stacks: list[Value] = []
        for number, k in kept:
            like = self.steps[run.start + number].outs[k]
            stacks.append(self._new((run.blocks, *like.shape), like.dtype))
            for block in range(run.blocks):
                value = self.steps[run.start + block * run.period + number].outs[k]
                if value not in of_last:
                    self.rows[value] = stacks[-1], block
        starts = list(inputs.starts.values())
        forward = Forward(execution, run.blocks, (False,) * len(starts), len(starts), len(slices))
        loop = Instruction("rolled", forward, (*starts, *slices, *inputs.same), None, (*of_last, *stacks))
        loop.several = len(loop.outs) != 1
        loop.paths = tuple((k,) for k in range(len(loop.outs))) if loop.several else ((),)
        for value in of_last:
            value.root = value
        last = self.steps[run.stop - 1]
        loop.operator, loop.site, loop.backward = "loop", last.site, last.backward
        return [*out, loop]

    def _stacked(self, row: Sequence[Value], out: list[Instruction]) -> Value:
        """Return one array of the values of a slice; append the instruction that computes it."""
        places = [self.rows.get(value) for value in row]
        first, second = places[0], places[1]
        if first is not None and second is not None:
            step = second[1] - first[1]
            if step in (1, -1) and all(place == (first[0], first[1] + k * step) for k, place in enumerate(places)):
                stack, at = first
                stop = at + step * len(row)
                key = slice(at, stop if stop >= 0 else None, step)
                made = self._new((len(row), *row[0].shape), row[0].dtype)
                copy = Instruction("array", np.ascontiguousarray, (made_view := self._view(stack, key, made, out),))
                copy.outs, copy.paths = (made,), ((),)
                assert made_view is not made
                out.append(copy)
                return made
        made = self._new((len(row), *row[0].shape), row[0].dtype)
        stacking = Instruction("array", np.stack, (tuple(row), 0), None, (made,))
        stacking.paths = ((),)
        out.append(stacking)
        return made

    def _view(self, stack: Value, key: slice, like: Value, out: list[Instruction]) -> Value:
        made = self._new(like.shape, like.dtype)
        made.root = stack
        sign = -1 if key.step < 0 else 1
        made.strides = (sign * like.strides[0], *like.strides[1:])
        view = Instruction("array", operator.getitem, (stack, key), None, (made,), view=True)
        view.paths = ((),)
        out.append(view)
        return made

    def _new(self, shape: tuple[int, ...], dtype: DType) -> Value:
        value = Value(self._number, None)
        self._number += 1
        value.shape, value.dtype, value.device = shape, dtype, "cpu"
        value.strides = row_major(shape, dtype.itemsize)
        return value


class _Inputs:
    """What the blocks of a run read from outside, by the value that the second block reads.

    Attributes:
        carried: the value for each result of a block that the next block reads.
        starts: the value that the first block reads instead.
        slices: the values that each block reads.
        same: the values that all blocks read.
    """

    def __init__(self) -> None:
        self.carried: dict[tuple[int, int], Value] = {}
        self.starts: dict[tuple[int, int], Value] = {}
        self._rows: dict[Value, dict[int, Value]] = {}  # by block

    def take(
        self,
        block: int,
        maker: tuple[int, int, int] | None,
        pattern: tuple[int, int, int] | None,
        value: Value,
        like: Value,
    ) -> bool:
        """Add an argument of a block; return False if it does not fit that of the second block."""
        if pattern is None:
            if maker is not None:
                return False
            return self._rows.setdefault(like, {}).setdefault(block, value) is value
        source, number, k = pattern
        if source == 1:
            return maker == (block, number, k)
        if source != 0:
            return False
        self.carried[number, k] = like
        if block:
            return maker == (block - 1, number, k)
        known = self.starts.setdefault((number, k), value)
        return maker is None and known is value

    @property
    def slices(self) -> dict[Value, list[Value]]:
        return {like: [*row.values()] for like, row in self._rows.items() if any(v is not like for v in row.values())}

    @property
    def same(self) -> list[Value]:
        return [like for like, row in self._rows.items() if all(v is like for v in row.values())]


def _saved(run: _Run) -> int:
    return run.period * (run.blocks - 1)


def _periods(codes: Array) -> list[int]:
    """Return likely periods: frequent distances between equal windows."""
    factors = np.random.default_rng(0).integers(1, 1 << 62, _WINDOW, dtype=np.int64)
    count = len(codes) - _WINDOW + 1
    if count < 2:
        return []
    with np.errstate(over="ignore"):
        hashes = sum(codes[k : k + count] * factors[k] for k in range(_WINDOW))
    order = np.argsort(hashes, kind="stable")
    equal = hashes[order][1:] == hashes[order][:-1]
    distances = Counter((order[1:] - order[:-1])[equal].tolist())
    return [period for period, _ in distances.most_common(MAX_PERIODS_TRIED) if period < len(codes)]


def _is_row_major(value: Value) -> bool:
    natural = row_major(value.shape, value.dtype.itemsize)
    return all(a == b or n == 1 for a, b, n in zip(value.strides, natural, value.shape, strict=True))


def _signature(step: Instruction) -> tuple[object, ...]:
    forms = [(v.shape, v.dtype, v.strides, v.root is v) for v in step.outs]
    return step.kind, _key(step.function), _key(step.args), _key(step.kwargs), tuple(forms), step.several, step.paths


def _key(nest: object) -> object:
    """Return a key for arguments: values by their forms, functions by code, small arrays by elements."""
    return key_of(nest, _key_of_object)


def _key_of_object(nest: Any) -> object:
    kind = type(nest)
    if kind is Value:
        return "value", nest.shape, nest.dtype, nest.strides
    if isinstance(nest, (np.ndarray, np.generic)) and nest.nbytes <= 1 << 12:
        return kind, nest.shape, nest.dtype.str, nest.tobytes()
    if hasattr(kind, "with_key"):
        return kind, _key(nest.key)
    if kind is FunctionType and nest.__closure__:
        cells = [cell.cell_contents for cell in nest.__closure__]
        return kind, nest.__code__, nest.__defaults__, tuple(id(x) if callable(x) else _key(x) for x in cells)
    return kind, id(nest)
