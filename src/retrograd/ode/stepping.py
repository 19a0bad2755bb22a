"""Choose the steps of an integration: error control by a PI controller, or equal steps, which may be one ``scan``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nextafter

import numpy as np

from ..core.arrays.devices import array_module
from ..core.arrays.fp_warnings import silent
from ..core.graph.modes import no_grad
from ..core.tensor.tensor import Tensor, new_tensor
from ..func.implicit.linear_solvers import NoSolution
from ..func.loops.scan import scan
from .explicit import ExplicitMethod, Step
from .system import Leaves, SolveError, System, Tolerance, combine


@dataclass
class Control:
    """How steps are chosen.

    Attributes:
        steps: the number of equal steps between two output times; None chooses steps by the error estimate.
    """

    rtol: float
    atol: Tolerance
    first_step: float | None = None
    max_step: float = inf
    min_step: float = 0.0
    max_steps: int = 100_000
    steps: int | None = None
    safety: float = 0.9
    least_factor: float = 0.2
    largest_factor: float = 10.0
    accepted: int = 0
    rejected: int = 0


def stepped(
    system: System, method: ExplicitMethod, times: Sequence[float], y: Leaves, control: Control, stop_at_times: bool
) -> Iterator[Step]:
    """Yield the accepted steps from the first to the last of ``times``.

    Args:
        stop_at_times: end a step at each of the times, instead of only at the last.
    """
    method.prepare(control.rtol, control.atol)
    if control.steps is not None:
        yield from _fixed(system, method, times, y, control.steps, control)
    else:
        yield from _adaptive(system, method, times if stop_at_times else (times[0], times[-1]), y, control)


def _fixed(
    system: System, method: ExplicitMethod, times: Sequence[float], y: Leaves, count: int, control: Control
) -> Iterator[Step]:
    f0 = None
    for start, end in zip(times, times[1:], strict=False):
        h = (end - start) / count
        for index in range(count):
            try:
                step = method.step(system, start + index * h, h, y, f0)
            except NoSolution as error:
                at = start + index * h
                raise SolveError(f"{system.caller}: the step of length {h:.3g} at t = {at} failed: {error}") from None
            method.accepted()
            control.accepted += 1
            yield step
            y, f0 = step.y1, step.f1
    _check_finite(system, times[-1], y)


def _adaptive(
    system: System, method: ExplicitMethod, times: Sequence[float], y: Leaves, control: Control
) -> Iterator[Step]:
    t, sign, f0 = times[0], 1.0 if times[-1] >= times[0] else -1.0, None
    _check_finite(system, t, y)
    f0 = system(t, y)
    _check_finite(system, t, f0, "f(t, y)")
    h = _first_step(system, method, t, sign, abs(times[-1] - t), y, f0, control)
    before = 1.0
    for target in times[1:]:
        while t != target:
            if control.accepted + control.rejected >= control.max_steps:
                raise SolveError(
                    f"{system.caller}: {control.max_steps} steps reached t = {t}, but not {times[-1]}; raise "
                    f"max_steps, or use a method for stiff systems such as 'kvaerno5' (this is {method.name!r})"
                )
            h = min(h, control.max_step)
            least = max(control.min_step, 10 * abs(nextafter(t, sign * inf) - t))
            distance = abs(target - t)
            last = h >= distance * (1 - 1e-10)
            length = distance if last else h
            if h < least and not last:
                raise SolveError(
                    f"{system.caller}: the step size fell to {h:.3g} at t = {t}, below {least:.3g}; the "
                    f"solution may be singular there, f discontinuous, or the system stiff "
                    f"(this is {method.name!r}, 'kvaerno5' is for "
                    "stiff systems)"
                )
            try:
                step = method.step(system, t, sign * length, y, f0)
                size = _error(system, method, step, control)
            except NoSolution as error:
                if isinstance(error, SolveError):
                    raise
                control.rejected += 1
                h = method.failed(length)
                continue
            if not size <= 1:
                factor = control.safety * size ** (-1 / method.order) if isfinite(size) else 0.0
                control.rejected += 1
                h = length * max(control.least_factor, factor)
                continue
            method.accepted()
            control.accepted += 1
            yield step
            factor = control.largest_factor
            if size > 0:
                factor = control.safety * size ** (-0.7 / method.order) * before ** (0.4 / method.order)
            before = max(size, 1e-4)
            grown = length * min(control.largest_factor, max(control.least_factor, factor))
            h = max(h, grown) if last else grown
            t, y, f0 = (target if last else t + sign * length), step.y1, step.f1
            if f0 is None:
                f0 = step.derivative_at_end(system)


def _error(system: System, method: ExplicitMethod, step: Step, control: Control) -> float:
    """Return the norm of the error estimate relative to the tolerances; the step is accepted if it is at most 1."""
    with silent():
        start, end = abs(system.vector(step.y0)), abs(system.vector(step.y1))
        scale = control.atol + control.rtol * array_module(end).maximum(start, end)
        return method.error_norm([system.norm(e, scale) for e in method.errors(system, step)])


def _first_step(
    system: System,
    method: ExplicitMethod,
    t: float,
    sign: float,
    distance: float,
    y: Leaves,
    f0: Leaves,
    control: Control,
) -> float:
    """Return a length for the first step (Hairer, Norsett and Wanner 1993, section II.4)."""
    if control.first_step is not None:
        return control.first_step
    if distance == 0:
        return 0.0
    with no_grad():
        scale = control.atol + control.rtol * abs(system.vector(y))
        size, slope = system.norm(system.vector(y), scale), system.norm(system.vector(f0), scale)
        h = min(1e-6 if size < 1e-5 or slope < 1e-5 else 0.01 * size / slope, distance)
        f1 = system(t + sign * h, combine([1.0, sign * h], [y, f0]))
        curvature = system.norm(system.vector(f1) - system.vector(f0), scale) / h
    largest = max(slope, curvature)
    if not isfinite(largest):
        return h
    better = max(1e-6, h * 1e-3) if largest <= 1e-15 else (0.01 / largest) ** (1 / method.order)
    return min(100 * h, better, distance)


def _check_finite(system: System, t: float, y: Leaves, name: str = "the state") -> None:
    with no_grad():
        vector = system.vector(y)
        if not bool(array_module(vector).isfinite(vector).all()):
            raise SolveError(f"{system.caller}: {name} is not finite at t = {t}")


def rolled(system: System, method: ExplicitMethod, times: Sequence[float], y: Leaves, count: int) -> list[Leaves]:
    """Return the states at all times, after ``count`` equal steps between any two."""
    starts = [a + i * (b - a) / count for a, b in zip(times, times[1:], strict=False) for i in range(count)]
    lengths = [(b - a) / count for a, b in zip(times, times[1:], strict=False) for _ in range(count)]
    if len({round(h, 12) for h in lengths}) == 1:
        return _scanned(system, method, starts, lengths[0], y, count)
    states = [y]
    for index in range(0, len(starts), count):
        states += _scanned(system, method, starts[index : index + count], lengths[index], states[-1], count)[1:]
    return states


def _scanned(
    system: System, method: ExplicitMethod, starts: Sequence[float], h: float, y: Leaves, every: int
) -> list[Leaves]:
    """Return the first state and every ``every``-th state after the first."""
    several = len(starts) > every

    def body(state: Leaves, t: Tensor) -> tuple[Leaves, Leaves | None]:
        end = method.step_at(system, t, h, state)
        return end, (end if several else None)

    last, path = scan(body, list(y), new_tensor(np.array(starts, system.dtype)))
    if not several:
        return [y, last]
    return [y, *[[leaf[index] for leaf in path] for index in range(every - 1, len(starts), every)]]
