"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..program import Instruction, Value, replaced


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
