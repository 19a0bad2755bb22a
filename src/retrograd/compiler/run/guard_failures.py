"""Explain why a program does not fit a call."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from ...core.arrays import Array, dtypes
from ...core.arrays.devices import is_array
from ...core.graph.modes import modes
from ...core.tensor.tensor import Tensor, is_dense
from ...func.nests import Structure
from ..program import Value
from ..trace.effects import hooks_of
from ..trace.untrace import same_number


def modes_now() -> dict[str, object]:
    """Return the modes that a program depends on, by name."""
    return {
        "grad mode": modes.grad_enabled,
        "inference mode": modes.inference,
        "the default dtype": dtypes.get_default_dtype(),
    }


def changed_modes(before: tuple[dict[str, Any], object], casts: object) -> str:
    """Describe a mode, or autocast, that a call leaves changed; empty if there is none. A replay changes no modes."""
    modes_before, casts_before = before
    for name, now in modes_now().items():
        if now != modes_before[name]:
            return f"it leaves {name} changed, from {modes_before[name]} to {now}"
    return "it leaves autocast changed" if casts != casts_before else ""


def first_difference(entry: Any, leaves: Sequence[Any], structure: Structure, casts: Any) -> str:
    """Describe the first difference between a call and the trace of a program."""
    trace = entry.trace
    if structure != trace.structure:
        return "the number, names or nesting of the arguments differ"
    if casts != entry.casts:
        return "autocast casts differently"
    for name, now in modes_now().items():
        if now != entry.modes[name]:
            return f"{name} is {now}, it was {entry.modes[name]}"
    for path, leaf, was in zip(structure.paths(), leaves, trace.leaves, strict=True):
        for what in _argument_differences(leaf, was, trace):
            return f"{_named(path, entry.function)}: {what}"
    changed: str = trace.surroundings.changed()
    if changed:
        return changed
    for tensor, value, requires, hooks in trace.outside:
        for what in chain(_array_differences(tensor.array, value), _flag_difference(tensor._requires, requires)):
            return f"a Tensor from outside: {what}"
        if requires and hooks_of(tensor) != hooks:
            return "hooks of a Tensor from outside the function differ"
    for tensor, present in trace.grads:
        if (tensor._grad is not None) is not present:
            return "a gradient is None, it was not" if present else "a gradient is not None, it was None"
    return "elements that it depends on differ, or two arguments are the same Tensor"


def _named(path: str, function: Callable[..., object]) -> str:
    """Return the name of an argument in the function's signature, for a path into ``(args, kwargs)``."""
    group, place, rest = re.fullmatch(r"\[(\d)\]\[([^]]+)\](.*)", path, re.DOTALL).groups()  # type: ignore[union-attr]
    if group == "1":
        return place.strip("'") + rest
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = []
    return (names[int(place)] if int(place) < len(names) else f"argument {place}") + rest


def _argument_differences(leaf: Tensor | Array, was: Tensor | Array, trace: Any) -> Iterator[str]:
    if type(leaf) is not type(was):
        yield f"a {type(leaf).__name__}, it was a {type(was).__name__}"
    elif is_dense(leaf):
        for tensor, value, requires, _ in trace.outside:
            if tensor is was:
                yield from _array_differences(leaf.array, value)
                yield from _flag_difference(leaf._requires, requires)
    elif not isinstance(leaf, Tensor) and is_array(leaf):
        for value, source in trace.program.inputs:
            if source[0] == "argument" and trace.leaves[source[1]] is was:
                yield from _array_differences(leaf, value)
    elif isinstance(leaf, (bool, int, float, complex, str, bytes)):
        if not same_number(leaf, was):
            yield f"{leaf!r}, it was {was!r}"
    elif leaf is not was:
        yield f"another {type(leaf).__name__}"


def _array_differences(array: Array, value: Value) -> Iterator[str]:
    for name in ("shape", "dtype", "strides"):
        now, was = getattr(array, name), getattr(value, name)
        if now != was:
            verb = "are {}, they were {}" if name == "strides" else "is {}, it was {}"
            yield f"its {name} {verb.format(now, was)}"


def _flag_difference(now: bool, was: bool) -> Iterator[str]:
    if now is not was:
        yield f"requires_grad is {now}, it was {was}"
