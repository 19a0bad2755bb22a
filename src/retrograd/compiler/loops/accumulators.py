"""Arrays of which each step of a loop writes one row, at an index that depends on the step.

``table[i] = v`` and the gradient of ``x[i]`` write rows that no step reads again. The loop then returns the rows, and
the program writes all of them after the loop. The gradient of ``table[i] = v`` reads a row of a gradient and clears it:
the loop takes all rows as a slice, and the program clears them after the loop.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..program import Arguments, Function, Instruction, Value

Operand: TypeAlias = tuple[str, Any]  # the kind of a value's source, and the value or its number


class Index(NamedTuple):
    """The rows ``first``, ``first + step``, ..., one for each block."""

    first: int
    step: int

    def key(self, count: int) -> slice:
        """Return the index of all rows, in the order of the blocks."""
        stop = self.first + self.step * count
        return slice(self.first, stop if stop >= 0 else None, self.step)


class Rows(NamedTuple):
    """Rows that are written after the loop.

    Attributes:
        kind: ``place`` adds the rows to an array, ``erase`` clears them in a copy, ``store`` writes them.
        array: the array before the loop.
        result: the number of the block's result that equals the array after the loop; None for ``store``.
        parts: for each index, the result of a block that is written there.
    """

    kind: str
    array: Value
    result: int | None
    parts: tuple[tuple[int | None, Index], ...]


class Block:
    """The instructions of a block, and for each argument whether this or the previous block computes it.

    Attributes:
        steps: the instructions.
        made: by value, its number among the results of the block.
        sources: for each instruction, for each argument a pair of ``own``, ``carry`` or ``outside``, and the number of
            the result or the value.
        readers: by source, the instructions that read it.
    """

    def __init__(self, steps: Sequence[Instruction], sources: Sequence[Sequence[Operand]]) -> None:
        self.steps, self.sources = steps, sources
        outs = [(number, value) for number, step in enumerate(steps) for value in step.outs]
        self.made = {value: k for k, (_, value) in enumerate(outs)}
        self.maker = [number for number, _ in outs]
        self.readers: dict[Operand, list[int]] = {}
        for number, row in enumerate(sources):
            for source in row:
                self.readers.setdefault(source, []).append(number)


def accumulators(
    block: Block,
    numbers: dict[int, tuple[str, Index]],
    carried: dict[int, list[Value]],
    leaves: Callable[[int, bool], bool],
) -> tuple[list[Rows], set[int]]:
    """Return the arrays that the loop need not compute, and the instructions that are removed for them.

    Args:
        block: the block.
        numbers: the instructions with an index that depends on the block: ``place``, ``erase``, ``store`` or ``index``.
        carried: the values before the loop of results that the next block reads.
        leaves: ``leaves(k, last)`` returns whether the program reads result k of a block; the last block counts only
            if ``last``.
    """
    found: list[Rows] = []
    gone: set[int] = set()
    for k, chain in carried.items():
        if len(chain) == 1 and not leaves(k, False) and ("own", k) not in block.readers:
            ends = _placed(block, numbers, k, chain[0], leaves) or _erased(block, numbers, k, chain[0])
            if ends is not None:
                found.append(ends[0])
                gone |= ends[1]
    for number, (kind, index) in numbers.items():
        if kind == "store":
            stored = _stored(block, number, index)
            if stored is not None:
                found.append(stored)
                gone.add(number)
    return found, gone


def _placed(
    block: Block, numbers: dict[int, tuple[str, Index]], k: int, start: Value, leaves: Callable[[int, bool], bool]
) -> tuple[Rows, set[int]] | None:
    """Return the rows of ``sum += place(v, i)``, if nothing else reads the sum."""
    parts: list[tuple[int | None, Index]] = []
    gone: set[int] = set()
    now: Operand = "carry", (k, 1)
    while now != ("own", k):
        readers = block.readers.get(now, [])
        if len(readers) != 1:
            return None
        number = readers[0]
        add, sources = block.steps[number], block.sources[number]
        if add.function not in (np.add, operator.add) or len(sources) != 2 or len(add.args) != 2 or add.kwargs:
            return None
        other = sources[1] if sources[0] == now else sources[0]
        maker = block.maker[other[1]] if other[0] == "own" else -1
        kind, index = numbers.get(maker, ("", Index(0, 0)))
        if kind != "place" or block.readers[other] != [number] or leaves(other[1], True):
            return None
        value = block.sources[maker][0]
        if value[0] != "own" or block.steps[maker].outs[0].shape != start.shape:
            return None
        parts.append((value[1], index))
        gone |= {number, maker}
        now = "own", block.made[add.outs[0]]
        if now != ("own", k) and leaves(now[1], True):
            return None
    return Rows("place", start, k, tuple(parts)), gone


def _erased(block: Block, numbers: dict[int, tuple[str, Index]], k: int, start: Value) -> tuple[Rows, set[int]] | None:
    """Return the rows of ``g = erase(g, i)``, if blocks read nothing of ``g`` but ``g[i]``."""
    number = block.maker[k]
    kind, index = numbers.get(number, ("", Index(0, 0)))
    if kind != "erase" or block.sources[number] != [("carry", (k, 1))]:
        return None
    for reader in block.readers[("carry", (k, 1))]:
        if reader != number and numbers.get(reader) != ("index", index):
            return None
    return Rows("erase", start, k, ((None, index),)), {number}


def _stored(block: Block, number: int, index: Index) -> Rows | None:
    """Return the rows of ``table[i] = v``, if the block does nothing else with the table."""
    step = block.steps[number]
    (table,) = step.writes
    if table.root in block.made or table.root is not table:
        return None
    for other, row in zip(block.steps, block.sources, strict=True):
        for value, source in zip(other.read, row, strict=True):
            if other is not step and value.root is table.root or source[0] != "outside" and value.root is table.root:
                return None
    value = step.read[-1]
    source = block.sources[number][-1]
    if source[0] != "own" or value.shape != table.shape[1:] or value.dtype != table.dtype:
        return None
    return Rows("store", table, None, ((source[1], index),))


def written_rows(
    rows: Rows, count: int, stacks: Sequence[Value | None], result: Value | None, new: Callable[[Value], Value]
) -> list[Instruction]:
    """Return the instructions that write the rows after the loop.

    Args:
        rows: the rows.
        count: the number of blocks.
        stacks: for each part, the values of all blocks, in their order.
        result: the array after the loop.
        new: returns a new value with the shape and dtype of a given value.
    """
    out: list[Instruction] = []

    def put(array: Value, index: Index, value: object) -> None:
        out.append(Instruction("array", operator.setitem, (array, index.key(count), value), None, (), (array,)))

    def made(function: Function, args: Arguments, value: Value) -> Value:
        step = Instruction("array", function, args, None, (value,))
        step.paths = ((),)
        out.append(step)
        return value

    if rows.kind == "store":
        put(rows.array, rows.parts[0][1], stacks[0])
        return out
    assert result is not None
    if rows.kind == "erase":
        put(made(np.array, (rows.array,), result), rows.parts[0][1], 0)
        return out
    total = rows.array
    for number, ((_, index), stack) in enumerate(zip(rows.parts, stacks, strict=True)):
        zeros = made(np.zeros, (rows.array.shape, rows.array.dtype), new(rows.array))
        put(zeros, index, stack)
        total = made(np.add, (total, zeros), result if number == len(rows.parts) - 1 else new(rows.array))
    return out


__all__ = ["Block", "Index", "Rows", "accumulators", "written_rows"]
