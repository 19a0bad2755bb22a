"""Trigonometric and hyperbolic functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.graph.primitive import Primitive, apply1, apply2
from ...core.tensor.tensor import Tensor
from ...elements.activations import activations
from ...elements.arithmetic import Functions
from ...kernels import USEFUL, mapped
from ..table.blocks import in_single
from ..table.elementwise_primitives import KEEP, WHERE, binary, elementwise, unary
from ..table.registry import operator
from ..table.types import Operand
from .powers import RSQRT

SIN = unary("sin", np.sin, lambda g, x: g * COS(x), signals=True)
COS: Primitive = unary("cos", np.cos, lambda g, x: -g * SIN(x), signals=True)
TAN = unary("tan", np.tan, lambda g, ans: g * (1 + ans * ans), signals=True)
ASIN = unary("asin", np.arcsin, lambda g, x: g * RSQRT(1 - x * x), signals=True)
ACOS = unary("acos", np.arccos, lambda g, x: -g * RSQRT(1 - x * x), signals=True)
ATAN = unary("atan", np.arctan, lambda g, x: g / (1 + x * x), signals=True)
SINH = unary("sinh", np.sinh, lambda g, x: g * COSH(x), signals=True)
COSH: Primitive = unary("cosh", np.cosh, lambda g, x: g * SINH(x), signals=True)
# The gradient is a single primitive: composed of products and differences, each tangent would allocate six arrays.
_tanh_backward = activations(Functions())["tanh_backward"]
_with_loop = mapped("tanh_backward")(_tanh_backward)
TANH_BACKWARD: Primitive = elementwise(
    "tanh_backward",
    _with_loop,
    "dy y",
    [lambda g, y: TANH_BACKWARD(g, y), lambda g, dy, y: g * (-2 * (dy * y))],
)


def _tanh_vjp(g: Array, ans: Array) -> Array:
    if isinstance(g, Tensor):
        return TANH_BACKWARD(g, ans)
    return _tanh_backward(g, ans) if g.size < USEFUL else _with_loop(g, ans)


TANH = unary("tanh", mapped("tanh")(np.tanh), _tanh_vjp, compiled="f")
ASINH = unary("asinh", np.arcsinh, lambda g, x: g * RSQRT(x * x + 1), signals=True)
ACOSH = unary("acosh", np.arccosh, lambda g, x: g * RSQRT(x - 1) * RSQRT(x + 1), signals=True)
ATANH = unary("atanh", np.arctanh, lambda g, x: g / (1 - x * x), signals=True)


@operator(direct=True, inplace=SIN, numpy=np.sin)
def sin(input: Tensor) -> Tensor:
    """``sin(input)``, elementwise, of angles in radians.

    Derivative: ``g * cos(input)``.

    >>> rg.sin(rg.tensor([0.0, 0.5]))
    tensor([0.    , 0.4794])
    """
    return apply1(SIN, input)


@operator(direct=True, inplace=COS, numpy=np.cos)
def cos(input: Tensor) -> Tensor:
    """``cos(input)``, elementwise, of angles in radians.

    Derivative: ``-g * sin(input)``.

    >>> rg.cos(rg.tensor([0.0, 0.5]))
    tensor([1.    , 0.8776])
    """
    return apply1(COS, input)


@operator(direct=True, inplace=TAN, numpy=np.tan)
def tan(input: Tensor) -> Tensor:
    """``tan(input)``, elementwise, of angles in radians.

    Derivative: with t the result ``g * (1 + t^2)``.

    >>> rg.tan(rg.tensor([0.0, 0.5]))
    tensor([0.    , 0.5463])
    """
    return apply1(TAN, input)


@operator(direct=True, inplace=ASIN, numpy=np.arcsin, aliases=("arcsin",))
def asin(input: Tensor) -> Tensor:
    """``arcsin(input)``, elementwise: the angle in ``[-pi/2, pi/2]`` radians with this sine; NaN outside ``[-1, 1]``.

    Derivative: ``g / sqrt(1 - input^2)``; infinite at -1 and 1.

    >>> rg.asin(rg.tensor([0.0, 0.5]))
    tensor([0.    , 0.5236])
    """
    return apply1(ASIN, input)


@operator(direct=True, inplace=ACOS, numpy=np.arccos, aliases=("arccos",))
def acos(input: Tensor) -> Tensor:
    """``arccos(input)``, elementwise: the angle in ``[0, pi]`` radians with this cosine; NaN outside ``[-1, 1]``.

    Derivative: ``-g / sqrt(1 - input^2)``; infinite at -1 and 1.

    >>> rg.acos(rg.tensor([0.0, 0.5]))
    tensor([1.5708, 1.0472])
    """
    return apply1(ACOS, input)


@operator(direct=True, inplace=ATAN, numpy=np.arctan, aliases=("arctan",))
def atan(input: Tensor) -> Tensor:
    """``arctan(input)``, elementwise: the angle in ``(-pi/2, pi/2)`` radians with this tangent.

    Derivative: ``g / (1 + input^2)``.

    >>> rg.atan(rg.tensor([0.0, 0.5]))
    tensor([0.    , 0.4636])
    """
    return apply1(ATAN, input)


@operator(direct=True, inplace=SINH, numpy=np.sinh)
def sinh(input: Tensor) -> Tensor:
    """``(e^input - e^-input) / 2``, elementwise: the hyperbolic sine.

    Derivative: ``g * cosh(input)``.

    >>> rg.sinh(rg.tensor([0.0, 0.5]))
    tensor([0.    , 0.5211])
    """
    return apply1(SINH, input)


@operator(direct=True, inplace=COSH, numpy=np.cosh)
def cosh(input: Tensor) -> Tensor:
    """``(e^input + e^-input) / 2``, elementwise: the hyperbolic cosine.

    Derivative: ``g * sinh(input)``.

    >>> rg.cosh(rg.tensor([0.0, 0.5]))
    tensor([1.    , 1.1276])
    """
    return apply1(COSH, input)


@operator(direct=True, inplace=TANH, numpy=np.tanh, also=("nn.functional.tanh",))
def tanh(input: Tensor) -> Tensor:
    """``(e^input - e^-input) / (e^input + e^-input)``, elementwise: the hyperbolic tangent.

    Derivative: with t the result ``g * (1 - t^2)``.

    >>> rg.tanh(rg.tensor([0.0, 0.5]))
    tensor([0.    , 0.4621])
    """
    return apply1(TANH, input)


@operator(direct=True, inplace=ASINH, numpy=np.arcsinh, aliases=("arcsinh",))
def asinh(input: Tensor) -> Tensor:
    """``log(input + sqrt(input^2 + 1))``, elementwise: the inverse of ``sinh``.

    Derivative: ``g / sqrt(input^2 + 1)``.

    >>> rg.asinh(rg.tensor([0.0, 0.5]))
    tensor([0.    , 0.4812])
    """
    return apply1(ASINH, input)


@operator(direct=True, inplace=ACOSH, numpy=np.arccosh, aliases=("arccosh",))
def acosh(input: Tensor) -> Tensor:
    """``log(input + sqrt(input^2 - 1))``, elementwise: the inverse of ``cosh``, at least 0; NaN below 1.

    Derivative: ``g / sqrt(input^2 - 1)``; infinite at 1, NaN below.

    >>> rg.acosh(rg.tensor([1.0, 2.0]))
    tensor([0.   , 1.317])
    """
    return apply1(ACOSH, input)


@operator(direct=True, inplace=ATANH, numpy=np.arctanh, aliases=("arctanh",))
def atanh(input: Tensor) -> Tensor:
    """``log((1 + input) / (1 - input)) / 2``, elementwise: the inverse of ``tanh``; NaN outside ``[-1, 1]``.

    Derivative: ``g / (1 - input^2)``; infinite at -1 and 1.

    >>> rg.atanh(rg.tensor([0.0, 0.5]))
    tensor([0.    , 0.5493])
    """
    return apply1(ATANH, input)


def _atan2_rule(g: Array, a: Array, x: Array, y: Array) -> Any:
    # At the origin the gradient is 0, as in PyTorch.
    square = x * x + y * y
    return KEEP(g * a / WHERE(square == 0, 1.0, square), square != 0)


ATAN2 = binary(
    "atan2",
    np.arctan2,
    lambda g, x, y: _atan2_rule(g, y, x, y),
    lambda g, x, y: _atan2_rule(g, -x, x, y),
    promote="float",
    signals=True,
)


@operator(direct=True, inplace=ATAN2, numpy=np.arctan2, aliases=("arctan2",), raises="complex")
def atan2(input: Tensor, other: Operand) -> Tensor:
    """``arg(other + i input)``, elementwise: the angle in ``(-pi, pi]`` radians of the point (other, input).

    Derivative: input: ``g * other / r^2``; other: ``-g * input / r^2``; 0 at the origin; ``r^2 = input^2 + other^2``.

    Args:
        input: the second coordinate.
        other: the first coordinate.

    >>> rg.atan2(rg.tensor([1.0, -1.0]), rg.tensor([-1.0, 1.0]))
    tensor([ 2.3562, -0.7854])
    """
    return apply2(ATAN2, input, other)


DEG2RAD = unary("deg2rad", np.deg2rad, lambda g: g * (math.pi / 180))
RAD2DEG = unary("rad2deg", np.rad2deg, lambda g: g * (180 / math.pi), signals=True)


@operator(direct=True, inplace=DEG2RAD, numpy=(np.deg2rad, np.radians), dtype="float", raises="complex")
def deg2rad(input: Tensor) -> Tensor:
    """``input * pi / 180``, elementwise: degrees as radians.

    Derivative: ``g * pi / 180``.

    >>> rg.deg2rad(rg.tensor([180.0, -90.0]))
    tensor([ 3.1416, -1.5708])
    """
    return apply1(DEG2RAD, input)


@operator(direct=True, inplace=RAD2DEG, numpy=(np.rad2deg, np.degrees), dtype="float", raises="complex")
def rad2deg(input: Tensor) -> Tensor:
    """``input * 180 / pi``, elementwise: radians as degrees.

    Derivative: ``g * 180 / pi``.

    >>> rg.rad2deg(rg.tensor([0.0, 3.1415927]))
    tensor([  0., 180.])
    """
    return apply1(RAD2DEG, input)


def _spherical_bessel_1(x: Array) -> Array:
    # sin(x) / x^2 - cos(x) / x; near 0, where the difference cancels, by its series.
    square = x * x
    small = np.abs(square) < 0.25
    series = 1 - square / 130
    for divisor in (88, 54, 28, 10):
        series = 1 - square / divisor * series
    x_safe = np.where(small, 1, x)
    return np.where(small, x / 3 * series, (np.sin(x_safe) / x_safe - np.cos(x_safe)) / x_safe)


def _spherical_bessel_1_rule(g: Array, x: Array, ans: Array) -> Array:
    # j1' = j0 - 2 j1 / x, 1/3 at 0 (DLMF 10.51.2).
    zero = x == 0
    return g * WHERE(zero, 1 / 3, SINC(x * (1 / math.pi)) - 2 * ans / WHERE(zero, 1.0, x))


SPHERICAL_BESSEL_1 = unary("spherical_bessel_1", _spherical_bessel_1, _spherical_bessel_1_rule, signals=True)
SINC = unary("sinc", in_single(np.sinc), lambda g, x: g * -math.pi * SPHERICAL_BESSEL_1(math.pi * x), signals=True)


@operator(direct=True, inplace=SINC, also=("special.sinc",), dtype="float")
def sinc(input: Tensor) -> Tensor:
    """``sin(pi input) / (pi input)``, elementwise, and 1 at 0: the normalized sinc.

    Derivative: with x the input ``g * (cos(pi x) - sinc(x)) / x``, 0 at 0.

    >>> rg.sinc(rg.tensor([0.0, 0.5, 1.5]))
    tensor([ 1.    ,  0.6366, -0.2122])
    """
    return apply1(SINC, input)
