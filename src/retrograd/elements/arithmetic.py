"""Bounds, powers and interpolation, and derivatives of these, as functions of elements.

``arithmetic(f)`` returns the functions by name, as ``activations(f)`` of ``activations.py`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Element: TypeAlias = Any  # a number, an array of numbers, a Tensor, or a term of a program
Number: TypeAlias = Element  # the same for all elements
Function: TypeAlias = Callable[..., Element]


def _undefined(*args: Element) -> Element:
    raise NotImplementedError("this backend of the elementwise functions does not define the function that was called")


@dataclass(frozen=True)
class Functions:
    """The functions that the functions of elements call, in addition to Python's operators."""

    exp: Function = _undefined  # the loops of gelu call it only for x <= 0
    expm1: Function = _undefined
    one_plus_exp: Function = _undefined  # 1 + e^x
    tanh: Function = _undefined
    sigmoid: Function | None = None  # set for Tensors; by default the function of ``activations``
    erf: Function = _undefined
    sqrt: Function = _undefined
    absolute: Function = _undefined
    where: Function = _undefined
    keep: Function = _undefined  # keep(x, mask): x where the mask is True, otherwise 0
    drop: Function = _undefined  # drop(x, mask): x where the mask is False, otherwise 0
    maximum: Function = _undefined  # propagates NaN, like minimum
    minimum: Function = _undefined
    clip: Function = _undefined  # clip(x, low, high), with bounds that are not NaN
    neutral: Callable[[Number], bool] = lambda number: False  # whether a factor is 1 and may be left out to save time
    number: Callable[[float], Number] = float  # returns a constant in the precision of elements
    compiled: Callable[[Function], Function] = lambda function: function


def definer(f: Functions, found: dict[str, Function]) -> Callable[[Function], Function]:
    """Return the decorator that adds the compiled function to ``found``."""

    def define(function: Function) -> Function:
        found[function.__name__] = compiled = f.compiled(function)
        return compiled

    return define


def arithmetic(f: Functions) -> Mapping[str, Function]:
    """Return the functions by name."""
    where, keep, maximum, minimum, sqrt, absolute = f.where, f.keep, f.maximum, f.minimum, f.sqrt, f.absolute
    zero, half, one, two = map(f.number, (0.0, 0.5, 1.0, 2.0))
    found: dict[str, Function] = {}
    define = definer(f, found)

    @define
    def bounded(x: Element, low: Number, high: Number) -> Element:
        """``x`` clipped to the bounds; a bound that is NaN gives NaN."""
        return minimum(maximum(x, low), high)

    @define
    def clamp_backward(g: Element, x: Element, low: Number, high: Number) -> Element:
        return keep(g, (x >= low) & (x <= high))

    @define
    def sign(x: Element) -> Element:
        return where(x > zero, one, where(x < zero, -one, where(x == zero, zero, x)))

    @define
    def abs_backward(g: Element, x: Element) -> Element:
        return g * sign(x)

    @define
    def square_backward(g: Element, x: Element) -> Element:
        return g * (two * x)

    @define
    def sqrt_backward(g: Element, ans: Element) -> Element:
        return g / (two * ans)

    @define
    def rsqrt(x: Element) -> Element:
        return one / sqrt(x)

    @define
    def rsqrt_backward(g: Element, ans: Element) -> Element:
        return g * (-half * ans * ans * ans)

    @define
    def reciprocal_backward(g: Element, ans: Element) -> Element:
        return -g * ans * ans

    @define
    def logit_backward(g: Element, x: Element, eps: Number) -> Element:
        """If ``eps`` is NaN, x is not clipped, and the derivative outside ``[0, 1]`` is NaN."""
        low, high, outside = (eps, one - eps, zero) if eps == eps else (zero, one, eps)
        inside = (x >= low) & (x <= high)
        x = where(inside, x, half)
        return where(inside, g / (x * (one - x)), outside)

    @define
    def lerp(x: Element, y: Element, weight: Element) -> Element:
        """``x + weight * (y - x)`` computed from the nearer end, so that weights 0 and 1 give x and y exactly."""
        near, far = x + weight * (y - x), y - (y - x) * (one - weight)
        return where(absolute(weight) < half, near, far)

    @define
    def lerp_number(x: Element, y: Element, weight: Number) -> Element:
        return x + weight * (y - x) if -half < weight < half else y - (y - x) * (one - weight)

    return found
