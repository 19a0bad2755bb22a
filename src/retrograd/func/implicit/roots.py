"""``custom_root`` and ``custom_linear_solve``: solutions of equations, with JAX's meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ...core.errors import describe
from ...core.graph.modes import no_grad
from ...core.tensor.tensor import Tensor
from ..function_graph import as_point, leaves_like
from ..nests import Structure, flatten
from .attach import LinearSolve, Solver, attached
from .newton import newton
from .vectors import Vectors

Method = str | Solver
Nest = TypeVar("Nest")


def unknowns(what: str, nest: object, name: str) -> tuple[list[Tensor], Structure]:
    """Return the leaves of a nest of unknowns as Tensors of floating or complex dtype.

    Raises:
        ValueError: the nest is empty, or a leaf is not a Tensor, array or float.
        RuntimeError: a leaf's dtype is neither floating nor complex.
    """
    leaves, structure = flatten(nest)
    if not leaves:
        raise ValueError(f"{what}: {name} must contain at least one Tensor, got {nest!r}")
    paths = structure.paths(name)
    return [as_point(what, x, path) for x, path in zip(leaves, paths, strict=True)], structure


def custom_root(
    f: Callable[[Nest], Nest],
    initial_guess: Nest,
    solve: Callable[[Callable[[Nest], Nest], Nest], object] | None = None,
    tangent_solve: Method = "auto",
    has_aux: bool = False,
) -> Any:
    """Return a root of ``f``, differentiable by the implicit function theorem, as ``jax.lax.custom_root``.

    With F(x, p) = 0, the derivative is ``dx = -(dF/dx)^-1 (dF/dp) dp``, where p is every Tensor that ``f`` reads:
    arguments of the calling function, parameters, captured Tensors. The steps of ``solve`` are not differentiated.
    All transforms apply, nested and to any order.

    Args:
        f: maps a nest of Tensors to a nest of the same structure and shapes.
        initial_guess: the start of ``solve``; it has no gradient.
        solve: called as ``solve(f, initial_guess)`` without recording; it returns the root, with ``has_aux`` a pair
            ``(root, aux)``. By default Newton's method with a line search.
        tangent_solve: how linear systems with the matrix dF/dx and its transpose are solved: "auto" (by LU
            factorization up to 128 unknowns, else "gmres"), "dense", "cg", "gmres", "bicgstab", or a function
            ``tangent_solve(g, y)`` that solves ``g(x) = y`` for a linear function ``g``.
        has_aux: whether ``solve`` returns a pair.

    Returns:
        The root, a nest like ``initial_guess``; with ``has_aux`` a pair ``(root, aux)``.

    Raises:
        RuntimeError: ``f`` or ``solve`` returns another structure or shape; Newton's method or a linear solver did not
            converge; the Jacobian is singular.
        ValueError: ``initial_guess`` contains no Tensor.

    Source: ``jax.lax.custom_root``; Blondel et al. 2022, *Efficient and modular implicit differentiation*.

    >>> from retrograd.func import custom_root, grad
    >>> def cube_root(a):
    ...     return custom_root(lambda x: x**3 - a, rg.tensor(1.0))
    >>> cube_root(rg.tensor(8.0)), grad(cube_root)(rg.tensor(8.0))
    (tensor(2.), tensor(0.0833))
    """
    points, structure = unknowns("custom_root", initial_guess, "initial_guess")
    solver = LinearSolve("custom_root", structure, tangent_solve)

    def residual(leaves: list[Tensor]) -> list[Tensor]:
        return leaves_like(
            "custom_root", f(structure.unflatten(leaves)), "the result of f", points, structure, "unknown"
        )

    aux = None
    with no_grad():
        start = [x.detach() for x in points]
        if solve is None:
            root: object = structure.unflatten(newton("custom_root", residual, start))
        else:
            root = solve(f, structure.unflatten(start))
            if has_aux:
                if not isinstance(root, tuple) or len(root) != 2:
                    raise RuntimeError(
                        f"custom_root: with has_aux=True solve must return a pair (root, aux), got {describe(root)}"
                    )
                root, aux = root
        leaves = leaves_like("custom_root", root, "the root", points, structure, "unknown")
    found = structure.unflatten(attached(leaves, residual, solver))
    return (found, aux) if has_aux else found


def custom_linear_solve(
    matvec: Callable[[Nest], Nest],
    b: Nest,
    solve: Method = "auto",
    transpose_solve: Method | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Return x with ``matvec(x) = b``, differentiable with respect to b and Tensors that ``matvec`` reads.

    The derivatives are ``dx = A^-1 (db - dA x)``, and ``A^T w = g`` for the cotangent g of x, as in
    ``jax.lax.custom_linear_solve``.

    Args:
        matvec: a linear function from nests like ``b`` to nests like ``b``.
        b: the right-hand side.
        solve: "auto", "dense", "cg", "gmres", "bicgstab", or a function ``solve(matvec, b)`` that returns x, with
            ``has_aux`` a pair ``(x, aux)``.
        transpose_solve: a name as for ``solve``, or a function ``transpose_solve(vecmat, g)``, that solves
            ``A^T w = g``; by default ``solve`` if that is a name or the matrix is symmetric, else "auto".
        symmetric: declares that A is symmetric (A = A^T, without conjugation).
        has_aux: as for ``custom_root``.

    Returns:
        The solution, a nest like ``b``; with ``has_aux`` a pair ``(x, aux)``.

    Raises:
        RuntimeError: the matrix is singular, an iteration did not converge, or a structure or shape differs.
        ValueError: ``solve`` is an unknown name, or ``b`` contains no Tensor.

    >>> from retrograd.func import custom_linear_solve, grad
    >>> def solution(scale):
    ...     return custom_linear_solve(lambda x: scale * x, rg.tensor([2.0, 4.0]), "cg", symmetric=True)
    >>> solution(rg.tensor(2.0)), grad(lambda s: solution(s).sum())(rg.tensor(2.0))
    (tensor([1., 2.]), tensor(-1.5))
    """
    sides, structure = unknowns("custom_linear_solve", b, "b")
    if transpose_solve is None:
        transpose_solve = solve if symmetric or isinstance(solve, str) else "auto"
    solver = LinearSolve("custom_linear_solve", structure, solve, transpose_solve)

    def product(leaves: list[Tensor]) -> list[Tensor]:
        found = matvec(structure.unflatten(leaves))
        return leaves_like("custom_linear_solve", found, "the result of matvec", sides, structure, "unknown")

    aux = None
    with no_grad():
        right = [x.detach() for x in sides]
        if callable(solve):
            x = solve(matvec, structure.unflatten(right))
            if has_aux:
                if not isinstance(x, tuple) or len(x) != 2:
                    raise RuntimeError(
                        f"custom_linear_solve: with has_aux=True solve must return a pair (x, aux), got {describe(x)}"
                    )
                x, aux = x
            leaves = leaves_like("custom_linear_solve", x, "the solution", sides, structure, "unknown")
        else:
            leaves = solver(product, right, Vectors.of(right))

    def residual(leaves: list[Tensor]) -> list[Tensor]:
        return [y - side for y, side in zip(product(leaves), sides, strict=True)]

    found = structure.unflatten(attached(leaves, residual, solver))
    return (found, aux) if has_aux else found
