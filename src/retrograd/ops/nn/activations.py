"""Activation functions, as ``nn.functional`` has them.

All take ``inplace`` where PyTorch's do: the result is then written over the input.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.errors import InvalidValue, describe
from ...core.mutation import apply_inplace
from ...core.primitive import Primitive, apply, apply1, apply2, operand
from ...core.tensor import Tensor
from ...kernels import mapped
from ..math.arithmetic import ABS, MUL, SUB
from ..math.error_function import ERF
from ..math.exponential import EXP, SIGMOID
from ..math.trigonometric import TANH
from ..table.arguments import number
from ..table.blocks import in_blocks, in_single
from ..table.elementwise import elementwise, unary
from ..table.masks import KEEP, WHERE, select
from ..table.registry import operator

functional = "nn.functional"


@mapped("relu")
def _relu_forward(x: Any) -> Any:
    if x.dtype.kind in "bc":
        raise NotImplementedError(f"is not defined for {x.dtype}")
    return np.maximum(x, 0)


RELU = unary("relu", _relu_forward, lambda g, ans: KEEP(g, ans != 0), promote="same")


def _run(name: str, primitive: Primitive, input: Any, inplace: bool, **params: Any) -> Tensor:
    if inplace:
        return apply_inplace(primitive, input, **params)
    return apply(primitive, (operand(input),), params) if params else apply1(primitive, input)


@operator(direct=True, inplace=RELU, note="0 at 0")
def relu(input: Tensor) -> Tensor:
    """max(x, 0), elementwise.

    >>> rg.relu(rg.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return apply1(RELU, input)


@operator(namespace=functional, method=False, name="relu", note="0 at 0")
def _relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0), elementwise.

    >>> rg.nn.functional.relu(rg.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return apply_inplace(RELU, input) if inplace else apply1(RELU, input)


def _bounds(x: Any, low: float, high: float) -> Any:
    return np.minimum(np.maximum(x, low), high)


# Unlike clamp's, the gradient at the bounds is 0 (as PyTorch).
HARDTANH = elementwise(
    "hardtanh", _bounds, "x", [lambda g, x, low, high: KEEP(g, ~((x <= low) | (x >= high)))], promote="same"
)


@operator(namespace=functional, method=False, note="0 at the bounds", real=True)
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """min(max(x, min_val), max_val), with gradient 0 at the bounds.

    Raises:
        ValueError: min_val > max_val.

    >>> rg.nn.functional.hardtanh(rg.tensor([-2.0, 0.5]))
    tensor([-1. ,  0.5])
    """
    if min_val > max_val:
        raise InvalidValue(f"min_val must not be greater than max_val, got {min_val} and {max_val}")
    return _run("hardtanh", HARDTANH, input, inplace, low=min_val, high=max_val)


@operator(namespace=functional, method=False, note="0 at 0 and 6", real=True)
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6).

    >>> rg.nn.functional.relu6(rg.tensor([-1.0, 2.0, 8.0]))
    tensor([0., 2., 6.])
    """
    return _run("relu6", HARDTANH, input, inplace, low=0, high=6)


# Exponential linear units: scale * x for x > 0, scale * alpha * (e^(x / width) - 1) below.


def _elu(x: Any, scale: float, alpha: float, width: float) -> Any:
    below = (scale * alpha) * np.expm1(np.minimum(x, 0) * (1 / width))
    return select(x > 0, scale * x, below)


def _elu_rule(g: Any, x: Any, scale: float, alpha: float, width: float) -> Any:
    # At 0 the first derivative is that from below, the second 0 (as PyTorch).
    return WHERE(x <= 0, g * (scale * alpha / width * EXP(KEEP(x, x < 0) * (1 / width))), g * scale)


ELU = elementwise("elu", _elu, "x", [_elu_rule], signals=True)


@operator(namespace=functional, method=False, note="the derivative from below, alpha, at 0")
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x for x > 0, else alpha * (e^x - 1) (Clevert, Unterthiner and Hochreiter 2016).

    >>> rg.nn.functional.elu(rg.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.    ])
    """
    return _run("elu", ELU, _floating("elu", input), inplace, scale=1.0, alpha=alpha, width=1.0)


SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def _floating(name: str, input: Any) -> Tensor:
    x = operand(input)
    if x.array.dtype.kind != "f":
        raise NotImplementedError(f"is not implemented for {x.dtype}, only for floating Tensors")
    return x


@operator(inplace=True, method=False, note="the derivative from below at 0")
def selu(input: Tensor) -> Tensor:
    """scale * (x for x > 0, else alpha * (e^x - 1)), whose constants keep mean 0, variance 1 (Klambauer et al. 2017).

    >>> rg.selu(rg.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return _run("selu", ELU, _floating("selu", input), False, scale=SELU_SCALE, alpha=SELU_ALPHA, width=1.0)


@operator(namespace=functional, method=False, name="selu", note="the derivative from below at 0")
def _selu(input: Tensor, inplace: bool = False) -> Tensor:
    """scale * (x for x > 0, else alpha * (e^x - 1)), whose constants keep mean 0, variance 1 (Klambauer et al. 2017).

    >>> rg.nn.functional.selu(rg.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return _run("selu", ELU, _floating("selu", input), inplace, scale=SELU_SCALE, alpha=SELU_ALPHA, width=1.0)


@operator(inplace=True, method=False, note="the derivative from below, 1, at 0")
def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """x for x > 0, else alpha * (e^(x / alpha) - 1), smooth for every alpha (Barron 2017).

    Raises:
        RuntimeError: alpha is 0.

    >>> rg.celu(rg.tensor([-1.0, 2.0]), alpha=2.0)
    tensor([-0.7869,  2.    ])
    """
    return _celu(input, alpha)


@operator(namespace=functional, method=False, name="celu", note="the derivative from below, 1, at 0")
def _celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x for x > 0, else alpha * (e^(x / alpha) - 1), smooth for every alpha (Barron 2017).

    Raises:
        RuntimeError: alpha is 0.

    >>> rg.nn.functional.celu(rg.tensor([-1.0, 2.0]), alpha=2.0)
    tensor([-0.7869,  2.    ])
    """
    if alpha == 0:
        raise RuntimeError("alpha must not be 0 (ZeroDivisionError)")
    return _run("celu", ELU, _floating("celu", input), inplace, scale=1.0, alpha=alpha, width=alpha)


# Leaky lines

LEAKY_RELU = elementwise(
    "leaky_relu",
    lambda x, slope: select(x > 0, x, slope * x),
    "x",
    [lambda g, x, slope: WHERE(x > 0, g, slope * g)],
    promote="same",
)


@operator(namespace=functional, method=False, note="the derivative from below, negative_slope, at 0")
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x for x > 0, else negative_slope * x.

    >>> rg.nn.functional.leaky_relu(rg.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1,  2. ])
    """
    slope = number(negative_slope, "negative_slope")
    return _run("leaky_relu", LEAKY_RELU, _floating("leaky_relu", input), inplace, slope=slope)


PRELU = elementwise(
    "prelu",
    lambda x, weight: select(x > 0, x, weight * x),
    "x weight",
    [lambda g, x, weight: WHERE(x > 0, g, weight * g), lambda g, x: KEEP(g * x, ~(x > 0))],
    promote="strict",
)


@operator(note="the derivative from below at 0", also=("nn.functional.prelu",))
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x for x > 0, else weight * x, with one learned weight or one per channel (He et al. 2015).

    Args:
        input: (N, C, ...) or any shape for a single weight.
        weight: (C,) for the channels of axis 1, or a single element.

    Raises:
        RuntimeError: the number of weights is not that of channels, or the dtypes differ.

    >>> rg.prelu(rg.tensor([[-1.0, -1.0]]), rg.tensor([0.1, 0.2]))
    tensor([[-0.1, -0.2]])
    """
    x, w = operand(input), operand(weight, "weight")
    shape = x.array.shape
    if w.array.ndim > 1:
        raise RuntimeError(f"wanted a weight with at most one axis, got {tuple(w.array.shape)}")
    if w.array.size != 1:
        channels = shape[1] if len(shape) > 1 else 1
        if w.array.size != channels:
            raise RuntimeError(
                f"wanted one weight, or one per channel of axis 1 of the input {shape}, got {w.array.size}"
            )
        w = w.reshape((1, channels) + (1,) * (len(shape) - 2))
    elif w.array.ndim:
        w = w.reshape(())
    return apply(PRELU, (x, w), {})


# Smooth gates


@mapped("silu")
@in_blocks
@in_single
def _silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


SILU = unary("silu", _silu, lambda g, x: g * _silu_slope(x), signals=True)


@mapped("silu_slope")
@in_blocks
def _silu_slope(x: Any) -> Any:
    s = SIGMOID(x)
    return s * (1 + x * (1 - s))


@operator(namespace=functional, method=False)
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x), also called swish.

    >>> rg.nn.functional.silu(rg.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """
    return _run("silu", SILU, _floating("silu", input), inplace)


@in_blocks
def _softplus(x: Any) -> Any:
    # log1p(e) = log(u) e / (u - 1) with u = 1 + e rounded (W. Kahan): five times faster than np.log1p, as accurate.
    e = np.exp(-np.abs(x))
    u = 1 + e
    excess = u - 1
    tiny = excess == 0
    return np.maximum(x, 0) + np.where(tiny, e, np.log(u) * (e / (excess + tiny)))


def _scaled_softplus(x: Any, beta: float, threshold: float) -> Any:
    z = beta * x
    return select(z > threshold, x, _softplus(z) * (1 / beta))


def _scaled_softplus_rule(g: Any, x: Any, beta: float, threshold: float) -> Any:
    z = beta * x
    return WHERE(z > threshold, g, g * SIGMOID(z))


SOFTPLUS = elementwise("softplus", _scaled_softplus, "x", [_scaled_softplus_rule], signals=True)


@operator(namespace=functional, method=False, note="1 above the threshold")
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + e^(beta x)) / beta, a smooth relu; x itself where beta x > threshold.

    >>> rg.nn.functional.softplus(rg.tensor([0.0, 100.0]))
    tensor([  0.6931, 100.    ])
    """
    return _run("softplus", SOFTPLUS, _floating("softplus", input), False, beta=beta, threshold=threshold)


LOGSIGMOID = unary("logsigmoid", lambda x: -_softplus(-x), lambda g, x: g * SIGMOID(-x), signals=True)


@operator(namespace=functional, method=False)
def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)) = -log(1 + e^-x), without overflow.

    >>> rg.nn.functional.logsigmoid(rg.tensor([0.0, -100.0]))
    tensor([  -0.6931, -100.    ])
    """
    return apply1(LOGSIGMOID, _floating("logsigmoid", input))


