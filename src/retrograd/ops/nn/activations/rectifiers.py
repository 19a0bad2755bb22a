"""Rectifiers: relu and its bounded, leaky, random and exponential relatives."""

from __future__ import annotations

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.arrays.dtypes import FLOATING
from ....core.arrays.python_numbers import converted
from ....core.errors import InvalidValue, describe
from ....core.graph.primitive import apply, apply1, operand
from ....core.tensor.mutation import apply_inplace
from ....core.tensor.tensor import Tensor
from ....kernels import SLOW, mapped
from ....kernels.loops.elements.elementwise import in_one_pass
from ...make.random_arrays import uniform
from ...table.arguments import number
from ...table.elementwise_primitives import ARITHMETIC, KEEP, KEEP_WHERE_NOT_ZERO, WHERE, elementwise, select, unary
from ...table.registry import operator
from .application import FUNCTIONS, RULES, activate


@mapped("relu", SLOW, halves=True)
def _relu_forward(x: Array) -> Array:
    if x.dtype.kind in "bc":
        raise NotImplementedError(f"is not defined for {x.dtype}")
    return np.maximum(x, 0)


RELU = unary(
    "relu",
    _relu_forward,
    lambda g, ans: KEEP_WHERE_NOT_ZERO(g, ans),
    promote="same",
    piecewise_linear=True,
    compiled="fE",
    halves=_relu_forward,
)
RELU.clips_by = KEEP_WHERE_NOT_ZERO


@operator(direct=True, inplace=RELU, raises="bools or complex")
def relu(input: Tensor) -> Tensor:
    """``max(input, 0)``, elementwise.

    Derivative: ``g`` where the input is positive or NaN, else 0; 0 at 0.
    Dtype: floating and integers, preserved; bools and complex numbers are refused.

    >>> rg.relu(rg.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return apply1(RELU, input)


@operator(namespace="nn.functional", method=False, name="relu", like=relu)
def _relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(input, 0)``, elementwise.

    >>> F.relu(rg.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return apply_inplace(RELU, input) if inplace else apply1(RELU, input)


def _bounded(x: Array, low: float, high: float) -> Array:
    kind = x.dtype.kind
    if kind == "b" or (kind == "u" and low < 0):
        raise NotImplementedError(f"is not defined for {x.dtype} between {low} and {high}")
    if kind in "iu":
        low, high = int(low), int(high)
    return ARITHMETIC["bounded"](x, low, high)


HARDTANH = elementwise(
    "hardtanh",
    in_one_pass(ARITHMETIC["bounded"], _bounded),
    "x",
    [in_one_pass(RULES["hardtanh_backward"])],
    promote="same",
    piecewise_linear=True,
    compiled="fd",
)


@operator(namespace="nn.functional", method=False, real=True)
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """``min(max(input, min_val), max_val)``, elementwise.

    Derivative: ``g`` between the bounds, 0 outside and, unlike that of ``clamp``, at the bounds.
    Dtype: floating and integers, preserved; for integers the bounds are truncated to integers, as in PyTorch.

    Raises:
        ValueError: ``min_val`` is greater than ``max_val``.
        NotImplementedError: the input holds bools or complex numbers, or unsigned integers while ``min_val`` is
            negative.

    >>> F.hardtanh(rg.tensor([-2.0, 0.5]))
    tensor([-1. ,  0.5])
    """
    x = operand(input)
    if x.array.dtype.kind in FLOATING:
        min_val, max_val = converted(min_val, x.array.dtype), converted(max_val, x.array.dtype)
    if min_val > max_val:
        raise InvalidValue(f"min_val must not be greater than max_val, got {min_val} and {max_val}")
    return _within(input, min_val, max_val, inplace)


@operator(namespace="nn.functional", method=False, real=True, dtype="number")
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``min(max(input, 0), 6)``, elementwise.

    Derivative: ``g`` between 0 and 6, 0 outside and at both bounds.

    Raises:
        NotImplementedError: ``input`` holds bools or complex numbers.

    Source: Krizhevsky, "Convolutional deep belief networks on CIFAR-10", 2010.

    >>> F.relu6(rg.tensor([-1.0, 2.0, 8.0]))
    tensor([0., 2., 6.])
    """
    return _within(input, 0, 6, inplace)


