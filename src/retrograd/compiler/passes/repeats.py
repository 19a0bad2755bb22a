"""Instructions that compute again what is known: the first one's result serves for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..program import Instruction, Value, replaced


def without_repeats(
    instructions: Sequence[Instruction], takes: Iterable[Value], gives: Iterable[Value]
) -> list[Instruction]:
    """The instructions without those that compute an earlier value again.

    Both have the same function and arguments and belong to one run of the part that they are in, nobody writes to
    memory that they read or make, and what they make is handed to nobody: two results of one program are never one
    array.
    """
    written = {value.root for step in instructions for value in step.writes}
    given = {value.root for value in gives}
    given |= {value.root for step in instructions if step.kind == "effect" for value in step.reads()}
    outer = {value.root for value in takes}
    effects = 0  # after which memory from outside may be another
    known: dict[Any, Instruction] = {}
    same: dict[Value, Value] = {}
    kept: list[Instruction] = []

    def current(value: object) -> Any:
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
            first = known.setdefault(_key(step, effects if roots & outer else 0), step)
            if first is not step and [_kind(x) for x in first.outs] == [_kind(x) for x in step.outs]:
                same.update(zip(step.outs, first.outs, strict=True))
                continue
        kept.append(step)
    return kept


def _kind(value: Value) -> Any:
    return value.shape, value.dtype, value.strides


def _key(step: Instruction, effects: int) -> Any:
    return step.kind, _part(step.function), _part(step.args), _part(step.kwargs), effects, step.run


def _part(nest: Any) -> Any:
    """What tells arguments apart: numbers with their types and signs, all else that is no container as itself."""
    kind = type(nest)
    if kind in (tuple, list):
        return kind, tuple(map(_part, nest))
    if kind is dict:
        return kind, tuple((name, _part(nest[name])) for name in sorted(nest))
    if kind is slice:
        return kind, _part(nest.start), _part(nest.stop), _part(nest.step)
    if kind in (bool, int, float, complex, str, bytes, type(None), type(Ellipsis)):
        return kind, repr(nest)
    if isinstance(nest, np.dtype):
        return kind, nest.str
    return kind, id(nest)