@in_blocks
def _mish_slope(x: Any) -> Any:
    t = TANH(SOFTPLUS(x, beta=1.0, threshold=math.inf))
    return t + x * SIGMOID(x) * (1 - t * t)


MISH = unary("mish", in_blocks(lambda x: x * np.tanh(_softplus(x))), lambda g, x: g * _mish_slope(x), signals=True)


@operator(namespace=functional, method=False)
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)) (Misra 2019).

    >>> rg.nn.functional.mish(rg.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.944 ])
    """
    return _run("mish", MISH, _floating("mish", input), inplace)


# x times the normal distribution function, exactly and by a tanh.

_SQRT_HALF = math.sqrt(0.5)
_NORMAL_PEAK = 1 / math.sqrt(2 * math.pi)


@mapped("gelu")
@in_blocks
def _gelu(x: Any) -> Any:
    return x * (0.5 + 0.5 * ERF(x * _SQRT_HALF))


@mapped("gelu_slope")
@in_blocks
def _gelu_slope(x: Any) -> Any:
    return 0.5 + 0.5 * ERF(x * _SQRT_HALF) + x * (_NORMAL_PEAK * EXP(-0.5 * (x * x)))


GELU = unary("gelu", _gelu, lambda g, x: g * _gelu_slope(x), signals=True)

_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBIC = 0.044715


@mapped("gelu_tanh")
@in_blocks
def _gelu_tanh(x: Any) -> Any:
    return x * (0.5 + 0.5 * np.tanh(x * (_TANH_SCALE + _TANH_SCALE * _TANH_CUBIC * (x * x))))


@mapped("gelu_tanh_slope")
@in_blocks
def _gelu_tanh_slope(x: Any) -> Any:
    x = np.clip(x, -12, 12)  # beyond, the slope is 0 or 1, and squares would overflow
    square = x * x
    t = TANH(x * (_TANH_SCALE + _TANH_SCALE * _TANH_CUBIC * square))
    inner = _TANH_SCALE + 3 * _TANH_SCALE * _TANH_CUBIC * square
    return 0.5 + 0.5 * t + 0.5 * x * (1 - t * t) * inner


GELU_TANH = unary("gelu", _gelu_tanh, lambda g, x: g * _gelu_tanh_slope(x), signals=True)


@operator(namespace=functional, method=False)
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x * Phi(x) with the normal distribution function Phi (Hendrycks and Gimpel 2016).

    Args:
        input: a Tensor.
        approximate: ``"none"`` for Phi by the error function, ``"tanh"`` for
            0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).

    Raises:
        RuntimeError: ``approximate`` is neither.

    >>> rg.nn.functional.gelu(rg.tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    return apply1(GELU if approximate == "none" else GELU_TANH, _floating("gelu", input))


# Gates of straight lines

HARDSWISH = unary(
    "hardswish",
    lambda x: x * _bounds(x + 3, 0, 6) * (1 / 6),
    lambda g, x: WHERE(x >= 3, g, KEEP(g * (x * (1 / 3) + 0.5), ~(x <= -3))),
    promote="same",
)
HARDSIGMOID = unary(
    "hardsigmoid",
    lambda x: _bounds(x + 3, 0, 6) * (1 / 6),
    lambda g, x: KEEP(g * (1 / 6), (x > -3) & (x < 3)),
    promote="same",
)


@operator(namespace=functional, method=False, note="0 at -3, 1 at 3")
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * min(max(x + 3, 0), 6) / 6 (Howard et al. 2019).

    >>> rg.nn.functional.hardswish(rg.tensor([-1.0, 2.0]))
    tensor([-0.3333,  1.6667])
    """
    return _run("hardswish", HARDSWISH, _floating("hardswish", input), inplace)


