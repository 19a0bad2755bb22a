"""ONNX rules of elementwise functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.dtypes import DType, result_type
from ...core.tensor.tensor import Tensor
from ..building import Builder
from ..model_calls import Call
from .rules import PRIMITIVES, primitive, whole

_UNARY = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan", "atanh": "Atanh",
    "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "floor": "Floor", "log": "Log",
    "neg": "Neg", "reciprocal": "Reciprocal", "relu": "Relu", "round": "Round", "sigmoid": "Sigmoid", "sign": "Sign",
    "sin": "Sin", "sinh": "Sinh", "softsign": "Softsign", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh",
    "isnan": "IsNaN", "isinf": "IsInf", "logical_not": "Not", "bitwise_not": "Not",
    "clone": "Identity", "identity": "Identity", "contiguous": "Identity", "transfer": "Identity",
}  # fmt: skip
_BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "maximum": "Max", "minimum": "Min",
           "clamp_min": "Max", "clamp_max": "Min"}  # fmt: skip
_COMPARISONS = {"eq": "Equal", "gt": "Greater", "ge": "GreaterOrEqual", "lt": "Less", "le": "LessOrEqual"}
_LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}


def _unary(kind: str) -> Callable[[Builder, Call], str]:
    def write_unary(b: Builder, call: Call) -> str:
        return b.node(kind, [b.input(0, call.outputs[0].dtype if call.outputs[0].dtype.kind == "f" else None)])

    return write_unary


PRIMITIVES.update({name: _unary(kind) for name, kind in _UNARY.items()})


def _binary(kind: str) -> Callable[[Builder, Call], str]:
    def write_binary(b: Builder, call: Call) -> str:
        dtype = call.outputs[0].dtype
        if dtype.kind == "b":
            kinds = {"Add": "Or", "Mul": "And", "Max": "Or", "Min": "And"}
            if kind not in kinds:
                raise b.fail("booleans are not supported")
            return b.node(kinds[kind], [b.input(0, dtype), b.input(1, dtype)])
        return b.node(kind, [b.input(0, dtype), b.input(1, dtype)])

    return write_binary


PRIMITIVES.update({name: _binary(kind) for name, kind in _BINARY.items()})


def common(call: Call) -> DType:
    """Return the promoted dtype of two operands."""
    x, y = call.inputs[:2]
    return result_type(x, y)


def _comparison(kind: str) -> Callable[[Builder, Call], str]:
    def write_comparison(b: Builder, call: Call) -> str:
        dtype = common(call)
        return b.node(kind, [b.input(0, dtype), b.input(1, dtype)])

    return write_comparison


PRIMITIVES.update({name: _comparison(kind) for name, kind in _COMPARISONS.items()})


@primitive("ne")
def not_equal(b: Builder, call: Call) -> str:
    dtype = common(call)
    return b.node("Not", [b.node("Equal", [b.input(0, dtype), b.input(1, dtype)])])


def _logic(kind: str) -> Any:
    return lambda b, call: b.node(kind, [b.input(0, bool), b.input(1, bool)])


PRIMITIVES.update({name: _logic(kind) for name, kind in _LOGIC.items()})


@primitive("bitwise_and", "bitwise_or", "bitwise_xor")
def bitwise(b: Builder, call: Call) -> str:
    dtype = call.outputs[0].dtype
    short = call.name.removeprefix("bitwise_").capitalize()
    if dtype.kind != "b" and b.opset < 18:
        raise b.fail("it needs opset 18")
    return b.node(short if dtype.kind == "b" else f"Bitwise{short}", [b.input(0, dtype), b.input(1, dtype)])


@primitive("pow")
def power(b: Builder, call: Call) -> str:
    dtype = call.outputs[0].dtype
    return b.node("Pow", [b.input(0, dtype), b.input(1, dtype)])


@primitive("floor_divide")
def floor_divide(b: Builder, call: Call) -> str:
    dtype = call.outputs[0].dtype
    wide = dtype if dtype.kind == "f" else np.dtype(np.float64)
    y = b.node("Floor", [b.node("Div", [b.input(0, wide), b.input(1, wide)])])
    return y if wide == dtype else b.cast(y, dtype)


@primitive("div_trunc")
def divide_to_zero(b: Builder, call: Call) -> str:
    dtype = call.outputs[0].dtype
    y = b.node("Div", [b.input(0, dtype), b.input(1, dtype)])
    return b.cast(b.cast(y, np.int64), dtype) if dtype.kind == "f" else y


@primitive("remainder", "fmod")
def remainder(b: Builder, call: Call) -> str:
    dtype = call.outputs[0].dtype
    x, y = b.input(0, dtype), b.input(1, dtype)
    if call.name == "fmod" or dtype.kind != "f":
        return b.node("Mod", [x, y], fmod=int(call.name == "fmod"))
    return b.node("Sub", [x, b.node("Mul", [b.node("Floor", [b.node("Div", [x, y])]), y])])


@primitive("cast")
def cast(b: Builder, call: Call) -> str:
    return b.cast(b.input(0), call.outputs[0].dtype)


@primitive("where")
def where(b: Builder, call: Call) -> str:
    dtype = call.outputs[0].dtype
    return b.node("Where", [b.input(0, bool), b.input(1, dtype), b.input(2, dtype)])


@primitive("masked_fill")
def masked_fill(b: Builder, call: Call) -> str:
    dtype = call.outputs[0].dtype
    return b.node("Where", [b.input(1, bool), b.input(2, dtype), b.input(0, dtype)])


@primitive("keep")
def keep(b: Builder, call: Call) -> str:
    zero = b.constant(np.zeros((), call.outputs[0].dtype))
    return b.node("Where", [b.input(1, bool), b.input(0), zero])


@primitive("zeros")
def zeros(b: Builder, call: Call) -> str:
    x = b.input(0)
    return b.node("Mul", [x, b.constant(np.zeros((), call.outputs[0].dtype))])


def _number(b: Builder, value: float, dtype: Any) -> str:
    return b.constant(np.asarray(value, dtype))


def _of(b: Builder, call: Call) -> tuple[str, Any]:
    dtype = call.outputs[0].dtype
    return b.input(0, dtype), dtype


@primitive("square")
def square(b: Builder, call: Call) -> str:
    x, _ = _of(b, call)
    return b.node("Mul", [x, x])


@primitive("rsqrt")
def rsqrt(b: Builder, call: Call) -> str:
    return b.node("Reciprocal", [b.node("Sqrt", [_of(b, call)[0]])])


@primitive("silu")
def silu(b: Builder, call: Call) -> str:
    x, _ = _of(b, call)
    return b.node("Mul", [x, b.node("Sigmoid", [x])])


@primitive("glu")
def glu(b: Builder, call: Call) -> str:
    axis = int(b.param("dim"))

    def halves(call: Call) -> tuple[int, ...]:
        return (call.outputs[0].shape[axis],) * 2

    x, gate = b.node("Split", [b.input(0), b.sizes(halves(call), b.others_of(halves))], outputs=2, axis=axis)
    return b.node("Mul", [x, b.node("Sigmoid", [gate])])


@primitive("hardsigmoid")
def hardsigmoid(b: Builder, call: Call) -> str:
    return b.node("HardSigmoid", [_of(b, call)[0]], alpha=1 / 6, beta=0.5)


@primitive("hardswish")
def hardswish(b: Builder, call: Call) -> str:
    return b.node("HardSwish", [_of(b, call)[0]])


@primitive("mish")
def mish(b: Builder, call: Call) -> str:
    x, _ = _of(b, call)
    return b.node("Mul", [x, b.node("Tanh", [b.node("Softplus", [x])])])


@primitive("logsigmoid")
def logsigmoid(b: Builder, call: Call) -> str:
    return b.node("Neg", [b.node("Softplus", [b.node("Neg", [_of(b, call)[0]])])])


@primitive("isfinite")
def is_finite(b: Builder, call: Call) -> str:
    x = b.input(0)
    return b.node("Not", [b.node("Or", [b.node("IsInf", [x]), b.node("IsNaN", [x])])])


@primitive("log2", "log10", "log1p", "expm1", "exp2", "trunc", "frac", "erfc", "logaddexp", "lerp")
def composed(b: Builder, call: Call) -> str:
    x, dtype = _of(b, call)
    one = _number(b, 1, dtype)
    if call.name in ("log2", "log10"):
        base = 2.0 if call.name == "log2" else 10.0
        return b.node("Mul", [b.node("Log", [x]), _number(b, 1 / math.log(base), dtype)])
    if call.name == "log1p":
        return b.node("Log", [b.node("Add", [x, one])])
    if call.name == "expm1":
        return b.node("Sub", [b.node("Exp", [x]), one])
    if call.name == "exp2":
        return b.node("Pow", [_number(b, 2, dtype), x])
    if call.name == "erfc":
        return b.node("Sub", [one, b.node("Erf", [x])])
    if call.name == "logaddexp":
        y = b.input(1, dtype)
        low, high = b.node("Min", [x, y]), b.node("Max", [x, y])
        return b.node("Add", [high, b.node("Log", [b.node("Add", [one, b.node("Exp", [b.node("Sub", [low, high])])])])])
    if call.name == "lerp":
        weight = b.input(2, dtype) if len(call.inputs) > 2 else _number(b, b.param("weight"), dtype)
        y = b.input(1, dtype)
        return b.node("Add", [x, b.node("Mul", [weight, b.node("Sub", [y, x])])])
    cut = b.node("Mul", [b.node("Sign", [x]), b.node("Floor", [b.node("Abs", [x])])])
    return cut if call.name == "trunc" else b.node("Sub", [x, cut])


# Activation functions whose primitives store derived parameters are written from the public call.


def _bounds(b: Builder, x: Tensor, low: Any, high: Any) -> str:
    dtype, y = x.dtype, b.argument(x)
    for kind, limit in (("Max", low), ("Min", high)):
        if limit is not None:
            y = b.node(kind, [y, b.argument(limit, dtype) if isinstance(limit, Tensor) else _number(b, limit, dtype)])
    return y


@whole("clamp", "clip")
def clamp(b: Builder, input: Tensor, min: object = None, max: object = None) -> str:
    return _bounds(b, input, min, max)


@whole("hardtanh")
def hardtanh(b: Builder, input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> str:
    return _bounds(b, input, min_val, max_val)


@whole("relu6")
def relu6(b: Builder, input: Tensor, inplace: bool = False) -> str:
    return _bounds(b, input, 0.0, 6.0)


@whole("leaky_relu")
def leaky_relu(b: Builder, input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> str:
    return b.node("LeakyRelu", [b.argument(input)], alpha=float(negative_slope))


@whole("elu")
def elu(b: Builder, input: Tensor, alpha: float = 1.0, inplace: bool = False) -> str:
    return b.node("Elu", [b.argument(input)], alpha=float(alpha))


@whole("selu")
def selu(b: Builder, input: Tensor, inplace: bool = False) -> str:
    return b.node("Selu", [b.argument(input)])


@whole("celu")
def celu(b: Builder, input: Tensor, alpha: float = 1.0, inplace: bool = False) -> str:
    return b.node("Celu", [b.argument(input)], alpha=float(alpha))


@whole("prelu")
def prelu(b: Builder, input: Tensor, weight: Tensor) -> str:
    slope = b.argument(weight)
    if input.ndim > 2 and weight.numel() > 1:
        slope = b.node("Reshape", [slope, b.ints(-1, *[1] * (input.ndim - 2))])
    return b.node("PRelu", [b.argument(input), slope])


@whole("softplus")
def softplus(b: Builder, input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> str:
    x = b.argument(input)
    if beta == 1:
        return b.node("Softplus", [x])
    scale = _number(b, beta, input.dtype)
    return b.node("Div", [b.node("Softplus", [b.node("Mul", [x, scale])]), scale])


@whole("threshold")
def threshold(b: Builder, input: Tensor, threshold: float, value: float, inplace: bool = False) -> str:
    x, dtype = b.argument(input), input.dtype
    return b.node("Where", [b.node("Greater", [x, _number(b, threshold, dtype)]), x, _number(b, value, dtype)])


@whole("hardshrink", "softshrink")
def shrink(b: Builder, input: Tensor, lambd: float = 0.5) -> str:
    assert b._call is not None
    bias = float(lambd) if b._call.name == "softshrink" else 0.0
    return b.node("Shrink", [b.argument(input)], lambd=float(lambd), bias=bias)


@whole("gelu")
def gelu(b: Builder, input: Tensor, approximate: str = "none") -> str:
    x, dtype = b.argument(input), input.dtype
    if b.opset >= 20:
        return b.node("Gelu", [x], approximate=approximate)
    if approximate == "tanh":
        cube = b.node("Mul", [b.node("Mul", [x, x]), x])
        inner = b.node("Add", [x, b.node("Mul", [cube, _number(b, 0.044715, dtype)])])
        turned = b.node("Tanh", [b.node("Mul", [inner, _number(b, math.sqrt(2 / math.pi), dtype)])])
    else:
        turned = b.node("Erf", [b.node("Mul", [x, _number(b, math.sqrt(0.5), dtype)])])
    half = b.node("Mul", [x, _number(b, 0.5, dtype)])
    return b.node("Mul", [half, b.node("Add", [turned, _number(b, 1, dtype)])])


@whole("nan_to_num")
def nan_to_num(
    b: Builder, input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> str:
    dtype = input.dtype
    limits = np.finfo(dtype)
    x = b.argument(input)
    x = b.node("Where", [b.node("IsNaN", [x]), _number(b, nan or 0.0, dtype), x])
    high = _number(b, limits.max if posinf is None else posinf, dtype)
    low = _number(b, limits.min if neginf is None else neginf, dtype)
    x = b.node("Where", [b.node("IsInf", [x], detect_negative=0), high, x])
    return b.node("Where", [b.node("IsInf", [x], detect_positive=0), low, x])