def _within(input: Tensor, low: float, high: float, inplace: bool) -> Tensor:
    params = {"low": low, "high": high}
    return apply_inplace(HARDTANH, input, **params) if inplace else apply(HARDTANH, (operand(input),), params)


# Exponential linear units

ELU = elementwise(
    "elu", in_one_pass(FUNCTIONS["elu"]), "x", [in_one_pass(RULES["elu_backward"])], signals=True, compiled="fd"
)

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


@operator(namespace="nn.functional", method=False, dtype="real")
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` where it is positive, else ``alpha (exp(input) - 1)``: the exponential linear unit.

    Derivative: ``g`` above 0, ``g alpha exp(input)`` below and at 0.

    Args:
        alpha: the negative of the limit at -inf.

    Source: Clevert, Unterthiner, Hochreiter, "Fast and accurate deep network learning by exponential linear
        units", 2016.

    >>> F.elu(rg.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.    ])
    """
    return activate(ELU, input, inplace, scale=1.0, below=alpha, width=1.0)


@operator(inplace=True, method=False, dtype="real")
def selu(input: Tensor) -> Tensor:
    """``scale input`` where it is positive, else ``scale alpha (exp(input) - 1)``: the self-normalizing linear unit.

    With ``scale = 1.0507`` and ``alpha = 1.6733`` activations keep mean 0 and variance 1 from layer to layer.

    Derivative: ``g scale`` above 0, ``g scale alpha exp(input)`` below and at 0.

    Source: Klambauer, Unterthiner, Mayr, Hochreiter, "Self-normalizing neural networks", 2017.

    >>> rg.selu(rg.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return _selu(input)


@operator(namespace="nn.functional", method=False, name="selu", like=selu)
def _selu(input: Tensor, inplace: bool = False) -> Tensor:
    """``scale input`` where it is positive, else ``scale alpha (exp(input) - 1)``: the self-normalizing linear unit.

    With ``scale = 1.0507`` and ``alpha = 1.6733`` activations keep mean 0 and variance 1 from layer to layer.

    >>> F.selu(rg.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return activate(ELU, input, inplace, scale=SELU_SCALE, below=SELU_SCALE * SELU_ALPHA, width=1.0)


@operator(inplace=True, method=False, like=elu)
def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``input`` where it is positive, else ``alpha (exp(input / alpha) - 1)``: an ``elu`` smooth for every alpha.

    Derivative: ``g`` above 0, ``g exp(input / alpha)`` below and at 0.

    Raises:
        RuntimeError: ``alpha`` is 0.

    Source: Barron, "Continuously differentiable exponential linear units", 2017.

    >>> rg.celu(rg.tensor([-1.0, 2.0]), alpha=2.0)
    tensor([-0.7869,  2.    ])
    """
    return _celu(input, alpha)


@operator(namespace="nn.functional", method=False, name="celu", like=celu)
def _celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` where it is positive, else ``alpha (exp(input / alpha) - 1)``: an ``elu`` smooth for every alpha.

    >>> F.celu(rg.tensor([-1.0, 2.0]), alpha=2.0)
    tensor([-0.7869,  2.    ])
    """
    if alpha == 0:
        raise RuntimeError("alpha must not be 0, since celu divides by alpha")
    return activate(ELU, input, inplace, scale=1.0, below=alpha, width=alpha)


# Leaky rectifiers


LEAKY_RELU = elementwise(
    "leaky_relu",
    in_one_pass(FUNCTIONS["leaky_relu"]),
    "x",
    [in_one_pass(RULES["leaky_relu_backward"])],
    promote="same",
    piecewise_linear=True,
    compiled="fd",
)


@operator(namespace="nn.functional", method=False, dtype="real")
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``input`` where it is positive, else ``negative_slope * input``.

    Derivative: ``g`` above 0, ``g negative_slope`` below and at 0.

    Source: Maas, Hannun, Ng, "Rectifier nonlinearities improve neural network acoustic models", 2013.

    >>> F.leaky_relu(rg.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1,  2. ])
    """
    return activate(LEAKY_RELU, input, inplace, slope=number(negative_slope, "negative_slope"))


