"""Functions that the compiler records as a single instruction, without tracing their body."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from .graph.modes import modes, watchers
from .graph.plan import Known

Function = TypeVar("Function", bound=Callable[..., Any])


class LoopMissing(RuntimeError):
    """A compiled loop does not support the types of its arguments. Nothing has been written."""

    # Calls a function of arrays again with all compiled loops turned off; set by ``retrograd.kernels``.
    by_reference: Callable[[Callable[..., Any], tuple[object, ...], dict[str, object]], object]


def computing(what: Known) -> Callable[[Function], Function]:
    """Say of a function that ``whole`` decorates what it computes, as a primitive does by ``computes``."""

    def declare(function: Function) -> Function:
        vars(function)["computes"] = what
        return function

    return declare


def whole(function: Function) -> Function:
    """Decorate a function of arrays: the compiler records a call as one instruction."""

    @wraps(function)
    def call_whole(*args: object, **kwargs: object) -> Any:
        tracer = modes.tracer if watchers else None
        try:
            return function(*args, **kwargs) if tracer is None else tracer.call(function, args, kwargs)
        except LoopMissing:
            return without(*args, **kwargs) if tracer is None else tracer.call(without, args, kwargs)

    @wraps(function)
    def without(*args: object, **kwargs: object) -> Any:
        return LoopMissing.by_reference(function, args, kwargs)

    return call_whole  # type: ignore[return-value]
