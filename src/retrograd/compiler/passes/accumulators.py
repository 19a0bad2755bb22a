"""Elementwise code of three operands as code for an accumulator (``kernels/loops/regions/accumulator_code.py``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from ...kernels.loops.elements import fused_steps as steps
from ...kernels.loops.regions import accumulator_code as at

Rows = Sequence[Sequence[int]]
_EXTREMES = {steps.GREATER_EQUAL: steps.MAXIMUM, steps.LESS_EQUAL: steps.MINIMUM}


def operands_of(row: Sequence[int]) -> Sequence[int]:
    """Return the slots that a row reads."""
    operation = row[0]
    if operation < steps.NEGATIVE or operation in steps.FUNCTIONS.values():
        return row[2:4]
    return row[2:5] if operation == steps.CHOOSE else row[2:3]


def with_extremes(rows: Rows) -> list[Sequence[int]]:
    """Replace the selection ``x if x >= y or x != x else y`` by a maximum, and the one with ``<=`` by a minimum."""
    reads = Counter(slot for row in rows for slot in operands_of(row))
    found = list(rows)
    for k in range(len(rows) - 4, -1, -1):
        first, missing, either, chosen = rows[k : k + 4]
        x, y = first[2:4]
        if (
            [first[0] in _EXTREMES, missing[0], either[0], chosen[0]] == [True, steps.NOT_EQUAL, steps.OR, steps.CHOOSE]
            and missing[2:4] == [x, x] and either[2:4] == [first[1], missing[1]] and chosen[2:5] == [either[1], x, y]
            and reads[first[1]] == reads[missing[1]] == reads[either[1]] == 1
        ):  # fmt: skip
            found[k : k + 4] = [[_EXTREMES[first[0]], chosen[1], x, y, x]]
    return found


def accumulated(rows: Rows, mode: Callable[[int], int], kept: Collection[int] = ()) -> list[list[int]]:
    """Return the code of rows, which ends with END.

    A value that only the next row reads stays in the accumulator.

    Args:
        rows: rows as in ``fused_steps.py``; each slot is written once, LOAD_BOOL and STORE_BOOL included.
        mode: the mode of each slot that is read or written.
        kept: the slots that are written to memory, whether or not a row reads them.
    """
    reads = Counter(slot for row in rows for slot in operands_of(row))
    code: list[list[int]] = []
    held = -1
    for number, row in enumerate(rows):
        operation, out, *_ = row
        given = operands_of(row)
        if operation == steps.LOAD_BOOL:
            code.append([at.LOAD_BOOL, given[0], 0])
        elif operation < steps.NEGATIVE:
            x, y = given
            if held == x != y or held != y and not (mode(y) == at.SINGLE != mode(x)):
                code += _loaded(x, held, mode)
                code.append([at.with_operand(operation, mode(y)), y, 0])
            else:
                code += _loaded(y, held, mode)
                code.append([at.with_operand(at.REVERSED[operation], mode(x)), x, 0])
        else:
            code += _loaded(given[0], held, mode)
            if operation == steps.CHOOSE:
                code.append([at.choosing(mode(given[1]), mode(given[2])), *given[1:]])
            elif operation == steps.STORE_BOOL:
                code.append([at.STORE_BOOL, out, 0])
                held = given[0]
                continue
            elif operation != steps.COPY:
                code.append([at.UNARY[operation], 0, 0])
        held = out
        following = rows[number + 1] if number + 1 < len(rows) else None
        if out in kept or reads[out] > (following is not None and _takes(following, out)):
            code.append([at.STORE if mode(out) == at.MOVING else at.STORE_STILL, out, 0])
    return [*code, [at.END, 0, 0]]


def _loaded(slot: int, held: int, mode: Callable[[int], int]) -> list[list[int]]:
    return [] if slot == held else [[at.with_operand(at.LOAD, mode(slot)), slot, 0]]


def _takes(row: Sequence[int], slot: int) -> bool:
    """Return whether a row reads a slot once, and can read it from the accumulator."""
    given = operands_of(row)
    return list(given).count(slot) == 1 and (row[0] < steps.NEGATIVE or given[0] == slot)


def slots_of(row: Sequence[int]) -> Sequence[int]:
    """Return the slots that a row of code reads or writes."""
    operation = row[0]
    if operation > at.STORE_BOOL:
        return row[1:3]
    return () if operation in (at.END, *at.UNARY.values()) else row[1:2]
