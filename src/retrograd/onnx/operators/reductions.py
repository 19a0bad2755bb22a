"""Reductions over axes, and softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import _generated
from ...core.tensor.tensor import Tensor
from ...nn import functional as F
from ..table import OPERATORS, Attributes, constant, ints

rg = _generated.toplevel


def _extreme(function: Any, sign: int) -> Callable[[Tensor, list[int], bool], Tensor]:
    def reduce_extreme(x: Tensor, axes: list[int], keep: bool) -> Tensor:
        if x.numel():
            if x.dtype.kind == "b":
                return function(x.to(np.uint8), axes, keepdim=keep).to(bool)
            return function(x, axes, keepdim=keep)
        kind = x.dtype.kind
        limits = None if kind == "b" else np.finfo(x.dtype) if kind == "f" else np.iinfo(x.dtype)
        value = sign < 0 if limits is None else (-sign * np.inf if kind == "f" else (limits.min, limits.max)[sign < 0])
        shape = [1 if axis in axes else length for axis, length in enumerate(x.shape) if keep or axis not in axes]
        return rg.full(shape, value, dtype=x.dtype, device=x.device)

    return reduce_extreme


_REDUCTIONS: dict[str, Callable[[Tensor, list[int], bool], Tensor]] = {
    "ReduceSum": lambda x, axes, keep: rg.sum(x, axes, keepdim=keep).to(x.dtype),
    "ReduceMean": lambda x, axes, keep: _mean(x, axes, keep),
    "ReduceMax": _extreme(rg.amax, 1),
    "ReduceMin": _extreme(rg.amin, -1),
    "ReduceProd": lambda x, axes, keep: _product(x, axes, keep),
    "ReduceL1": lambda x, axes, keep: rg.sum(rg.abs(x), axes, keepdim=keep).to(x.dtype),
    "ReduceL2": lambda x, axes, keep: rg.sqrt(rg.sum(x * x, axes, keepdim=keep)).to(x.dtype),
    "ReduceSumSquare": lambda x, axes, keep: rg.sum(x * x, axes, keepdim=keep).to(x.dtype),
    "ReduceLogSum": lambda x, axes, keep: rg.log(rg.sum(x, axes, keepdim=keep)).to(x.dtype),
    "ReduceLogSumExp": lambda x, axes, keep: rg.logsumexp(x, axes, keepdim=keep).to(x.dtype),
}


def _mean(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    if x.dtype.kind in "fV":
        return rg.mean(x, axes, keepdim=keep)
    count = int(np.prod([x.shape[axis] for axis in axes], dtype=int))
    return rg.div(rg.sum(x, axes, keepdim=keep), count, rounding_mode="trunc").to(x.dtype)


def _product(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    dtype = x.dtype
    for axis in sorted(axes, reverse=True):
        x = rg.prod(x, axis, keepdim=keep)
    return x.to(dtype)


def _reduction(function: Callable[[Tensor, list[int], bool], Tensor]) -> Any:
    def reduce_axes(at: Attributes, x: Tensor, axes: Tensor | None = None) -> Tensor:
        which = at("axes") if axes is None else ints(axes)
        if not which:
            if at("noop_with_empty_axes", 0):
                if at.type in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"):
                    return x
                which = None
            else:
                which = list(range(x.ndim))
        if which is None:  # with an empty list of axes, ONNX reduces each element by itself
            return function(x.unsqueeze(-1), [x.ndim], False)
        if not x.ndim:
            return function(x.reshape(1), [0], False)
        return function(x, [axis % x.ndim for axis in which], bool(at("keepdims", 1)))

    return reduce_axes


OPERATORS.update({name: _reduction(function) for name, function in _REDUCTIONS.items()})


def _along(function: Callable[[Tensor, int], Tensor]) -> Callable[[Attributes, Tensor], Tensor]:
    def apply_along_axis(at: Attributes, x: Tensor) -> Tensor:
        if at.version >= 13:
            return function(x, at("axis", -1))
        axis = at("axis", 1) % max(x.ndim, 1)  # before opset 13, this axis and all later axes are flattened
        rows = x.reshape(int(np.prod(x.shape[:axis], dtype=int)), -1)
        return function(rows, 1).reshape(x.shape)

    return apply_along_axis


def _hardmax(x: Tensor, axis: int) -> Tensor:
    first = x.array.argmax(axis, keepdims=True)
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    places = np.arange(x.shape[axis]).reshape(shape)
    return constant(places == first, x.dtype, x)


OPERATORS.update(
    {
        "Softmax": _along(lambda x, axis: F.softmax(x, axis)),
        "LogSoftmax": _along(lambda x, axis: F.log_softmax(x, axis)),
        "Hardmax": _along(_hardmax),
    }
)
