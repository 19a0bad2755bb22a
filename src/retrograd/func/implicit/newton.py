"""Newton's method with a line search, and fixed-point iteration with Anderson acceleration, on arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.fp_warnings import silently
from ...core.graph.modes import no_grad
from ...core.tensor.tensor import Tensor
from ..forward import apply_jvp
from ..function_graph import record
from ..nests import flatten
from .attach import Leaves, matrix_of
from .linear_solvers import MAX_DENSE, NoSolution, dense, gmres
from .vectors import Vectors, norm


def tolerance(space: Vectors, tol: float | None) -> float:
    """Return the tolerance of an iteration, by default as small as rounding errors allow."""
    return (1e-5 if space.dtype.itemsize <= 4 else 1e-10) if tol is None else tol


@silently
@no_grad()
def newton(
    what: str,
    residual: Callable[[Leaves], Leaves],
    start: Leaves,
    tol: float | None = None,
    maxiter: int = 50,
    gradient: bool = False,
) -> Leaves:
    """Return a root of ``residual`` by Newton's method; each step is halved until the norm of the residual decreases.

    Iteration ends when every example has a residual or a step below ``tol``, relative to its unknowns.

    Raises:
        NoSolution: ``maxiter`` steps did not reach the tolerance, the Jacobian is singular, or the residual at the
            start is not finite.
    """
    space = Vectors.of(start)
    limit = tolerance(space, tol)

    def value(x: Array) -> Array:
        return space.vector(residual(space.leaves(x)))

    x = space.vector(start)
    xp = array_module(x)
    r = value(x)
    x = xp.broadcast_to(x, r.shape)
    size = norm(r)
    if not bool(xp.isfinite(size).all()):
        raise NoSolution(f"{what}: the residual at the starting point is not finite: {_shown(size)}")
    done = size == 0
    for _ in range(maxiter):
        if bool(done.all()):
            return space.leaves(x)
        step = _newton_step(what, residual, space.leaves(x), space, r)
        step = xp.where(done, 0, step)
        factor = xp.ones_like(size)
        found, length = x, size
        for _ in range(25):
            found = x - factor * step
            r_found = value(found)
            length = norm(r_found)
            worse = ~done & ~(length < size * (1 - 1e-4 * factor)) & (length > limit)
            if not bool(worse.any()):
                break
            factor = xp.where(worse, factor / 2, factor)
        small = norm(factor * step) <= limit * (1 + norm(x))
        done = done | (small & (length <= np.sqrt(limit) * (1 + size))) | (length <= limit * 1e-3)
        x, r, size = found, r_found, length
        if not bool(xp.isfinite(size).all()):
            break
    if bool(done.all()):
        return space.leaves(x)
    raise NoSolution(
        f"{what}: Newton's method did not converge in {maxiter} steps; the norm of the residual is {_shown(size)}. "
        "Start nearer to a solution, or pass a solver of your own"
    )


def _newton_step(what: str, residual: Callable[[Leaves], Leaves], x: Leaves, space: Vectors, r: Array) -> Array:
    structure = flatten(tuple(x))[1]
    recorded = record(what, lambda *leaves: tuple(residual(list(leaves))), x, structure)

    def product(t: list[Tensor]) -> list[Tensor]:
        return apply_jvp(recorded, t)

    if space.size <= MAX_DENSE:
        return dense(matrix_of(product, space), r, what)
    return gmres(lambda v: space.vector(product(space.leaves(v))), r, 1e-4, 10 * space.size, what)


@silently
@no_grad()
def anderson(
    what: str, function: Callable[[Leaves], Leaves], start: Leaves, tol: float | None, maxiter: int, memory: int
) -> Leaves:
    """Return a fixed point by Anderson acceleration (Walker and Ni 2011); with ``memory`` 0 by plain iteration.

    Raises:
        NoSolution: ``maxiter`` calls did not reach the tolerance, or a value is not finite.
    """
    space = Vectors.of(start)
    limit = tolerance(space, tol)
    xs: list[Array] = []
    fs: list[Array] = []
    x = space.vector(start)
    xp = array_module(x)
    for _ in range(maxiter):
        value = space.vector(function(space.leaves(x)))
        change = value - x
        size = norm(change)
        if not bool(xp.isfinite(size).all()):
            raise NoSolution(f"{what}: the iteration diverged, the values are not finite")
        if bool((size <= limit * (1 + norm(value))).all()):
            return space.leaves(value)
        xs, fs = [*xs, xp.broadcast_to(x, value.shape)][-memory - 1 :], [*fs, change][-memory - 1 :]
        x = value
        if memory and len(fs) > 1:
            differences = xp.stack([f - fs[-1] for f in fs[:-1]], -1)
            moves = xp.stack([a - xs[-1] for a in xs[:-1]], -1)
            weights = -(xp.linalg.pinv(differences) @ change[..., None])
            x = value + ((moves + differences) @ weights)[..., 0]
    raise NoSolution(
        f"{what}: the iteration did not converge in {maxiter} steps; the last step has length {_shown(size)}, the "
        f"tolerance is {limit:.3g}. The map may not be a contraction"
    )


def _shown(x: Array) -> str:
    return f"{float(x.max()):.3g}" if x.size else "0"
