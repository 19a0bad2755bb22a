"""Functions that a program being compiled calls as a whole: what they do inside is NumPy's or a library's business."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from .graph.modes import modes, watchers

Function = TypeVar("Function", bound=Callable[..., Any])


class LoopMissing(RuntimeError):
    """A compiled loop is not there for some kinds of arguments, and nothing has been written."""

    # How a function of arrays is called again, with all loops turned off: ``retrograd.kernels`` sets it.
    by_reference: Callable[[Callable[..., Any], tuple[object, ...], dict[str, object]], Any]


def whole(function: Function) -> Function:
    """Let the function of arrays be one instruction of a program that is being compiled, whatever it consists of."""

    @wraps(function)
    def call_whole(*args: Any, **kwargs: Any) -> Any:
        tracer = modes.tracer if watchers else None
        try:
            return function(*args, **kwargs) if tracer is None else tracer.call(function, args, kwargs)
        except LoopMissing:
            return without(*args, **kwargs) if tracer is None else tracer.call(without, args, kwargs)

    @wraps(function)
    def without(*args: object, **kwargs: object) -> Any:
        return LoopMissing.by_reference(function, args, kwargs)

    return call_whole  # type: ignore[return-value]
