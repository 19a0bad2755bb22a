"""Compute large intermediate results again for the backward pass, where that costs little and saves memory.

An eager graph does so for the inputs of linear layers (``core/graph/recomputed.py``), but a trace keeps every array
that a derivative rule has read. The result of an elementwise function or a normalization is computed again before its
reader in the backward pass, if the inputs of the function are still in memory there. Programs with small arenas, and
programs whose arena would not shrink because a ``Host`` (``run/arenas.py``) contains the results, compute everything
once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from ...core.graph.recomputed import Pairs, over_cotangent, together
from ..program import Function, Instruction, Value, replaced
from ..run.arenas import Plan
from ..trace.effects import clear_grad, run_step, set_grad
from .expressions import row_major, wrapped
from .overwriting import allocates, without_sum

MIN_ARENA = 1 << 24  # minimum bytes of an arena: saving memory of smaller arenas is not worth the time
# The minimum bytes of a result that is computed again.
MIN_BYTES = 1 << 20
MIN_GAIN = 0.05  # minimum fraction of the arena that recomputing must save
MAX_AHEAD = 8  # maximum instructions by which the gradient of the result's inputs is computed earlier
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
    new, copies = _with_copies(steps, places)
    if Plan(new, takes, gives, cleared).size > (1 - MIN_GAIN) * size:
        return steps
    return _with_gradients(new, copies, {value.root for value in (*takes, *gives)})


def _recompute_before(steps: Sequence[Instruction], takes: Iterable[Value], gives: Iterable[Value]) -> dict[int, int]:
    """Return, by the instruction of a result, the instruction before which to compute it again."""
    outer = {value.root for value in takes}
    held = outer | {value.root for value in gives}
    readers: dict[Value, list[int]] = {}
    last: dict[Value, int] = {}
    written: dict[Value, list[int]] = {}
    viewed: set[Value] = set()
    acting: list[int] = []  # effects that may write to any memory from outside
    updating: list[int] = []  # optimizers' steps, which write to parameters, as they declare, and to their state
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
                (updating if step.function is run_step else acting).append(index)
    found: dict[int, int] = {}
    for index, step in enumerate(steps):
        step = without_sum(step)
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
        if any(index < at < late for at in updating) and any(root in outer and root not in written for root in roots):
            continue
        if all(
            (root in outer or last[root] >= late) and not any(index < at < late for at in written.get(root, ()))
            for root in roots
        ):
            found[index] = late
    return found


def _with_copies(steps: Sequence[Instruction], places: dict[int, int]) -> tuple[list[Instruction], list[Instruction]]:
    """Return the program with results computed again, and the instructions that do so."""
    number = 1 + max(value.index for step in steps for value in (*step.read, *step.outs))
    ahead: dict[int, list[Instruction]] = {}
    again: dict[Value, Value] = {}
    for index, late in places.items():
        step = without_sum(steps[index])
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
    return made, [step for steps in ahead.values() for step in steps]


def _with_gradients(steps: list[Instruction], copies: Sequence[Instruction], held: set[Value]) -> list[Instruction]:
    """Return the program with a result and the gradient of its inputs computed in one call, where they can be."""
    for copy in copies:
        index = steps.index(copy)
        for place in range(index + 1, min(index + MAX_AHEAD, len(steps))):
            gradient = steps[place]
            if _is_gradient(gradient, copy) and _may_move(gradient, steps[index:place]):
                both, over = _together(copy, gradient), _over_cotangent(copy, gradient)
                if over is not None and _may_overwrite(steps, index, place, held):
                    both, steps = over, _renamed(steps, gradient.outs[0], over.writes[0])
                if both is not None:
                    del steps[place]
                    steps[index] = both
                    break
    return steps


def _is_gradient(step: Instruction, copy: Instruction) -> bool:
    """Return whether an instruction of the backward pass has the arguments of another, after a cotangent."""
    return step.backward and not step.checks and step.args[1:] == copy.args


def _together(copy: Instruction, gradient: Instruction) -> Instruction | None:
    """Return the instruction for both, or None."""
    function = _function_of(copy, gradient, together)
    if function is None:
        return None
    outs = copy.outs[0], *gradient.outs
    asked = copy.asked[:1] + tuple([a._replace(out=None if a.out is None else a.out + 1) for a in gradient.asked])
    new = gradient.changed(kind="whole", primitive=None, function=function, outs=outs, several=True, asked=asked)
    new.paths = tuple([(k,) for k in range(len(outs))])
    return new


def _over_cotangent(copy: Instruction, gradient: Instruction) -> Instruction | None:
    """Return the instruction for both that writes the gradient over the cotangent, or None."""
    function = _function_of(copy, gradient, over_cotangent)
    if function is None:
        return None
    new = copy.changed(kind="whole", primitive=None, function=function, args=gradient.args, writes=gradient.args[:1])
    new.operator, new.site = gradient.operator, gradient.site
    return new


def _function_of(copy: Instruction, gradient: Instruction, pairs: Pairs) -> Function | None:
    forward, backward = [[getattr(f, "loop", f) for f in wrapped(step.function)] for step in (copy, gradient)]
    return next((pairs[pair] for pair in product(forward, backward) if pair in pairs), None)


def _may_overwrite(steps: Sequence[Instruction], index: int, place: int, held: set[Value]) -> bool:
    """Return whether the result of an instruction that moves to ``index`` may lie over its first argument."""
    out, g = steps[place].outs[0], steps[place].args[0]
    if type(g) is not Value or g.root is not g or not row_major(g) or not {g, out}.isdisjoint(held):
        return False
    read_later = {value.root for step in (*steps[index:place], *steps[place + 1 :]) for value in step.read}
    if (g.shape, g.dtype) != (out.shape, out.dtype) or g in read_later:
        return False
    given = {value.root for step in steps if step.kind == "effect" for value in step.read}
    return given.isdisjoint((g, out)) and any(g in step.outs and allocates(step, g) for step in steps[:place])


def _renamed(steps: Sequence[Instruction], old: Value, new: Value) -> list[Instruction]:
    """Return the instructions, which read another value in the place of ``old`` from now on."""
    made: list[Instruction] = []
    for step in steps:
        for out in step.outs:
            if out.root is old and out is not old:
                out.root = new
        if old in step.read:
            args, kwargs = (replaced(part, lambda x: new if x is old else x) for part in (step.args, step.kwargs))
            step = step.changed(args=args, kwargs=kwargs, writes=tuple([new if x is old else x for x in step.writes]))
        made.append(step)
    return made


def _may_move(step: Instruction, ahead: Sequence[Instruction]) -> bool:
    """Return whether an instruction may run before others."""
    made = {out for other in ahead for out in other.outs}
    read = {value.root for other in ahead for value in other.read}
    written = {value.root for other in ahead for value in other.writes}
    moves = made.isdisjoint(step.read) and written.isdisjoint([value.root for value in step.read])
    return moves and read.isdisjoint([value.root for value in step.writes])
