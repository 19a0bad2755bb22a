"""Algebraic Riccati equations.

Let ``K`` be the feedback of the solution X, and ``F = A - B K``. The differential of the equation is
``L(dX) + dA^H R + P dA - P dB K - K^H dB^H R + K^H dR K + dQ = 0`` (Kao and Hennequin 2020, *Automatic
differentiation of Sylvester, Lyapunov, and algebraic Riccati equations*). It has no terms in ``dK``, since the equation
is stationary in ``K``. In continuous time ``P = R = X`` and L is Lyapunov's map of ``F``; in discrete time
``P = F^H X``, ``R = X F``, and L is Stein's map. The cotangent of Q solves the transposed equation; the other
cotangents are products with the cotangent of Q.
"""

from __future__ import annotations

import numpy as np

from ..._generated import linalg as ours
from ...core.arrays import Array
from ...core.graph.plan import Rule
from ...core.graph.primitive import Primitive, apply
from ...core.tensor.tensor import Tensor
from ...ops.linear.matrices import transposed
from ...ops.linear.solving.systems import SOLVE
from ...ops.numpy.arguments import alike
from ...ops.table.batching import in_front
from ..decorators import ArrayLike
from .equations import SYLVESTER
from .matrices import each, linalg, matrix


def _adjoint(x: Array) -> Array:
    return transposed(x).conj()


def _cotangents(s: Array, left: Array, right: Array, feedback: Array) -> list[Array]:
    k = feedback.conj()
    by_a = transposed(left) @ s + _adjoint(s @ transposed(right))
    by_b = -(transposed(left) @ s @ transposed(feedback)) - _adjoint(k @ s @ transposed(right))
    return [by_a, by_b, s, k @ s @ transposed(feedback)]


def _continuous_rule(g: Array, ans: Array, a: Array, b: Array, r: Array) -> list[Array]:
    feedback = SOLVE(r, _adjoint(b) @ ans)
    closed = a - b @ feedback
    s = SYLVESTER(closed.conj(), transposed(closed), -g)
    return _cotangents(s, ans, ans, feedback)


def _discrete_rule(g: Array, ans: Array, a: Array, b: Array, r: Array) -> list[Array]:
    feedback = SOLVE(r + _adjoint(b) @ ans @ b, _adjoint(b) @ ans @ a)
    closed = a - b @ feedback
    n = a.shape[-1]
    # s = conj(F) s F^T + g, as one linear system of the rows of s
    whole = (closed.conj()[..., :, None, :, None] * closed[..., None, :, None, :]).reshape(*g.shape[:-2], n * n, n * n)
    rows = g.reshape(*g.shape[:-2], n * n, 1)
    s = SOLVE(np.eye(n * n, dtype=whole.dtype) - whole, rows).reshape(g.shape)
    return _cotangents(s, _adjoint(closed) @ ans, ans @ closed, feedback)


def _riccati(name: str, rule: Rule) -> Primitive:
    def forward(a: Array, b: Array, q: Array, r: Array) -> Array:
        lead = np.broadcast_shapes(*[x.shape[:-2] for x in (a, b, q, r)])
        return np.empty((*lead, *a.shape[-2:]), a.dtype) if 0 in lead else each(name, a, b, q, r).astype(a.dtype)

    return Primitive(f"scipy.linalg.{name}", forward, "a b q r", vjp=rule, batch=in_front)


CONTINUOUS = _riccati("solve_continuous_are", _continuous_rule)
DISCRETE = _riccati("solve_discrete_are", _discrete_rule)


def _solved(
    primitive: Primitive,
    a: ArrayLike,
    b: ArrayLike,
    q: ArrayLike,
    r: ArrayLike,
    e: ArrayLike | None,
    s: ArrayLike | None,
) -> Tensor:
    """Transform the equation to one without ``e`` and ``s``, and return the solution."""
    system, control, state, cost = alike(
        matrix(a, square=True), matrix(b), matrix(q, square=True), matrix(r, square=True)
    )
    inverse = None
    if e is not None:  # solve for e^H x e, which satisfies the equation with the identity in place of e
        inverse = ours.inv(alike(matrix(e, square=True), system)[0])
        system, control = inverse @ system, inverse @ control
    if s is not None:
        mixed = alike(matrix(s), system)[0]
        state = state - mixed @ ours.solve(cost, mixed.mH)
        system = system - control @ ours.solve(cost, mixed.mH)
    found = apply(primitive, (system, control, state, cost), {})
    return found if inverse is None else inverse.mH @ found @ inverse


@linalg
def solve_continuous_are(
    a: ArrayLike,
    b: ArrayLike,
    q: ArrayLike,
    r: ArrayLike,
    e: ArrayLike | None = None,
    s: ArrayLike | None = None,
    balanced: bool = True,
) -> Tensor:
    """Return the solution of ``a^H x + x a - x b r^-1 b^H x + q = 0``, the cost of a linear-quadratic regulator.

    With ``e`` and ``s``, the equation is ``a^H x e + e^H x a - (e^H x b + s) r^-1 (b^H x e + s^H) + q = 0``. The
    derivative solves Lyapunov's equation of the closed loop ``a - b r^-1 b^H x``.

    >>> one = rg.tensor([[1.0]])
    >>> rg.scipy.linalg.solve_continuous_are(0 * one, one, one, one)
    tensor([[1.]])
    """
    return _solved(CONTINUOUS, a, b, q, r, e, s)


@linalg
def solve_discrete_are(
    a: ArrayLike,
    b: ArrayLike,
    q: ArrayLike,
    r: ArrayLike,
    e: ArrayLike | None = None,
    s: ArrayLike | None = None,
    balanced: bool = True,
) -> Tensor:
    """Return the solution of ``a^H x a - x - a^H x b (r + b^H x b)^-1 b^H x a + q = 0``.

    With ``e`` and ``s``, solve ``a^H x a - e^H x e - (a^H x b + s) (r + b^H x b)^-1 (b^H x a + s^H) + q = 0``. The
    derivative solves Stein's equation of the closed loop.

    >>> one = rg.tensor([[1.0]])
    >>> rg.scipy.linalg.solve_discrete_are(0 * one, one, one, one)
    tensor([[1.]])
    """
    return _solved(DISCRETE, a, b, q, r, e, s)
