"""Minimize by L-BFGS with a backtracking line search, and refine by Newton's method, on arrays."""

from __future__ import annotations

from collections.abc import Callable

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import precision
from ...core.arrays.fp_warnings import silently
from ...core.tensor.tensor import Tensor
from .attach import Leaves
from .linear_solvers import NoSolution
from .newton import newton
from .vectors import Vectors, bare, dot

MEMORY = 10


@silently
def minimize(
    what: str,
    value: Callable[[Leaves], Tensor],
    gradient: Callable[[Leaves], Leaves],
    start: Leaves,
    tol: float | None,
    maxiter: int,
) -> Leaves:
    """Return a minimum; all examples of ``vmap`` iterate together, each with its own line search.

    Raises:
        NoSolution: ``maxiter`` iterations did not reach the tolerance, or the function is not finite at the start.
    """
    space = Vectors.of(start)
    limit = (1e-4 if space.dtype.itemsize <= 4 else 1e-8) if tol is None else tol
    x = space.vector(start)
    xp = array_module(x)

    def value_at(x: Array) -> Array:
        return bare(value(space.leaves(x)))[..., None]

    def gradient_at(x: Array) -> Array:
        return space.vector(gradient(space.leaves(x)))

    f, g = value_at(x), gradient_at(x)
    x = xp.broadcast_to(x, g.shape)
    if not bool(xp.isfinite(f).all()):
        raise NoSolution(f"{what}: the function is not finite at the starting point")
    steps: list[tuple[Array, Array]] = []
    for _ in range(maxiter):
        norm = xp.sqrt(dot(g, g))
        done = norm <= limit * (1 + abs(f))
        if bool(done.all()):
            return _refined(what, gradient, space, x, value_at)
        direction = _direction(g, steps)
        slope = dot(direction, g)
        direction = xp.where(slope < 0, direction, -g)
        slope = xp.where(slope < 0, slope, -norm * norm)
        factor = xp.ones_like(f) if steps else 1 / xp.maximum(norm, 1)
        for _ in range(40):
            found = x + xp.where(done, 0, factor) * direction
            f_found = value_at(found)
            rejected = ~done & ~(f_found <= f + 1e-4 * factor * slope + 10 * precision(space.dtype) * abs(f))
            if not bool(rejected.any()):
                break
            factor = xp.where(rejected, factor / 2, factor)
        g_found = gradient_at(found)
        steps = [*steps, (found - x, g_found - g)][-MEMORY:]
        x, f, g = found, f_found, g_found
    raise NoSolution(
        f"{what}: the minimization did not converge in {maxiter} iterations; the norm of the gradient is "
        f"{float(xp.sqrt(dot(g, g)).max()):.3g}. The function may have no minimum, or its scale may need to change"
    )


def _refined(
    what: str, gradient: Callable[[Leaves], Leaves], space: Vectors, x: Array, value_at: Callable[[Array], Array]
) -> Leaves:
    """Refine a minimum by up to 5 steps of Newton's method; return it unchanged where they fail or raise the value."""
    leaves = space.leaves(x)
    try:
        refined = newton(what, gradient, leaves, maxiter=5)
    except NoSolution:
        return leaves
    found = space.vector(refined)
    xp = array_module(x)
    worse = value_at(found) > value_at(x) + 1e-6 * (1 + abs(value_at(x)))
    return space.leaves(xp.where(worse, x, found))


def _direction(g: Array, steps: list[tuple[Array, Array]]) -> Array:
    """Return -H g by the two-loop recursion of L-BFGS (Nocedal 1980); pairs without positive curvature are skipped."""
    xp = array_module(g)
    q, weights = g, []
    for s, y in reversed(steps):
        curvature = dot(s, y)
        rho = xp.where(curvature > 0, 1 / xp.where(curvature > 0, curvature, 1), 0)
        alpha = rho * dot(s, q)
        q = q - alpha * y
        weights.append((s, y, rho, alpha))
    if steps:
        s, y = steps[-1]
        curvature, square = dot(s, y), dot(y, y)
        q = q * xp.where(curvature > 0, curvature / xp.where(square > 0, square, 1), 1)
    for s, y, rho, alpha in reversed(weights):
        q = q + (alpha - rho * dot(y, q)) * s
    return -q
