"""Roll the repeated steps of a traced Python loop: the instructions of all steps become one loop of a program.

The steps of a Python loop are traced one by one, so a program repeats the same instructions with other
values. ``roll_repeats`` finds runs of blocks with equal instructions (``signatures``) and matches their arguments
(``matching``). The blocks become one instruction, which runs a single block for all steps (``execution``).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.dtypes import DType
from ..cpu.region_steps import row_major
from ..passes.expressions import keeps_shapes
from ..passes.order import versions
from ..program import Arguments, Instruction, Program, Value, replaced
from .accumulators import written_rows
from .body import Body
from .execution import Execution
from .matching import MIN_BLOCKS, Match, Run, Table
from .rolled import Forward
from .signatures import Signatures, likely_periods, without_equal

MIN_INSTRUCTIONS = 600  # shorter programs compile fast, and one region for all steps is faster
MAX_FAILURES = 4  # the search ends after this many runs of equal blocks that cannot become a loop
MAX_COPIED_BYTES = 1 << 20  # maximum bytes of one block's own weights, which are copied to a stacked array
MAX_PIECES = 8  # maximum pieces of one slice; the rows of a slice with more pieces are stacked one by one
_KINDS = ("array", "primitive", "whole")
_EFFECTS = ("effect", "draw", "guard")


def roll_repeats(instructions: Sequence[Instruction], gives: Sequence[Value]) -> list[Instruction]:
    """Return a program with the same results, with loops for repeated blocks of instructions."""
    if len(instructions) < MIN_INSTRUCTIONS:
        return list(instructions)
    made = {out for step in instructions for out in step.outs}
    takes = {value for step in instructions for value in step.read if value not in made}
    steps = versions(instructions, takes)
    signatures = Signatures()
    steps, codes = without_equal(steps, [signatures.of(step) for step in steps], gives)
    rolling = _Rolling(steps, gives)
    rolling.find(False, codes)
    rolling.find(True)
    return rolling.result() if rolling.found else list(instructions)


class _Rolling:
    """The instructions of a program while loops replace some of them."""

    def __init__(self, steps: Sequence[Instruction], gives: Sequence[Value]) -> None:
        self.steps: list[Instruction] = list(steps)
        self.gives = list(gives)
        self.found: list[Match] = []
        self._table = Table(self.steps, self.gives)
        self._number = self._table.size
        self._rows: dict[Value, tuple[Value, int]] = {}  # the stacked array, and the row, of a block's value
        self._old_roots: dict[Value, Value] = {}  # the former roots of values of blocks
        self._made = {value for step in steps for value in step.outs}
        self._stacks = {x: place for step in steps for x, place in _row_of(step)}  # array and row of ``x[i]``

    def find(self, loose: bool, known: Sequence[int] = ()) -> None:
        """Find runs of blocks that are loops, the longest first; ``known`` are the codes of the instructions."""
        signatures = Signatures()
        codes = -1 - np.arange(len(self.steps))
        done = 0
        for start, stop in [*sorted((match.run.start, match.run.stop) for match in self.found), (len(codes), 0)]:
            if start - done >= MIN_INSTRUCTIONS // 2:
                codes[done:start] = known[done:start] or [signatures.of(x, loose) for x in self.steps[done:start]]
            done = stop
        at = failures = 0
        while failures < MAX_FAILURES and (run := self._longest(codes, at)) is not None:
            match = self._match(run, loose)
            if match is None:
                failures += 1
                at = run.start + run.period
                continue
            self.found.append(match)
            codes[match.run.start : match.run.stop] = -1 - np.arange(match.run.start, match.run.stop)

    def result(self) -> list[Instruction]:
        """Return the instructions, with views of those rows of stacked results that are still read."""
        done = 0
        steps: list[Instruction] = []
        for match in sorted(self.found, key=lambda match: match.run.start):  # slices are computed before they are read
            steps += self.steps[done : match.run.start]
            steps += self._loop(match)
            done = match.run.stop
        self.steps = [*steps, *self.steps[done:]]
        read = {value for step in self.steps for value in step.read} | set(self.gives)
        views: dict[Value, list[Instruction]] = {}
        for value, (stack, row) in self._rows.items():
            if value in read:
                view = Instruction("array", operator.getitem, (stack, (row, Ellipsis)), None, (value,), view=True)
                view.paths = ((),)
                views.setdefault(stack, []).append(view)
        out: list[Instruction] = []
        remade = {value for step in self.steps for value in step.outs}
        for step in self.steps:
            out.append(step)
            for value in step.outs:
                if value.root in self._old_roots and value.root not in remade:
                    value.root = self._root_of(value, step)
                for view in views.get(value, ()):
                    out.append(view)
                    view.outs[0].root = value
        return out

    def _root_of(self, value: Value, maker: Instruction) -> Value:
        """Return the root of a view whose root was inside a block."""
        for x in maker.read:
            if x.root is value.root or self._old_roots.get(x) is value.root:
                return x.root
        return value

    # Periods

    def _longest(self, codes: Array, first: int) -> Run | None:
        """Return the run that saves most instructions, not before instruction ``first``."""
        codes = codes[first:]
        if len(codes) < MIN_INSTRUCTIONS // 2:
            return None
        best: Run | None = None
        spare = 0
        for period in likely_periods(codes):
            same = np.concatenate(([False], codes[:-period] == codes[period:], [False]))
            edges = np.flatnonzero(same[1:] != same[:-1])
            begins, ends = edges[::2], edges[1::2]
            if not len(begins):
                continue
            at = int(np.argmax(ends - begins))
            begin, length = int(begins[at]), int(ends[at] - begins[at]) + period
            run = Run(first + begin, period, length // period)
            if run.blocks >= MIN_BLOCKS and (best is None or run.saved > best.saved):
                best, spare = run, length - period * run.blocks
        if best is None or best.saved < MIN_INSTRUCTIONS // 2:
            return None
        return self._best_phase(best, spare)

    def _best_phase(self, run: Run, spare: int) -> Run:
        """Return the run shifted so that fewest values pass from block to block."""
        steps = self.steps[run.start : min(run.stop, run.start + 4 * run.period)]
        makers: dict[Value, int] = {}
        last: dict[Value, int] = {}
        for at, step in enumerate(steps):
            for value in step.read:
                if value in makers:
                    last[value] = at
            for out in step.outs:
                makers[out] = at
        change = np.zeros(len(steps) + 2, np.int64)
        for value, at in last.items():
            change[makers[value] + 1] += 1
            change[at + 1] -= 1
        crossing = np.cumsum(change)[run.period : 2 * run.period]
        phase = int(np.argmin(crossing))
        if phase <= spare:
            return run._replace(start=run.start + phase)
        return run._replace(start=run.start + phase, blocks=run.blocks - 1)

    # Rolling

    def _match(self, run: Run, loose: bool) -> Match | None:
        """Return the blocks of a run that are a loop; None if they cannot become one."""
        template = self.steps[run.start : run.start + run.period]
        if run.blocks < MIN_BLOCKS or any(
            step.kind not in _KINDS or step.checks and not keeps_shapes(step) or step.on_gpu for step in template
        ):
            return None
        match = Match.of(self._table, run, loose)
        if match is None or self._bytes_copied(match) > MAX_COPIED_BYTES or not self._may_roll(match):
            return None
        return match

    def _bytes_copied(self, match: Match) -> int:
        """Return the bytes of one block's slices that are not computed, such as the weights of equal layers."""
        return sum(row[0].nbytes for row in match.slices if row[0] not in self._made and row[0] not in self._stacks)

    def _may_roll(self, match: Match) -> bool:
        """Return whether separate memory for each block's results preserves the program's meaning."""
        run = match.run
        inside = {out for step in self.steps[run.start : run.stop] for out in step.outs}
        template = self.steps[run.start : run.start + run.period]
        own = {out for step in template for out in step.outs}
        for number, step in enumerate(template):
            for value in step.writes if number not in match.gone else ():
                if value.root not in own and not self._in_place(match, value.root):
                    return False
        written = {
            value.root
            for step in (*self.steps[: run.start], *self.steps[run.stop :])
            for value in (step.read if step.kind in _EFFECTS else step.writes)
        }
        leaving = [match.out(block, k) for k, block in match.leaving if k not in match.ends]
        roots = [value.root for value in leaving]
        if any(root in written and (root not in inside or roots.count(root) > 1) for root in set(roots)):
            return False
        return all(v.shape is not None and v.size for v in (*leaving, *match.given()))

    def _in_place(self, match: Match, root: Value) -> bool:
        """Return whether all steps may write to memory from outside: only their own views of it are read."""
        if root not in match.same or root.shape is None or not _is_row_major(root):
            return False
        if root not in match.written:
            match.written.append(root)
        passed = [match.out(match.middle, k) for k in match.carried]
        passed += [match.out(block, k) for k, block in match.leaving]
        passed += [x for x in match.same if x is not root]
        return all(value.root is not root for value in (*match.given(), *passed))

    def _loop(self, match: Match) -> list[Instruction]:
        """Return the instructions that replace a run."""
        run, before = match.run, list[Instruction]()
        ascending = descending = 0
        pieces = [self._places(row) for row in match.slices]
        for places, row in zip(pieces, match.slices, strict=True):
            if places is not None and len(places) == 1:
                ascending += row[0].nbytes * (places[0][2] > 0)
                descending += row[0].nbytes * (places[0][2] < 0)
        reverse = descending > ascending
        slices: list[object] = [
            self._stacked(row, places, reverse, before) for row, places in zip(match.slices, pieces, strict=True)
        ]
        for numbers, dtype in match.numbers:
            column = np.array(numbers[::-1] if reverse else numbers, dtype)
            slices.append(column)
        for source, first, step, rest in match.indexed:
            slices.append(self._slice(source, first, step, run.blocks, rest, reverse, before))
        body, program = self._body(match)
        carried = [(k, distance) for k, chain in match.carried.items() for distance in range(1, len(chain) + 1)]
        starts: list[object] = [match.carried[k][distance - 1] for k, distance in carried]
        for k in match.last_only:
            like = match.out(0, k)
            starts.append(np.zeros(like.shape, like.dtype))
        saved = tuple([distance == 1 and k in match.kept for k, distance in carried])
        saved += (False,) * len(match.last_only)
        execution = Execution(body, len(starts), len(slices), reverse, True)
        execution.compile(saved)
        self._number = program.count
        outs: list[Value] = []
        last = [
            match.out(run.blocks - 1, k) if distance == 1 else self._new(match.out(0, k).shape, match.out(0, k).dtype)
            for k, distance in carried
        ]
        last += [match.out(run.blocks - 1, k) for k in match.last_only]
        stacked = [k for k in match.kept if k not in match.carried]
        forward = Forward(execution, run.blocks, saved, len(starts), len(slices))
        loop = Instruction("rolled", forward, (*starts, *slices, *match.same), None, (), tuple(match.written))
        for instruction in self._table.steps[run.start : run.stop]:
            for value in instruction.outs:
                self._old_roots[value] = value.root
        for value in last:
            value.root = value
            outs.append(value)
        for k in stacked:
            outs.append(self._keep(match, k, [None] * run.blocks, 0, reverse))
        for (k, _), keep in zip(carried, saved, strict=False):
            if keep:
                outs.append(self._keep(match, k, [match.carried[k][0]], 1, reverse))
        loop.outs = tuple(outs)
        loop.several = len(outs) != 1
        loop.paths = tuple((k,) for k in range(len(outs))) if loop.several else ((),)
        end = self._table.steps[run.stop - 1]
        loop.operator, loop.site, loop.backward = "loop", end.site, end.backward
        after: list[Instruction] = []
        for rows in match.rows:
            stacks = []
            for part, _ in rows.parts:
                row = [] if part is None else [match.out(block, part) for block in range(run.blocks)]
                stacks.append(self._stacked(row, self._places(row), False, after) if row else None)
            result = None if rows.result is None else match.ends[rows.result]
            if result is not None:
                result.root = result
            after += written_rows(rows, run.blocks, stacks, result, lambda like: self._new(like.shape, like.dtype))
        for made in (*before, *after):
            made.operator, made.site, made.backward = loop.operator, loop.site, loop.backward
        return [*before, loop, *after]

    def _keep(self, match: Match, k: int, start: Sequence[Value | None], more: int, reverse: bool) -> Value:
        """Return the stacked values of a result; with ``more`` the initial value is an additional row."""
        blocks = match.run.blocks
        like = match.out(0, k)
        stack = self._new((blocks + more, *like.shape), like.dtype)
        for block in range(blocks):
            value = match.out(block, k)
            row = blocks - 1 - block if reverse else block + more
            self._stacks[value] = stack, row
            if block < blocks - 1 or k not in match.carried:
                self._rows[value] = stack, row
        if more and start[0] is not None:
            self._stacks.setdefault(start[0], (stack, blocks if reverse else 0))
        return stack

    def _body(self, match: Match) -> tuple[Body, Program]:
        """Return the program of a block, with separate values."""
        program = Program()
        program.count = self._number
        fresh: dict[Value, Value] = {}
        inputs = [self._like(value, program) for value in match.inputs]
        same = {x: x if x.shape is None or _is_row_major(x) else self._like(x, program) for x in match.same}
        roots: dict[int, Value] = {}  # by the identity of an argument's root outside of the block
        steps = []
        for number, step in enumerate(match.template):
            if number in match.gone:
                continue
            if number in match.dropped:
                fresh[step.outs[0]] = inputs[match.dropped[number]]
                continue
            places = iter(match.sources(number))
            named: list[Value] = []
            number_input = match.number_of(number)

            def renamed(x: Any, places: Any = places, named: list[Value] = named) -> Any:
                if type(x) is not Value:
                    return x
                kind, what = next(places)
                made = fresh[what] if kind == "own" else inputs[what] if kind == "input" else same[what]
                roots.setdefault(id(x.root), made.root)
                named.append(made)
                return made

            args, kwargs = replaced(step.args, renamed), replaced(step.kwargs, renamed)
            if number_input is not None:
                args = tuple([x if type(x) is Value else inputs[number_input] for x in args])
            renamed_to = dict(zip(step.read, named, strict=True))
            writes = tuple([renamed_to[value] for value in step.writes])
            for out in step.outs:
                own = out.root is out
                root = None if own else fresh.get(out.root) or roots.get(id(out.root))
                if not own and root is None:
                    root = named[0].root
                value = Value(program.count, None, root)
                program.count += 1
                value.shape, value.dtype, value.strides, value.device = out.shape, out.dtype, out.strides, out.device
                fresh[out] = value
            changes = {"args": args, "kwargs": kwargs, "writes": writes, "outs": tuple(fresh[out] for out in step.outs)}
            steps.append(step.changed(checks=False, **changes))
        program.instructions = steps
        program.inputs = [(value, ("given", None)) for value in (*inputs, *same.values())]
        carries: list[Value] = []
        at = 0
        for k, chain in match.carried.items():
            carries.append(fresh[match.out(match.middle, k)])
            carries += inputs[at : at + len(chain) - 1]
            at += len(chain)
        carries += [fresh[match.out(match.middle, k)] for k in match.last_only]
        results = [fresh[match.out(match.middle, k)] for k in match.kept if k not in match.carried]
        return Body(program, [], carries, results), program

    def _like(self, value: Value, program: Program) -> Value:
        """Return a new value with the shape and dtype of another value, in row-major order."""
        made = Value(program.count, None)
        program.count += 1
        made.shape, made.dtype, made.device = value.shape, value.dtype, "cpu"
        made.strides = row_major(value.shape, value.dtype.itemsize)
        return made

    # Slices

    def _places(self, row: Sequence[Value]) -> list[tuple[Value, int, int, int]] | None:
        """Return the pieces of stacked arrays (array, first row, step, number of rows) that have the values.

        A single value is a piece with step 0. The result is None if there are more than ``MAX_PIECES``.
        """
        pieces: list[tuple[Value, int, int, int]] = []
        for value in row:
            place = self._stacks.get(value)
            if pieces and place is not None and pieces[-1][2]:
                stack, first, step, count = pieces[-1]
                if place[0] is stack and (place[1] == first + step * count or count == 1 and place[1] == first - 1):
                    pieces[-1] = stack, first, place[1] - first if count == 1 else step, count + 1
                    continue
            if len(pieces) == MAX_PIECES:
                return None
            pieces.append((value, 0, 0, 1) if place is None else (*place, 1, 1))
        return pieces

    def _stacked(
        self,
        row: Sequence[Value],
        pieces: list[tuple[Value, int, int, int]] | None,
        reverse: bool,
        before: list[Instruction],
    ) -> Value:
        """Return one array of the values of a slice; append the instructions that compute it."""
        if pieces is None:
            return self._computed(np.stack, (tuple(row[::-1] if reverse else row), 0), len(row), row[0], before)
        parts = []
        for stack, first, step, count in pieces[::-1] if reverse else pieces:
            if step:
                parts.append(self._slice(stack, first, step, count, (), reverse, before))
            else:
                parts.append(self._computed(np.expand_dims, (stack, 0), 1, row[0], before))
        if len(parts) == 1:
            return parts[0]
        return self._computed(np.concatenate, (tuple(parts), 0), len(row), row[0], before)

    def _slice(
        self,
        stack: Value,
        first: int,
        step: int,
        count: int,
        rest: tuple[object, ...],
        reverse: bool,
        before: list[Instruction],
    ) -> Value:
        """Return a copy of rows of an array, and append the instructions that compute it."""
        if count == 1:
            step = 1
        if reverse:
            first, step = first + step * (count - 1), -step
        stop = first + step * count
        key = slice(first, stop if stop >= 0 else None, step)
        view = self._new((count, *stack.shape[1:]), stack.dtype)
        view.root = stack.root
        view.strides = (step * stack.strides[0], *stack.strides[1:])
        made = Instruction("array", operator.getitem, (stack, key), None, (view,), view=True)
        made.paths = ((),)
        before.append(made)
        if rest:
            fixed = _expanded(rest, len(view.shape) - 1)
            left = [n for n, k in enumerate(fixed, 1) if k is None]
            inner = self._new((count, *[view.shape[n] for n in left]), stack.dtype)
            inner.root = view.root
            inner.strides = (view.strides[0], *[view.strides[n] for n in left])
            made = Instruction("array", operator.getitem, (view, (slice(None), *rest)), None, (inner,), view=True)
            made.paths = ((),)
            before.append(made)
            view = inner
        return view

    def _computed(self, function: Any, args: Arguments, count: int, like: Value, before: list[Instruction]) -> Value:
        made = self._new((count, *like.shape), like.dtype)
        step = Instruction("array", function, args, None, (made,))
        step.paths = ((),)
        if function is np.expand_dims:
            step.view, made.root = True, args[0].root
            made.strides = (like.nbytes, *args[0].strides)
        before.append(step)
        return made

    def _new(self, shape: tuple[int, ...], dtype: DType) -> Value:
        value = Value(self._number, None)
        self._number += 1
        value.shape, value.dtype, value.device = shape, dtype, "cpu"
        value.strides = row_major(shape, dtype.itemsize)
        return value


