"""The arrays and numbers behind those of a trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays.devices import Wrapping, is_array
from ...core.tensor.tensor import Tensor
from .scalars import no_scalar
from .traced import Number, Traced, TracedModule


def as_real(array: Any) -> Any:
    """The real array of a Traced one, and the number of a Number."""
    if type(array) is Number:
        return array.numbers
    return no_scalar(array.numbers) if type(array) is Traced else array


def made_real(x: Any) -> Any:
    """The same of what may be a Tensor, whose array is exchanged."""
    if isinstance(x, Tensor):
        x.array = as_real(x.array)
    return as_real(x)


def numbers_of(x: Any) -> Any:
    """What a call is really made with: arrays, numbers and NumPy or CuPy themselves."""
    kind = type(x)
    if kind is Traced or kind is Number:
        return x.numbers
    return x._xp if kind is TracedModule else x


def same_number(value: object, seen: Any) -> bool:
    """Whether a number, or other plain value, is the one that the trace saw: NaN is NaN, and 0.0 is not -0.0."""
    if value == seen:
        return bool(value) and type(value) is not complex or repr(value) == repr(seen)
    return bool(value != value and seen != seen)


def is_real(x: Any) -> bool:
    """Whether it is an array of NumPy's or CuPy's."""
    return type(x) is np.ndarray or is_array(x) and not isinstance(x, (np.ndarray, Wrapping))


def is_ours(function: Any) -> bool:
    """Whether it is a function of this package."""
    return str(getattr(function, "__module__", "")).startswith("retrograd.") and type(function).__name__ == "function"


def owner_of(array: Any) -> Any:
    """The array that owns the memory."""
    while True:
        base = array.base
        if type(array) is not np.ndarray:
            return array if base is None else base
        if base is None:
            return array
        base = getattr(base, "owner", base)
        if not isinstance(base, np.ndarray):
            return array
        array = base


def lies_in(array: Any, nest: Any) -> bool:
    """Whether any array in tuples and lists may share memory with an array."""
    if type(nest) in (tuple, list):
        return any(lies_in(array, item) for item in nest)
    return isinstance(nest, np.ndarray) and np.may_share_memory(nest, array)
