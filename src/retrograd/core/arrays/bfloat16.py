"""bfloat16, a dtype that ml_dtypes gives to NumPy: kept in two bytes per number, computed in float32.

PyTorch computes every operator on bfloat16 in float32 and rounds the result; NumPy's sums would stop growing at 256.
So forwards and rules get float32 arrays, and what they return is rounded. All is set up when the dtype is first met, by
exchanging what primitives call: programs that never meet it pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..graph import plan
from ..graph.primitive import Primitive, changes, primitives
from .dtypes import DType, float32

_dtype: list[DType] = []


def bfloat16() -> DType:
    """The dtype, ready to compute with.

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
    """The dtype, ready to compute with, where ml_dtypes is installed: for files, which are read without it, too."""
    return None if find_spec("ml_dtypes") is None else bfloat16()


def widened(halves: Any) -> Any:
    """The numbers whose upper halves are given, as float32."""
    return (halves.astype(np.uint32) << 16).view(np.float32)


def set_up(dtype: DType) -> bool:
    """Whether the dtype is ml_dtypes' bfloat16, which is then ready to compute with."""
    return dtype == bfloat16()


def wide(value: Any) -> Any:
    """An array or Tensor of bfloat16 in float32, also within a tuple; anything else as it is."""
    if getattr(value, "dtype", None) is _dtype[0]:
        return value.astype(float32)
    if type(value) is tuple:
        return tuple(map(wide, value))
    return value


def _narrow(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(map(_narrow, value))
    return value.astype(_dtype[0]) if getattr(value, "dtype", None) == float32 else value


# What only moves numbers, or converts them, does so as it is: views must share memory.
_MOVES = {
    "attach",
    "cast",
    "clone",
    "contiguous",
    "embed",
    "erase",
    "move",
    "nextafter",
    "output",
    "overwrite",
    "transfer",
}


# Whose result has the first operand's dtype, whatever the others have: weights are often kept in float32.
_KEEPS_FIRST = {"layer_norm", "rms_norm", "group_norm", "batch_norm", "instance_norm", "batch_norm_given"}


def _widen(primitive: Primitive) -> None:
    """Let a primitive compute on arrays of bfloat16."""
    primitive.plans.clear()
    if primitive.view or primitive.name in _MOVES or getattr(primitive.forward, "traced", False):
        return
    first = primitive.name in _KEEPS_FIRST
    primitive.forward = _widened_forward(primitive.forward, bool(primitive.residuals), first)
    if primitive.write is not None and primitive.name != "copy_":
        primitive.write = _widened_write(primitive.write)


def _has(arrays: tuple[object, ...]) -> bool:
    narrow = _dtype[0]
    return any(getattr(array, "dtype", None) is narrow for array in arrays)


def _widened_forward(forward: Callable[..., Any], residuals: bool, keeps_first: bool) -> Callable[..., Any]:
    @wraps(forward)
    def forward_in_float32(*arrays: Any, **params: Any) -> Any:
        if not _has(arrays):
            return forward(*arrays, **params)
        out = forward(*map(wide, arrays), **params)
        deciding = arrays[:1] if keeps_first else arrays
        if any(getattr(array, "dtype", None) == float32 for array in deciding):
            return out
        if residuals:
            return (_narrow(out[0]), *out[1:])
        return _narrow(out)

    return forward_in_float32


def _widened_write(write: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(write)
    def write_in_float32(out: Any, *arrays: Any, **params: Any) -> None:
        if not _has((out, *arrays)):
            write(out, *arrays, **params)
            return
        result = wide(out)
        write(result, *map(wide, arrays), **params)
        if result is not out:
            out[...] = result

    write_in_float32.narrow = write  # type: ignore[attr-defined]
    return write_in_float32


def write_for(primitive: Primitive, arrays: tuple[object, ...]) -> Any:
    """The primitive's in-place form for these arrays: what it was before bfloat16 came, where none is of that."""
    narrow = getattr(primitive.write, "narrow", None)
    return primitive.write if narrow is None or _has(arrays) else narrow


def _widened_rule(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda g, *saved: rule(wide(g), *map(wide, saved))
