"""Errors of operator calls: an internal error is raised again with the operator, its arguments and PyTorch's type.

This code runs only if a call fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import numpy as np

from ...core.errors import InvalidValue, LinAlgError, call_error, conversion_behind, is_zero_step

# Other types become RuntimeError. An operator raises AssertionError only where PyTorch's does.
KINDS = (TypeError, IndexError, NotImplementedError, MemoryError, AssertionError)


def failure(
    name: str, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object], error: Exception
) -> Exception:
    """Return ``error`` as the error of a call of operator ``name``; unchanged if the input is not the cause.

    If an argument does not match its annotation, the result is a TypeError, whatever error it caused.
    """
    error = conversion_behind(error)
    if not _is_about_input(error):
        return error
    reason = getattr(error, "reason", None) or str(error).removeprefix(f"{name}: ")
    kind = _kind(error)
    if kind is not ValueError and not (kind is TypeError and reason.startswith("argument ")):
        mismatch = _mismatch(function, args, kwargs)
        if mismatch:
            kind, reason = TypeError, mismatch
    if kind in (RuntimeError, NotImplementedError):
        beside = _number_for_tensor(name, function, args, kwargs)
        if beside:
            kind, reason = TypeError, f"{reason}; {beside}"
    if kind is TypeError and re.match(_NOT_OURS, reason):
        reason += _numpys(name.rpartition(".")[2], args, kwargs)
    failed = call_error(kind, name.strip("_") if name.startswith("__") else name, args, kwargs, reason)
    failed.__cause__ = error.__cause__ if hasattr(error, "reason") else error
    return failed


def _is_about_input(error: Exception) -> bool:
    if isinstance(error, (LinAlgError, InvalidValue, MemoryError)):
        return True
    if isinstance(error, (Warning, ImportError, OSError, RecursionError)):
        return False
    return type(error).__module__.partition(".")[0] in ("builtins", "numpy")


def _kind(error: Exception) -> type[Exception]:
    if isinstance(error, (LinAlgError, np.linalg.LinAlgError)):
        return LinAlgError
    if isinstance(error, InvalidValue) or type(error) is ValueError and hasattr(error, "reason"):
        return ValueError
    if is_zero_step(error):
        return ValueError
    if isinstance(error, AttributeError):
        return TypeError
    return next((kind for kind in KINDS if isinstance(error, kind)), RuntimeError)


def _mismatch(function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> str:
    """Describe the first argument that does not match its annotation; return an empty string if all match."""
    kwargs = {getattr(function, "other_names", {}).get(name, name): value for name, value in kwargs.items()}
    try:
        given = signature(function).bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    for argument, value in given.arguments.items():
        if given.signature.parameters[argument].kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            continue
        annotation = str(function.__annotations__.get(argument, "Any"))
        kinds = [_ALIASES.get(kind.partition("[")[0], kind) for kind in annotation.split(" | ")]
        if all(kind in _KINDS for kind in kinds) and not any(_KINDS[kind](value) for kind in kinds):
            return f"argument {argument!r} must be {' or '.join(kinds)}, not {type(value).__name__}"
    return ""


# Errors for which NumPy's function of the same name may accept the arguments. A string, compiled when needed.
_NOT_OURS = (
    "got an unexpected keyword|too many positional|missing a required|pass the argument|.* must be a? ?Tensor, not list"
)


def _numpys(name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> str:
    """Return advice to call NumPy's function, if it accepts the arguments of a Tensor's method, or an empty string."""
    name = {"flatten": "ravel"}.get(name, name)
    found, numpys = getattr(np, name, None), {"dim": "axis", "keepdim": "keepdims"}
    if not callable(found) or isinstance(found, (type, np.ufunc)):
        return ""
    try:
        signature(found).bind(*args, **{numpys.get(key, key): value for key, value in kwargs.items()})
    except (TypeError, ValueError):  # other arguments, or a function without a signature
        return ""
    return f"; np.{name}(tensor, ...) takes NumPy's arguments"


def _number_for_tensor(
    name: str, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> str:
    """Return which argument is a Python number where PyTorch accepts only Tensors, or an empty string.

    Operators accept numbers there as well; a call that fails and has such a number raises TypeError, as in PyTorch.
    """
    short = name.rpartition(".")[2].strip("_")
    if short in _TAKE_NUMBERS:
        return ""
    kwargs = {getattr(function, "other_names", {}).get(argument, argument): value for argument, value in kwargs.items()}
    for place, (argument, value) in enumerate(signature(function).bind(*args, **kwargs).arguments.items()):
        if place and short in _TAKE_NUMBERS_SECOND:
            break
        annotation = str(function.__annotations__.get(argument, "Any"))
        if isinstance(value, (int, float, complex)) and annotation.partition(" ")[0] in ("Operand", "Tensor"):
            return f"argument {argument!r} is a number, not a Tensor"
    return ""


# Operators that accept a number in PyTorch: for any operand, or for any but the first.
_TAKE_NUMBERS = frozenset(
    str.split("""
    add sub subtract mul multiply div divide true_divide floor_divide remainder pow float_power xlogy xlog1py where
    bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift isin result_type zeta ldexp logical_and
    setitem lerp index_fill masked_fill fill scatter full full_like new_full arange range linspace logspace normal
    bernoulli matrix_rank pinv
    """)
)
_TAKE_NUMBERS_SECOND = frozenset(
    str.split("""
    fmod copysign eq ne lt le gt ge less greater less_equal greater_equal not_equal clamp clip clamp_min clamp_max rsub
    searchsorted bucketize chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
    shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
    shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l
    legendre_polynomial_p
    """)
)

# Annotations that are equivalent to one of the kinds below; a Literal is one of several strings.
_ALIASES = {"Operand": "Tensor", "Dim": "int", "Literal": "str"}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, complex)) or getattr(value, "ndim", None) == 0


_KINDS: dict[str, Callable[[Any], bool]] = {
    "None": lambda value: value is None,
    "Tensor": lambda value: _is_number(value) or hasattr(value, "ndim"),
    "bool": _is_number,
    "float": _is_number,
    "int": lambda value: hasattr(value, "__index__") and _is_number(value),
    "str": lambda value: isinstance(value, str),
}
