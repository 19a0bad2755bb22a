"""Steps of explicit Runge-Kutta methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.graph.modes import modes
from ..core.tensor.tensor import Tensor
from .system import Leaves, Stages, System, Tolerance, combine
from .tableaus import Tableau


@dataclass
class Step:
    """One step from (t, y0) to (t + h, y1), with the derivatives of its stages, and f1 at its end if it is known."""

    t: float
    h: float
    y0: Leaves
    y1: Leaves
    stages: Stages
    f1: Leaves | None

    def derivative_at_end(self, system: System) -> Leaves:
        """Return f at the end of the step, the first stage of the next step."""
        if self.f1 is not None:
            return self.f1
        f1 = system(self.t + self.h, self.y1)
        if self.has_history_of_now():
            self.f1 = f1
        return f1

    def has_history_of_now(self) -> bool:
        """Return whether a value computed now may be cached: not while grad mode is off, if the step has a history."""
        return modes.grad_enabled or not any(k._requires for k in self.stages.ks[-1])


class ExplicitMethod:
    """An explicit Runge-Kutta method.

    Attributes:
        compiles: whether a step has the same operations for all values, so that equal steps are a compiled loop.
        jacobians: the number of Jacobians of f that were computed.
    """

    compiles = True
    jacobians = 0

    def __init__(self, name: str, tableau: Tableau) -> None:
        self.name, self.tableau = name, tableau
        self.order = tableau.order
        self.adaptive = tableau.e is not None
        self.interpolates = tableau.interpolant is not None

    def step(self, system: System, t: float, h: float, y: Leaves, f0: Leaves | None) -> Step:
        """Return the step of length h from (t, y); ``f0`` is f there, if known."""
        tableau = self.tableau
        stages = Stages(system, y, len(tableau.c), [system(t, y) if f0 is None else f0])
        weights = h * tableau.matrix
        y1 = y
        for i, c in enumerate(tableau.c[1:], 1):
            y1 = stages.combined(weights[i, :i])
            stages.append(system(t + c * h, y1))
        if tableau.last_is_first:
            return Step(t, h, y, y1, stages, stages.ks[-1])
        return Step(t, h, y, stages.combined(weights[-1]), stages, None)

    def step_at(self, system: System, t: Tensor, h: float, y: Leaves) -> Leaves:
        """Return the state after a step from a time that is a Tensor."""
        ks: list[Leaves] = []
        for c, row in zip(self.tableau.c, self.tableau.a, strict=True):
            stage = combine([1.0, *[h * a for a in row]], [y, *ks]) if ks else y
            ks.append(system(t + c * h, stage))
        return combine([1.0, *[h * b for b in self.tableau.b]], [y, *ks])

    def at(self, system: System, step: Step, t: float) -> Leaves:
        """Return the state at a time inside the step by the method's interpolant, or by a cubic interpolant."""
        theta = (t - step.t) / step.h
        if theta == 1:
            return step.y1
        if self.tableau.interpolant is None:
            return hermite(system, step, theta)
        stages, count = step.stages, len(self.tableau.c)
        if self.tableau.extra and len(stages.ks) == count:
            stages = Stages(system, step.y0, count + len(self.tableau.extra), stages.ks)
            for c, row in self.tableau.extra:
                stages.append(system(step.t + c * step.h, stages.combined(step.h * np.array(row))))
            if step.has_history_of_now():
                step.stages = stages
        powers = theta ** np.arange(1, len(self.tableau.interpolant[0]) + 1)
        return stages.combined(step.h * (self.tableau.polynomials @ powers))

    def errors(self, system: System, step: Step) -> list[Array]:
        """Return the error estimates of a step, as vectors of real numbers."""
        return [step.stages.vector(system, step.h * row) for row in self.tableau.errors]

    def error_norm(self, estimates: list[float]) -> float:
        """Combine the norms of the error estimates to one number, by DOP853's formula for its two estimates."""
        if len(estimates) == 1 or estimates[0] == 0:
            return estimates[0]
        fifth, third = estimates
        square = fifth * fifth
        return float(square / (square + 0.01 * third * third) ** 0.5)

    def prepare(self, rtol: float, atol: Tolerance) -> None:
        """Set the tolerances, and clear results that were cached in another integration."""

    def failed(self, h: float) -> float:
        """Return the length of the next trial after a step of length h failed."""
        return h / 4

    def accepted(self) -> None:
        """Record that the last step was taken."""


def hermite(system: System, step: Step, theta: float) -> Leaves:
    """Return the cubic through the states and derivatives at both ends of the step."""
    f0, f1 = step.stages.ks[0], step.derivative_at_end(system)
    square, cube = theta * theta, theta * theta * theta
    return combine(
        [
            1 - 3 * square + 2 * cube,
            3 * square - 2 * cube,
            step.h * (theta - 2 * square + cube),
            step.h * (cube - square),
        ],
        [step.y0, step.y1, f0, f1],
    )


def moved(system: System, start: float | Tensor, y: Leaves, end: float | Tensor) -> Leaves:
    """Return ``y`` with derivatives by ``start`` and ``end``, two Tensors or floats of equal value.

    This is one step of the classical fourth-order method of length ``end - start``, which is zero, so the derivatives
    up to order 4 are those of the solution that is y at ``start``, evaluated at ``end``.
    """
    h: Any = end - start  # a Tensor, because start or end is a Tensor

    def plus(weight: float, k: Leaves) -> Leaves:
        return [a + (h * weight).astype(b.dtype) * b for a, b in zip(y, k, strict=True)]

    k1 = system(start, y)
    k2 = system(start + h / 2, plus(0.5, k1))
    k3 = system(start + h / 2, plus(0.5, k2))
    k4 = system(start + h, plus(1.0, k3))
    total = [a + 2 * b + 2 * c + d for a, b, c, d in zip(k1, k2, k3, k4, strict=True)]
    return plus(1 / 6, total)
