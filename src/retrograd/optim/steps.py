"""What updates of several optimizers have in common, on arrays that are written in place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import backend_of
from ..core.arrays.dtypes import INEXACT, float16, float32
from ..kernels.loops.elements import updates
from .hyperparameters import ParamGroup, number


def descent(p: Array, g: Array, out: Array, group: ParamGroup) -> Array:
    """The direction to descend along, ``g`` or ``-g`` with weight decay: in ``out``, or ``g`` itself where it is that.

    Weight decay is a part of the gradient, or, where the group says ``decoupled_weight_decay``, shrinks ``p`` at once.
    """
    weight_decay, maximize = number(group.get("weight_decay", 0)), group["maximize"]
    if weight_decay and group.get("decoupled_weight_decay"):
        p *= 1 - number(group["lr"]) * weight_decay
        weight_decay = 0
    if weight_decay:
        np.multiply(p, weight_decay, out=out)
        return np.subtract(out, g, out=out) if maximize else np.add(out, g, out=out)
    return np.negative(g, out=out) if maximize else g


def decay_towards(average: Array, value: Array, rate: float, scratch: Array) -> None:
    """``average += rate * (value - average)``: the exponential moving average."""
    np.subtract(value, average, out=scratch)
    if rate < 0.5:
        scratch *= rate
        average += scratch
    else:  # from the nearer end, as PyTorch's lerp: value itself where rate is 1
        scratch *= 1 - rate
        np.subtract(value, scratch, out=average)


def average_all(averages: Sequence[Array], values: Sequence[Array], rate: float) -> None:
    """``decay_towards`` for many arrays; averages of integers are the values themselves."""
    rows = list(zip(averages, values, strict=True))
    if rows and updates.takes(rows, "averaged", 2):
        updates.update("averaged", rows, (), (rate, 1 - rate))
        return
    for average, value in rows:
        if average.dtype.kind in INEXACT:
            decay_towards(average, value, rate, backend_of(average).xp.empty_like(average))
        else:
            average[...] = value


def decay_towards_square(average: Array, value: Array, decay: float, scratch: Array) -> None:
    """``average = decay * average + (1 - decay) * value**2``.

    In this order ``average`` stays finite for a value whose square is not, and an infinite one is no ``inf - inf``.
    """
    np.multiply(value, 1 - decay, out=scratch)
    scratch *= value
    average *= decay
    average += scratch


def descend(p: Array, rate: float, numerator: Array, denominator: Array, scratch: Array) -> None:
    """``p -= rate * numerator / denominator``, the product first, as in PyTorch: a quotient alone may overflow."""
    if p.dtype == float16:  # whose range is too small even for the product
        p -= rate * numerator.astype(float32) / denominator
        return
    np.multiply(numerator, rate, out=scratch)
    scratch /= denominator
    p -= scratch
