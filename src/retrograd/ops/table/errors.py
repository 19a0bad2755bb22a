"""How an operator tells that a call went wrong: whatever failed inside names the operator, its arguments, and what
they are, in the type that PyTorch raises.

Nothing here runs while calls succeed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any

import numpy as np

from ...core.errors import describe, describe_call

# Ours begin with the operator that speaks: "sum: ...", "add(float32(2,), 3): ...". NumPy's do not.
_SPEAKER = re.compile(r"(?:\w+\.)*(\w+)(?:: |\()")


class LinAlgError(RuntimeError):
    """A matrix that has no such inverse, solution or decomposition; as ``torch.linalg.LinAlgError``."""


# What float("a") and int("a") say, as ValueErrors.
_NO_NUMBER = re.compile("could not convert string to float|invalid literal for int")


def retold(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
) -> Exception:
    """``error`` as operator ``name`` tells it; unchanged where it is not about bad input.

    An argument that is not of the kind its annotation says is a TypeError, whatever it led to.
    """
    if type(error).__module__.partition(".")[0] not in ("builtins", "numpy") and not isinstance(error, LinAlgError):
        return error
    if isinstance(error, (Warning, MemoryError, ImportError, OSError, RecursionError)):
        return error
    message = str(error)
    speaker = _SPEAKER.match(message)
    kind = _kind(error, message, speaker is not None)
    own = speaker is not None and speaker[1] == name.removeprefix("__").removesuffix("__")
    if not (own and kind is TypeError or speaker is not None and kind is ValueError):
        misfit = _misfit(function, args, kwargs)
        if misfit:
            kind, message, own = TypeError, misfit, False
    if not (own and _tells_shapes(message, (*args, *kwargs.values()))):
        cause = message.removeprefix(f"{name}: ")
        message = f"{describe_call(name, args, kwargs)}: {cause}"
    if type(error) is kind:
        error.args = (message,)
        return error
    told = kind(message)
    told.__cause__ = error
    return told


def _kind(error: Exception, message: str, ours: bool) -> type[Exception]:
    """The type that PyTorch raises; NumPy's ValueErrors are about shapes that do not fit."""
    # A primitive retells what its forward raised.
    if any(isinstance(each, (LinAlgError, np.linalg.LinAlgError)) for each in (error, error.__context__)):
        return LinAlgError
    if isinstance(error, (TypeError, AttributeError)) or _NO_NUMBER.search(message):
        return TypeError
    if isinstance(error, ValueError) and ours:
        return ValueError
    for kind in (IndexError, NotImplementedError):
        if isinstance(error, kind):
            return kind
    return RuntimeError


def _tells_shapes(message: str, values: Iterable[Any]) -> bool:
    return all(
        describe(each) in message
        for value in values
        for each in (value if isinstance(value, (list, tuple)) else (value,))
        if hasattr(each, "shape")
    )


def _misfit(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """What is wrong with the first argument that is not of the kind its annotation says; empty where none is."""
    try:
        given = signature(function).bind(*args, **kwargs).arguments
    except TypeError as error:
        return str(error)
    for argument, value in given.items():
        kinds = str(function.__annotations__.get(argument, "Any")).split(" | ")
        if all(kind in _KINDS for kind in kinds) and not any(_KINDS[kind](value) for kind in kinds):
            return f"argument {argument!r} must be {' or '.join(kinds)}, not {type(value).__name__}"
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex)) or getattr(value, "ndim", None) == 0


_KINDS: dict[str, Callable[[Any], bool]] = {
    "None": lambda value: value is None,
    "Tensor": lambda value: _is_number(value) or hasattr(value, "ndim"),
    "bool": _is_number,
    "float": _is_number,
    "int": lambda value: hasattr(value, "__index__") and _is_number(value),
    "str": lambda value: isinstance(value, str),
}
