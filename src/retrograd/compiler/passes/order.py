"""Find dependencies between instructions, and replace accumulation in place by sums with new values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..program import Instruction, Value, replaced

LARGE_BYTES = 1 << 20  # minimum bytes of a program's largest array for which guards move to the beginning
# The maximum bytes of an array that a guard at the beginning needs.
SMALL_BYTES = 1 << 16


def dependencies(steps: Sequence[Instruction], takes: Iterable[Value]) -> list[set[int]]:
    """Return, for each instruction, the indices of the instructions that must run before it.

    Memory is identified by the root of a value. A reader of memory runs after the last write before it and before the
    next write. Effects, random draws and checks keep their order, and an effect keeps its order with all reads and
    writes of memory from outside.
    """
    outer = {value.root for value in takes}
    maker: dict[Value, int] = {}
    writer: dict[Value, int] = {}
    readers: dict[Value, set[int]] = {}
    ordered: int | None = None
    effect: int | None = None
    since_effect: set[int] = set()  # readers and writers of outer memory
    before: list[set[int]] = []
    for index, step in enumerate(steps):
        values = list(step.reads())
        roots = {value.root for value in values}
        needs = {maker[value] for value in values if value in maker}
        needs.update(writer[root] for root in roots if root in writer)
        touches = bool(roots & outer)
        if touches and effect is not None:
            needs.add(effect)
        for root in {value.root for value in step.writes}:
            needs |= readers.pop(root, set())
            if root in maker:
                needs.add(maker[root])
            writer[root] = index
        for root in roots:
            readers.setdefault(root, set()).add(index)
        if touches:
            since_effect.add(index)
        if step.kind in ("draw", "guard", "effect") or step.checks:
            if ordered is not None:
                needs.add(ordered)
            ordered = index
        if step.kind == "effect":
            needs |= since_effect
            effect, since_effect = index, set()
        for out in step.outs:
            maker[out] = index
        needs.discard(index)
        before.append(needs)
    return before


def guards_before_effects(steps: list[Instruction]) -> list[Instruction]:
    """Move guards that depend only on memory not yet written, and what they need, before the first effect.

    A change of an object cannot be undone, so a guard must abort a replay before the first effect. In programs with
    large arrays, guards on small arrays (such as labels) come first of all: after them the memory of the last gradients
    is free.
    """
    first = next((index for index, step in enumerate(steps) if step.kind == "effect"), len(steps))
    steps = _guards_moved(steps, first, None)
    if any(out.nbytes >= LARGE_BYTES for step in steps for out in step.outs):
        steps = _guards_moved(steps, 0, SMALL_BYTES)
    return steps


def _guards_moved(steps: list[Instruction], first: int, most: int | None) -> list[Instruction]:
    """Move guards to ``first``; with ``most``, only guards that need no array of more than ``most`` bytes."""
    written: set[Value] = set()
    maker: dict[Value, int] = {}
    movable: set[int] = set()
    moved: set[int] = set()
    for index in range(first, len(steps)):
        step = steps[index]
        pure = step.kind in ("array", "primitive", "whole", "guard") and not step.writes
        values = list(step.reads())
        sources = {maker[value] for value in values if value in maker}
        if pure and sources <= movable and not any(value.root in written for value in values):
            movable.add(index)
            chain: set[int] = set()
            waiting = [index] if step.kind == "guard" else []
            while waiting:
                at = waiting.pop()
                chain.add(at)
                waiting += [maker[v] for v in steps[at].reads() if v in maker and maker[v] not in moved | chain]
            if most is None or all(out.nbytes <= most for at in chain for out in steps[at].outs):
                moved |= chain
        written.update(value.root for value in (*step.writes, *(values if step.kind == "effect" else ())))
        maker.update(dict.fromkeys(step.outs, index))
    if not moved:
        return steps
    rest = [step for index, step in enumerate(steps[first:], first) if index not in moved]
    return [*steps[:first], *[steps[index] for index in sorted(moved)], *rest]


def versions(instructions: Sequence[Instruction], takes: Iterable[Value]) -> list[Instruction]:
    """Replace accumulation in the program's own memory (``np.add(a, b, out=a)``) by sums with a new value each.

    The last sum has the original value, to which other instructions refer.
    """
    steps = list(instructions)
    if not any(step.writes and step.function is np.add for step in steps):
        return steps
    spoiled = {value.root for value in takes}
    lives: dict[Value, list[int]] = {}  # for memory without views: the instructions that write it
    viewed: dict[Value, int] = {}  # the first instruction with another value in that memory
    given: set[Value] = set()  # memory that effects read: the user would see later writes
    number = 0
    for index, step in enumerate(steps):
        for out in step.outs:
            if out.root is out and not step.view and out not in spoiled:
                lives[out] = [index]
            else:
                viewed.setdefault(out.root, index)
                if out.root is out:
                    spoiled.add(out)
            number = max(number, out.index)
        for value in step.read:
            if value.root is not value:
                viewed.setdefault(value.root, index)
            number = max(number, value.index)
        for value in step.writes:
            if value in lives and value not in given and value not in viewed and _adds_to(step, value):
                lives[value].append(index)
            else:
                spoiled.add(value.root)
        if step.kind == "effect":
            given.update(step.read)
    number += 1
    added = {value: places for value, places in lives.items() if len(places) > 1 and value not in spoiled}
    readers: dict[Value, list[int]] = {value: [] for value in added}
    for index, step in enumerate(steps):
        for value in step.read:
            if value in readers:
                readers[value].append(index)
    for value, places in added.items():
        current = value
        following = iter((*places[1:], len(steps)))
        later = iter(dict.fromkeys(readers[value]))
        at = next(later, len(steps))
        for place in places:
            older, last, until = current, place == places[-1], next(following)
            current = value if last else Value(number, value)
            number += 1
            step = steps[place]
            if place == places[0]:
                steps[place] = step.changed(outs=tuple(current if out is value else out for out in step.outs))
            else:
                args = _renamed(step.args, value, older)
                steps[place] = step.changed(args=args, kwargs={}, outs=(current,), writes=())
            while at < until:
                if at > place and not last:
                    reader = steps[at]
                    args, kwargs = (_renamed(part, value, current) for part in (reader.args, reader.kwargs))
                    steps[at] = reader.changed(args=args, kwargs=kwargs)
                at = next(later, len(steps))
    return steps


def _renamed(nest: object, old: Value, new: Value) -> Any:
    return replaced(nest, lambda value: new if value is old else value)


def _adds_to(step: Instruction, value: Value) -> bool:
    """Return whether an instruction is ``np.add(value, other, out=value)``."""
    return (
        step.function is np.add
        and set(step.kwargs) == {"out"}
        and step.kwargs["out"] is value
        and len(step.args) == 2
        and step.args[0] is value
        and not step.outs
        and all(type(other) is not Value or other.dtype == value.dtype for other in step.args)
    )
