"""Convert traced arrays and numbers to real arrays and numbers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType, FunctionType
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import Wrapping, backend_of, is_array
from ...core.tensor.tensor import is_dense
from ..program import Value
from .numpy_scalars import ensure_array
from .traced_arrays import Number, Traced, TracedModule


def as_real(array: object) -> Any:
    """Return the real array of a Traced, the number of a Number, and any other object unchanged."""
    if type(array) is Number:
        return array.numbers
    return ensure_array(array.numbers) if type(array) is Traced else array


def untrace_in_place(x: object) -> Any:
    """Apply ``as_real``; for a Tensor replace its array in place."""
    if is_dense(x):
        x.array = as_real(x.array)
    return as_real(x)


def unwrap(x: Any) -> Any:
    """Return the real object for an argument of a traced call: an array, a number, NumPy or CuPy."""
    kind = type(x)
    if kind is Traced or kind is Number:
        return x.numbers
    return x._xp if kind is TracedModule else x


def separated(args: Sequence[Any], tracer: object, reads: list[Value]) -> tuple[list[object], list[object]] | None:
    """Return the arguments of a call with real arrays, and with values in place of traced arrays.

    Args:
        args: the arguments.
        tracer: the trace.
        reads: receives the values.

    Returns:
        None if an argument is neither plain nor an array or number of the trace: ``replaced`` handles these.
    """
    bare: list[object] = []
    nodes: list[object] = []
    for x in args:
        kind = type(x)
        if kind is Traced or kind is Number:
            if x.tracer is not tracer:
                return None
            bare.append(x.numbers)
            nodes.append(x.node)
            reads.append(x.node)
        elif kind is tuple or kind is list:
            parts = separated(x, tracer, reads)
            if parts is None:
                return None
            bare.append(kind(parts[0]))
            nodes.append(kind(parts[1]))
        elif kind in _PLAIN or _is_plain(x):
            bare.append(x)
            nodes.append(x)
        else:
            return None
    return bare, nodes


def _is_plain(x: Any) -> bool:
    """Return whether an argument that is neither an array nor a container holds no array."""
    if type(x) is slice:
        return type(x.start) in _PLAIN and type(x.stop) in _PLAIN and type(x.step) in _PLAIN
    if hasattr(type(x), "with_key"):
        return separated((x.key,), None, []) is not None
    return isinstance(x, np.dtype)


_PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes, type, type(Ellipsis), np.ufunc, FunctionType))


def same_number(value: object, seen: object) -> bool:
    """Return whether a plain value equals the value in the trace, where NaN equals NaN and 0.0 differs from -0.0."""
    if value == seen:
        return bool(value) and type(value) is not complex or repr(value) == repr(seen)
    return bool(value != value and seen != seen)


def is_real(x: object) -> bool:
    """Return whether ``x`` is a NumPy or CuPy array and no wrapper."""
    return type(x) is np.ndarray or is_array(x) and not isinstance(x, (np.ndarray, Wrapping))


def is_package_function(function: object) -> bool:
    """Return whether ``function`` belongs to this package."""
    return str(getattr(function, "__module__", "")).startswith("retrograd.") and type(function).__name__ == "function"


def kind_of(function: object, kind: str) -> str:
    """Return the kind of an instruction; ``new`` marks a call that is traced although no argument is traced."""
    if not kind:
        return "whole" if type(function) is FunctionType and is_package_function(function) else "array"
    return "array" if kind == "new" else kind


def called_by_user() -> bool:
    """Return whether the caller of the tracer's method is the user's program and not the package."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.endswith(_PASSED):
        frame = frame.f_back
    return frame is None or not frame.f_code.co_filename.startswith(_PACKAGE)


_PACKAGE = __file__[: -len("compiler/trace/untrace.py")]
_PASSED = (
    "compiler/trace/traced_arrays.py", "compiler/trace/tracer.py", "core/tensor/tensor.py", "ops/numpy/bare_arrays.py",
)  # fmt: skip


def owner_of(array: Array) -> Array:
    """Return the array that owns the memory of ``array``."""
    if type(array) is not np.ndarray:
        while (owner := backend_of(array).owner(array)) is not None:  # CuPy's arrays at an address have no base
            array = owner
        return array
    while True:
        base = array.base
        if base is None:
            return array
        base = getattr(base, "owner", base)
        if not isinstance(base, np.ndarray):
            return array
        array = base


def lies_in(array: Array, nest: Any) -> bool:
    """Return whether an array in nested tuples and lists may share memory with ``array``."""
    if type(nest) in (tuple, list):
        return any(lies_in(array, item) for item in nest)
    return isinstance(nest, np.ndarray) and np.may_share_memory(nest, array)
