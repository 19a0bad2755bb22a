"""The result of ``solve``."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.arrays.dtypes import DType
from ..core.errors import describe
from ..core.graph.modes import modes
from ..core.tensor.tensor import Tensor, new_tensor
from ..func.nests import Structure
from ..ops.shape.joining import stack
from ..ops.table.types import Operand
from .explicit import ExplicitMethod, Step, moved
from .system import Leaves, System, Times, number


@dataclass
class Solution:
    """The solution of an initial value problem.

    Attributes:
        t: the times of ``y``, of shape (n,).
        y: a value like y0, whose Tensors have n states along a new first axis.
        t_events: for each event function the times of its events; empty without events.
        y_events: for each event function the states at its events, like ``y``; empty without events.
        status: 0 if the integration reached the last time, 1 if an event ended it.
        evaluations: the number of calls of f, including the calls for derivatives.
        jacobians: the number of Jacobians of f that an implicit method computed.
        steps, rejected: the number of accepted and of rejected steps.
    """

    t: Tensor
    y: Any
    t_events: list[Tensor]
    y_events: list[object]
    status: int
    evaluations: int
    jacobians: int
    steps: int
    rejected: int
    dense: Dense | None = field(default=None, repr=False)

    def __call__(self, t: Times | Operand) -> Any:
        """Return the state at a time, or the states at a 1-D sequence of times; needs ``dense=True``.

        Raises:
            RuntimeError: the solution was computed without ``dense=True``.
            ValueError: a time is outside of the interval of integration.
        """
        if self.dense is None:
            raise RuntimeError("Solution: states between the given times need solve(..., dense=True)")
        return self.dense(t)


class Dense:
    """The solution as a function of time: the interpolants of all steps."""

    def __init__(self, system: System, method: ExplicitMethod, steps: Sequence[Step], end: float) -> None:
        self.system, self.method, self.steps = system, method, list(steps)
        self.start, self.end = steps[0].t if steps else end, end
        self.sign = 1.0 if end >= self.start else -1.0
        self.ends = [self.sign * (step.t + step.h) for step in self.steps]

    def __call__(self, t: Any) -> Any:
        several = isinstance(t, (list, tuple)) or getattr(t, "ndim", 0) == 1
        structure = self.system.structure
        if not several:
            return structure.unflatten(self.leaves(t))
        found = [self.leaves(time) for time in t]
        if not found:
            raise ValueError(f"Solution: t must contain at least one time, got {describe(t)}")
        return stacked(structure, found)

    def leaves(self, t: Operand) -> Leaves:
        """Return the leaves of the state at one time."""
        time = number("Solution", t, "t")
        low, high = sorted((self.start, self.end))
        slack = 1e-12 * (abs(low) + abs(high))
        if not self.steps or not low - slack <= time <= high + slack:
            raise ValueError(f"Solution: t must be in [{low}, {high}], got {time}")
        index = min(bisect_left(self.ends, self.sign * time), len(self.steps) - 1)
        y = self.method.at(self.system, self.steps[index], time)
        if isinstance(t, Tensor) and t._requires and modes.grad_enabled:
            return moved(self.system, time, y, t)
        return y


def stacked(structure: Structure, states: Sequence[Leaves]) -> Any:
    """Return a nest whose leaves have the states along a new first axis."""
    return structure.unflatten([stack(list(column)) for column in zip(*states, strict=True)])


def times_of(values: Sequence[float | Tensor], dtype: DType) -> Tensor:
    """Return times as one Tensor; some of the times may be Tensors with a history."""
    if any(isinstance(t, Tensor) and t._requires for t in values):
        return stack([t if isinstance(t, Tensor) else new_tensor(np.asarray(t, dtype)) for t in values])
    return new_tensor(np.array([float(t) for t in values], dtype))
