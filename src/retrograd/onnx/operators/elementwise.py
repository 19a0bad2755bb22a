"""Elementwise functions, comparisons, logic and casts."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ... import _generated
from ...core.tensor.tensor import Tensor, new_tensor
from ...nn import functional as F
from ..table import OPERATORS, Attributes, constant, operator, plain

rg = _generated.toplevel

_SAME: dict[str, Callable[..., Any]] = {
    "Abs": rg.abs, "Acos": rg.acos, "Acosh": rg.acosh, "And": rg.logical_and, "Asin": rg.asin, "Asinh": rg.asinh,
    "Atan": rg.atan, "Atanh": rg.atanh, "BitwiseAnd": rg.bitwise_and, "BitwiseNot": rg.bitwise_not,
    "BitwiseOr": rg.bitwise_or, "BitwiseXor": rg.bitwise_xor, "Ceil": rg.ceil, "Cos": rg.cos, "Cosh": rg.cosh,
    "Equal": rg.eq, "Erf": rg.erf, "Exp": rg.exp, "Floor": rg.floor, "Greater": rg.gt, "GreaterOrEqual": rg.ge,
    "Identity": lambda x: x, "IsNaN": rg.isnan, "Less": rg.lt, "LessOrEqual": rg.le, "Log": rg.log, "Neg": rg.neg,
    "Not": rg.logical_not, "Or": rg.logical_or, "Reciprocal": rg.reciprocal, "Relu": F.relu, "Round": rg.round,
    "Sigmoid": rg.sigmoid, "Sign": rg.sign, "Sin": rg.sin, "Sinh": rg.sinh, "Softplus": F.softplus,
    "Softsign": F.softsign, "Sqrt": rg.sqrt, "Tan": rg.tan, "Tanh": rg.tanh, "Where": rg.where, "Xor": rg.logical_xor,
    "Mish": F.mish, "HardSwish": F.hardswish,
}  # fmt: skip
OPERATORS.update({name: plain(function) for name, function in _SAME.items()})


def _promoted(function: Any) -> Callable[[Attributes, Tensor, Tensor], Tensor]:
    # ONNX requires operands of one dtype, so promotion never changes it; 0-d operands keep it.
    def apply_promoted(at: Attributes, x: Tensor, y: Tensor) -> Tensor:
        return function(x, y).to(x.dtype)

    return apply_promoted


OPERATORS.update({"Add": _promoted(rg.add), "Sub": _promoted(rg.sub), "Mul": _promoted(rg.mul)})


@operator("Div")
def div(at: Attributes, x: Tensor, y: Tensor) -> Tensor:
    return rg.div(x, y) if x.dtype.kind in "fV" else rg.div(x, y, rounding_mode="trunc").to(x.dtype)


@operator("Mod")
def mod(at: Attributes, x: Tensor, y: Tensor) -> Tensor:
    return (rg.fmod if at("fmod", 0) else rg.remainder)(x, y)


@operator("Pow")
def power(at: Attributes, x: Tensor, y: Tensor) -> Tensor:
    if y.numel() == 1 and not y.requires_grad and y.ndim <= x.ndim:
        exponent = y.item()
        if x.dtype.kind in "fV" or exponent >= 0 and exponent == int(exponent):
            return rg.pow(x, int(exponent) if x.dtype.kind not in "fV" else exponent).to(x.dtype)
    return rg.pow(x, y).to(x.dtype)


@operator("BitShift")
def bit_shift(at: Attributes, x: Tensor, y: Tensor) -> Tensor:
    function = np.left_shift if at("direction") == "LEFT" else np.right_shift
    return new_tensor(function(x.array, y.array))


@operator("Max")
def maximum(at: Attributes, *xs: Tensor) -> Tensor:
    return reduce(rg.maximum, xs)


@operator("Min")
def minimum(at: Attributes, *xs: Tensor) -> Tensor:
    return reduce(rg.minimum, xs)


@operator("Sum")
def total(at: Attributes, *xs: Tensor) -> Tensor:
    return reduce(rg.add, xs)


@operator("Mean")
def mean(at: Attributes, *xs: Tensor) -> Tensor:
    return reduce(rg.add, xs) / len(xs)


@operator("Clip")
def clip(at: Attributes, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    if low is not None:
        x = rg.maximum(x, low) if low.requires_grad else rg.clamp(x, min=low.item())
    if high is not None:
        x = rg.minimum(x, high) if high.requires_grad else rg.clamp(x, max=high.item())
    return x


@operator("Elu")
def elu(at: Attributes, x: Tensor) -> Tensor:
    return F.elu(x, at("alpha", 1.0))


@operator("Selu")
def selu(at: Attributes, x: Tensor) -> Tensor:
    alpha, gamma = at("alpha", 1.6732631921768188), at("gamma", 1.0507010221481323)
    return gamma * F.elu(x, alpha)


@operator("Celu")
def celu(at: Attributes, x: Tensor) -> Tensor:
    return F.celu(x, at("alpha", 1.0))


@operator("LeakyRelu")
def leaky_relu(at: Attributes, x: Tensor) -> Tensor:
    return F.leaky_relu(x, at("alpha", 0.01))


@operator("ThresholdedRelu")
def thresholded_relu(at: Attributes, x: Tensor) -> Tensor:
    return F.threshold(x, at("alpha", 1.0), 0.0)


@operator("HardSigmoid")
def hard_sigmoid(at: Attributes, x: Tensor) -> Tensor:
    return rg.clamp(at("alpha", 0.2) * x + at("beta", 0.5), 0, 1)


@operator("Shrink")
def shrink(at: Attributes, x: Tensor) -> Tensor:
    bias, lambd = at("bias", 0.0), at("lambd", 0.5)
    inside = rg.zeros_like(x)
    return rg.where(x > lambd, x - bias, rg.where(x < -lambd, x + bias, inside)).to(x.dtype)


@operator("Gelu")
def gelu(at: Attributes, x: Tensor) -> Tensor:
    return F.gelu(x, approximate=at("approximate", "none"))


@operator("Swish")
def swish(at: Attributes, x: Tensor) -> Tensor:
    return x * rg.sigmoid(at("alpha", 1.0) * x)


@operator("PRelu")
def prelu(at: Attributes, x: Tensor, slope: Tensor) -> Tensor:
    return rg.where(x < 0, slope * x, x).to(x.dtype)


@operator("IsInf")
def is_infinite(at: Attributes, x: Tensor) -> Tensor:
    positive, negative = at("detect_positive", 1), at("detect_negative", 1)
    found = rg.isinf(x)
    if not positive:
        found = found & (x < 0)
    return found if negative else found & (x > 0)


@operator("Cast")
def cast(at: Attributes, x: Tensor) -> Tensor:
    return _cast(x, at.dtype("to"))


@operator("CastLike")
def cast_like(at: Attributes, x: Tensor, like: Tensor) -> Tensor:
    return _cast(x, like.dtype)


def _cast(x: Tensor, dtype: Any) -> Tensor:
    if x.dtype.kind == "f" and np.dtype(dtype).kind in "iu":
        with np.errstate(all="ignore"):
            return new_tensor(x.array.astype(dtype))
    return x.to(dtype)


@operator("Dropout")
def dropout(
    at: Attributes, x: Tensor, ratio: Tensor | None = None, training: Tensor | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    share = at("ratio", 0.5) if ratio is None else ratio.item()
    mask = rg.ones_like(x, dtype=bool)
    if training is not None and training.item() and share:
        mask = rg.rand(x.shape, device=x.device) >= share
        x = rg.where(mask, x / (1 - share), rg.zeros_like(x)).to(x.dtype)
    return (x, mask) if at.outputs > 1 else x


@operator("CumSum")
def cumulative_sum(at: Attributes, x: Tensor, axis: Tensor) -> Tensor:
    return _cumulative(at, x, int(axis.item()), rg.cumsum, 0)


@operator("CumProd")
def cumulative_product(at: Attributes, x: Tensor, axis: Tensor) -> Tensor:
    return _cumulative(at, x, int(axis.item()), rg.cumprod, 1)


def _cumulative(at: Attributes, x: Tensor, axis: int, function: Any, neutral: int) -> Tensor:
    dtype = x.dtype
    if at("reverse", 0):
        x = rg.flip(x, [axis])
    if at("exclusive", 0):
        first = rg.full_like(rg.narrow(x, axis, 0, 1), neutral)
        x = rg.cat([first, rg.narrow(x, axis, 0, x.shape[axis] - 1)], axis)
    x = function(x, axis).to(dtype)
    return rg.flip(x, [axis]) if at("reverse", 0) else x


@operator("Constant")
def constant_node(at: Attributes) -> Tensor:
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64)):
        if name in at:
            return constant(at(name), at.actual(np.dtype(dtype)))
    if "value_ints" in at:
        return constant(at("value_ints"), np.int64)
    value = at("value")
    if value is None:
        raise TypeError("Constant: the value must be a tensor of numbers")
    return new_tensor(value.astype(at.actual(value.dtype)))
