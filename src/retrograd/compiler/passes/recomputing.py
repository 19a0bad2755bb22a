"""Compute large intermediate results again for the backward pass, where that costs little and saves memory.

An eager graph does so for the inputs of linear layers (``core/graph/recomputed.py``), but a trace keeps every array
that a derivative rule has read. The result of an elementwise function or a normalization is computed again before its
reader in the backward pass, if the inputs of the function are still in memory there. Programs with small arenas, and
programs whose arena would not shrink because a ``Host`` (``run/arenas.py``) contains the results, compute everything
once. Where the next backward instruction is the function's derivative, both are computed in one pass over its input.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from ..program import Instruction, Value, replaced
from ..run.arenas import Plan
from ..trace.effects import clear_grad, set_grad
from .expressions import row_major, wrapped
from .overwriting import allocates

MIN_ARENA = 1 << 24  # minimum bytes of an arena: saving memory of smaller arenas is not worth the time
# The minimum bytes of a result that is computed again.
MIN_BYTES = 1 << 20
MIN_GAIN = 0.05  # minimum fraction of the arena that recomputing must save
MIN_DISTANCE = 8  # minimum instructions between the forward readers and the backward readers


def recomputed(
    instructions: Sequence[Instruction], takes: Sequence[Value], gives: Sequence[Value], cleared: int
) -> list[Instruction]:
    """Return the program with cheap results computed twice, if it needs less memory.

    ``takes`` are the values from outside, ``gives`` the results, and gradients are cleared before ``cleared``.
    """
    steps = list(instructions)
    places = _recompute_before(steps, takes, gives)
    held = {value.root for value in (*takes, *gives)}
    held.update(value.root for step in steps if step.kind == "effect" for value in step.read)
    if not places:
        return steps
    size = Plan(steps, takes, gives, cleared).size
    if size < MIN_ARENA:
        return steps
    new = _with_copies(steps, places, held)
    return new if Plan(new, takes, gives, cleared).size <= (1 - MIN_GAIN) * size else steps


def _recompute_before(steps: Sequence[Instruction], takes: Iterable[Value], gives: Iterable[Value]) -> dict[int, int]:
    """Return, by the instruction of a result, the instruction before which to compute it again."""
    outer = {value.root for value in takes}
    held = outer | {value.root for value in gives}
    readers: dict[Value, list[int]] = {}
    last: dict[Value, int] = {}
    written: dict[Value, list[int]] = {}
    viewed: set[Value] = set()
    acting: list[int] = []  # effects that may write to memory from outside
    for index, step in enumerate(steps):
        for value in dict.fromkeys(step.read):
            readers.setdefault(value, []).append(index)
            last[value.root] = index
        for value in step.writes:
            written.setdefault(value.root, []).append(index)
        viewed.update(out.root for out in step.outs if out.root is not out)
        if step.kind == "effect":
            held.update(value.root for value in step.read)
            if step.function not in (set_grad, clear_grad):
                acting.append(index)
    found: dict[int, int] = {}
    for index, step in enumerate(steps):
        if step.kind != "primitive" or not step.primitive.cheap or step.writes or step.view or step.on_gpu:
            continue
        out = step.outs[0]
        if step.backward or step.checks or out.shape is None or out.nbytes < MIN_BYTES or out.root is not out:
            continue
        late = next((at for at in readers.get(out, ()) if steps[at].backward), None)
        if late is None or out in held or out in viewed or out in written:
            continue
        forward = max((at for at in readers[out] if at < late), default=index)
        if late - forward < MIN_DISTANCE or any(index < at < late for at in acting):
            continue
        roots = {value.root for value in step.read}
        if all(
            (root in outer or last[root] >= late) and not any(index < at < late for at in written.get(root, ()))
            for root in roots
        ):
            found[index] = late
    return found


def _with_copies(steps: Sequence[Instruction], places: dict[int, int], held: Collection[Value]) -> list[Instruction]:
    number = 1 + max(value.index for step in steps for value in (*step.read, *step.outs))
    ahead: dict[int, list[Instruction]] = {}
    again: dict[Value, Value] = {}
    joined: set[int] = set()
    for index, late in places.items():
        step = steps[index]
        outs = [Value(number + k, out) for k, out in enumerate(step.outs)]
        number += len(outs)
        copy = step.changed(outs=tuple(outs), backward=True)
        again[step.outs[0]] = outs[0]
        at = _slope(steps, index, late, held)
        if at is not None:
            slope = steps[at]
            g = again[slope.outs[0]] = slope.read[0]
            copy = slope.changed(function=step.primitive.with_value, outs=tuple(outs), writes=(g,), asked=step.asked)
            joined.add(at)
        ahead.setdefault(late, []).append(copy)

    def now(value: object) -> object:
        return again.get(value, value) if type(value) is Value else value

    made: list[Instruction] = []
    for index, step in enumerate(steps):
        made += ahead.get(index, ())
        if index in joined:
            continue
        if step.backward and not again.keys().isdisjoint(step.read):
            step = step.changed(
                args=replaced(step.args, now), kwargs=replaced(step.kwargs, now),
                writes=tuple([again.get(value, value) for value in step.writes]),
            )  # fmt: skip
        made.append(step)
    return made


def _slope(steps: Sequence[Instruction], index: int, late: int, held: Collection[Value]) -> int | None:
    """Return the place of the derivative of a function, if it can run before ``late`` and write over its cotangent."""
    step = steps[index]
    if step.primitive.with_value is None or len(step.read) != 1:
        return None
    x, (rule,) = step.read[0], step.primitive.rules
    at = next((at for at in range(late + 1, len(steps)) if x in steps[at].read), None)
    if at is None or steps[at].kind != "whole" or wrapped(steps[at].function)[-1] is not wrapped(rule)[-1]:
        return None
    g, out = steps[at].read[0], steps[at].outs[0]
    arrays = (g, x, out)
    if steps[at].args != (g, x) or any(value.shape != x.shape or value.dtype != np.float32 for value in arrays):
        return None
    if not all(map(row_major, arrays)) or any(value.root is not value or value in held for value in (g, out)):
        return None
    maker = next((place for place in range(late) if g in steps[place].outs), None)
    if maker is None or not allocates(steps[maker], g) or steps[maker].kind == "whole":  # it may be joined itself
        return None
    for place in range(maker + 1, len(steps)):
        other = steps[place]
        if any(value.root in (g, out) and value.root is not value for value in other.outs):  # a view
            return None
        if place != at and g in other.read or out in other.read and not other.backward:
            return None
        if late <= place < at and any(value.root is x.root for value in other.writes):
            return None
    return at
