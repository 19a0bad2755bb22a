"""Messages that name the operator, its arguments, and their shapes and dtypes."""

from __future__ import annotations

from typing import Any


class GuardError(RuntimeError):
    """A value the engine was asked to watch broke its promise (anomaly mode)."""


def describe(value: Any) -> str:
    """``float32(3, 4)`` for anything with a dtype and a shape, a short repr for the rest.

    >>> import numpy as np
    >>> describe(np.zeros((3, 4), np.float32))
    'float32(3, 4)'
    >>> describe([np.zeros(2), 1.5])
    '[float64(2,), 1.5]'
    """
    if hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, type):
        return f"{value.dtype}{tuple(value.shape)}"
    if isinstance(value, (list, tuple)):
        left, right = ("[", "]") if isinstance(value, list) else ("(", ")")
        shown = ", ".join(describe(item) for item in value[:8])
        return f"{left}{shown}{', ...' if len(value) > 8 else ''}{right}"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def describe_call(name: str, inputs: tuple[Any, ...], params: dict[str, Any] | None = None) -> str:
    """The call as a user would read it: ``mul(float32(3,), float32(4,))``."""
    parts = [describe(value) for value in inputs]
    parts += [f"{key}={describe(value)}" for key, value in (params or {}).items()]
    return f"{name}({', '.join(parts)})"


def operator_error(
    name: str, inputs: tuple[Any, ...], params: dict[str, Any] | None, error: BaseException
) -> BaseException:
    """``error``, retold with the operator and its arguments, in the type PyTorch would raise."""
    message = f"{describe_call(name, inputs, params)}: {error}"
    if isinstance(error, IndexError):
        return IndexError(message)
    if isinstance(error, TypeError):
        # NumPy's word for a function that has no loop for a dtype (bitwise_and of floats, minus a bool).
        unsupported = "ufunc" in message or "numpy boolean" in message
        return NotImplementedError(message) if unsupported else TypeError(message)
    if isinstance(error, (MemoryError, NotImplementedError)):
        return type(error)(message)
    return RuntimeError(message)
