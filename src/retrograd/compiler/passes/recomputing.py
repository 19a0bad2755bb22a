"""Compute large intermediate results again for the backward pass, where that costs little and saves memory.

An eager graph does so for the inputs of linear layers (``core/graph/recomputed.py``), but a trace keeps every array
that a derivative rule has read. The result of an elementwise function or a normalization is computed again before its
reader in the backward pass, if the inputs of the function are still in memory there. Programs with small arenas, and
programs whose arena would not shrink because a ``Host`` (``run/arenas.py``) contains the results, compute everything
once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..program import Instruction, Value, replaced
from ..run.arenas import Plan
from ..trace.effects import clear_grad, set_grad

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
    if not places:
        return steps
    size = Plan(steps, takes, gives, cleared).size
    if size < MIN_ARENA:
        return steps
    new = _with_copies(steps, places)
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


def _with_copies(steps: Sequence[Instruction], places: dict[int, int]) -> list[Instruction]:
    number = 1 + max(value.index for step in steps for value in (*step.read, *step.outs))
    ahead: dict[int, list[Instruction]] = {}
    again: dict[Value, Value] = {}
    for index, late in places.items():
        step = steps[index]
        outs = [Value(number + k, out) for k, out in enumerate(step.outs)]
        number += len(outs)
        ahead.setdefault(late, []).append(step.changed(outs=tuple(outs), backward=True))
        again[step.outs[0]] = outs[0]
    made: list[Instruction] = []
    for index, step in enumerate(steps):
        made += ahead.get(index, ())
        if step.backward and not again.keys().isdisjoint(step.read):
            args, kwargs = (
                replaced(part, lambda x: again.get(x, x) if type(x) is Value else x)
                for part in (step.args, step.kwargs)
            )
            step = step.changed(args=args, kwargs=kwargs)
        made.append(step)
    return made
