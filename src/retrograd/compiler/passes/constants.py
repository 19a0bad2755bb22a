"""Constants folded: what depends on nothing that a call brings is computed once, when the program is made.

Such are masks, tables of positions and of one-hot rows, ``eye``, and what is made of them. They become inputs of the
program, whose source is the array itself, so that nobody may write to them or be given them: what is written or leaves
the program is made anew in each replay. A snapshot that the trace took of a NumPy array is a constant; an array that
the program reads by reference is none, since its owner may write to it. What is one number throughout, and made of
such, stays where it is: loops need no memory for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.fp_warnings import silent
from ..program import Instruction, Program, Value, replaced

LARGEST = 1 << 22  # bytes of one constant
MOST = 1 << 24  # and of all that a program keeps
_UNSET = frozenset(("empty", "empty_like"))
_PLAIN = (FunctionType, str, int, float, bool, type, type(None), np.dtype)


class Folded(NamedTuple):
    """What a program computes no more, and the constants that it has instead."""

    instructions: tuple[Instruction, ...]
    kept: dict[Value, Any]


def folded(program: Program, gives: Sequence[Value]) -> Folded:
    """Take what can be computed now out of a program, and enter the results among its inputs.

    Args:
        program: its instructions and inputs change.
        gives: the values that are wanted of it.
    """
    steps = program.instructions
    if any(step.on_gpu for step in steps):
        return Folded((), {})
    leaving = {value.root for value in gives}
    leaving.update(value.root for step in steps for value in step.writes)
    leaving.update(value.root for step in steps if step.kind == "effect" for value in step.reads())
    known: dict[Value, Any] = {}
    cheap: set[Value] = set()  # roots of one number throughout, made of such: a loop needs no memory for them
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
    if sum(value.nbytes for value in kept) > MOST:
        return Folded((), {})
    program.instructions = left
    program.inputs += [(value, ("constant", array)) for value, array in kept.items()]
    return Folded(tuple(gone), kept)


def _computed(
    step: Instruction, known: dict[Value, Any], leaving: set[Value], snapshots: dict[int, Any]
) -> dict[Value, Any] | None:
    """What an instruction gives in every call; None where that is not known, or not to be kept."""
    if step.kind not in ("array", "primitive", "whole", "guard") or step.writes or step.name in _UNSET:
        return None
    if not all(value in known for value in step.reads()) or not step.outs and step.kind != "guard":
        return None
    if any(out.root in leaving or out.nbytes > LARGEST for out in step.outs) or not _is_pure(step, snapshots):
        return None

    def given(x: Any) -> Any:
        return known[x] if isinstance(x, Value) else x

    try:
        result = step.function(*replaced(step.args, given), **replaced(step.kwargs, given))
    except Exception:  # the replay is to say it
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


def _is_pure(step: Instruction, snapshots: dict[int, Any]) -> bool:
    """Whether nothing but the arguments decides what a call gives: no array of somebody else's, no hidden state."""
    if step.kind == "whole":
        function = step.function
        cells = getattr(function, "__closure__", None) or ()
        if type(function) is not FunctionType or not all(isinstance(c.cell_contents, _PLAIN) for c in cells):
            return False
    return all(id(x) in snapshots for nest in (step.args, step.kwargs) for x in _arrays_in(nest))


def _arrays_in(nest: object) -> list[Any]:
    found: list[Any] = []

    def seen(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            found.append(x)
        return x

    replaced(nest, seen)
    return found


def _is_uniform(x: Any) -> bool:
    return getattr(x, "size", 1) > 0 and bool(np.all(x == np.ravel(x)[0]))
