"""ONNX rules of reductions, softmax and searches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.tensor.tensor import Tensor
from ..building import Builder
from ..model_calls import Call
from .rules import PRIMITIVES, primitive, whole

_REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin", "prod": "ReduceProd",
               "logsumexp": "ReduceLogSumExp"}  # fmt: skip


def reduced(b: Builder, kind: str, x: str, axes: object, keep: bool) -> str:
    """Add a reduction, whose axes are an attribute or an input, depending on the opset."""
    axes = None if axes is None else [int(axis) for axis in (axes if isinstance(axes, (tuple, list)) else (axes,))]
    if kind == "ReduceSum" or b.opset >= 18:
        return b.node(kind, [x] if axes is None else [x, b.ints(*axes)], keepdims=int(keep))
    return b.node(kind, [x], axes=axes, keepdims=int(keep))


def _reduction(kind: str) -> Callable[[Builder, Call], str]:
    def write_reduction(b: Builder, call: Call) -> str:
        dtype = call.outputs[0].dtype
        x = b.input(0, np.dtype(np.int64) if dtype.kind == "b" else dtype)
        if not call.inputs[0].ndim:
            return b.node("Identity", [x])
        axes = call.params.get("dim")
        return reduced(b, kind, x, None if axes == () else axes, bool(call.params.get("keepdim", False)))

    return write_reduction


PRIMITIVES.update({name: _reduction(kind) for name, kind in _REDUCTIONS.items()})


@primitive("var", "std")
def variance(b: Builder, call: Call) -> str:
    axes, keep, correction = b.param("dim"), bool(b.param("keepdim")), b.param("correction")
    x, source = b.input(0), call.inputs[0]
    which = list(range(source.ndim)) if axes is None else list(axes if isinstance(axes, tuple) else (axes,))
    centered = b.node("Sub", [x, reduced(b, "ReduceMean", x, which, True)])
    square = b.node("Mul", [centered, centered])
    count = int(np.prod([source.shape[axis] for axis in which]))
    counts = b.others_of(lambda twin: int(np.prod([twin.inputs[0].shape[axis] for axis in which])))
    if correction == 0:
        y = reduced(b, "ReduceMean", square, which, keep)
    else:
        b.fixed(count, *counts)
        y = reduced(b, "ReduceSum", square, which, keep)
        y = b.node("Div", [y, b.constant(np.asarray(max(count - correction, 0), source.dtype))])
    return b.node("Sqrt", [y]) if call.name == "std" else y


@primitive("norm")
def norm(b: Builder, call: Call) -> str:
    order = call.params.get("p", call.params.get("ord", 2))
    if order not in (1, 2):
        raise b.fail(f"a norm of order {order} is not supported")
    axes, keep = call.params.get("dim"), bool(call.params.get("keepdim", False))
    return reduced(b, f"ReduceL{int(order)}", b.input(0), axes, keep)


@primitive("softmax")
def softmax(b: Builder, call: Call) -> str:
    return b.node("Softmax", [b.input(0)], axis=int(b.param("dim")))


@primitive("log_softmax")
def log_softmax(b: Builder, call: Call) -> str:
    return b.node("LogSoftmax", [b.input(0)], axis=int(b.param("dim")))


@primitive("cumsum")
def cumsum(b: Builder, call: Call) -> str:
    axis = b.constant(np.asarray(int(b.param("dim")), np.int64))
    return b.node("CumSum", [b.input(0, call.outputs[0].dtype), axis])


def _argument(b: Builder, input: Tensor, dim: int | None, keepdim: bool, kind: str) -> str:
    x = b.argument(input, np.dtype(np.int64) if input.dtype.kind == "b" else None)
    if dim is None:
        x = b.node("Reshape", [x, b.ints(-1)])
        y = b.node(kind, [x], axis=0, keepdims=0)
        return b.node("Reshape", [y, b.ints(*[1] * input.ndim)]) if keepdim else y
    return b.node(kind, [x], axis=dim, keepdims=int(keepdim))


@whole("argmax")
def argmax(b: Builder, input: Tensor, dim: int | None = None, keepdim: bool = False) -> str:
    return _argument(b, input, dim, keepdim, "ArgMax")


@whole("argmin")
def argmin(b: Builder, input: Tensor, dim: int | None = None, keepdim: bool = False) -> str:
    return _argument(b, input, dim, keepdim, "ArgMin")


def _by_axis(*args: object, **kwargs: object) -> bool:
    dim = args[1] if len(args) > 1 else kwargs.get("dim", kwargs.get("axis"))
    return isinstance(dim, int)


def _extreme(b: Builder, input: Tensor, dim: int, keepdim: bool, kind: str) -> list[str]:
    x = b.argument(input)
    return [
        reduced(b, f"Reduce{kind}", x, [dim], keepdim),
        b.node(f"Arg{kind}", [x], axis=dim, keepdims=int(keepdim)),
    ]


@whole("max", accepts=_by_axis)
def maximum(b: Builder, input: Tensor, dim: int = 0, keepdim: bool = False) -> list[str]:
    return _extreme(b, input, dim, keepdim, "Max")


@whole("min", accepts=_by_axis)
def minimum(b: Builder, input: Tensor, dim: int = 0, keepdim: bool = False) -> list[str]:
    return _extreme(b, input, dim, keepdim, "Min")


@primitive("max", "min")
def of_all(b: Builder, call: Call) -> str:
    return reduced(b, "ReduceMax" if call.name == "max" else "ReduceMin", b.input(0), None, False)


@whole("topk")
def topk(
    b: Builder, input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, **kwargs: object
) -> list[str]:
    return b.node("TopK", [b.argument(input), b.ints(k)], 2, axis=dim, largest=int(largest), sorted=1)


@whole("any", "all")
def any_or_all(b: Builder, input: Tensor, dim: object = None, keepdim: bool = False) -> str:
    assert b._call is not None
    x = b.argument(input, np.dtype(np.bool_))
    kind = "ReduceMax" if b._call.name == "any" else "ReduceMin"
    return b.cast(reduced(b, kind, b.cast(x, np.dtype(np.int32)), dim, keepdim), np.dtype(np.bool_))
