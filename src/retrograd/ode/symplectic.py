"""``leapfrog``: a symplectic method for second-order equations, which keeps energy errors bounded over long times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor.tensor import Tensor
from ..func.loops.scan import scan
from ..ops.make.ranges import arange
from ..ops.shape.joining import cat
from .system import Leaves, System, combine, number


def leapfrog(
    acceleration: Callable[..., object],
    q0: object,
    v0: object,
    t: tuple[float, float],
    args: tuple[object, ...] = (),
    *,
    steps: int,
    checkpoint: bool | int = False,
) -> tuple[Any, Any]:
    """Solve ``q'' = acceleration(t, q, *args)`` by ``steps`` equal steps of the velocity Verlet method, of order 2.

    The loop is a ``func.scan``: in a compiled function it is compiled once.

    Args:
        acceleration: a function that returns a value like q0.
        q0, v0: positions and velocities at the first time: Tensors, or nested containers of the same structure.
        t: the first and the last time.
        steps: the number of steps.
        checkpoint: as for ``func.scan``.

    Returns:
        A pair of positions and velocities at all ``steps + 1`` times, along a new first axis.

    Raises:
        ValueError: ``steps`` is not positive, or q0, v0 and the acceleration differ in structure or shape.

    >>> from retrograd.ode import leapfrog
    >>> q, v = leapfrog(lambda t, q: -q, rg.tensor(1.0), rg.tensor(0.0), (0.0, 3.141592653589793), steps=100)
    >>> q[-1]
    tensor(-1.)
    """
    if not isinstance(steps, int) or steps < 1:
        raise ValueError(f"leapfrog: steps must be a positive integer, got {steps!r}")
    system = System("leapfrog", acceleration, q0, args)
    velocities = System("leapfrog", acceleration, v0, args).leaves
    shapes = [x.shape for x in system.leaves]
    if [x.shape for x in velocities] != shapes:
        found = [x.shape for x in velocities]
        raise ValueError(f"leapfrog: v0 must be a nest like q0 with shapes {shapes}, got {found}")
    start = number("leapfrog", t[0], "t[0]")
    h = (number("leapfrog", t[1], "t[1]") - start) / steps
    count = len(shapes)

    def body(state: Leaves, index: Tensor) -> tuple[Leaves, Leaves]:
        q, v, a = state[:count], state[count : 2 * count], state[2 * count :]
        q = combine([1.0, h, h * h / 2], [q, v, a])
        after = system(start + (index + 1) * h, q)
        v = combine([1.0, h / 2, h / 2], [v, a, after])
        return [*q, *v, *after], [*q, *v]

    first = [*system.leaves, *velocities]
    numbers = arange(steps, dtype=system.dtype)
    _, path = scan(body, [*first, *system(start, system.leaves)], numbers, checkpoint=checkpoint)
    every = [cat([x[None], xs]) for x, xs in zip(first, path, strict=True)]
    return system.structure.unflatten(every[:count]), system.structure.unflatten(every[count:])
