"""Constant folding and common subexpression elimination.

Constant folding: values that do not depend on a call are computed once, when the program is compiled.

Typical examples are masks, tables of positions, one-hot rows and ``eye``. A folded value becomes an input whose source
is the array itself. Values that are written or leave the program are computed again in each replay, because the caller
could change them. Snapshots that the trace took of NumPy arrays are constants; an array that the program reads by
reference is not, since its owner may write to it. A value that repeats one number is not folded if it is computed only
from constants and other such values: loops need no memory for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import Array
from ...core.arrays.fp_warnings import silent
from ..program import Instruction, Program, Value, replaced

MAX_CONSTANT_BYTES = 1 << 22
MAX_TOTAL_BYTES = 1 << 24  # maximum bytes of all constants of a program
_UNSET = frozenset(("empty", "empty_like"))
_PLAIN = (FunctionType, str, int, float, bool, type, type(None), np.dtype)


class FoldedConstants(NamedTuple):
    """The folded instructions, and the constants that replace their results."""

    instructions: tuple[Instruction, ...]
    kept: dict[Value, object]


def fold_constants(program: Program, gives: Sequence[Value]) -> FoldedConstants:
    """Remove from a program the instructions that can be computed now, and add their results to the program's inputs.

    Args:
        program: changed in place.
    """
    steps = program.instructions
    if any(type(out.device) is int for step in steps for out in step.outs):
        return FoldedConstants((), {})
    leaving = {value.root for value in gives}
    leaving.update(value.root for step in steps if step.writes for value in step.writes)
    leaving.update(value.root for step in steps if step.kind == "effect" for value in step.reads())
    known: dict[Value, object] = {}
    cheap: set[Value] = set()  # roots of the values that repeat one number and are not folded
    left: list[Instruction] = []
    gone: list[Instruction] = []
    with silent():
        for step in steps:
            found = _computed(step, known, leaving, program.snapshots)
            if found is None:
                left.append(step)
                continue
            known.update(found)
            made = [out for out in step.outs if out.root is out]
            if all(x.root in cheap for x in step.reads()) and all(_is_uniform(found[out]) for out in made):
                cheap.update(made)
            (left if step.outs and all(out.root in cheap for out in step.outs) else gone).append(step)
    read = dict.fromkeys(value for step in left for value in step.reads())
    kept = {value: known[value] for value in read if value in known and value.root not in cheap}
    if sum(value.nbytes for value in kept) > MAX_TOTAL_BYTES:
        return FoldedConstants((), {})
    program.instructions = left
    program.inputs += [(value, ("constant", array)) for value, array in kept.items()]
    return FoldedConstants(tuple(gone), kept)


def _computed(
    step: Instruction, known: dict[Value, Any], leaving: set[Value], snapshots: dict[int, object]
) -> dict[Value, Any] | None:
    """Return the results of an instruction if they are the same in each call and may be folded, else None."""
    for value in step.read:
        if value not in known:
            return None
    if step.kind not in ("array", "primitive", "whole", "guard") or step.writes or step.numpy_name in _UNSET:
        return None
    if not step.outs and step.kind != "guard":
        return None
    if any(out.root in leaving or out.nbytes > MAX_CONSTANT_BYTES for out in step.outs) or not _is_pure(
        step, snapshots
    ):
        return None

    def given(x: object) -> Any:
        return known[x] if isinstance(x, Value) else x

    try:
        result = step.function(*replaced(step.args, given), **replaced(step.kwargs, given))
    except Exception:  # leave the error to the replay
        return None
    if step.kind == "guard":
        return {} if step.args and result else None
    found = {}
    for out, path in zip(step.outs, step.paths, strict=True):
        x = result
        for index in path:
            x = x[index]
        if (getattr(x, "shape", None), getattr(x, "strides", None)) != (out.shape, out.strides):
            return None
        if getattr(x, "dtype", type(x)) != out.dtype:
            return None
        found[out] = x
    return found


def _is_pure(step: Instruction, snapshots: dict[int, object]) -> bool:
    """Return whether the result depends only on the arguments, and on no outside array or hidden state."""
    if step.kind == "whole":
        function = step.function
        cells = getattr(function, "__closure__", None) or ()
        if type(function) is not FunctionType or not all(isinstance(c.cell_contents, _PLAIN) for c in cells):
            return False
    return all(id(x) in snapshots for nest in (step.args, step.kwargs) for x in _arrays_in(nest))


def _arrays_in(nest: object) -> list[Any]:
    found: list[Any] = []

    def seen(x: object) -> object:
        if isinstance(x, np.ndarray):
            found.append(x)
        return x

    replaced(nest, seen)
    return found


def _is_uniform(x: Array) -> bool:
    return getattr(x, "size", 1) > 0 and bool(np.all(x == np.ravel(x)[0]))


def without_repeats(
    instructions: Sequence[Instruction], takes: Iterable[Value], gives: Iterable[Value]
) -> list[Instruction]:
    """Remove instructions that compute an earlier value again.

    Two instructions are equal if they have the same function and arguments and belong to the same run of a checkpointed
    part, if no instruction writes to memory that they read or return, and if their results do not leave the program:
    two results of a program are never the same array.
    """
    written = {value.root for step in instructions for value in step.writes}
    given = {value.root for value in gives}
    given |= {value.root for step in instructions if step.kind == "effect" for value in step.reads()}
    outer = {value.root for value in takes}
    effects = 0  # the number of effects so far, each of which may change memory of the inputs
    known: dict[object, Instruction] = {}
    same: dict[Value, Value] = {}
    kept: list[Instruction] = []

    def current(value: object) -> object:
        return same.get(value, value) if type(value) is Value else value

    for old in instructions:
        step = old
        args, kwargs = replaced(old.args, current), replaced(old.kwargs, current)
        if args is not old.args or kwargs is not old.kwargs:
            step = old.changed(args=args, kwargs=kwargs, writes=tuple(map(current, old.writes)))
        effects += step.kind == "effect"
        roots = {value.root for value in (*step.reads(), *step.outs)}
        pure = step.kind in ("array", "primitive", "whole") and step.outs and not step.writes and not roots & written
        if pure and not given & {out.root for out in step.outs}:
            first = known.setdefault(_instruction_key(step, effects if roots & outer else 0), step)
            if first is not step and [_layout(x) for x in first.outs] == [_layout(x) for x in step.outs]:
                same.update(zip(step.outs, first.outs, strict=True))
                continue
        kept.append(step)
    return kept


def _layout(value: Value) -> Any:
    return value.shape, value.dtype, value.strides


def _instruction_key(step: Instruction, effects: int) -> tuple[object, ...]:
    return step.kind, _key(step.function), _key(step.args), _key(step.kwargs), effects, step.run


def _key(nest: object) -> object:
    """Return a key of arguments: plain values by their type and text, other objects by identity."""
    return key_of(nest, id)


def key_of(nest: Any, of_object: Callable[[object], object]) -> object:
    """Return a key of nested containers: plain values by their type and text, other objects by ``of_object``."""
    kind = type(nest)
    if kind in (tuple, list):
        return kind, tuple([key_of(item, of_object) for item in nest])
    if kind is dict:
        return kind, tuple([(name, key_of(nest[name], of_object)) for name in sorted(nest, key=str)])
    if kind is slice:
        return kind, *[key_of(part, of_object) for part in (nest.start, nest.stop, nest.step)]
    if kind in (bool, int, float, complex, str, bytes, type(None), type(Ellipsis)):
        return kind, repr(nest)
    if isinstance(nest, np.dtype):
        return kind, nest.str
    return kind, of_object(nest)
