"""``fixed_point`` and ``argmin``: solutions of fixed-point equations and of minimization problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...core.errors import describe
from ...core.graph.modes import no_grad
from ...core.tensor.tensor import Tensor
from ...ops.table.documentation import like
from ..function_graph import leaves_like
from ..reverse import grad
from .attach import LinearSolve, attached
from .minimize import minimize
from .newton import anderson
from .roots import Method, custom_root, unknowns

Nest = TypeVar("Nest")


@like(custom_root)
def fixed_point(
    f: Callable[[Nest], Nest],
    x0: Nest,
    *,
    solve: Callable[[Callable[[Nest], Nest], Nest], Nest] | None = None,
    tol: float | None = None,
    maxiter: int = 500,
    memory: int = 5,
    tangent_solve: Method = "auto",
) -> Nest:
    """Return x with ``f(x) = x``, differentiable with respect to all Tensors that ``f`` reads.

    With x = f(x, p), the derivative is ``dx = (1 - df/dx)^-1 (df/dp) dp``; the iterations are not differentiated.

    Args:
        x0: the start of the iteration; it has no gradient.
        solve: called as ``solve(f, x0)`` without recording, returns the fixed point; by default Anderson acceleration.
        tol: the iteration ends when the change of every example is at most ``tol * (1 + |x|)``; by default 1e-10, and
            1e-5 in float32.
        maxiter: the largest number of calls of ``f``.
        memory: the number of earlier iterates that Anderson acceleration combines; 0 is plain iteration.

    Returns:
        The fixed point, a nest like ``x0``.

    Raises:
        RuntimeError: the iteration or a linear solver did not converge, or ``f`` returns another structure or shape.
        ValueError: ``x0`` contains no Tensor.

    >>> from retrograd.func import fixed_point, grad
    >>> def root(a):
    ...     return fixed_point(lambda x: (x + a / x) / 2, rg.tensor(1.0))
    >>> root(rg.tensor(4.0)), grad(root)(rg.tensor(4.0))
    (tensor(2.), tensor(0.25))
    """
    points, structure = unknowns("fixed_point", x0, "x0")
    solver = LinearSolve("fixed_point", structure, tangent_solve)

    def value(leaves: list[Tensor]) -> list[Tensor]:
        return leaves_like(
            "fixed_point", f(structure.unflatten(leaves)), "the result of f", points, structure, "unknown"
        )

    with no_grad():
        start = [x.detach() for x in points]
        if solve is None:
            leaves = anderson("fixed_point", value, start, tol, maxiter, memory)
        else:
            found = solve(f, structure.unflatten(start))
            leaves = leaves_like("fixed_point", found, "the fixed point", points, structure, "unknown")

    def residual(leaves: list[Tensor]) -> list[Tensor]:
        return [x - y for x, y in zip(leaves, value(leaves), strict=True)]

    return structure.unflatten(attached(leaves, residual, solver))


@like(fixed_point, raises="ValueError")
def argmin(
    f: Callable[[Nest], Tensor],
    x0: Nest,
    *,
    solve: Callable[[Callable[[Nest], Tensor], Nest], Nest] | None = None,
    tol: float | None = None,
    maxiter: int = 500,
    tangent_solve: Method = "auto",
) -> Nest:
    """Return a local minimum of ``f``, differentiable with respect to all Tensors that ``f`` reads.

    At the minimum the gradient of f is zero, so ``dx = -H^-1 (d/dp grad f) dp`` with the Hessian H, which must be
    invertible. The iterations are not differentiated.

    Args:
        f: maps a nest of Tensors to a real 0-d Tensor.
        x0: the start of the minimization; it has no gradient.
        solve: called as ``solve(f, x0)`` without recording, returns the minimum; by default L-BFGS, finished by
            Newton's method.
        tol: the largest norm of the gradient, relative to 1 + |f|; by default 1e-8, and 1e-4 in float32.
        maxiter: the largest number of iterations.
        tangent_solve: as for ``custom_root``; "cg" suits large problems.

    Returns:
        The minimum, a nest like ``x0``.

    Raises:
        RuntimeError: the minimization or a linear solver did not converge, or the Hessian is singular.

    >>> from retrograd.func import argmin, grad
    >>> def ridge(weight):
    ...     return argmin(lambda x: ((x - 3.0) ** 2).sum() + weight * (x**2).sum(), rg.zeros(1))
    >>> ridge(rg.tensor(0.5)), grad(lambda w: ridge(w).sum())(rg.tensor(0.5))
    (tensor([2.]), tensor(-1.3333))
    """
    points, structure = unknowns("argmin", x0, "x0")
    solver = LinearSolve("argmin", structure, tangent_solve)
    for x in points:
        if x.dtype.kind == "c":
            raise RuntimeError(f"argmin: the unknowns must be real, got {describe(x)}; use real and imaginary parts")

    def value(*leaves: Tensor) -> Tensor:
        return f(structure.unflatten(leaves))

    gradients = grad(value, argnums=tuple(range(len(points))))

    def gradient(leaves: list[Tensor]) -> list[Tensor]:
        return list(gradients(*leaves))

    with no_grad():
        start = [x.detach() for x in points]
        if solve is None:
            leaves = minimize("argmin", lambda x: value(*x), gradient, start, tol, maxiter)
        else:
            found = solve(f, structure.unflatten(start))
            leaves = leaves_like("argmin", found, "the minimum", points, structure, "unknown")
    return structure.unflatten(attached(leaves, gradient, solver))