PRELU = elementwise(
    "prelu",
    lambda x, weight: select(x > 0, x, weight * x),
    "x weight",
    [lambda g, x, weight: WHERE(x > 0, g, weight * g), lambda g, x: KEEP(g * x, ~(x > 0))],
    promote="strict",
    piecewise_linear=True,
)


@operator(also=("nn.functional.prelu",))
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """``input`` where it is positive, else ``weight * input``, with one learned weight or one per channel.

    Derivative: input: ``g`` above 0, ``g weight`` below and at 0; weight: the sum of ``g input`` below 0.
    Shape: ``(N, C, ...)``, or any for a single weight; the result has the input's shape.
    Dtype: floating, the same for both arguments.

    Args:
        weight: ``(C,)``, one per channel (dimension 1), or a single element.

    Raises:
        RuntimeError: there is neither one weight nor one per channel, or the dtypes differ.

    Source: He, Zhang, Ren, Sun, "Delving deep into rectifiers", 2015.

    >>> rg.prelu(rg.tensor([[-1.0, -1.0]]), rg.tensor([0.1, 0.2]))
    tensor([[-0.1, -0.2]])
    """
    x, w = operand(input), operand(weight, "weight")
    shape = x.array.shape
    if w.array.ndim > 1:
        raise RuntimeError(f"expected a weight with at most one axis, got {tuple(w.array.shape)}")
    if w.array.size != 1:
        channels = shape[1] if len(shape) > 1 else 1
        if w.array.size != channels:
            raise RuntimeError(
                f"expected one weight, or one per channel of axis 1 of the input {shape}, got {w.array.size}"
            )
        w = w.reshape((1, channels) + (1,) * (len(shape) - 2))
    elif w.array.ndim:
        w = w.reshape(())
    return apply(PRELU, (x, w), {})


RRELU = elementwise("rrelu", lambda x, slopes: x * slopes, "x", [lambda g, slopes: g * slopes], piecewise_linear=True)


@operator(namespace="nn.functional", method=False, real=True, dtype="real")
def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """``input`` where it is positive, else ``a input`` with a uniform on ``[lower, upper)``, drawn for each element.

    Without ``training``, a is the mean of ``lower`` and ``upper``.

    Derivative: ``g`` above 0, ``a g`` below and at 0.

    Args:
        lower: the least slope.
        upper: the greatest slope.
        training: whether slopes are random.

    Raises:
        NotImplementedError: the input is not floating.
        RuntimeError: ``lower`` exceeds ``upper``.

    Source: Xu et al., Empirical evaluation of rectified activations in convolutional network, 2015.

    >>> F.rrelu(rg.tensor([-1.0, 2.0]), 0.25, 0.75)
    tensor([-0.5,  2. ])
    """
    x = operand(input)
    if x.dtype.kind not in FLOATING:
        raise NotImplementedError(f"expected floating numbers, got {describe(x)}")
    if lower > upper:
        raise RuntimeError(f"lower must not exceed upper, got {lower} and {upper}")
    if not training:
        return leaky_relu(x, (lower + upper) / 2, inplace)
    xp, kind = array_module(x), x.dtype
    slopes = uniform(xp, x.array.shape, kind) * kind.type(upper - lower) + kind.type(lower)
    slopes = xp.where(x.array > 0, kind.type(1), slopes)
    return apply_inplace(RRELU, x, slopes=slopes) if inplace else apply(RRELU, (x,), {"slopes": slopes})


@operator(namespace="nn.functional", method=False, name="rrelu_", raises="complex", like=rrelu)
def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """``rrelu(input)``, written over the input, which is returned.

    Derivative: ``rrelu``'s.

    >>> F.rrelu_(rg.tensor([-1.0, 2.0]), 0.25, 0.75)
    tensor([-0.5,  2. ])
    """
    return rrelu(input, lower, upper, training, inplace=True)
