"""Exponentials and logarithms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.graph.primitive import Primitive, apply, apply1, apply2, operand
from ...core.tensor.tensor import Tensor
from ...elements.activations import activations
from ...elements.arithmetic import Functions
from ...kernels import SEVERAL, mapped
from ...kernels.loops.elements.elementwise import in_one_pass, of_pairs
from ..table.blocks import in_single
from ..table.elementwise_primitives import ARITHMETIC, WHERE, binary, unary
from ..table.registry import operator
from ..table.types import Operand

LN2 = math.log(2)

EXP = unary("exp", mapped("exp")(np.exp), lambda g, ans: g * ans, signals=True)
EXP2 = unary("exp2", np.exp2, lambda g, ans: g * (LN2 * ans), signals=True)
EXPM1 = unary("expm1", np.expm1, lambda g, ans: g * (ans + 1), signals=True)
LOG = unary("log", np.log, lambda g, x: g / x, signals=True)
LOG2 = unary("log2", np.log2, lambda g, x: g / (LN2 * x), signals=True)
LOG10 = unary("log10", np.log10, lambda g, x: g / (math.log(10) * x), signals=True)
LOG1P = unary("log1p", np.log1p, lambda g, x: g / (x + 1), signals=True)


def one_plus_exp(x: Array) -> Array:
    """Return ``1 + e^x``."""
    return 1 + np.exp(x)


_LOGISTIC = activations(Functions(one_plus_exp=one_plus_exp))
SIGMOID = unary(
    "sigmoid",
    mapped("sigmoid", SEVERAL)(in_single(_LOGISTIC["sigmoid"])),
    mapped("sigmoid_backward", SEVERAL)(_LOGISTIC["sigmoid_backward"]),
    signals=True,
    compiled="f",
)


@operator(direct=True, inplace=EXP, numpy=np.exp)
def exp(input: Tensor) -> Tensor:
    """``e^input``, elementwise.

    Derivative: ``g * exp(input)``.

    >>> rg.exp(rg.tensor([0.0, 1.0]))
    tensor([1.    , 2.7183])
    """
    return apply1(EXP, input)


@operator(direct=True, inplace=EXP2, numpy=np.exp2, dtype="float")
def exp2(input: Tensor) -> Tensor:
    """``2^input``, elementwise.

    Derivative: ``g * log(2) * 2^input``.

    >>> rg.exp2(rg.tensor([0.0, 3.0]))
    tensor([1., 8.])
    """
    return apply1(EXP2, input)


@operator(direct=True, inplace=EXPM1, numpy=np.expm1, like=exp)
def expm1(input: Tensor) -> Tensor:
    """``e^input - 1``, elementwise, accurate also near 0.

    >>> rg.expm1(rg.tensor([0.0, 1.0]))
    tensor([0.    , 1.7183])
    """
    return apply1(EXPM1, input)


@operator(direct=True, inplace=LOG, numpy=np.log)
def log(input: Tensor) -> Tensor:
    """``log(input)``, elementwise: the natural logarithm, -inf at 0, NaN below.

    Derivative: ``g / input``; infinite at 0.

    >>> rg.log(rg.tensor([1.0, 10.0]))
    tensor([0.    , 2.3026])
    """
    return apply1(LOG, input)


@operator(direct=True, inplace=LOG2, numpy=np.log2)
def log2(input: Tensor) -> Tensor:
    """``log(input) / log(2)``, elementwise: -inf at 0, NaN below.

    Derivative: ``g / (input * log(2))``; infinite at 0.

    >>> rg.log2(rg.tensor([1.0, 8.0]))
    tensor([0., 3.])
    """
    return apply1(LOG2, input)


@operator(direct=True, inplace=LOG10, numpy=np.log10)
def log10(input: Tensor) -> Tensor:
    """``log(input) / log(10)``, elementwise: -inf at 0, NaN below.

    Derivative: ``g / (input * log(10))``; infinite at 0.

    >>> rg.log10(rg.tensor([1.0, 1000.0]))
    tensor([0., 3.])
    """
    return apply1(LOG10, input)


@operator(direct=True, inplace=LOG1P, numpy=np.log1p)
def log1p(input: Tensor) -> Tensor:
    """``log(1 + input)``, elementwise, accurate also near 0; -inf at -1, NaN below.

    Derivative: ``g / (1 + input)``; infinite at -1.

    >>> rg.log1p(rg.tensor([0.0, 1.0]))
    tensor([0.    , 0.6931])
    """
    return apply1(LOG1P, input)


@operator(direct=True, inplace=SIGMOID, also=("nn.functional.sigmoid",))
def sigmoid(input: Tensor) -> Tensor:
    """``1 / (1 + e^-input)``, elementwise: the logistic function.

    Derivative: with s the result ``g * s * (1 - s)``.

    >>> rg.sigmoid(rg.tensor([0.0, 2.0]))
    tensor([0.5   , 0.8808])
    """
    return apply1(SIGMOID, input)


def _logaddexp(x: Array, y: Array) -> Array:
    if (x if hasattr(x, "dtype") else y).dtype.kind != "c":
        return np.logaddexp(x, y)
    # The larger real part is factored out, so that no exponential overflows; for -inf and -inf the result is -inf.
    swapped = y.real > x.real
    most, least = np.where(swapped, y, x), np.where(swapped, x, y)
    return np.where(most.real == -math.inf, most, most + np.log1p(np.exp(least - most)))


LOGADDEXP = binary(
    "logaddexp",
    of_pairs("logaddexp")(_logaddexp),
    lambda g, x, y: g * SIGMOID(x - y),
    lambda g, x, y: g * SIGMOID(y - x),
    promote="float",
    signals=True,
)
LOGADDEXP2 = binary(
    "logaddexp2",
    np.logaddexp2,
    lambda g, x, y: g * SIGMOID(LN2 * (x - y)),
    lambda g, x, y: g * SIGMOID(LN2 * (y - x)),
    promote="float",
    signals=True,
)


@operator(direct=True, numpy=np.logaddexp, dtype="float or complex")
def logaddexp(input: Tensor, other: Operand) -> Tensor:
    """``log(e^input + e^other)``, elementwise, without overflow.

    Derivative: input: ``g * sigmoid(input - other)``; other: ``g * sigmoid(other - input)``.
    Dtype: floating and complex: PyTorch's result type of both; integers become the default dtype.

    Args:
        input: the first exponent.
        other: the second exponent.

    >>> rg.logaddexp(rg.tensor([0.0, 1000.0]), rg.tensor([0.0, 1000.0]))
    tensor([6.9315e-01, 1.0007e+03])
    """
    return apply2(LOGADDEXP, input, other)


@operator(direct=True, numpy=np.logaddexp2, like=logaddexp, dtype="float", raises="complex")
def logaddexp2(input: Tensor, other: Operand) -> Tensor:
    """``log2(2^input + 2^other)``, elementwise, without overflow.

    Derivative: input: ``g / (1 + 2^(other - input))``; other: ``g / (1 + 2^(input - other))``.

    >>> rg.logaddexp2(rg.tensor([3.0]), rg.tensor([3.0]))
    tensor([4.])
    """
    return apply2(LOGADDEXP2, input, other)


def _times_log(logarithm: Any) -> Callable[[Any, Any], Any]:
    def forward(x: Any, y: Any) -> Array:
        log = logarithm(y)
        if isinstance(y, (int, float)):
            log = log.item()  # a NumPy scalar would determine the precision
        return np.where((x == 0) & ~np.isnan(y), 0, x * log)

    return forward


# For x = 0 the result is 0, as in PyTorch, even where the logarithm is infinite or NaN; and for g = 0 so is the
# derivative with respect to x.
XLOGY: Primitive = binary(
    "xlogy",
    _times_log(np.log),
    lambda g, x, y: XLOGY(g, WHERE((x == 0) & (y <= 0), 1.0, y)),
    lambda g, x, y: g * x / y,
    promote="float",
    signals=True,
)
XLOG1PY: Primitive = binary(
    "xlog1py",
    _times_log(np.log1p),
    lambda g, x, y: XLOG1PY(g, WHERE((x == 0) & (y <= -1), 0.0, y)),
    lambda g, x, y: g * x / (y + 1),
    promote="float",
    signals=True,
)


@operator(inplace=XLOGY, real=True, args="input factor")
def xlogy(input: Operand, other: Operand) -> Tensor:
    """``input * log(other)``, elementwise; 0 where the input is 0 and other not NaN.

    Derivative: input: ``g * log(other)``, 0 where the input is 0 and other <= 0; other: ``g * input / other``.

    Args:
        other: the argument of the logarithm.

    >>> rg.xlogy(rg.tensor([0.0, 2.0]), rg.tensor([0.0, 1.0]))
    tensor([0., 0.])
    """
    return apply2(XLOGY, input, other)


@operator(namespace="special", method=False, real=True, like=xlogy)
def xlog1py(input: Operand, other: Operand) -> Tensor:
    """``input * log(1 + other)``, elementwise; 0 where the input is 0 and other not NaN.

    Derivative: input: ``g * log(1 + other)``, 0 where the input is 0 and other <= -1;
    other: ``g * input / (1 + other)``.

    Args:
        other: the argument of the logarithm, minus 1.

    >>> rg.special.xlog1py(rg.tensor([0.0, 2.0]), rg.tensor([-1.0, 0.0]))
    tensor([0., 0.])
    """
    return apply2(XLOG1PY, input, other)


def _logit(x: Array, eps: float | None) -> Array:
    if eps is not None:
        x = np.clip(x, eps, 1 - eps)
    return np.log(x / (1 - x))


_logit_backward = in_one_pass(ARITHMETIC["logit_backward"])


def _logit_rule(g: Array, x: Array, eps: float | None) -> Array:
    return _logit_backward(g, x, math.nan if eps is None else eps)


LOGIT = Primitive("logit", _logit, "x", [_logit_rule], promote="float", elementwise=True, signals=True)


@operator(inplace=True, real=True, dtype="float")
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """``log(input / (1 - input))``, elementwise: the inverse of the logistic function.

    Derivative: ``g / (input * (1 - input))``, infinite at 0 and 1; outside ``[0, 1]`` NaN, with ``eps`` 0 outside [eps,
    1 - eps].

    Args:
        input: probabilities; the result is NaN outside ``[0, 1]``.
        eps: the input is clamped to [eps, 1 - eps] first; by default it is not.

    >>> rg.logit(rg.tensor([0.5, 0.9]))
    tensor([0.    , 2.1972])
    """
    return apply(LOGIT, (operand(input),), {"eps": eps})


for _function in (exp2, expm1, log1p, logit, xlogy):
    operator(namespace="special", method=False)(_function)


@operator(namespace="special", method=False, dtype="float or complex", like=sigmoid)
def expit(input: Tensor) -> Tensor:
    """``1 / (1 + e^-input)``, elementwise: the logistic function, as ``sigmoid``.

    >>> rg.special.expit(rg.tensor([0.0]))
    tensor([0.5])
    """
    return apply1(SIGMOID, input)
