"""Smooth activation functions and their derivatives, as functions of elements.

``activations(f)`` returns the functions by name. A function with the name ``..._slope`` is a derivative. The order of
operations is part of the definition: all forms of a function compute equal bits if the functions in ``f`` do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import pi, sqrt
from typing import TypeAlias

from .updates import Element

Function: TypeAlias = Callable[..., Element]


@dataclass(frozen=True)
class Functions:
    """The functions that activation functions call, besides arithmetic."""

    exp: Function  # of numbers up to 0
    one_plus_exp: Function  # 1 + e^x
    tanh: Function
    sigmoid: Function
    erf: Function
    clip: Function  # of an element, to a lower and an upper bound
    number: Callable[[float], Element] = float  # returns a constant in the precision of elements
    compiled: Callable[[Function], Function] = lambda function: function


def activations(f: Functions) -> Mapping[str, Function]:
    """Return the activation functions and their derivatives, by name."""
    exp, one_plus_exp, tanh, sigmoid, erf, clip = f.exp, f.one_plus_exp, f.tanh, f.sigmoid, f.erf, f.clip
    half, one, twelve = map(f.number, (0.5, 1.0, 12.0))
    sqrt_half, normal_peak = f.number(sqrt(0.5)), f.number(1 / sqrt(2 * pi))
    scale, cubic = f.number(sqrt(2 / pi)), f.number(sqrt(2 / pi) * 0.044715)
    cubic_slope = f.number(3 * sqrt(2 / pi) * 0.044715)
    found: dict[str, Function] = {}

    def activation(function: Function) -> Function:
        found[function.__name__] = f.compiled(function)
        return function

    @activation
    def silu(x: Element) -> Element:
        return x / one_plus_exp(-x)

    @activation
    def silu_slope(x: Element) -> Element:
        s = sigmoid(x)
        return s * (one + x * (one - s))

    @activation
    def gelu(x: Element) -> Element:
        """``x`` times the normal distribution function."""
        return x * (half + half * erf(x * sqrt_half))

    @activation
    def gelu_slope(x: Element) -> Element:
        return half + half * erf(x * sqrt_half) + x * (normal_peak * exp(-half * (x * x)))

    @activation
    def gelu_tanh(x: Element) -> Element:
        return x * (half + half * tanh(x * (scale + cubic * (x * x))))

    @activation
    def gelu_tanh_slope(x: Element) -> Element:
        x = clip(x, -twelve, twelve)  # beyond, the slope is 0 or 1 to working precision, and squares may overflow
        square = x * x
        t = tanh(x * (scale + cubic * square))
        return half + half * t + half * x * (one - t * t) * (scale + cubic_slope * square)

    return found