@operator(namespace=functional, method=False, note="0 at -3 and 3")
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6.

    >>> rg.nn.functional.hardsigmoid(rg.tensor([0.0, 4.0]))
    tensor([0.5, 1. ])
    """
    return _run("hardsigmoid", HARDSIGMOID, _floating("hardsigmoid", input), inplace)


# Shrinkage and thresholds

HARDSHRINK = elementwise(
    "hardshrink",
    lambda x, lambd: np.where((x >= -lambd) & (x <= lambd), 0, x),
    "x",
    [lambda g, x, lambd: KEEP(g, ~((x >= -lambd) & (x <= lambd)))],
    promote="same",
)
SOFTSHRINK = elementwise(
    "softshrink",
    lambda x, lambd: np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, x * 0)),
    "x",
    [lambda g, x, lambd: KEEP(g, ~((x >= -lambd) & (x <= lambd)))],
    promote="same",
    signals=True,
)
THRESHOLD = elementwise(
    "threshold",
    lambda x, threshold, value: np.where(x <= threshold, x.dtype.type(value), x),
    "x",
    [lambda g, x, threshold: KEEP(g, ~(x <= threshold))],
    promote="same",
)


@operator(note="0 at the bounds", also=("nn.functional.hardshrink",))
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x where |x| > lambd, else 0.

    >>> rg.hardshrink(rg.tensor([-1.0, 0.3]))
    tensor([-1.,  0.])
    """
    return _run("hardshrink", HARDSHRINK, _floating("hardshrink", input), False, lambd=lambd)


