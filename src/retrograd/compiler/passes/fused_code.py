"""The code of a group of elementwise steps, which ``kernels/loops/elements/fused_steps.py`` describes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

import numpy as np

from ...kernels.loops.elements import fused_steps as at
from ...kernels.loops.regions import accumulator_code as at_run
from ..program import Value
from .accumulators import accumulated, operands_of, slots_of
from .expressions import Step

_OPERATIONS = {  # operations by their form, in which the operands are in order
    "({0} + {1})": at.ADD, "({0} - {1})": at.SUBTRACT, "({0} * {1})": at.MULTIPLY, "({0} / {1})": at.DIVIDE,
    "({0} if {0} >= {1} or {0} != {0} else {1})": at.MAXIMUM, "({0} if {0} <= {1} or {0} != {0} else {1})": at.MINIMUM,
    "({0} < {1})": at.LESS, "({0} <= {1})": at.LESS_EQUAL, "({0} > {1})": at.GREATER,
    "({0} >= {1})": at.GREATER_EQUAL, "({0} == {1})": at.EQUAL, "({0} != {1})": at.NOT_EQUAL, "({0} and {1})": at.AND,
    "({0} or {1})": at.OR, "(-{0})": at.NEGATIVE, "sqrt({0})": at.SQRT, "abs({0})": at.ABSOLUTE, "(not {0})": at.NOT,
    "{0}": at.COPY, "({1} if {0} else {2})": at.CHOOSE,
}  # fmt: skip

# Minimum operations for which an accumulator is faster: for fewer, loops over blocks move little more memory, and
# their branches are predicted.
MIN_RUN = 4


def code_of(
    steps: Sequence[Step],
    arrays: Sequence[Value],
    direct: Collection[Value],
    numbers: Sequence[object],
    outs: Sequence[Value],
    sums: Sequence[tuple[Value, bool]],
    dtype: np.dtype,
) -> tuple[np.ndarray, int]:
    """Return the code of steps, and the number of registers. The constants 0 and 1 follow ``numbers`` in registers.

    Args:
        steps: the steps in their order.
        arrays: the arrays that are read; slots for results and for partial sums follow.
        direct: those of the arrays whose blocks need no register.
        numbers: the numbers that are read, constants included.
        outs: results.
        sums: values that are summed, and whether along rows.
        dtype: the dtype in which steps compute.
    """
    code = Code(len(arrays) + len(outs) + len(sums), len(numbers) + 2)
    constants = iter([code.fixed + n for n, x in enumerate(numbers) if not isinstance(x, Value)])
    slots = {x: code.fixed + n for n, x in enumerate(numbers) if isinstance(x, Value)}
    one = code.zero + 1
    for number, x in enumerate(arrays):
        slots[x] = number if x in direct else code.do(at.LOADS[x.dtype.name], None, number)
    places = {x: len(arrays) + number for number, x in enumerate(outs)}

    def operand(x: object) -> int:
        if isinstance(x, Value):
            return slots[x]
        return (one if x else code.zero) if isinstance(x, (bool, np.bool_)) else next(constants)

    for step in steps:
        given = [operand(x) for x in step.operands]
        target = places.get(step.out) if step.out.dtype == dtype else None
        slots[step.out] = code.step(step.form, target, given)
        if step.out in places and target is None:
            code.do(at.STORE_BOOL, places[step.out], slots[step.out])
    for number, (x, along) in enumerate(sums, len(arrays) + len(outs)):
        code.do(at.SUM_ROW if along else at.SUM_COLUMNS, number, slots[x])
    return code.allocated()


class Code:
    """Rows of code with an unlimited number of registers, which ``allocated`` reduces by reuse."""

    def __init__(self, fixed: int, numbers: int) -> None:
        self.rows: list[list[int]] = []
        self.fixed = fixed  # slots before the registers
        self.free = self._next = fixed + numbers  # the first register that holds no number
        self.zero = self.free - 2

    def new(self) -> int:
        """Return the next register that is free."""
        self._next += 1
        return self._next - 1

    def do(self, operation: int, out: int | None, *given: int) -> int:
        """Append an operation, and return the slot of its result."""
        if out is None:
            out = self.new()
        self.rows.append([operation, out, *given, *[given[0]] * (3 - len(given))])
        return out

    def step(self, form: str, out: int | None, given: Sequence[int]) -> int:
        """Append the operations of a form, and return the slot of the result."""
        if form in _OPERATIONS:
            return self.do(_OPERATIONS[form], out, *given)
        x, zero = given[0], self.zero
        if form == "({0} * {0})":
            return self.do(at.MULTIPLY, out, x, x)
        if form == "keep_where_not_zero({0}, {1})":
            return self.do(at.CHOOSE, out, self.do(at.EQUAL, None, given[1], zero), zero, x)
        if form == "({0} != {0})":
            return self.do(at.NOT_EQUAL, out, x, x)
        if form == "({0} - {0} == {zero})":
            return self.do(at.EQUAL, out, self.do(at.SUBTRACT, None, x, x), zero)
        if form == "({0} == {0} and {0} - {0} != {zero})":
            known, away = self.do(at.EQUAL, None, x, x), self.do(at.SUBTRACT, None, x, x)
            return self.do(at.AND, out, known, self.do(at.NOT_EQUAL, None, away, zero))
        return self.do(at.FUNCTIONS[form.partition("(")[0]], out, *given)

    def allocated(self) -> tuple[np.ndarray, int]:
        """Return the code, and the number of registers, which are reused after their last read.

        No function writes a register that it reads: loops over overlapping blocks are slower.
        """
        reads = Counter(slot for row in self.rows for slot in operands_of(row))
        items: list[tuple[list[int], list[int]]] = []  # rows, or rows of accumulators, and the slots that they use
        runs = []
        for run, some in groupby(self.rows, _runs):
            rows = list(some)
            if run and len(rows) >= MIN_RUN:
                inside = Counter(slot for row in rows for slot in operands_of(row))
                kept = {row[1] for row in rows if row[1] < self.fixed or reads[row[1]] > inside[row[1]]}
                code = accumulated(rows, lambda slot: at_run.SINGLE if self._is_number(slot) else at_run.MOVING, kept)
                runs.append((len(items), len(code)))
                items += [(row, list(slots_of(row))) for row in code]
            else:
                items += [(row, row[1:]) for row in rows]
        last = {slot: index for index, (_, slots) in enumerate(items) for slot in slots}
        place: dict[int, int] = {}
        free: list[int] = []
        used, placed = self.free, []
        for index, (row, slots) in enumerate(items):
            for slot in slots:
                if slot >= self.free and slot not in place:
                    if not free:
                        free.append(used)
                        used += 1
                    place[slot] = free.pop()
            words = [row[0], *[place.get(slot, slot) for slot in slots]]
            placed.append([*words, *[0] * (len(row) - len(words))])
            free += _ended(place, last, index)
        return _joined(placed, runs), used - self.fixed

    def _is_number(self, slot: int) -> bool:
        return self.fixed <= slot < self.free


def _runs(row: Sequence[int]) -> bool:
    """Return whether an accumulator executes a row."""
    return row[0] < at.LOAD_FLOAT32 or row[0] == at.STORE_BOOL


def _joined(rows: Sequence[list[int]], runs: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return the code with all accumulator rows, whose positions and numbers are ``runs``, behind the other rows."""
    counts = dict(runs)
    size = len(rows) - sum(counts.values()) + len(counts) + 1
    main: list[list[int]] = []
    behind: list[int] = []
    index = 0
    while index < len(rows):
        count = counts.get(index)
        if count is None:
            main.append(rows[index])
        else:
            main.append([at.RUN, size + len(behind) // 5, 0, 0, 0])
            words = [word for row in rows[index : index + count] for word in row]
            behind += [*words, *[0] * (-len(words) % 5)]
        index += count or 1
    main.append([at.DONE, 0, 0, 0, 0])
    return np.array([*main, *np.reshape(behind, (-1, 5)).tolist()], np.int64).reshape(-1, 5)


def _ended(place: dict[int, int], last: dict[int, int], index: int) -> Iterable[int]:
    """Remove the registers that are not used after a row, and return their places."""
    return [place.pop(slot) for slot in [slot for slot in place if last[slot] <= index]]
