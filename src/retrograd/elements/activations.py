"""Activation functions and their derivatives, as functions of elements.

``activations(f)`` returns the functions by name. A function with the name ``..._slope`` is a derivative, and one with
the name ``..._backward`` is ``g`` times a derivative, computed from the input ``x`` or from the result ``ans``. The
order of operations is part of the definition: all forms of a function are bitwise equal if the functions in ``f`` are.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import pi, sqrt

from .arithmetic import Element, Function, Functions, Number, definer


def activations(f: Functions) -> Mapping[str, Function]:
    """Return the activation functions and their derivatives, by name."""
    exp, expm1, one_plus_exp, tanh, erf, clip = f.exp, f.expm1, f.one_plus_exp, f.tanh, f.erf, f.clip
    where, keep, drop, maximum, minimum, neutral = f.where, f.keep, f.drop, f.maximum, f.minimum, f.neutral
    zero, third, half, one, three, six, twelve = map(f.number, (0.0, 1 / 3, 0.5, 1.0, 3.0, 6.0, 12.0))
    sixth, sqrt_half, normal_peak = map(f.number, (1 / 6, sqrt(0.5), 1 / sqrt(2 * pi)))
    scale, cubic = f.number(sqrt(2 / pi)), f.number(sqrt(2 / pi) * 0.044715)
    cubic_slope = f.number(3 * sqrt(2 / pi) * 0.044715)
    found: dict[str, Function] = {}
    activation = definer(f, found)

    @activation
    def tanh_backward(g: Element, ans: Element) -> Element:
        return g * (one - ans * ans)

    @activation
    def sigmoid(x: Element) -> Element:
        return one / one_plus_exp(-x)

    logistic = f.sigmoid or sigmoid

    @activation
    def sigmoid_backward(g: Element, ans: Element) -> Element:
        return g * (ans * (one - ans))

    @activation
    def silu(x: Element) -> Element:
        return x / one_plus_exp(-x)

    @activation
    def silu_slope(x: Element) -> Element:
        s = logistic(x)
        return s * (one + x * (one - s))

    @activation
    def gelu(x: Element) -> Element:
        """``x`` times the standard normal distribution function."""
        return x * (half + half * erf(x * sqrt_half))

    @activation
    def gelu_slope(x: Element) -> Element:
        return half + half * erf(x * sqrt_half) + x * (normal_peak * exp(-half * (x * x)))

    @activation
    def gelu_tanh(x: Element) -> Element:
        return x * (half + half * tanh(x * (scale + cubic * (x * x))))

    @activation
    def gelu_tanh_slope(x: Element) -> Element:
        x = clip(x, -twelve, twelve)  # for |x| > 12 the slope is 0 or 1 to working precision, and squares may overflow
        square = x * x
        t = tanh(x * (scale + cubic * square))
        return half + half * t + half * x * (one - t * t) * (scale + cubic_slope * square)

    # Rectifiers

    @activation
    def leaky_relu(x: Element, slope: Number) -> Element:
        below = slope * x
        return maximum(x, below) if 0 < slope <= 1 else where(x > zero, x, below)

    @activation
    def leaky_relu_backward(g: Element, x: Element, slope: Number) -> Element:
        return where(x > zero, g, slope * g)

    @activation
    def elu(x: Element, scale: Number, below: Number, width: Number) -> Element:
        """``scale * x`` where ``x`` is positive, otherwise ``below * (e^(x / width) - 1)``."""
        least = minimum(x, zero)
        curve = expm1(least if neutral(width) else least / width)
        return where(x > zero, x if neutral(scale) else scale * x, curve if neutral(below) else below * curve)

    @activation
    def elu_backward(g: Element, x: Element, scale: Number, below: Number, width: Number) -> Element:
        """At 0 the first derivative is the left one, and the second is 0 (as in PyTorch)."""
        least = keep(x, x < zero)
        curve = exp(least if neutral(width) else least / width)
        return where(x <= zero, g * (below / width * curve), g if neutral(scale) else g * scale)

    @activation
    def hardtanh_backward(g: Element, x: Element, low: Number, high: Number) -> Element:
        """Unlike for clamp, the gradient at the bounds is 0 (as in PyTorch)."""
        return drop(g, (x <= low) | (x >= high))

    # Other piecewise functions

    @activation
    def hardsigmoid(x: Element) -> Element:
        return clip(x + three, zero, six) * sixth

    @activation
    def hardsigmoid_backward(g: Element, x: Element) -> Element:
        return keep(g * sixth, (x > -three) & (x < three))

    @activation
    def hardswish(x: Element) -> Element:
        return x * clip(x + three, zero, six) * sixth

    @activation
    def hardswish_backward(g: Element, x: Element) -> Element:
        return where(x >= three, g, drop(g * (x * third + half), x <= -three))

    @activation
    def hardshrink(x: Element, lambd: Number) -> Element:
        return where((x >= -lambd) & (x <= lambd), zero, x)

    @activation
    def softshrink(x: Element, lambd: Number) -> Element:
        return x - clip(x, -lambd, lambd)

    @activation
    def shrinkage_backward(g: Element, x: Element, lambd: Number) -> Element:
        return drop(g, (x >= -lambd) & (x <= lambd))

    @activation
    def threshold(x: Element, threshold: Number, value: Number) -> Element:
        return where(x <= threshold, value, x)

    @activation
    def threshold_backward(g: Element, x: Element, threshold: Number) -> Element:
        return drop(g, x <= threshold)

    return found
