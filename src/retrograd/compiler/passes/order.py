"""What has to run before what, and writes into the program's own memory as new values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..program import Instruction, Value, replaced


def dependencies(steps: Sequence[Instruction], takes: Iterable[Value]) -> list[set[int]]:
    """For each instruction the numbers of those that must have run before.

    Memory is that of a value's root. Whoever reads it runs after its last writer and before its next. What changes
    objects of the program's user, asks for random numbers or may give up keeps its order, and effects find all memory
    from outside as it was.
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


def versions(instructions: Sequence[Instruction], takes: Iterable[Value]) -> list[Instruction]:
    """Sums into memory of the program's own (``np.add(a, b, out=a)``) as ordinary sums, with a name for each.

    The last of them keeps the value's name, by which everybody else knows it.
    """
    steps = list(instructions)
    spoiled = {value.root for value in takes}
    lives: dict[Value, list[int]] = {}  # of memory that only its owner names: its maker, and who writes to it
    given: set[Value] = set()  # to the user, who sees what is written later
    for index, step in enumerate(steps):
        for out in step.outs:
            if out.root is out and not step.view and out not in spoiled:
                lives[out] = [index]
            else:
                spoiled.add(out.root)
        spoiled.update(value.root for value in step.reads() if value.root is not value)
        for value in step.writes:
            if value in lives and value not in given and _adds_to(step, value):
                lives[value].append(index)
            else:
                spoiled.add(value.root)
        if step.kind == "effect":
            given.update(step.reads())
    number = 1 + max((value.index for step in steps for value in (*step.reads(), *step.outs)), default=0)
    for value, places in lives.items():
        if value in spoiled or len(places) == 1:
            continue
        current = value
        for place, following in zip(places, [*places[1:], len(steps)], strict=True):
            older, last = current, place == places[-1]
            current = value if last else Value(number, value)
            number += 1
            step = steps[place]
            if place == places[0]:
                steps[place] = step.changed(outs=tuple(current if out is value else out for out in step.outs))
            else:
                args = _renamed(step.args, value, older)
                steps[place] = step.changed(args=args, kwargs={}, outs=(current,), writes=())
            if not last:
                for later in range(place + 1, following):
                    args, kwargs = (_renamed(part, value, current) for part in (steps[later].args, steps[later].kwargs))
                    if args is not steps[later].args or kwargs is not steps[later].kwargs:
                        steps[later] = steps[later].changed(args=args, kwargs=kwargs)
    return steps


def _renamed(nest: object, old: Value, new: Value) -> Any:
    return replaced(nest, lambda value: new if value is old else value)


def _adds_to(step: Instruction, value: Value) -> bool:
    """Whether an instruction is ``np.add(value, other, out=value)``."""
    return (
        step.function is np.add
        and set(step.kwargs) == {"out"}
        and step.kwargs["out"] is value
        and len(step.args) == 2
        and step.args[0] is value
        and not step.outs
        and all(type(other) is not Value or other.dtype == value.dtype for other in step.args)
    )
