"""Match the arguments of the blocks of a run, so that one block can represent all.

In each block an argument is a value of the same block, of a fixed number of blocks before (a carry), the same value
from outside in all blocks, or another value from outside for each block (a slice). All blocks are compared at once, as
arrays of the numbers of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...core.arrays import Array
from ...core.arrays.dtypes import DType
from ..program import Instruction, Value
from .accumulators import Block, Index, Operand, Rows, accumulators
from .signatures import index_of, place_of_number

Numbers: TypeAlias = tuple[str, Any]  # numbers that differ between blocks: an ``Index``, or a list for an ``operand``

MIN_BLOCKS = 4
MAX_DISTANCE = 4  # maximum distance, in blocks, from the step that computes a carry to its reader
MAX_TRIES = 4
_FAR = -(1 << 60)


class Run(NamedTuple):
    """``blocks`` blocks of ``period`` instructions, from ``start`` on."""

    start: int
    period: int
    blocks: int

    @property
    def stop(self) -> int:
        return self.start + self.period * self.blocks

    @property
    def saved(self) -> int:
        """The number of instructions that a loop saves."""
        return self.period * (self.blocks - 1)


class Table:
    """A program as arrays of the numbers of its values."""

    def __init__(self, steps: Sequence[Instruction], gives: Sequence[Value]) -> None:
        self.steps = steps
        self.reads = np.array([value.index for step in steps for value in step.read], np.int64)
        self.outs = np.array([value.index for step in steps for value in step.outs], np.int64)
        self.first_read = np.cumsum([0, *[len(step.read) for step in steps]])
        self.first_out = np.cumsum([0, *[len(step.outs) for step in steps]])
        given = [value.index for value in gives]
        size = 1 + max([int(self.reads.max(initial=0)), int(self.outs.max(initial=0)), *given])
        self.given = np.array(given, np.int64)
        self.maker = np.full(size, _FAR, np.int64)
        self.maker[self.outs] = np.arange(len(self.outs))
        self.size = size


class Match:
    """One block of a run as the body of a loop.

    Attributes:
        run: the run of those blocks that match.
        middle: the block whose instructions are the ``template``.
        carried: for each result that later blocks read (by its number in a block), the values that replace it in the
            blocks before the run, from the last block backwards.
        slices: the values from outside, one for each block.
        numbers: plain numbers, one for each block, and the dtype of the operations that read them.
        indexed: for each ``x[i, ...]`` with another ``i`` in each block: x, the first i, its step, the other indices.
        dropped: the instructions ``x[i, ...]`` of a block, with the place of the input that replaces the result.
        same: the values from outside that all blocks read.
        kept: the results that other parts of the program read from several blocks.
        last_only: the results that other parts read from the last block only, and that no block reads.
        leaving: the result and block of each value that other parts read.
        rows: the arrays of which each block writes one row; the program writes all rows after the loop.
        gone: the instructions of a block that are removed for ``rows``.
        ends: by result, the value after the loop of an array in ``rows``.
        written: the values in ``same`` to whose memory all blocks write.
        inputs: values like the carries, slices, numbers and indexed arrays, in this order.
    """

    def __init__(self, table: Table, run: Run) -> None:
        self.table, self.run = table, run
        self.middle = run.blocks // 2
        at = run.start + run.period * self.middle
        self.template = table.steps[at : at + run.period]
        begin, end = int(table.first_read[run.start]), int(table.first_read[run.stop])
        self._columns = table.reads[begin:end].reshape(run.blocks, -1)
        self._base = int(table.first_out[run.start])
        self._outs = table.outs[self._base : int(table.first_out[run.stop])].reshape(run.blocks, -1)
        self._values: dict[int, Value] = {}
        self.carried: dict[int, list[Value]] = {}
        self.slices: list[list[Value]] = []
        self.numbers: list[tuple[list[float], DType]] = []
        self.indexed: list[tuple[Value, int, int, tuple[object, ...]]] = []
        self.dropped: dict[int, int] = {}
        self.same: list[Value] = []
        self.kept: list[int] = []
        self.last_only: list[int] = []
        self.leaving: list[tuple[int, int]] = []
        self.inputs: list[Value] = []
        self._sources: list[Operand] = []
        self._numbers_of: dict[int, int] = {}
        self.rows: list[Rows] = []
        self.gone: set[int] = set()
        self.ends: dict[int, Value] = {}
        self.written: list[Value] = []

    @staticmethod
    def of(table: Table, run: Run, loose: bool) -> Match | None:
        """Return the match of the longest matching part of a run; None if fewer than ``MIN_BLOCKS`` match."""
        for _ in range(MAX_TRIES):
            if run.blocks < MIN_BLOCKS:
                return None
            match = Match(table, run)
            bad = match._compare()
            if not bad.any():
                return match if match._collect(loose) else None
            run = _longest_part(run, bad)
        return None

    def out(self, block: int, k: int) -> Value:
        """Return a result of a block; before the first block, the initial value of the result."""
        if block < 0:
            return self.carried[k][-1 - block]
        step, number = self._makers[k]
        return self.table.steps[self.run.start + block * self.run.period + step].outs[number]

    def given(self) -> list[Value]:
        """Return the values that carries and slices consist of."""
        rows = [value for chain in self.carried.values() for value in chain]
        return rows + [value for row in self.slices for value in row] + [x for x, *_ in self.indexed]

    def sources(self, number: int) -> list[Operand]:
        """Return the source of each argument of a template's instruction: the template, an input, or outside."""
        first = self.table.first_read
        at = self.run.start + self.run.period * self.middle
        base = int(first[at])
        return self._sources[int(first[at + number]) - base : int(first[at + number + 1]) - base]

    def number_of(self, number: int) -> int | None:
        """Return the place of the input that replaces the plain number of an instruction, if it has one."""
        return self._numbers_of.get(number)

    def _compare(self) -> Array:
        """Return the blocks whose arguments do not match those of the middle block."""
        run, width = self.run, self._outs.shape[1]
        place = self.table.maker[self._columns] - self._base
        self._inside = (place >= 0) & (place < run.blocks * width)
        block, self._k = np.divmod(np.where(self._inside, place, 0), max(width, 1))
        here = np.arange(run.blocks)[:, None]
        self._distance = np.where(self._inside, here - block, 0)
        inside, distance, k = (x[self.middle] for x in (self._inside, self._distance, self._k))
        good = self._inside & (self._distance == distance) & (self._k == k) | ~self._inside & (here < distance)
        good = np.where(inside, good & (distance >= 0) & (distance <= MAX_DISTANCE), ~self._inside)
        bad = np.asarray(~good.all(1))
        self._makers = [(n, k) for n, step in enumerate(self.template) for k in range(len(step.outs))]
        if bad.any() or self._start_values():
            return bad
        bad[0] = True  # arguments that are one carry differ in the first block
        return bad

    def _start_values(self) -> bool:
        """Find the initial values of carries; return whether they are unique."""
        inside, distance, k = (x[self.middle] for x in (self._inside, self._distance, self._k))
        starts: dict[tuple[int, int], int] = {}
        for column in np.flatnonzero(inside & (distance > 0)):
            d, which = int(distance[column]), int(k[column])
            for block in range(d):
                place = int(self._columns[block, column])
                if starts.setdefault((which, d - block), place) != place:
                    return False
        steps, first = self.table.steps, self.run.start
        for step in steps[first : first + MAX_DISTANCE * self.run.period]:
            for value in step.read:
                self._values[value.index] = value
        for which, d in sorted(starts):
            chain = self.carried.setdefault(which, [])
            if len(chain) != d - 1:
                return False
            chain.append(self._values[starts[which, d]])
        return True

    def _collect(self, loose: bool) -> bool:
        """Fill the attributes; return whether the blocks are a loop."""
        run, steps = self.run, self.table.steps
        numbers = self._find_numbers() if loose else {}
        if numbers is None:
            return False
        self._find_leaving()
        if not self._find_accumulators(numbers):
            return False
        carry_place: dict[tuple[int, int], int] = {}
        for k, chain in self.carried.items():
            for distance in range(1, len(chain) + 1):
                carry_place[k, distance] = len(self.inputs)
                self.inputs.append(self.out(self.middle, k))
        self.inputs += [self.out(self.middle, k) for k in self.last_only]
        found: dict[bytes, int] = {}
        same: dict[int, Value] = {}
        own = [value for step in self.template for value in step.read]
        owner = [number for number, step in enumerate(self.template) for _ in step.read]
        pending: list[Array] = []
        for column in range(self._columns.shape[1]):
            value, row = own[column], self._columns[:, column]
            if self._inside[self.middle, column]:
                distance, k = int(self._distance[self.middle, column]), int(self._k[self.middle, column])
                source: Operand = ("own", value) if distance == 0 else ("input", carry_place.get((k, distance)))
            elif (row == row[0]).all():
                source = "same", value
                if owner[column] not in self.gone and numbers.get(owner[column], ("",))[0] != "index":
                    same.setdefault(value.index, value)
            else:
                key = row.tobytes()
                if key not in found:
                    found[key] = len(self.inputs)
                    self.inputs.append(value)
                    pending.append(row)
                source = "input", found[key]
            self._sources.append(source)
        wanted = {int(x) for row in pending for x in row}
        for step in steps[run.start : run.stop] if wanted else ():
            self._values.update((value.index, value) for value in step.read if value.index in wanted)
        self.slices = [[self._values[int(x)] for x in row] for row in pending]
        for number, (kind, what) in numbers.items():
            if kind == "operand":
                value = next(x for x in self.template[number].args if type(x) is Value)
                self._numbers_of[number] = len(self.inputs)
                self.numbers.append((what, value.dtype))
                self.inputs.append(Value(-1, np.zeros((), value.dtype)))
        for number, (kind, what) in numbers.items():
            if kind == "index":
                step = self.template[number]
                index = index_of(step)
                rest = index[1:] if type(index) is tuple else ()
                rest = () if all(k is Ellipsis or k == slice(None) for k in rest) else rest
                self.dropped[number] = len(self.inputs)
                self.indexed.append((self._indexed_array(number), what.first, what.step, rest))
                self.inputs.append(step.outs[0])
        self.same = [*same.values()]
        return True

    def _indexed_array(self, number: int) -> Value:
        """Return the array of ``x[i]`` before the loop."""
        kind, what = self._block.sources[number][0]
        return self._starts[what[0]] if kind == "carry" else self.template[number].read[0]

    def _find_accumulators(self, numbers: dict[int, Numbers]) -> bool:
        """Find arrays of which each block writes one row; return whether these arrays account for all such writes."""
        first = self.table.first_read
        at = self.run.start + self.run.period * self.middle
        sources = []
        for number, step in enumerate(self.template):
            row: list[Operand] = []
            for column, value in enumerate(step.read, int(first[at + number]) - int(first[at])):
                distance, k = int(self._distance[self.middle, column]), int(self._k[self.middle, column])
                inside = self._inside[self.middle, column]
                row.append(("outside", value) if not inside else ("carry", (k, distance)) if distance else ("own", k))
            sources.append(row)
        self._block = Block(self.template, sources)
        last = self.run.blocks - 1

        def leaves(k: int, of_last: bool) -> bool:
            return any(number == k and (of_last or block < last) for number, block in self.leaving)

        self._starts = {k: chain[0] for k, chain in self.carried.items()}
        indexed = {number: place for number, place in numbers.items() if place[0] != "operand"}
        self.rows, self.gone = accumulators(self._block, indexed, self.carried, leaves)
        self.ends = {rows.result: self.out(last, rows.result) for rows in self.rows if rows.result is not None}
        for k in self.ends:
            del self.carried[k]
        for rows in self.rows:
            for part, _ in rows.parts:
                if part is not None:
                    if part not in self.kept:
                        self.kept.append(part)
                    if part in self.last_only:
                        self.last_only.remove(part)
        for number, (kind, _) in indexed.items():
            if kind in ("place", "erase", "store") and number not in self.gone:
                return False
            if kind == "index":
                source, what = self._block.sources[number][0]
                if source == "own" or source == "carry" and what[0] not in self.ends:
                    return False
        return True

    def _find_leaving(self) -> None:
        """Find the results that other parts of the program read."""
        run, table = self.run, self.table
        used = np.zeros(table.size, bool)
        used[table.reads[: table.first_read[run.start]]] = True
        used[table.reads[table.first_read[run.stop] :]] = True
        used[table.given] = True
        read = used[self._outs]
        for k in map(int, np.flatnonzero(read.any(0))):
            self.leaving += [(k, int(block)) for block in np.flatnonzero(read[:, k])]
            if not read[:-1, k].any():
                if k not in self.carried:
                    self.last_only.append(k)
            else:
                self.kept.append(k)

    def _find_numbers(self) -> dict[int, Numbers] | None:
        """Return the instructions of a block whose numbers differ between blocks; None if they do not form a slice."""
        run, steps = self.run, self.table.steps
        found: dict[int, Numbers] = {}
        for number, like in enumerate(self.template):
            place = place_of_number(like)
            if place is None:
                continue
            others = [place_of_number(steps[run.start + block * run.period + number]) for block in range(run.blocks)]
            numbers: list[int] = [other[1] for other in others if other is not None and other[0] == place[0]]
            if len(numbers) < run.blocks:
                return None
            if all(x == numbers[0] and str(x) == str(numbers[0]) for x in numbers):
                continue
            if place[0] == "operand":
                found[number] = "operand", numbers
                continue
            x = like.outs[0] if place[0] == "place" else like.read[0]
            numbers = [i + x.shape[0] if i < 0 else i for i in numbers]
            step = numbers[1] - numbers[0]
            if step == 0 or any(i != numbers[0] + step * n for n, i in enumerate(numbers)):
                return None
            found[number] = place[0], Index(numbers[0], step)
        return found


def _longest_part(run: Run, bad: Array) -> Run:
    """Return the longest run of successive blocks that are not bad."""
    edges = np.flatnonzero(np.diff(np.concatenate(([True], bad, [True]))))
    begins, ends = edges[::2], edges[1::2]
    if not len(begins):
        return run._replace(blocks=0)
    at = int(np.argmax(ends - begins))
    begin, end = int(begins[at]), int(ends[at])
    if end - begin == run.blocks:
        return run._replace(blocks=0)
    return Run(run.start + begin * run.period, run.period, end - begin)


__all__ = ["MIN_BLOCKS", "Match", "Run", "Table"]