@operator(namespace=functional, method=False, note="0 at the bounds")
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by lambd, 0 where |x| <= lambd.

    Raises:
        RuntimeError: lambd is negative.

    >>> rg.nn.functional.softshrink(rg.tensor([-1.0, 0.3]))
    tensor([-0.5,  0. ])
    """
    if lambd < 0:
        raise RuntimeError(f"lambd must not be negative, got {lambd}")
    return _run("softshrink", SOFTSHRINK, _floating("softshrink", input), False, lambd=lambd)


@operator(namespace=functional, method=False)
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x).

    >>> rg.nn.functional.tanhshrink(rg.tensor([0.0, 2.0]))
    tensor([0.   , 1.036])
    """
    return apply2(SUB, input, apply1(TANH, input))


SOFTSIGN = unary(
    "softsign",
    lambda x: x / (1 + np.abs(x)),
    lambda g, x: g / _square(1 + ABS(x)),
    signals=True,
)


def _square(x: Any) -> Any:
    return x * x


@operator(namespace=functional, method=False)
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|).

    >>> rg.nn.functional.softsign(rg.tensor([-1.0, 3.0]))
    tensor([-0.5 ,  0.75])
    """
    input = operand(input)
    if input.array.dtype.kind == "c":
        return input / (1 + apply1(ABS, input))
    return apply1(SOFTSIGN, input)


@operator(inplace=True, method=False, note="0 at the threshold", real=True)
def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """x where x > threshold, else ``value``.

    >>> rg.threshold(rg.tensor([-1.0, 2.0]), 0.5, -9.0)
    tensor([-9.,  2.])
    """
    return _threshold(input, threshold, value)


@operator(namespace=functional, method=False, name="threshold", note="0 at the threshold", real=True)
def _threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where x > threshold, else ``value``.

    >>> rg.nn.functional.threshold(rg.tensor([-1.0, 2.0]), 0.5, -9.0)
    tensor([-9.,  2.])
    """
    params = {"threshold": number(threshold, "threshold"), "value": number(value, "value")}
    if operand(input).array.dtype.kind == "b":
        raise NotImplementedError(f"is not defined for bools, got {describe(input)}")
    return _run("threshold", THRESHOLD, input, inplace, **params)


@operator(namespace=functional, method=False, real=True)
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The gated linear unit a * sigmoid(b), of the two halves a and b of an axis (Dauphin et al. 2017).

    Args:
        input: a Tensor whose axis ``dim`` has an even length.
        dim: the axis that is halved.

    Raises:
        RuntimeError: the input is 0-d, or the axis has an odd length.
        IndexError: there is no such axis.

    >>> rg.nn.functional.glu(rg.tensor([2.0, 4.0, 0.0, 0.0]))
    tensor([1., 2.])
    """
    input = operand(input)
    shape = input.array.shape
    if not shape:
        raise RuntimeError("does not support 0-d Tensors")
    if not -len(shape) <= dim < len(shape):
        raise IndexError(f"dim {dim} is out of range for {shape}, wanted [{-len(shape)}, {len(shape) - 1}]")
    dim %= len(shape)
    if shape[dim] % 2:
        raise RuntimeError(f"the halved axis must have an even length, but axis {dim} of {shape} has {shape[dim]}")
    half = shape[dim] // 2
    before = (slice(None),) * dim
    gate = apply1(SIGMOID, input[before + (slice(half, None),)])
    return apply2(MUL, input[before + (slice(half),)], gate)
