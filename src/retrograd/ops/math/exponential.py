"""Powers, exponentials, logarithms, and what is made of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.dtypes import complex128, float64
from ...core.primitive import Primitive, apply, apply1, apply2, operand
from ...core.tensor import Tensor, tensor_method
from ...kernels import mapped
from ..table.blocks import in_single
from ..table.elementwise import binary, unary
from ..table.masks import WHERE, ZEROS
from ..table.python_operators import deferring
from ..table.registry import operator

LN2 = math.log(2)


def _square(x: Any) -> Any:
    return x.astype(np.int64) if x.dtype == bool else np.square(x)  # NumPy's square of a bool is an int8


SQUARE = unary("square", _square, lambda g, x: g * (2 * x), promote="same", signals=True)
SQRT = unary("sqrt", np.sqrt, lambda g, ans: g / (2 * ans), signals=True)
RSQRT = unary("rsqrt", lambda x: 1 / np.sqrt(x), lambda g, ans: g * (-0.5 * ans * ans * ans), signals=True)
RECIPROCAL = unary("reciprocal", np.reciprocal, lambda g, ans: -g * ans * ans, signals=True)
EXP = unary("exp", mapped("exp")(np.exp), lambda g, ans: g * ans, signals=True)
EXP2 = unary("exp2", np.exp2, lambda g, ans: g * (LN2 * ans), signals=True)
EXPM1 = unary("expm1", np.expm1, lambda g, ans: g * (ans + 1), signals=True)
LOG = unary("log", np.log, lambda g, x: g / x, signals=True)
LOG2 = unary("log2", np.log2, lambda g, x: g / (LN2 * x), signals=True)
LOG10 = unary("log10", np.log10, lambda g, x: g / (math.log(10) * x), signals=True)
LOG1P = unary("log1p", np.log1p, lambda g, x: g / (x + 1), signals=True)


@mapped("sigmoid")
@in_single
def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


SIGMOID = unary("sigmoid", _sigmoid, lambda g, ans: g * (ans * (1 - ans)), signals=True)


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, complex))


def _power(x: Any, y: Any) -> Any:
    if _is_number(y):
        # Products round better than pow, and take a tenth of its time.
        if y == 1:
            return x.copy()
        if y == 2:
            return x * x
        if y == 3:
            return x * x * x
    return np.power(x, y)


def _power_rule_x(g: Any, x: Any, y: Any) -> Any:
    if _is_number(y):
        return ZEROS(g) if y == 0 else g * (y * POW(x, y - 1))
    # y x^(y - 1), which is 0 for y = 0, where the power is constant, also at x = 0 and NaN.
    constant = (y == 0) & ~(np.abs(x) > 0)
    return g * (y * POW(x, WHERE(constant, y, y - 1)))


def _power_rule_y(g: Any, ans: Any, x: Any, y: Any) -> Any:
    if _is_number(x):
        if x == 0:
            return WHERE(y >= 0, 0.0, g * ans * -math.inf)
        return g * ans * np.log(x).item()
    # x^y log(x), at x = 0 its limit 0 for y >= 0 (for y = 0 PyTorch's choice).
    at_zero = (x == 0) & (y.real >= 0)
    return g * ans * LOG(WHERE(at_zero, 1.0, x))


POW = binary("pow", _power, _power_rule_x, _power_rule_y, signals=True)


@operator(
    inplace=POW, numpy=np.power, note="exponent's gradient 0 at input 0 for exponents >= 0, NaN for negative input"
)
def pow_(input: Any, exponent: Any) -> Tensor:
    """``input ** exponent``, elementwise with broadcasting; either may be a number.

    With x for the input and y for the exponent the gradients are ``g y x^(y - 1)`` and ``g x^y log(x)``.

    Raises:
        RuntimeError: a negative exponent of integers.

    >>> rg.pow(rg.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    >>> rg.pow(2, rg.tensor([1.0, 3.0]))
    tensor([2., 8.])
    """
    return _tensor_power(input, exponent) if isinstance(input, Tensor) else apply2(POW, input, exponent)


def _tensor_power(self: Tensor, exponent: Any) -> Tensor:
    """``self ** exponent``, with the frequent exponents as primitives of their own."""
    if exponent.__class__ is int or exponent.__class__ is float:
        kind = self.array.dtype.kind
        if kind == "f" or kind == "c":
            if exponent == 2:
                return apply1(SQUARE, self)
            if exponent == 0.5:
                return apply1(SQRT, self)
            if exponent == -1:
                return apply1(RECIPROCAL, self)
            if exponent == -0.5:
                return apply1(RSQRT, self)
    return apply2(POW, self, exponent)


tensor_method(deferring(_tensor_power), "__pow__")
tensor_method(deferring(lambda self, base: apply2(POW, base, self)), "__rpow__")
tensor_method(deferring(lambda self, exponent: self.pow_(exponent)), "__ipow__")


@operator(inplace=True, numpy=np.float_power)
def float_power(input: Any, exponent: Any) -> Tensor:
    """``pow`` in double precision: float64, or complex128 where an operand is complex.

    >>> rg.float_power(rg.tensor([4, 9]), 0.5)
    tensor([2., 3.], dtype=float64)
    """
    base, power = operand(input), operand(exponent, "exponent")
    wide = complex128 if "c" in (base.array.dtype.kind, power.array.dtype.kind) else float64
    return _tensor_power(base.to(wide), exponent if isinstance(exponent, (int, float)) else power.to(wide))


@operator(direct=True, inplace=SQUARE, numpy=np.square)
def square(input: Tensor) -> Tensor:
    """The square x^2.

    >>> rg.square(rg.tensor([1.0, -3.0]))
    tensor([1., 9.])
    """
    return apply1(SQUARE, input)


@operator(direct=True, inplace=SQRT, numpy=np.sqrt)
def sqrt(input: Tensor) -> Tensor:
    """The square root; NaN below 0. Its derivative at 0 is infinite.

    >>> rg.sqrt(rg.tensor([4.0, 2.0]))
    tensor([2.    , 1.4142])
    """
    return apply1(SQRT, input)


@operator(direct=True, inplace=RSQRT)
def rsqrt(input: Tensor) -> Tensor:
    """The reciprocal of the square root, 1 / sqrt(x).

    >>> rg.rsqrt(rg.tensor([4.0, 1.0]))
    tensor([0.5, 1. ])
    """
    return apply1(RSQRT, input)


@operator(direct=True, inplace=RECIPROCAL, numpy=np.reciprocal)
def reciprocal(input: Tensor) -> Tensor:
    """The reciprocal 1 / x.

    >>> rg.reciprocal(rg.tensor([4.0, -1.0]))
    tensor([ 0.25, -1.  ])
    """
    return apply1(RECIPROCAL, input)


@operator(direct=True, inplace=EXP, numpy=np.exp)
def exp(input: Tensor) -> Tensor:
    """The exponential e^x; integers become the default floating dtype.

    >>> rg.exp(rg.tensor([0.0, 1.0]))
    tensor([1.    , 2.7183])
    """
    return apply1(EXP, input)


@operator(direct=True, inplace=EXP2, numpy=np.exp2)
def exp2(input: Tensor) -> Tensor:
    """The power of two 2^x.

    >>> rg.exp2(rg.tensor([0.0, 3.0]))
    tensor([1., 8.])
    """
    return apply1(EXP2, input)


@operator(direct=True, inplace=EXPM1, numpy=np.expm1)
def expm1(input: Tensor) -> Tensor:
    """e^x - 1, accurate also for x near 0.

    >>> rg.expm1(rg.tensor([0.0, 1.0]))
    tensor([0.    , 1.7183])
    """
    return apply1(EXPM1, input)


@operator(direct=True, inplace=LOG, numpy=np.log)
def log(input: Tensor) -> Tensor:
    """The natural logarithm: -inf at 0, NaN below.

    >>> rg.log(rg.tensor([1.0, 10.0]))
    tensor([0.    , 2.3026])
    """
    return apply1(LOG, input)


@operator(direct=True, inplace=LOG2, numpy=np.log2)
def log2(input: Tensor) -> Tensor:
    """The logarithm to base 2: -inf at 0, NaN below.

    >>> rg.log2(rg.tensor([1.0, 8.0]))
    tensor([0., 3.])
    """
    return apply1(LOG2, input)


@operator(direct=True, inplace=LOG10, numpy=np.log10)
def log10(input: Tensor) -> Tensor:
    """The logarithm to base 10: -inf at 0, NaN below.

    >>> rg.log10(rg.tensor([1.0, 1000.0]))
    tensor([0., 3.])
    """
    return apply1(LOG10, input)


@operator(direct=True, inplace=LOG1P, numpy=np.log1p)
def log1p(input: Tensor) -> Tensor:
    """log(1 + x), accurate also for x near 0.

    >>> rg.log1p(rg.tensor([0.0, 1.0]))
    tensor([0.    , 0.6931])
    """
    return apply1(LOG1P, input)


@operator(direct=True, inplace=SIGMOID, also=("nn.functional.sigmoid",))
def sigmoid(input: Tensor) -> Tensor:
    """The logistic function 1 / (1 + e^-x).

    >>> rg.sigmoid(rg.tensor([0.0, 2.0]))
    tensor([0.5   , 0.8808])
    """
    return apply1(SIGMOID, input)


LOGADDEXP = binary(
    "logaddexp",
    np.logaddexp,
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
HYPOT = binary(
    "hypot",
    np.hypot,
    lambda g, ans, x: g * (x / ans),
    lambda g, ans, y: g * (y / ans),
    promote="float",
    signals=True,
)


@operator(direct=True, numpy=np.logaddexp)
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """log(e^input + e^other), without overflow.

    >>> rg.logaddexp(rg.tensor([0.0, 1000.0]), rg.tensor([0.0, 1000.0]))
    tensor([6.9315e-01, 1.0007e+03])
    """
    return apply2(LOGADDEXP, input, other)


@operator(direct=True, numpy=np.logaddexp2)
def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """log2(2^input + 2^other), without overflow.

    >>> rg.logaddexp2(rg.tensor([3.0]), rg.tensor([3.0]))
    tensor([4.])
    """
    return apply2(LOGADDEXP2, input, other)


@operator(direct=True, inplace=HYPOT, numpy=np.hypot, note="NaN at the origin")
def hypot(input: Tensor, other: Tensor) -> Tensor:
    """sqrt(input^2 + other^2), without overflow of the squares.

    >>> rg.hypot(rg.tensor([3.0]), rg.tensor([4.0]))
    tensor([5.])
    """
    return apply2(HYPOT, input, other)


@operator(inplace=True, numpy=np.ldexp)
def ldexp(input: Tensor, other: Any) -> Tensor:
    """``input * 2 ** other``.

    >>> rg.ldexp(rg.tensor([1.0, 3.0]), rg.tensor([2, 3]))
    tensor([ 4., 24.])
    """
    x, exponent = operand(input), operand(other, "other")
    if x.array.dtype.kind == "f" and exponent.array.dtype.kind in "iub":
        exponent = exponent.to(x.dtype)  # the power may lie outside of the default dtype's range
    return x * apply2(POW, 2.0, exponent)


def _times_log(logarithm: Any) -> Any:
    def forward(x: Any, y: Any) -> Any:
        log = logarithm(y)
        if _is_number(y):
            log = log.item()  # a NumPy scalar would decide the precision
        return np.where((x == 0) & ~np.isnan(y), 0, x * log)

    return forward


# PyTorch's choice for x = 0 where the logarithm is infinite or NaN: 0.
XLOGY = binary(
    "xlogy",
    _times_log(np.log),
    lambda g, x, y: g * LOG(WHERE((x == 0) & (y <= 0), 1.0, y)),
    lambda g, x, y: g * x / y,
    promote="float",
    signals=True,
)
XLOG1PY = binary(
    "xlog1py",
    _times_log(np.log1p),
    lambda g, x, y: g * LOG1P(WHERE((x == 0) & (y <= -1), 0.0, y)),
    lambda g, x, y: g * x / (y + 1),
    promote="float",
    signals=True,
)


@operator(inplace=XLOGY, note="0 for the input at input 0, other <= 0", real=True)
def xlogy(input: Any, other: Any) -> Tensor:
    """input * log(other), 0 where the input is 0 (and other is not NaN).

    >>> rg.xlogy(rg.tensor([0.0, 2.0]), rg.tensor([0.0, 1.0]))
    tensor([0., 0.])
    """
    return apply2(XLOGY, input, other)


@operator(namespace="special", method=False, note="0 for the input at input 0, other <= -1", real=True)
def xlog1py(input: Any, other: Any) -> Tensor:
    """input * log(1 + other), 0 where the input is 0 (and other is not NaN).

    >>> rg.special.xlog1py(rg.tensor([0.0, 2.0]), rg.tensor([-1.0, 0.0]))
    tensor([0., 0.])
    """
    return apply2(XLOG1PY, input, other)


def _logit(x: Any, eps: float | None) -> Any:
    if eps is not None:
        x = np.clip(x, eps, 1 - eps)
    return np.log(x / (1 - x))


def _logit_rule(g: Any, x: Any, eps: float | None) -> Any:
    if eps is None:
        inside, outside = (x >= 0) & (x <= 1), math.nan
    else:
        inside, outside = (x >= eps) & (x <= 1 - eps), 0.0
    x = WHERE(inside, x, 0.5)
    return WHERE(inside, g / (x * (1 - x)), outside)


LOGIT = Primitive("logit", _logit, "x", [_logit_rule], promote="float", elementwise=True, signals=True)


@operator(inplace=True, note="0 outside [eps, 1 - eps]", real=True)
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """The inverse of the sigmoid, log(x / (1 - x)); with ``eps``, of x clamped to [eps, 1 - eps].

    >>> rg.logit(rg.tensor([0.5, 0.9]))
    tensor([0.    , 2.1972])
    """
    return apply(LOGIT, (operand(input),), {"eps": eps})


for _function in (exp2, expm1, log1p, logit, xlogy):
    operator(namespace="special", method=False)(_function)


@operator(namespace="special", method=False)
def expit(input: Tensor) -> Tensor:
    """``1 / (1 + exp(-input))``: the logistic function, as ``sigmoid``.

    >>> rg.special.expit(rg.tensor([0.0]))
    tensor([0.5])
    """
    return apply1(SIGMOID, input)
