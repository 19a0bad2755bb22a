"""Common operations of optimizer updates, on arrays that are written in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import backend_of
from ..core.arrays.dtypes import INEXACT, float16, float32
from ..kernels.loops.elements import updates
from .hyperparameters import ParamGroup, number


def descent(p: Array, g: Array, out: Array, group: ParamGroup) -> Array:
    """Return the descent direction, ``g`` or ``-g`` with weight decay, in ``out`` unless it is ``g`` itself.

    Weight decay is added to the gradient or, with the option ``decoupled_weight_decay``, applied to ``p``.
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
    """Update an exponential moving average: ``average += rate * (value - average)``."""
    np.subtract(value, average, out=scratch)
    if rate < 0.5:
        scratch *= rate
        average += scratch
    else:  # for rate >= 0.5 start from value, as PyTorch's lerp does, so that rate 1 returns value exactly
        scratch *= 1 - rate
        np.subtract(value, scratch, out=average)


class Unscaled:
    """Gradients that a step multiplies by ``factor``, in place, in the loop that reads them (``step_with_scaling``)."""

    def __init__(self, gradients: Sequence[Array], factor: Array) -> None:
        self.waiting = {id(array): array for array in gradients}
        self.factor = factor

    def take(self, gradients: Sequence[Array]) -> float:
        """Return the factor by which the caller multiplies these gradients.

        It is 1 unless all of them are waiting and different; those that are waiting have been multiplied then.
        """
        found = [self.waiting.pop(id(array), None) for array in gradients]
        if all(array is not None for array in found):
            return float(self.factor)
        self._multiply([array for array in found if array is not None])
        return 1.0

    def finish(self) -> None:
        """Multiply the gradients that no update has taken."""
        self._multiply(list(self.waiting.values()))
        self.waiting.clear()

    def _multiply(self, gradients: Sequence[Array]) -> None:
        for array in gradients:
            np.multiply(array, self.factor, out=array)


def step_with_scaling(
    optimizer: Any, step: Callable[[object], object], gradients: Sequence[Array], factor: Array
) -> None:
    """Multiply gradients of an optimizer's parameters by a factor, in place, and step; in one pass where a loop can."""
    unscaled = Unscaled(gradients, factor)
    if optimizer.step_is_watched():
        unscaled.finish()
    optimizer._unscaled = unscaled
    try:
        step(optimizer)
    finally:
        optimizer._unscaled = None
        unscaled.finish()


def average_all(averages: Sequence[Array], values: Sequence[Array], rate: float) -> None:
    """Apply ``decay_towards`` to many arrays; integers are copied, not averaged."""
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
    """Update ``average = decay * average + (1 - decay) * value**2``.

    This order of operations avoids an overflow of ``value**2`` where possible, and ``inf - inf``.
    """
    np.multiply(value, 1 - decay, out=scratch)
    scratch *= value
    average *= decay
    average += scratch


def descend(p: Array, rate: float, numerator: Array, denominator: Array, scratch: Array) -> None:
    """Update ``p -= rate * numerator / denominator``. The product comes first: the quotient alone may overflow."""
    if p.dtype == float16:  # the range of float16 is too small even for the product
        p -= rate * numerator.astype(float32) / denominator
        return
    np.multiply(numerator, rate, out=scratch)
    scratch /= denominator
    p -= scratch
