"""``solve`` and ``odeint``: integrate ordinary differential equations, with derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Literal, TypeAlias

import numpy as np

from ..core.errors import describe
from ..core.graph.modes import modes, no_grad
from ..core.tensor.tensor import Tensor, new_tensor
from ..ops.shape.joining import unbind
from .adjoints import backsolved, replayed
from .events import Event, crossings, differentiable_time
from .explicit import ExplicitMethod, Step, moved
from .implicit import method_named
from .solution import Dense, Solution, stacked, times_of
from .stepping import Control, rolled, stepped
from .system import Leaves, System, Times, Tolerance, number

EventFunction: TypeAlias = Callable[..., object]


def solve(
    f: Callable[..., object],
    y0: object,
    t: Times,
    args: tuple[object, ...] = (),
    *,
    method: str = "tsit5",
    rtol: float | None = None,
    atol: Tolerance | Sequence[float] | None = None,
    steps: int | None = None,
    first_step: float | None = None,
    max_step: float = inf,
    min_step: float = 0.0,
    max_steps: int = 100_000,
    events: EventFunction | Sequence[EventFunction] | None = (),
    dense: bool = False,
    every_step: bool = False,
    adjoint: Literal["direct", "checkpoint", "backsolve"] = "direct",
) -> Solution:
    """Solve the initial value problem ``dy/dt = f(t, y, *args)``, ``y(t[0]) = y0``.

    The result is differentiable, in reverse and forward mode and to higher orders, by y0, args, all other Tensors that
    f reads, and the times. Step sizes that are chosen by error control are constants. Inside ``vmap`` all examples
    have the same steps, so that the error of each example is at most the tolerance.

    Args:
        f: a function that returns a value like y0. It receives the time as a 0-d Tensor.
        y0: a real or complex Tensor, or a nested container (dict, list, tuple) of Tensors.
        t: at least two times, ascending or descending; the solution is returned at each.
        method: explicit with step control: "tsit5", "dopri5", "dopri8", "bosh3", "heun"; for stiff systems: "kvaerno3",
            "kvaerno5" with Newton iterations, and "rodas5p" with the exact Jacobian, for at most some hundred unknowns;
            with equal steps only: "rk4", "midpoint", "euler".
        rtol, atol: the error of a step, as root mean square over the elements of the state, is at most
            ``atol + rtol * |y|``; by default 1e-6 and 1e-9, in float32 1e-4 and 1e-6.
        steps: the number of equal steps between two times, instead of step control. In a compiled function the loop is
            compiled once, whatever the number of steps, except with Newton iterations.
        first_step, max_step, min_step: bounds of the step size; by default the first is estimated.
        max_steps: the largest number of accepted and rejected steps.
        events: a function ``g(t, y, *args)`` or a sequence of them; the times at which g crosses zero are found, and
            differentiated by the implicit function theorem. With the attribute ``g.terminal = True`` the first crossing
            ends the integration; ``g.direction`` > 0 (< 0) restricts crossings to those where g ascends (descends).
        dense: whether ``solution(t)`` can return states between the times ``t``.
        every_step: return the solution at the end of every step, too.
        adjoint: how the backward pass gets the values of the forward pass. "direct" records all steps. "checkpoint"
            saves states at about the square root of the number of steps, and computes the other states again.
            "backsolve" integrates backward in time with memory that does not grow with the number of steps; its
            gradient has the error of that integration, and f may read Tensors that require grad only through args or,
            if f is a module, as its parameters.

    Returns:
        A ``Solution``.

    Raises:
        SolveError: (a RuntimeError) the step size fell below its bound, ``max_steps`` was reached, or the state or f is
            not finite at the start.
        ValueError: times are not monotone, f returns another structure or shape, the method is unknown.
        TypeError: a tolerance or time has a wrong type.

    >>> from retrograd.ode import solve
    >>> decay = lambda t, y, rate: -rate * y
    >>> rate = rg.tensor(2.0, requires_grad=True)
    >>> solution = solve(decay, rg.tensor([1.0]), [0.0, 0.5, 1.0], (rate,))
    >>> solution.y
    tensor([[1.    ],
            [0.3679],
            [0.1353]], grad_fn=<stack>)
    >>> solution.y[-1, 0].backward()
    >>> rate.grad
    tensor(-0.1353)
    """
    system = System("solve", f, y0, args)
    times = _times(t)
    numbers = [number("solve", time, f"t[{index}]") for index, time in enumerate(times)]
    _check_monotone(numbers)
    chosen = method_named(method)
    control = _control(system, chosen, rtol, atol, steps, first_step, max_step, min_step, max_steps)
    functions = [Event("solve", g, i) for i, g in enumerate([events] if callable(events) else events or ())]
    if adjoint not in ("direct", "checkpoint", "backsolve"):
        raise ValueError(f"solve: adjoint must be 'direct', 'checkpoint' or 'backsolve', got {adjoint!r}")
    extras = [name for name, given in (("events", functions), ("dense", dense), ("every_step", every_step)) if given]
    if extras and adjoint != "direct":
        raise ValueError(f"solve: {', '.join(extras)} needs adjoint='direct', got {adjoint!r}")
    if adjoint == "backsolve":
        if any(_differentiated(time) for time in times):
            raise ValueError(
                "solve: adjoint='backsolve' has no derivative with respect to t; use adjoint='direct' or 'checkpoint'"
            )

        def inner(f: Callable[..., object], y0: object, t: Times, args: tuple[object, ...]) -> Solution:
            return solve(
                f, y0, t, args, method=method, rtol=rtol, atol=atol, steps=steps, first_step=first_step,
                max_step=max_step, min_step=min_step, max_steps=max_steps,
            )  # fmt: skip

        return backsolved(inner, f, y0, numbers, args)
    y = system.leaves
    if _differentiated(times[0]):
        y = moved(system, times[0], y, numbers[0])
    if steps is not None and modes.tracer is not None and not extras and chosen.compiles:
        states = rolled(system, chosen, numbers, y, steps)
        return _finished(system, chosen, control, times, states, [[] for _ in functions], 0, None)
    if modes.tracer is not None and (steps is None or functions or not chosen.compiles):
        modes.tracer.breaks(
            f"ode.solve with method={chosen.name!r}, steps={steps} and {len(functions)} events runs operations that "
            "depend on values; pass steps=N to an explicit method or to 'rodas5p', and no events, to compile the loop"
        )
    if adjoint == "checkpoint" and modes.grad_enabled:
        with no_grad():
            plan = [(step.t, step.h) for step in stepped(system, chosen, numbers, y, control, not chosen.interpolates)]
        states = replayed(system, lambda: method_named(method), plan, numbers, y, control)
        return _finished(system, chosen, control, times, states, [], 0, None)
    return _integrated(system, chosen, times, numbers, y, control, functions, dense, every_step)


def _integrated(
    system: System,
    method: ExplicitMethod,
    times: list[float | Tensor],
    numbers: list[float],
    y: Leaves,
    control: Control,
    events: list[Event],
    dense: bool,
    every_step: bool,
) -> Solution:
    """Integrate, recorded step by step."""
    sign = 1.0 if numbers[-1] >= numbers[0] else -1.0
    outputs: list[float | Tensor] = [times[0]]
    states: list[Leaves] = [y]
    found: list[list[tuple[Tensor, Leaves]]] = [[] for _ in events]
    kept: list[Step] = []
    place, status, end = 1, 0, numbers[-1]
    for step in stepped(system, method, numbers, y, control, not method.interpolates):
        last = step.t + step.h
        hits = crossings(system, method, events, step) if events else []
        if hits and hits[-1][1].limit and hits[-1][1].count >= hits[-1][1].limit:
            last, status = hits[-1][0], 1
        for time, event in hits:
            found[event.number].append(
                differentiable_time(system, event, time, method.at(system, step, time))
            )  # fmt: skip
        if dense:
            kept.append(step)
        while place < len(numbers) and sign * (numbers[place] - last) <= 1e-13 * abs(step.h):
            at = numbers[place] if sign * (step.t + step.h - numbers[place]) > 0 else step.t + step.h
            outputs.append(times[place])
            states.append(method.at(system, step, at))
            place += 1
        if status:
            when, state = found[hits[-1][1].number][-1]
            outputs.append(when)
            states.append(state)
            end = last
            break
        if every_step and (not outputs or sign * (last - float(_plain(outputs[-1]))) > 1e-13 * abs(step.h)):
            outputs.append(last)
            states.append(step.y1)
    interpolation = Dense(system, method, kept, end) if dense else None
    return _finished(system, method, control, outputs, states, found, status, interpolation)


def _plain(t: float | Tensor) -> float:
    return number("solve", t, "t")


def _finished(
    system: System,
    method: ExplicitMethod,
    control: Control,
    times: list[float | Tensor],
    states: list[Leaves],
    events: list[list[tuple[Tensor, Leaves]]],
    status: int,
    dense: Dense | None,
) -> Solution:
    """Return the Solution, with derivatives of the states by their times."""
    for index, time in enumerate(times):
        if _differentiated(time) and not (status and index == len(times) - 1):
            states[index] = moved(system, _plain(time), states[index], time)
    return Solution(
        t=times_of(times, system.dtype),
        y=stacked(system.structure, states),
        t_events=[times_of([time for time, _ in hits], system.dtype) for hits in events],
        y_events=[stacked(system.structure, [state for _, state in hits]) if hits else None for hits in events],
        status=status,
        evaluations=system.evaluations,
        jacobians=getattr(method, "jacobians", 0),
        steps=control.accepted,
        rejected=control.rejected,
        dense=dense,
    )


def _differentiated(t: float | Tensor) -> bool:
    return isinstance(t, Tensor) and t._requires and modes.grad_enabled


def _times(t: Times) -> list[float | Tensor]:
    """Return the times, as Tensors where they require grad."""
    if isinstance(t, Tensor):
        if t.ndim != 1:
            raise ValueError(f"solve: t must be one-dimensional, got {describe(t)}")
        if t._requires and modes.grad_enabled:
            return list(unbind(t))
        return [new_tensor(x) if not isinstance(x, np.generic) else float(x) for x in t.detach().array]
    try:
        found = list(t)
    except TypeError:
        raise TypeError(f"solve: t must be a sequence of times, got {describe(t)}") from None
    return [x if isinstance(x, Tensor) and x._requires else number("solve", x, "t") for x in found]


def _check_monotone(times: Sequence[float]) -> None:
    if len(times) < 2:
        raise ValueError(f"solve: t must contain at least two times, got {len(times)}")
    steps = [b - a for a, b in zip(times, times[1:], strict=False)]
    if not (all(step >= 0 for step in steps) or all(step <= 0 for step in steps)):
        raise ValueError(f"solve: the times t must ascend or descend, got {list(times)[:10]}")


def _control(
    system: System,
    method: ExplicitMethod,
    rtol: float | None,
    atol: Tolerance | Sequence[float] | None,
    steps: int | None,
    first_step: float | None,
    max_step: float,
    min_step: float,
    max_steps: int,
) -> Control:
    """Return the step control, with checked settings."""
    single = system.dtype.itemsize <= 4
    rtol = (1e-4 if single else 1e-6) if rtol is None else number("solve", rtol, "rtol")
    atol = (1e-6 if single else 1e-9) if atol is None else np.asarray(atol, float)
    if rtol < 0 or bool((np.asarray(atol) < 0).any()) or not bool((rtol + np.asarray(atol) > 0).all()):
        raise ValueError(f"solve: rtol and atol must not be negative, nor both zero, got rtol={rtol}, atol={atol}")
    if np.ndim(atol) == 0:
        atol = float(atol)
    if steps is not None and (not isinstance(steps, int) or steps < 1):
        raise ValueError(f"solve: steps must be a positive integer, got {steps!r}")
    if steps is None and not method.adaptive:
        raise ValueError(f"solve: {method.name!r} has no error estimate; pass the number of steps, as steps=100")
    if first_step is not None and not first_step > 0 or not max_step > 0 or not min_step >= 0:
        raise ValueError(
            f"solve: first_step and max_step must be positive and min_step must not be negative, got {first_step}, "
            f"{max_step} and {min_step}"
        )
    return Control(rtol, atol, first_step, float(max_step), float(min_step), max_steps, steps)


def odeint(
    f: Callable[..., object],
    y0: object,
    t: Times,
    args: tuple[object, ...] = (),
    *,
    method: str = "dopri5",
    rtol: float = 1e-7,
    atol: Tolerance | Sequence[float] = 1e-9,
    adjoint: Literal["direct", "checkpoint", "backsolve"] = "direct",
    **options: Any,
) -> Any:
    """Return the solution of ``dy/dt = f(t, y, *args)`` at the times t, as torchdiffeq's function of this name.

    Args:
        f, y0, t, args, method, rtol, atol, adjoint, options: as for ``solve``.

    Returns:
        A value like y0, whose Tensors have the states along a new first axis.

    Raises:
        RuntimeError, ValueError, TypeError: as for ``solve``.

    >>> from retrograd.ode import odeint
    >>> odeint(lambda t, y: y, rg.tensor(1.0), [0.0, 1.0], method="rk4", steps=20)
    tensor([1.    , 2.7183])
    """
    return solve(f, y0, t, args, method=method, rtol=rtol, atol=atol, adjoint=adjoint, **options).y
