"""Gamma, Bessel and entropy functions, as in ``torch.special``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.dtypes import limits
from ....core.graph.primitive import Primitive, apply, apply1, apply2, operand
from ....core.tensor.tensor import Tensor
from ....kernels.loops.elements.elementwise import special
from ...table.elementwise_primitives import WHERE, elementwise, unary
from ...table.registry import operator
from ..arithmetic import ABS, SIGN, SUB
from ..exponential import EXP, LOG
from .libraries import from_library, library_for

# The gamma function's logarithm and its derivatives


@special("trigamma")
def _trigamma(x: Array) -> Array:
    return library_for(x).zeta(2.0, x).astype(x.dtype)


def _polygamma(x: Array, n: int) -> Array:
    if np.iscomplexobj(x):
        raise NotImplementedError("the second derivative of the gamma function is not known for complex numbers")
    if n == 1:
        return _trigamma(x)
    library = library_for(x)
    # (-1)^(n + 1) n! zeta(n + 1, x), DLMF 5.15.1.
    return (library.zeta(float(n + 1), x) * ((-1.0) ** (n + 1) * math.factorial(n))).astype(x.dtype)


_gammaln = from_library("gammaln")


@special("lgamma")
def _lgamma(x: Array) -> Array:
    lowest = -limits(np.dtype(getattr(x, "dtype", float))).max
    return _gammaln(np.maximum(x, lowest))  # at -inf SciPy's result is -inf, not inf


_digamma = special("digamma")(from_library("digamma"))

LGAMMA = unary("lgamma", _lgamma, lambda g, x: g * DIGAMMA(x), signals=True)
DIGAMMA: Primitive = unary("digamma", _digamma, lambda g, x: g * POLYGAMMA(x, n=1), signals=True)
POLYGAMMA: Primitive = elementwise(
    "polygamma", _polygamma, "x", [lambda g, x, n: g * POLYGAMMA(x, n=n + 1)], promote="float", signals=True
)


@operator(direct=True, inplace=LGAMMA, dtype="float", raises="scipy")
def lgamma(input: Tensor) -> Tensor:
    """``log(|gamma(input)|)``, elementwise: infinite at 0 and negative whole numbers.

    Derivative: ``g * digamma(input)``.

    Source: Abramowitz and Stegun 6.1.

    >>> rg.lgamma(rg.tensor([1.0, 5.0]))
    tensor([0.    , 3.1781])
    """
    return apply1(LGAMMA, input)


@operator(inplace=DIGAMMA, real=True, dtype="float", raises="scipy")
def digamma(input: Tensor) -> Tensor:
    """``gamma'(input) / gamma(input)``, elementwise: infinite at 0, NaN at negative whole numbers.

    Derivative: ``g * polygamma(1, input)``.

    Source: Abramowitz and Stegun 6.3.

    >>> rg.digamma(rg.tensor([1.0, 5.0]))
    tensor([-0.5772,  1.5061])
    """
    return apply1(DIGAMMA, input)


@operator(method=False, real=True, dtype="float")
def polygamma(n: int, input: Tensor) -> Tensor:
    """``digamma^(n)(input)``, elementwise: the n-th derivative of the digamma function.

    Derivative: ``g * polygamma(n + 1, input)``.

    Args:
        n: the order, at least 0; 0 is the digamma function itself.
        input: the points at which to evaluate it.

    Raises:
        RuntimeError: n is negative, or SciPy is not installed.

    Source: Abramowitz and Stegun 6.4; by the Hurwitz zeta function, DLMF 5.15.1.

    >>> rg.polygamma(1, rg.tensor([1.0, 2.0]))
    tensor([1.6449, 0.6449])
    """
    if n < 0:
        raise RuntimeError(f"n must not be negative, got {n}")
    return apply1(DIGAMMA, input) if n == 0 else apply(POLYGAMMA, (operand(input),), {"n": n})


@operator(namespace="Tensor", name="polygamma", inplace=True, real=True, like=polygamma)
def _polygamma_method(self: Tensor, n: int) -> Tensor:
    """``digamma^(n)(self)``, elementwise, as ``polygamma(n, self)``.

    Derivative: ``g * polygamma(n + 1, self)``.
    Shape: any; the result has the Tensor's shape.

    >>> rg.tensor([1.0, 2.0]).polygamma(1)
    tensor([1.6449, 0.6449])
    """
    return polygamma(n, self)


@operator(inplace=True, dtype="float")
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """``p (p - 1) / 4 * log(pi) + sum_(j=0)^(p-1) lgamma(input - j / 2)``, elementwise: log of the multivariate gamma.

    Derivative: ``g * sum_(j=0)^(p-1) digamma(input - j / 2)``.

    Args:
        input: numbers above ``(p - 1) / 2``.
        p: the dimension, at least 1.

    Raises:
        RuntimeError: p is below 1, or SciPy is not installed.

    Source: DLMF 35.3.

    >>> rg.mvlgamma(rg.tensor([4.0, 5.0]), 2)
    tensor([3.5651, 6.2042])
    """
    if p < 1:
        raise RuntimeError(f"p must be at least 1, got {p}")
    x = operand(input)
    total = apply1(LGAMMA, x)
    for j in range(1, p):
        total = total + apply1(LGAMMA, apply2(SUB, x, 0.5 * j))
    return (total + 0.25 * p * (p - 1) * math.log(math.pi)).contiguous()


# Modified Bessel functions (DLMF 10.29), plain and times e^-|x|


def _first_order_rule(i0: object, i1: object, x: Array, scale: object = 1.0) -> Any:
    # I1' = I0 - I1 / x. Near 0 the quotient is computed by its series, whose derivatives do not cancel.
    near = np.abs(x) < 0.05
    small = WHERE(near, x, 0.0)
    square = small * small
    series = 1 / 2 + square * (1 / 16 + square * (1 / 384 + square * (1 / 18432)))
    return i0 - WHERE(near, series * scale, i1 / WHERE(near, 1.0, x))


I0 = unary("i0", from_library("i0"), lambda g, x: g * I1(x), signals=True)
I1: Primitive = unary("i1", from_library("i1"), lambda g, x, ans: g * _first_order_rule(I0(x), ans, x), signals=True)
I0E = unary("i0e", from_library("i0e"), lambda g, x, ans: g * (I1E(x) - SIGN(x) * ans), signals=True)
I1E: Primitive = unary(
    "i1e",
    from_library("i1e"),
    lambda g, x, ans: g * (_first_order_rule(I0E(x), ans, x, EXP(-ABS(x))) - SIGN(x) * ans),
    signals=True,
)


@operator(direct=True, inplace=I0, dtype="float", raises="scipy")
def i0(input: Tensor) -> Tensor:
    """``I_0(input)``, elementwise: the modified Bessel function of the first kind, order 0.

    Derivative: ``g * I_1(input)``.

    Source: Abramowitz and Stegun 9.6; DLMF 10.29.

    >>> rg.i0(rg.tensor([0.0, 1.0]))
    tensor([1.    , 1.2661])
    """
    return apply1(I0, input)


@operator(direct=True, namespace="special", method=False, like=i0)
def i0e(input: Tensor) -> Tensor:
    """``e^-|input| * I_0(input)``, elementwise: ``i0`` without overflow.

    Derivative: ``g * (i1e(input) - sign(input) * i0e(input))``.

    >>> rg.special.i0e(rg.tensor([0.0, 1.0]))
    tensor([1.    , 0.4658])
    """
    return apply1(I0E, input)


@operator(direct=True, namespace="special", method=False, dtype="float", raises="scipy", like=i0)
def i1(input: Tensor) -> Tensor:
    """``I_1(input)``, elementwise: the modified Bessel function of the first kind, order 1.

    Derivative: ``g * (I_0(input) - I_1(input) / input)``, 1/2 at 0.

    >>> rg.special.i1(rg.tensor([0.0, 1.0]))
    tensor([0.    , 0.5652])
    """
    return apply1(I1, input)


@operator(direct=True, namespace="special", method=False, like=i1)
def i1e(input: Tensor) -> Tensor:
    """``e^-|input| * I_1(input)``, elementwise: ``i1`` without overflow.

    Derivative: ``g * (i0e(input) - i1e(input) * (sign(input) + 1 / input))``, 1/2 at 0.

    >>> rg.special.i1e(rg.tensor([0.0, 1.0]))
    tensor([0.    , 0.2079])
    """
    return apply1(I1E, input)


# Entropy


def _entr(x: Array) -> Array:
    positive = x > 0
    return np.where(positive, -x * np.log(np.where(positive, x, 1)), np.where(x < 0, -math.inf, x))


ENTR = unary("entr", _entr, lambda g, x: g * (-1 - LOG(x)), signals=True)


@operator(namespace="special", method=False, real=True, dtype="float")
def entr(input: Tensor) -> Tensor:
    """``-input * log(input)``, elementwise, 0 at 0 and -inf below: the entropy.

    Derivative: ``-g * (1 + log(input))``; infinite at 0, NaN below.

    >>> rg.special.entr(rg.tensor([0.0, 0.5, 1.0]))
    tensor([ 0.    ,  0.3466, -0.    ])
    """
    return apply1(ENTR, input)


_aliases: dict[str, Callable[..., Tensor]] = {
    "gammaln": lgamma,
    "digamma": digamma,
    "psi": digamma,
    "polygamma": polygamma,
    "multigammaln": mvlgamma,
    "i0": i0,
}
for _name, _function in _aliases.items():
    operator(namespace="special", method=False, name=_name)(_function)
