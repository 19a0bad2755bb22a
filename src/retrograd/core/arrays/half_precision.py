"""Compute products and quotients of float16 or bfloat16 Tensors and numbers in float32, and round the result.

In float16, 1e5 is infinite and 1e-8 is zero, so ``x / 1e5`` would be 0; PyTorch divides in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from ..graph.modes import watchers
from ..tensor.tensor import Tensor, new_tensor
from .fp_warnings import silenced


class Arithmetic(Protocol):
    """The interface of a binary primitive."""

    forward: Callable[..., Any]

    def __call__(self, a: object, b: object, /) -> Any:
        """Apply the primitive to Tensors or arrays."""


@lru_cache(maxsize=1024)
def _holds(dtype: np.dtype, number: float) -> bool:
    return bool(float(number) == float(silenced(dtype.type, float(number))))


def in_float32(primitive: Arithmetic, a: Any, b: Any) -> Tensor | None:
    """Return the product or quotient of a half-precision array and a number that the array's dtype would round.

    The number is a Python number, or a 0-d array of a wider dtype if the other array has dimensions. Return None for
    all other operands.
    """
    x, y = getattr(a, "array", a), getattr(b, "array", b)
    half, number = (x, y) if _is_half(x) else (y, x)
    if not _is_half(half):
        return None
    if isinstance(number, (int, float)):
        if _holds(half.dtype, number):
            return None
    elif not half.ndim or getattr(number, "ndim", None) != 0 or number.dtype.char in "?bBhHeFDG" or _is_half(number):
        return None
    elif number.dtype.kind in "iu":  # an integer operand could select an integer division
        a, b = (value.astype(np.float32) if array is number else value for value, array in ((a, x), (b, y)))
        x, y = getattr(a, "array", a), getattr(b, "array", b)
    if not watchers and type(half) is np.ndarray and not (_recorded(a) or _recorded(b)):
        wide = [value.astype(np.float32) if value is half else value for value in (x, y)]
        return new_tensor(silenced(np.ndarray.astype, np.asarray(silenced(primitive.forward, *wide)), half.dtype))
    tensors = [value.astype(np.float32) if array is half else value for value, array in ((a, x), (b, y))]
    return primitive(*tensors).astype(half.dtype)


def _is_half(x: object) -> bool:
    dtype = getattr(x, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.itemsize == 2 and dtype.kind in "fV"


def _recorded(value: object) -> bool:
    return isinstance(value, Tensor) and value._requires
