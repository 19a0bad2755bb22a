"""Convert Python numbers that may be out of range of an array's dtype, as PyTorch does.

Arithmetic wraps integers around (``wrapped``); a number written into a Tensor must be in range (``converted``).
"""

from __future__ import annotations

from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np

_LARGEST_BFLOAT16 = 255 * 2.0**120


@lru_cache(maxsize=32)
def bounds(dtype: np.dtype) -> tuple[Any, Any]:
    """Return the smallest and the largest finite number of a dtype; for complex dtypes, of the parts."""
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    largest = _LARGEST_BFLOAT16 if dtype.kind == "V" else float(np.finfo(dtype).max)
    return -largest, largest


def wrapped(value: int, dtype: np.dtype) -> int:
    """Return an operand of integer arithmetic modulo 2 to the number of bits: 200 becomes -56 for int8."""
    if 0 <= value < 128:
        return value
    low, high = bounds(dtype)
    if low <= value <= high:
        return value
    if not -(2**63) <= value < 2**64:
        raise OverflowError(f"the integer {value} has more than 64 bits")
    return (value - low) % (high - low + 1) + low


def converted(value: Any, dtype: np.dtype) -> Any:
    """Return a number to write into elements of a dtype, as a Python number that NumPy converts without a warning.

    For unsigned integers, negative numbers down to ``-max`` wrap around, as in PyTorch.

    Raises:
        RuntimeError: the number is out of the dtype's range, or it is complex and the dtype is real.
    """
    if type(value) is float and dtype.char in "fd" and -3e38 < value < 3e38:
        return value
    if dtype.kind == "b":
        return bool(value)
    if isinstance(value, complex):
        if dtype.kind == "c":
            converted(value.real, dtype)
            converted(value.imag, dtype)
            return value
        if value.imag:
            raise _overflow(value, dtype)
        value = value.real
    low, high = bounds(dtype)
    if dtype.kind not in "iu":
        if low <= value <= high or not isfinite(value):
            return value
        raise _overflow(value, dtype)
    if dtype.kind == "u" and isinstance(value, int) and -high <= value < 0:
        return value % (high + 1)
    if not low <= value <= high:
        raise _overflow(value, dtype)
    return int(value)


def _overflow(value: object, dtype: np.dtype) -> RuntimeError:
    kind = "complex value" if isinstance(value, complex) else "value"
    return RuntimeError(f"{kind} {value} cannot be converted to {dtype} without overflow")


def whole_number(value: object, dtype: np.dtype) -> int:
    """Return a Python number as an integer element of a new Tensor.

    Raises:
        RuntimeError: the number is out of the dtype's range.
        TypeError: the number is complex.
    """
    if isinstance(value, complex):
        raise TypeError(f"the complex number {value} cannot be an element of {dtype}")
    return int(converted(value, dtype))


def check_elements(array: np.ndarray, dtype: np.dtype) -> None:
    """Raise an error unless all elements of an array of Python numbers can be elements of the dtype.

    Raises:
        RuntimeError: an element is out of the dtype's range.
        TypeError: the numbers are complex.
    """
    if array.dtype.kind == "c":
        raise TypeError(f"complex numbers cannot be elements of {dtype}")
    if array.size and array.dtype.kind != "b" and array.dtype != dtype:
        whole_number(array.min().item(), dtype)
        whole_number(array.max().item(), dtype)
