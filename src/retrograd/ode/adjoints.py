"""Backward passes that do not store every step: checkpointed segments, and integration backward in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isqrt
from typing import TypeAlias

from ..autograd import checkpoint
from ..core.arrays.dtypes import is_differentiable
from ..core.tensor.tensor import Tensor
from ..func.custom import custom_vjp
from ..func.modules import functional_call
from ..func.nests import flatten
from ..func.reverse import vjp
from .explicit import ExplicitMethod
from .solution import Solution
from .stepping import Control
from .system import Leaves, System

Plan: TypeAlias = Sequence[tuple[float, float]]  # the start and the length of every step
State: TypeAlias = tuple[Leaves, Leaves, Leaves]  # y, the adjoint of y, and the adjoint of the parameters


def replayed(
    system: System,
    method: Callable[[], ExplicitMethod],
    plan: Plan,
    times: Sequence[float],
    y: Leaves,
    control: Control,
) -> list[Leaves]:
    """Return the states at ``times``, computed by the steps of ``plan`` in checkpointed segments."""
    states = [y]
    size = isqrt(max(len(plan) - 1, 0)) + 1
    place = 1
    for first in range(0, len(plan), size):
        steps = plan[first : first + size]
        end = sum(steps[-1])
        final = first + size >= len(plan)
        sign = 1.0 if steps[-1][1] >= 0 else -1.0
        stop = place
        while stop < len(times) and (final or sign * (times[stop] - end) <= 1e-13 * abs(steps[-1][1])):
            stop += 1
        wanted = times[place:stop]
        place = stop

        def segment(
            y: Leaves, steps: Plan = steps, wanted: Sequence[float] = wanted, sign: float = sign
        ) -> tuple[Leaves, list[Leaves]]:
            own, f0 = method(), None
            found: list[Leaves] = []
            own.prepare(control.rtol, control.atol)
            for index, (t, h) in enumerate(steps):
                step = own.step(system, t, h, y, f0)
                own.accepted()
                last = index == len(steps) - 1
                while len(found) < len(wanted) and (
                    last or sign * (wanted[len(found)] - t - h) <= 1e-13 * abs(h)
                ):  # fmt: skip
                    at = wanted[len(found)]
                    found.append(own.at(system, step, at if sign * (t + h - at) > 0 else t + h))
                y, f0 = step.y1, step.f1
            return y, found

        y, found = checkpoint.run(segment, (y,), {})
        states += found
    return states


def backsolved(
    solve: Callable[[Callable[..., object], object, Sequence[float], tuple[object, ...]], Solution],
    f: Callable[..., object],
    y0: object,
    times: Sequence[float],
    args: tuple[object, ...],
) -> Solution:
    """Return the solution, whose backward pass integrates the adjoint equation backward in time.

    Let a be the gradient with respect to y(t), and g the gradient with respect to the parameters p. The backward pass
    integrates ``da/dt = -a df/dy`` and ``dg/dt = -a df/dp`` together with y, which is reset at every output time (Chen
    et al. 2018, *Neural ordinary differential equations*).
    """
    named = getattr(f, "named_parameters", None)
    parameters = {name: x for name, x in named() if x.requires_grad} if named is not None else {}
    leaves, structure = flatten((parameters, args))
    places = [i for i, x in enumerate(leaves) if isinstance(x, Tensor) and is_differentiable(x.dtype)]
    result: list[Solution] = []

    def function(t: Tensor, y: object, moving: list[Tensor]) -> object:
        every = list(leaves)
        for place, x in zip(places, moving, strict=True):
            every[place] = x
        held, rest = structure.unflatten(every)
        return functional_call(f, held, (t, y, *rest)) if held else f(t, y, *rest)

    def forward(y0: object, moving: list[Tensor]) -> object:
        solution = solve(function, y0, times, (moving,))
        result.append(solution)
        return solution.y

    def fwd(y0: object, moving: list[Tensor]) -> tuple[object, tuple[object, list[Tensor]]]:
        states = forward(y0, moving)
        return states, (states, moving)

    def bwd(residuals: tuple[object, list[Tensor]], cotangents: object) -> tuple[object, Leaves]:
        states, moving = residuals
        path, shape = flatten(states)
        gradients = flatten(cotangents)[0]

        def backward(t: Tensor, state: State, moving: list[Tensor]) -> State:
            y, a, _ = state
            value, pull = vjp(lambda y, moving: function(t, y, moving), shape.unflatten(y), list(moving))
            by_y, by_moving = pull(shape.unflatten([-x for x in a]))
            return flatten(value)[0], flatten(by_y)[0], by_moving

        a = [g[-1] for g in gradients]
        total = [x.detach() * 0 for x in moving]
        for index in range(len(times) - 1, 0, -1):
            state = ([x[index] for x in path], a, total)
            end = solve(backward, state, [times[index], times[index - 1]], (moving,)).y
            _, a, total = ([x[-1] for x in part] for part in end)
            a = [x + g[index - 1] for x, g in zip(a, gradients, strict=True)]
        return shape.unflatten(a), total

    integrate = custom_vjp(forward)
    integrate.defvjp(fwd, bwd)
    states = integrate(y0, [leaves[place] for place in places])
    return replace(result[0], y=states)
