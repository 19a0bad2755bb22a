"""Let NumPy's functions on large arrays write to requested memory, and run them on all threads."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import numpy as np

from ...core.arrays.layout import dense
from ...core.arrays.summation import LARGE
from ...kernels.loops.elements.ufuncs import applied
from ...kernels.runtime.result_arrays import empty
from ..program import Asked, Instruction, Value, in_row_order
from ..run.arenas import MIN_PLANNED_BYTES
from .expressions import row_major

Compute = Callable[[Any, tuple[Any, ...]], object]  # fills an array from the arguments


class _RequestedResult:
    """A function that requests its result array and fills it."""

    def __init__(self, compute: Compute, out: Value, name: str) -> None:
        self.compute = compute
        self.order = sorted(range(len(out.shape)), key=lambda axis: -out.strides[axis])
        self.axes = None if row_major(out) else tuple(map(int, np.argsort(self.order)))
        self.asked = Asked(tuple([out.shape[axis] for axis in self.order]) if self.axes else out.shape, out.dtype, 0)
        self.__name__ = name

    def __call__(self, *args: object, **kwargs: object) -> Any:
        out = empty(self.asked.shape, self.asked.dtype)
        if self.axes is not None:
            out = out.transpose(self.axes)
        self.compute(out, args)
        return out


def request_results(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Replace NumPy functions that allocate large results. CuPy has a memory pool; its functions are unchanged."""
    return [step if step.on_gpu else _request_result(step) for step in instructions]


def _request_result(step: Instruction) -> Instruction:
    if step.writes:
        return _shared_write(step)
    if step.kind not in ("array", "primitive", "whole") or step.view or step.several or len(step.outs) != 1:
        return step
    (out,) = step.outs
    known = any(asked.out == 0 for asked in step.asked)
    if known or step.checks or out.root is not out or out.nbytes < MIN_PLANNED_BYTES or not _fills(out):
        return step
    compute = _compute(step, out)
    if compute is None:
        return step
    function = _RequestedResult(compute, out, step.name)
    return step.changed(function=function, kwargs={}, asked=(function.asked,))


def _fills(value: Value) -> bool:
    """Return whether the elements are contiguous in some order of axes."""
    return not value.dtype.hasobject and dense(value.shape, value.strides, value.dtype.itemsize)


def _compute(step: Instruction, out: Value) -> Compute | None:
    args = step.args
    ufunc = ufunc_of(step)
    if ufunc is not None:
        return lambda out, args: applied(ufunc, args, out)
    computes = step.computes
    read = args if computes == "join" else args[:1]
    if not read or not all(isinstance(x, Value) and x.shape is not None for x in read):
        return None
    if computes == "reshape" and row_major(out) and in_row_order(step):
        return lambda out, args: np.copyto(out.reshape(args[0].shape), args[0])
    if computes == "copy" and out.shape == args[0].shape and args[0].dtype.kind in "fiub":
        return lambda out, args: np.copyto(out, args[0], casting="unsafe")
    if computes == "join" and set(step.kwargs) == {"dim"} and all(x.dtype == out.dtype for x in args):
        join, dim = np.stack if len(out.shape) > len(args[0].shape) else np.concatenate, step.kwargs["dim"]
        return lambda out, args: join(args, axis=dim, out=out)
    return None


def ufunc_of(step: Instruction) -> np.ufunc | None:
    """Return the elementwise ufunc with one result that an instruction applies to arrays and numbers, or None."""
    function = step.elementary
    if step.kwargs or not all(isinstance(x, (Value, int, float, np.ndarray, np.generic)) for x in step.args):
        return None
    if step.function is operator.pow or not _is_elementwise(function) or len(step.args) != function.nin:
        return None
    (out,) = step.outs
    return function if out.dtype.kind in "fb" else None


def _is_elementwise(function: object) -> TypeGuard[np.ufunc]:
    return isinstance(function, np.ufunc) and function.nout == 1 and function.signature is None


def _shared_write(step: Instruction) -> Instruction:
    """Run ``ufunc(x, y, out=x)`` of a large array on all threads."""
    function = step.function
    if not _is_elementwise(function) or step.outs or not set(step.kwargs) <= {"out", "casting"}:
        return step
    target = step.kwargs.get("out")
    if type(target) is not Value or target.size < LARGE or len(step.args) != 2 or function.nin != 2:
        return step

    def write(*args: object, out: object, casting: object = "same_kind") -> None:
        applied(function, args, out, casting)

    write.__name__ = function.__name__
    return step.changed(function=write)
