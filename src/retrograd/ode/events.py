"""Events: times at which a function of the solution crosses zero, differentiable by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..core.graph.modes import modes, no_grad
from ..core.graph.primitive import operand
from ..core.tensor.tensor import Tensor, new_tensor
from ..func.implicit.attach import LinearSolve, attached
from ..func.nests import LEAF
from .explicit import ExplicitMethod, Step, moved
from .system import Leaves, System, number


class Event:
    """One event function ``g(t, y, *args)``, with SciPy's attributes ``terminal`` and ``direction``."""

    def __init__(self, caller: str, function: Callable[..., object], number: int) -> None:
        if not callable(function):
            raise TypeError(f"{caller}: events must be functions of (t, y), got {function!r}")
        terminal = getattr(function, "terminal", False)
        self.caller, self.function, self.number = caller, function, number
        self.limit = int(terminal) if terminal else 0  # the number of crossings after which integration stops
        self.direction = float(getattr(function, "direction", 0))
        self.count = 0
        self.before: float | None = None

    def value(self, system: System, t: float | Tensor, y: Leaves) -> Tensor:
        """Return the event function as a 0-d Tensor."""
        time = t if isinstance(t, Tensor) else new_tensor(np.asarray(t, system.dtype))
        found = operand(self.function(time, system.structure.unflatten(y), *system.args))
        if found.array.size != 1 or found.dtype.kind == "c":
            raise ValueError(f"{self.caller}: event {self.number} must return one real number, got shape {found.shape}")
        return found.reshape(()).astype(system.dtype)

    def number_at(self, system: System, t: float, y: Leaves) -> float:
        """Return the event function as a float."""
        with no_grad():
            return number(self.caller, self.value(system, t, y), f"event {self.number} at t = {t}")

    def crosses(self, a: float, b: float) -> bool:
        """Return whether the function crosses zero, in the wanted direction, between two values."""
        up, down = a <= 0 <= b and a != b, a >= 0 >= b and a != b
        if a == 0:  # the previous step has already found this crossing
            return False
        return up and self.direction >= 0 or down and self.direction <= 0


def crossings(system: System, method: ExplicitMethod, events: Sequence[Event], step: Step) -> list[tuple[float, Event]]:
    """Return the times inside a step at which events happen, in order, up to the first that ends the integration."""
    found = []
    for event in events:
        if event.before is None:
            event.before = event.number_at(system, step.t, step.y0)
        after = event.number_at(system, step.t + step.h, step.y1)
        if event.crosses(event.before, after):
            method.at(system, step, step.t + step.h / 2)  # stores the interpolant's stages with their history
            found.append((_root(system, method, event, step, event.before, after), event))
        event.before = after
    found.sort(key=lambda pair: pair[0] * (1 if step.h > 0 else -1))
    for index, (_, event) in enumerate(found):
        event.count += 1
        if event.limit and event.count >= event.limit:
            return found[: index + 1]
    return found


def _root(system: System, method: ExplicitMethod, event: Event, step: Step, fa: float, fb: float) -> float:
    """Return the zero of the event function inside a step, by the Illinois method with bisection."""
    a, b = step.t, step.t + step.h
    side = 0
    with no_grad():
        for iteration in range(200):
            if fb == 0:
                return b
            t = (a * fb - b * fa) / (fb - fa)
            if iteration % 4 == 3 or not min(a, b) < t < max(a, b):
                t = (a + b) / 2
            if abs(b - a) <= 4 * np.finfo(float).eps * max(abs(a), abs(b)) or t in (a, b):
                break
            f = event.number_at(system, t, method.at(system, step, t))
            if f == 0:
                return t
            if (f > 0) == (fb > 0):
                b, fb = t, f
                fa = fa / 2 if side == 1 else fa
                side = 1
            else:
                a, fa = t, f
                fb = fb / 2 if side == -1 else fb
                side = -1
    return b


def differentiable_time(system: System, event: Event, t: float, y: Leaves) -> tuple[Tensor, Leaves]:
    """Return the time of an event and the state there, with their derivatives.

    With g(t, y(t)) = 0, ``dt = -dg / (g_t + g_y f)``, where dg is the change of g at a fixed time.

    Args:
        t: the time of the event.
        y: the state at ``t``, with its history.
    """
    time = new_tensor(np.asarray(t, system.dtype))
    if not modes.grad_enabled:
        return time, y

    def residual(times: Leaves) -> Leaves:
        return [event.value(system, times[0], moved(system, t, y, times[0]))]

    (found,) = attached([time], residual, LinearSolve(system.caller, LEAF))
    return found, moved(system, t, y, found) if found._requires else y
