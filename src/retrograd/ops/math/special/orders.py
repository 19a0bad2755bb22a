"""Derivatives with respect to orders and shape parameters without a closed form, by central differences.

The functions are analytic in these arguments. If a function is exact to a few units in the last place, a central
difference of order 16 in double precision has an error of about 1e-11, relative to the larger of function and
derivative. The difference calls the function itself, so mixed and higher derivatives follow from its other rules.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial

import numpy as np

from ....core.arrays import Array
from ....core.graph.plan import Rule
from ....core.tensor.tensor import Tensor

_PAIRS = 8
_WEIGHTS = [
    (-1) ** (j + 1) * factorial(_PAIRS) ** 2 / (j * factorial(_PAIRS - j) * factorial(_PAIRS + j))
    for j in range(1, _PAIRS + 1)
]


def difference(function: Callable[[Array], Array], at: Array, step: Array | float) -> Array:
    """Return the derivative of a function at a point, from its values at 8 steps on both sides of the point."""
    total = 0 * at
    for j, weight in enumerate(_WEIGHTS, 1):
        total = total + weight * (function(at + j * step) - function(at - j * step))
    return total / step


def double(x: Array) -> Array:
    """Return an argument in double precision; Python numbers unchanged."""
    if not hasattr(x, "dtype"):
        return x
    dtype = np.dtype("complex128" if x.dtype.kind == "c" else "float64")
    return x if x.dtype == dtype else x.astype(dtype)


def step_of(*scales: Array, of: Array | None = None, growing: bool = False) -> Array | float:
    """Return the step of a difference, a constant.

    Args:
        scales: positive numbers; the rate at which the logarithm of the function grows is about the sum of their
            logarithms.
        of: the argument itself, if the function is defined only above 0.
        growing: whether the scale on which the function varies grows like the square root of the argument.
    """
    rates = [np.abs(np.log(np.clip(np.abs(_constant(scale)), 1e-300, 1e300))) for scale in scales]
    step: Array | float = 0.5 / sum(rates, start=8.0)
    if of is None:
        return step
    at = _constant(of)
    if growing:
        step = step * np.maximum(1.0, np.sqrt(at) / 4) / 2
    return np.minimum(step, at / 16)


def _constant(x: Array) -> Array:
    return double(x.detach() if isinstance(x, Tensor) else x)


def by_order(function: Callable[[], Callable[[Array, Array], Array]]) -> Rule:
    """Return the derivative rule with respect to ``v`` of a function of ``v`` and ``x`` that is analytic in both.

    Args:
        function: returns the primitive, which is not defined yet when its rules are.
    """

    def rule(g: Array, v: Array, x: Array) -> Array:
        at = double(x)
        return g * difference(lambda v: function()(v, at), double(v), step_of(at))

    return rule