def _is_row_major(value: Value) -> bool:
    natural = row_major(value.shape, value.dtype.itemsize)
    return all(a == b or n == 1 for a, b, n in zip(value.strides, natural, value.shape, strict=True))


def _expanded(rest: Sequence[object], dims: int) -> list[int | None]:
    """Return, for each dimension, its integer index, or None if it stays."""
    given = [k for k in rest if k is not Ellipsis]
    at = next((n for n, k in enumerate(rest) if k is Ellipsis), len(rest))
    full = [None] * (dims - len(given))
    return [k if isinstance(k, int) else None for k in (*given[:at], *full, *given[at:])]


def _row_of(step: Instruction) -> Iterable[tuple[Value, tuple[Value, int]]]:
    """Yield the result of ``x[i]``, or the results of ``unbind(x)``, with ``x`` and the row."""
    if not step.view or step.kind not in _KINDS:
        return
    if step.computes == "index":
        x, index = step.args[0], step.args[1] if len(step.args) == 2 else step.kwargs.get("index")
        first = index[0] if type(index) is tuple and index else index
        rest = index[1:] if type(index) is tuple else ()
        if type(x) is Value and type(first) is int and all(k is Ellipsis or k == slice(None) for k in rest):
            yield step.outs[0], (x, first % x.shape[0])


__all__ = ["MIN_INSTRUCTIONS", "roll_repeats"]
