"""Legacy and rarer forms of calls, tried when a call has failed as it stands: ``out=``, numbers before Tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..core.tensor.tensor import Tensor
from ..ops.linear.sparse.sparse import SparseTensor
from .out_arguments import call_into
from .sparse import sparse_call

# Keywords that ask for what is so anyway, and the values that do.
_NO_MATTER: dict[str, Callable[[Any], bool]] = {
    "memory_format": lambda value: True,
    "layout": lambda value: value is None or str(value) == "torch.strided",
    "pin_memory": lambda value: not value,
    "non_blocking": lambda value: True,
    "async": lambda value: True,
    "names": lambda value: value is None,
    "out": lambda value: value is None,
}
_RENAMED = {
    ("split", "split_size"): "split_size_or_sections",
    ("tile", "reps"): "dims",
    ("tensor_split", "sections"): "indices_or_sections",
}
_NUMBER_FIRST = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}
_TWO_NUMBERS_FIRST = ("addmm", "addmv", "addr", "addbmm", "baddbmm")


def call(name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of the call in the form that the operator takes today; NotImplemented if there is none."""
    if any(isinstance(value, SparseTensor) for value in args):
        return sparse_call(name, args, kwargs)
    idle = [key for key, is_idle in _NO_MATTER.items() if key in kwargs and is_idle(kwargs[key])]
    renamed = {key: new for (operator, key), new in _RENAMED.items() if operator == name and key in kwargs}
    if idle or renamed:
        return function(*args, **{renamed.get(key, key): value for key, value in kwargs.items() if key not in idle})
    if "out" in kwargs:
        return call_into(name, function, args, dict(kwargs))
    operator = name.removesuffix("_")
    keyword = _NUMBER_FIRST.get(operator)
    if keyword and len(args) > 2 and not kwargs and _is_number(args[1]) and isinstance(args[2], Tensor):
        _warn(name, f"{name}({keyword}, ...)", f"{name}(..., {keyword}=...)")
        return function(args[0], *args[2:], **{keyword: args[1]})
    if operator in _TWO_NUMBERS_FIRST and not kwargs and len(args) in (4, 5):
        numbers = [value for value in args if _is_number(value)]
        tensors = [value for value in args if isinstance(value, Tensor)]
        if len(tensors) == 3 and 1 <= len(numbers) <= 2:
            _warn(name, f"{name}(beta, input, alpha, ...)", f"{name}(input, ..., beta=..., alpha=...)")
            return function(*tensors, **dict(zip(("beta", "alpha"), numbers)))
    return NotImplemented


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex))


def _warn(name: str, old: str, new: str) -> None:
    warnings.warn(f"This overload of {name} is deprecated: {old}; use {new}", UserWarning, stacklevel=5)
