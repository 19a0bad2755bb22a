"""Solve linear systems on arrays of shape (*examples, n): ``dense``, ``cg``, ``gmres`` and ``bicgstab``.

Each solver takes a function that multiplies by the matrix and the right-hand sides. Examples iterate together until the
residual of each is at most ``rtol`` times its right-hand side; an example that has converged does not change any more.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...ops.table.types import DTypeLike
from .vectors import dot, norm

Product = Callable[[Array], Array]

# Up to this many unknowns per example, "auto" forms the matrix, by one product for all columns.
MAX_DENSE = 128


class NoSolution(RuntimeError):
    """A solver did not converge, or the system has no unique solution."""


def default_tolerance(dtype: DTypeLike) -> float:
    """Return the relative residual at which a system in this precision counts as solved."""
    return 1e-5 if np.dtype(dtype).itemsize <= 4 else 1e-10


def _divided(x: Array, y: Array) -> Array:
    """Return x / y, and 0 where y is 0."""
    xp = array_module(y)
    return xp.where(y == 0, 0, x / xp.where(y == 0, 1, y))


def dense(matrix: Array, b: Array, what: str) -> Array:
    """Return the solution by LU factorization of matrices of shape (*examples, n, n).

    Raises:
        NoSolution: a matrix is singular or not finite.
    """
    xp = array_module(b)
    if not bool(xp.isfinite(matrix).all()):
        raise NoSolution(f"{what}: the matrix of the linear system has entries that are not finite")
    try:
        x = xp.linalg.solve(matrix, b[..., None])[..., 0]
    except np.linalg.LinAlgError:
        x = None
    if x is None or not bool(xp.isfinite(x).all()):
        raise NoSolution(
            f"{what}: the matrix of the linear system is singular, shape {tuple(matrix.shape[-2:])}: the solution is "
            "not isolated, so it has no derivative there"
        )
    return x


def cg(product: Product, b: Array, rtol: float, maxiter: int, what: str) -> Array:
    """Solve systems with symmetric positive definite matrices by conjugate gradients."""
    xp = array_module(b)
    x, r = xp.zeros_like(b), b
    p, square, limit = r, dot(b, b), (rtol * norm(b)) ** 2
    for _ in range(maxiter):
        active = square > limit
        if not bool(active.any()):
            return x
        q = product(p)
        curvature = dot(p, q)
        if bool((active & (curvature <= 0)).any()):
            raise NoSolution(
                f"{what}: cg needs a symmetric positive definite matrix, found a direction of curvature "
                f"{float(curvature.min()):.3g}; use 'gmres' or 'dense'"
            )
        step = xp.where(active, _divided(square, curvature), 0)
        x = x + step * p
        r = r - step * q
        found = dot(r, r)
        p = r + _divided(found, square) * p
        square = found
    return _checked(x, xp.sqrt(square), xp.sqrt(limit), maxiter, what, "cg")


def gmres(product: Product, b: Array, rtol: float, maxiter: int, what: str, restart: int = 30) -> Array:
    """Solve systems by GMRES with restarts (Saad and Schultz 1986)."""
    xp = array_module(b)
    x, r, limit = xp.zeros_like(b), b, rtol * norm(b)
    size = max(1, min(restart, b.shape[-1]))
    done = 0
    while True:
        beta = norm(r)
        if not bool((beta > limit).any()) or done >= maxiter:
            return _checked(x, beta, limit, maxiter, what, "gmres")
        basis = [_divided(r, beta)]
        h = xp.zeros((*b.shape[:-1], size + 1, size), b.dtype)
        y = None
        for column in range(size):
            v = product(basis[column])
            for row, u in enumerate(basis):
                h[..., row, column] = dot(u, v)[..., 0]
                v = v - h[..., row, column, None] * u
            length = norm(v)
            h[..., column + 1, column] = length[..., 0]
            basis.append(_divided(v, length))
            done += 1
            part = h[..., : column + 2, : column + 1]
            y = _least_squares(part, beta)
            target = xp.zeros((*b.shape[:-1], column + 2), b.dtype)
            target[..., 0] = beta[..., 0]
            if not bool((norm(target - (part @ y[..., None])[..., 0]) > limit).any()) or done >= maxiter:
                break
        assert y is not None
        x = x + sum(y[..., index, None] * basis[index] for index in range(y.shape[-1]))
        r = b - product(x)


def _least_squares(h: Array, beta: Array) -> Array:
    """Return the y that minimizes |beta e1 - h y|, of least norm where h has no full rank."""
    xp = array_module(h)
    return xp.linalg.pinv(h)[..., 0] * beta


def bicgstab(product: Product, b: Array, rtol: float, maxiter: int, what: str) -> Array:
    """Solve systems by BiCGSTAB (van der Vorst 1992)."""
    xp = array_module(b)
    x, r, limit = xp.zeros_like(b), b, rtol * norm(b)
    shadow, p, rho = r, r, dot(b, b)
    for _ in range(maxiter):
        active = norm(r) > limit
        if not bool(active.any()):
            return x
        v = product(p)
        alpha = xp.where(active, _divided(rho, dot(shadow, v)), 0)
        s = r - alpha * v
        t = product(s)
        omega = xp.where(active, _divided(dot(t, s), dot(t, t)), 0)
        x = x + alpha * p + omega * s
        r = xp.where(active, s - omega * t, r)
        found = dot(shadow, r)
        p = r + _divided(found, rho) * _divided(alpha, omega) * (p - omega * v)
        rho = found
    return _checked(x, norm(r), limit, maxiter, what, "bicgstab")


def _checked(x: Array, residual: Array, limit: Array, maxiter: int, what: str, method: str) -> Array:
    if not bool((residual <= limit).all()):
        raise NoSolution(
            f"{what}: {method} did not solve the linear system in {maxiter} iterations: the residual is "
            f"{float(residual.max()):.3g}, the tolerance {float(limit.max()):.3g}; the matrix may be singular"
        )
    return x


KRYLOV: dict[str, Callable[[Product, Array, float, int, str], Array]] = {"cg": cg, "gmres": gmres, "bicgstab": bicgstab}
