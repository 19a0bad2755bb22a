"""Error types, and messages with the operator, its arguments, and their shapes and dtypes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

# Fallbacks for an operator's call that failed: ``answer(name, function, args, kwargs)`` returns the result or
# NotImplemented.
answers: list[Callable[..., Any]] = []


class GuardError(RuntimeError):
    """A check of anomaly mode failed, such as a NaN in a result."""


class LinAlgError(RuntimeError):
    """A matrix has no inverse, solution or decomposition, as ``torch.linalg.LinAlgError``."""


class ConversionError(RuntimeError):
    """A conversion of a Tensor to a Python number or a bare array would have lost its gradient."""


def no_single_number(kind: str, x: object) -> ValueError:
    """Return the error of ``int``, ``float`` and ``complex`` for a Tensor that has not exactly one element."""
    return ValueError(f"{kind} of {describe(x)}: only a Tensor of one element can become a Python number; use tolist()")


def real_number(kind: str, number: complex) -> float:
    """Return the real part of a complex number; raise RuntimeError if its imaginary part is not 0."""
    if number.imag:
        raise RuntimeError(f"{kind}: the complex number {number} cannot become a real number; use .real or .abs()")
    return number.real


# NumPy raises ValueError from an error of ``Tensor.__float__``; Python raises SystemError if C code, as in SciPy,
# continues after an error.
_WRAPPING_ERRORS = (ValueError, SystemError)


def conversion_behind(error: Exception) -> Exception:
    """Return the ConversionError that caused ``error``, or ``error`` itself if there is none.

    ``array[0] = tensor`` calls ``Tensor.__float__``, whose error NumPy reports as the cause of a ValueError. A solver
    written in C may call its function once more before it reports the error.
    """
    cause: BaseException | None = error
    while isinstance(cause, _WRAPPING_ERRORS):
        cause = cause.__cause__
    return cause.with_traceback(error.__traceback__) if isinstance(cause, ConversionError) else error


class InvalidValue(ValueError):
    """Raised by operators where PyTorch raises ValueError; users see a ValueError.

    A plain ValueError inside an operator is NumPy's for shapes that do not match, for which PyTorch, and therefore
    Retrograd, raises RuntimeError.
    """


def describe(value: object, depth: int = 8) -> str:
    """Return ``float32(3, 4)`` for a value with a dtype and a shape, and a short repr for other values.

    >>> describe(np.zeros((3, 4), np.float32))
    'float32(3, 4)'
    >>> describe([np.zeros(2), 1.5])
    '[float64(2,), 1.5]'
    """
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and hasattr(value, "dtype") and not isinstance(value, type):
        dtype: Any = getattr(value.dtype, "dtype", value.dtype)  # NumPy's dtype, which prints without "retrograd."
        return f"{dtype}{tuple(shape)}"
    if isinstance(value, (list, tuple)):
        left, right = ("[", "]") if isinstance(value, list) else ("(", ")")
        shown = ", ".join(describe(item, depth - 1) for item in value[:8]) if depth else "..."
        return f"{left}{shown}{', ...' if len(value) > 8 else ''}{right}"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def describe_call(name: str, inputs: tuple[object, ...], params: dict[str, object] | None = None) -> str:
    """Return the text of a call, such as ``mul(float32(3,), float32(4,))``."""
    parts = [describe(value) for value in inputs]
    parts += [f"{key}={describe(value)}" for key, value in (params or {}).items()]
    return f"{name}({', '.join(parts)})"


def is_zero_step(error: Exception) -> bool:
    """Return whether NumPy raised the error for a slice with step 0; PyTorch raises ValueError as well."""
    return isinstance(error, ValueError) and str(error) == "slice step cannot be zero"


def call_error(
    kind: type[Exception], name: str, inputs: tuple[object, ...], params: dict[str, object] | None, reason: str
) -> Exception:
    """Return the error of a call. An operator that calls this one reports ``reason`` with its own call."""
    error = kind(f"{describe_call(name, inputs, params)}: {reason}")
    error.reason = reason  # type: ignore[attr-defined]
    return error


def operator_error(
    name: str, inputs: tuple[object, ...], params: dict[str, object] | None, error: Exception
) -> Exception:
    """Return the error of an operator's call for an error raised by its forward, in the type that PyTorch raises."""
    error = conversion_behind(error)
    if isinstance(error, (GuardError, ConversionError)):  # from a nested operator, on a vmap level or in a Function
        return error
    if isinstance(error, (LinAlgError, np.linalg.LinAlgError)):
        kind: type[Exception] = LinAlgError
    elif isinstance(error, TypeError):
        # The inputs have been converted to arrays and numbers: without parameters, the cause must be a dtype.
        kind = TypeError if params else NotImplementedError
    elif is_zero_step(error):
        kind = ValueError
    else:
        kinds = (IndexError, MemoryError, NotImplementedError)
        kind = next((kind for kind in kinds if isinstance(error, kind)), RuntimeError)
    # Inside vmap the call failed on the level below, where shapes include the dimension of the examples.
    return call_error(kind, name, inputs, params, str(getattr(error, "reason", error)))


def warn_of_lost_gradient(level: int = 3) -> None:
    """Warn, as PyTorch does, that a Python number has no gradient; ``level`` is the warning's ``stacklevel``."""
    warnings.warn(
        "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior: the number has no "
        "gradient. Consider using tensor.detach() first.",
        UserWarning,
        stacklevel=level,
    )


def warn_of_missing_gradient(x: Any) -> None:
    """Warn, as PyTorch does, that ``.grad`` of a non-leaf Tensor is read."""
    if not x.retains_grad:
        warnings.warn(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
            "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
            "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make "
            f"sure you access the leaf Tensor instead. The Tensor is the result of {x._node.operator}.",
            UserWarning,
            stacklevel=3,
        )
