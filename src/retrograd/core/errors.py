"""Messages that name the operator, its arguments, and their shapes and dtypes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

# What may still answer an operator's call that failed: ``answer(name, function, args, kwargs)``, or NotImplemented.
answers: list[Callable[..., Any]] = []


class GuardError(RuntimeError):
    """A value the engine was asked to watch broke its promise (anomaly mode)."""


class LinAlgError(RuntimeError):
    """A matrix that has no such inverse, solution or decomposition; as ``torch.linalg.LinAlgError``."""


class ConversionError(RuntimeError):
    """A Tensor was to become a Python number or a bare array, and its gradient would have been lost."""


def no_single_number(kind: str, x: object) -> ValueError:
    """What ``int``, ``float`` and ``complex`` of a Tensor of no or several elements raise, as PyTorch."""
    return ValueError(f"{kind} of {describe(x)}: only a Tensor of one element can become a Python number; use tolist()")


# What NumPy makes of an error of ``Tensor.__float__``, and Python of one that a function of SciPy went on after.
_MADE_OF_OTHERS = (ValueError, SystemError)


def conversion_behind(error: Exception) -> Exception:
    """The ConversionError that led to this error, else the error itself.

    ``array[0] = tensor`` asks the Tensor for a number, and NumPy reports an error of that as the cause of a ValueError
    of its own; a solver written in C may call its function once more before it reports the error.
    """
    cause: BaseException | None = error
    while isinstance(cause, _MADE_OF_OTHERS):
        cause = cause.__cause__
    return cause.with_traceback(error.__traceback__) if isinstance(cause, ConversionError) else error


class InvalidValue(ValueError):
    """Raised inside operators for what PyTorch refuses with ValueError, which is what users see.

    NumPy's ValueErrors are about shapes that do not fit, for which PyTorch raises RuntimeError.
    """


def describe(value: object, depth: int = 8) -> str:
    """``float32(3, 4)`` for anything with a dtype and a shape, a short repr for the rest, of sequences to a depth.

    >>> describe(np.zeros((3, 4), np.float32))
    'float32(3, 4)'
    >>> describe([np.zeros(2), 1.5])
    '[float64(2,), 1.5]'
    """
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and hasattr(value, "dtype") and not isinstance(value, type):
        dtype: Any = getattr(value.dtype, "dtype", value.dtype)  # NumPy's, whose name is short
        return f"{dtype}{tuple(shape)}"
    if isinstance(value, (list, tuple)):
        left, right = ("[", "]") if isinstance(value, list) else ("(", ")")
        shown = ", ".join(describe(item, depth - 1) for item in value[:8]) if depth else "..."
        return f"{left}{shown}{', ...' if len(value) > 8 else ''}{right}"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def describe_call(name: str, inputs: tuple[object, ...], params: dict[str, object] | None = None) -> str:
    """The call as a user would read it: ``mul(float32(3,), float32(4,))``."""
    parts = [describe(value) for value in inputs]
    parts += [f"{key}={describe(value)}" for key, value in (params or {}).items()]
    return f"{name}({', '.join(parts)})"


def is_zero_step(error: Exception) -> bool:
    """Whether the error is that of a slice of step 0: not about shapes, and a ValueError in PyTorch as in NumPy."""
    return isinstance(error, ValueError) and str(error) == "slice step cannot be zero"


def call_error(
    kind: type[Exception], name: str, inputs: tuple[object, ...], params: dict[str, object] | None, reason: str
) -> Exception:
    """The error of a call; an operator that calls this one finds the bare ``reason``, to report its own call."""
    error = kind(f"{describe_call(name, inputs, params)}: {reason}")
    error.reason = reason  # type: ignore[attr-defined]
    return error


def operator_error(
    name: str, inputs: tuple[object, ...], params: dict[str, object] | None, error: Exception
) -> Exception:
    """What a forward raised, as the error of the operator's call, in the type PyTorch would raise."""
    error = conversion_behind(error)
    if isinstance(error, (GuardError, ConversionError)):  # of an operator within, on another layer or in a Function
        return error
    if isinstance(error, (LinAlgError, np.linalg.LinAlgError)):
        kind: type[Exception] = LinAlgError
    elif isinstance(error, TypeError):
        # The inputs are arrays and numbers by now: without parameters only a dtype can be at fault.
        kind = TypeError if params else NotImplementedError
    elif is_zero_step(error):
        kind = ValueError
    else:
        kinds = (IndexError, MemoryError, NotImplementedError)
        kind = next((kind for kind in kinds if isinstance(error, kind)), RuntimeError)
    # Inside vmap the call failed on the layer below, whose shapes are those of all examples.
    return call_error(kind, name, inputs, params, str(getattr(error, "reason", error)))


def warn_of_lost_gradient(level: int = 3) -> None:
    """Warn, as PyTorch does, that a Python number takes no gradient along; ``level`` is that of the warned code."""
    warnings.warn(
        "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior: the number has no "
        "gradient. Consider using tensor.detach() first.",
        UserWarning,
        stacklevel=level,
    )


def warn_of_missing_gradient(x: Any) -> None:
    """Warn, as PyTorch does, that ``.grad`` is asked of a Tensor for which backward stores none."""
    if not x.retains_grad:
        warnings.warn(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
            "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
            "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make "
            f"sure you access the leaf Tensor instead. The Tensor is the result of {x._node.operator}.",
            UserWarning,
            stacklevel=3,
        )
