"""bfloat16, a dtype of ml_dtypes: stored in two bytes per number, computed in float32.

PyTorch computes every operator on bfloat16 in float32 and rounds the result; a sum of ones in bfloat16 arithmetic would
stop growing at 256. Forwards and rules therefore get float32 arrays, and their results are rounded. The first use of
the dtype wraps the functions of all primitives; programs that do not use it have no overhead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..graph import plan
from ..graph.plan import Recordable
from ..graph.primitive import Primitive, changes, primitives
from ..tensor.tensor import Tensor
from . import Array
from .dtypes import DType, float32
from .layout import cast

_dtype: list[DType] = []


def bfloat16() -> DType:
    """Return the dtype and wrap all primitives at the first call.

    Raises:
        ImportError: ml_dtypes (extra ``bfloat16``) is not installed.
    """
    if not _dtype:
        try:
            import ml_dtypes
        except ImportError:
            raise ImportError("bfloat16 needs ml_dtypes: pip install 'retrograd[bfloat16]'") from None
        _dtype.append(np.dtype(ml_dtypes.bfloat16))
        changes.append(_widen)
        plan.calling.append(_widened_rule)
        for primitive in list(primitives):
            _widen(primitive)
    return _dtype[0]


def bfloat16_or_none() -> DType | None:
    """Return the dtype, or None if ml_dtypes is not installed: files can be read without ml_dtypes."""
    return None if find_spec("ml_dtypes") is None else bfloat16()


def widened(halves: Array) -> Array:
    """Return the float32 numbers whose upper 16 bits are the integers ``halves`` and whose lower 16 bits are 0."""
    return (halves.astype(np.uint32) << 16).view(np.float32)


def set_up(dtype: DType) -> bool:
    """Return whether the dtype is ml_dtypes' bfloat16, and wrap all primitives."""
    return dtype == bfloat16()


def wide(value: Any) -> Any:
    """Convert an array or Tensor of bfloat16, also within a tuple, to float32; return other values unchanged."""
    if _dtype and getattr(value, "dtype", None) is _dtype[0]:
        return cast(value, float32)
    if type(value) is tuple:
        return tuple(map(wide, value))
    return value


def _rounded(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(map(_rounded, value))
    return cast(value, _dtype[0]) if getattr(value, "dtype", None) == float32 else value


def _widen(primitive: Primitive) -> None:
    """Wrap the functions of a primitive so that they accept bfloat16 arrays."""
    primitive.plans.clear()
    if primitive.view or primitive.bfloat16 in ("native", "program"):
        return
    primitive.forward = _widened_forward(primitive)
    if primitive.write is not None:
        primitive.write = _widened_write(primitive.write)


def _any_in_bfloat16(arrays: tuple[object, ...]) -> bool:
    own = _dtype[0]
    return any(getattr(array, "dtype", None) is own for array in arrays)


def _all_in_bfloat16(arrays: tuple[object, ...]) -> bool:
    own = _dtype[0]
    return all(getattr(array, "dtype", None) is own for array in arrays)


def _widened_forward(primitive: Primitive) -> Callable[..., object]:
    forward, halves, residuals = primitive.forward, primitive.halves, bool(primitive.residuals)
    first = primitive.bfloat16 == "first"

    @wraps(forward)
    def forward_in_float32(*arrays: object, **params: object) -> object:
        if not _any_in_bfloat16(arrays):
            return forward(*arrays, **params)
        if halves is not None and (primitive.promote is None or _all_in_bfloat16(arrays)):
            return halves(*arrays, **params)
        out = forward(*map(wide, arrays), **params)
        deciding = arrays[:1] if first else arrays
        if any(getattr(array, "dtype", None) == float32 for array in deciding):
            return out
        if residuals:
            return (_rounded(out[0]), *out[1:])
        return _rounded(out)

    return forward_in_float32


def _widened_write(write: Callable[..., object]) -> Callable[..., None]:
    @wraps(write)
    def write_in_float32(out: Array, *arrays: object, **params: object) -> None:
        if not _any_in_bfloat16((out, *arrays)):
            write(out, *arrays, **params)
            return
        result = wide(out)
        write(result, *map(wide, arrays), **params)
        if result is not out:
            out[...] = result

    write_in_float32.unwidened = write  # type: ignore[attr-defined]
    return write_in_float32


def write_for(primitive: Primitive, arrays: tuple[object, ...]) -> Any:
    """Return the primitive's in-place form for these arrays: the unwrapped function if none is bfloat16."""
    unwidened = getattr(primitive.write, "unwidened", None)
    return primitive.write if unwidened is None or _any_in_bfloat16(arrays) else unwidened


def _widened_rule(rule: Callable[..., object], primitive: Recordable) -> Callable[..., object]:
    """Return a version of the rule that computes in float32.

    Rules of a primitive with ``halves``, a forward for bfloat16, get bfloat16 arrays. In a recorded backward pass only
    the rules of matrix products (``promote="strict"``) get bfloat16, since they refuse to mix dtypes.
    """
    if primitive.bfloat16 == "program":
        return rule

    def rule_in_float32(g: object, *saved: object) -> object:
        recorded = any(isinstance(value, Tensor) for value in (g if type(g) is tuple else (g,)))
        if primitive.halves is not None and (primitive.promote == "strict" or not recorded):
            return rule(g, *saved)
        return rule(wide(g), *map(wide, saved))

    return rule_in_float32
