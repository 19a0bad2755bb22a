"""Functions that a program being compiled calls as a whole: what they do inside is NumPy's or a library's business."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from .graph.modes import modes, watchers

Function = TypeVar("Function", bound=Callable[..., Any])


def whole(function: Function) -> Function:
    """Let the function of arrays be one instruction of a program that is being compiled, whatever it consists of."""

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if watchers and modes.tracer is not None:
            return modes.tracer.call(function, args, kwargs)
        return function(*args, **kwargs)

    return run  # type: ignore[return-value]
