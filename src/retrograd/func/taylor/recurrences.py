"""Recurrences for the Taylor coefficients of primitives.

With ``x(t) = x_0 + x_1 t + x_2 t^2 + ...`` given, and the coefficients of ``y = f(x)`` below order k, each recurrence
returns ``y_k`` (Griewank and Walther 2008, *Evaluating Derivatives*, section 13.2). A coefficient None is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...core.graph.primitive import Primitive, apply
from ...core.tensor.tensor import Tensor
from ...ops.linear.products.affine import LINEAR, LINEAR_NO_BIAS
from ...ops.linear.products.einsum import EINSUM, EINSUM2
from ...ops.linear.products.matmul import MATMUL, MM, OUTER
from ...ops.linear.solving.inverses import INV, MATRIX_EXP
from ...ops.linear.solving.systems import SOLVE, SOLVE_TRIANGULAR
from ...ops.math.arithmetic import DIV, MUL
from ...ops.math.exponential import EXP, EXPM1, LOG, LOG1P, SIGMOID
from ...ops.math.powers import POW, RECIPROCAL, SQRT, SQUARE
from ...ops.math.trigonometric import COS, COSH, SIN, SINH, TAN, TANH
from ...ops.nn.spatial.convolution_primitives import CONV, CONV_BIAS, CONV_TRANSPOSE, CONV_TRANSPOSE_BIAS
from ...ops.shape.arrangement import TRIL, TRIU
from ...ops.shape.joining import CAT

Coefficient: TypeAlias = Any  # a Tensor, None for zero, or a tuple of them for several outputs
Series: TypeAlias = list[Coefficient]
Recurrence: TypeAlias = Callable[[int], Coefficient]


@dataclass
class Expanded:
    """A node whose series is computed.

    Attributes:
        xs: the series of the inputs; the series of a constant input has only coefficient 0.
        y: the series of the output, which grows by one coefficient per order.
        params: the parameters of the call, as far as the primitive's rules read them.
    """

    xs: list[Series]
    y: Series
    params: dict[str, object]


def at(series: Series, k: int) -> Coefficient:
    """Return a coefficient of a series."""
    return series[k] if k < len(series) else None


def plus(a: Coefficient, b: Coefficient) -> Coefficient:
    """Return the sum of two coefficients."""
    return a if b is None else b if a is None else a + b


def products(x: Series, y: Series, k: int, first: int, last: int, derivative: bool = False) -> Coefficient:
    """Return the sum of ``x_j y_(k-j)`` for j from ``first`` to ``last``, with weights ``j / k`` if ``derivative``."""
    total = None
    for j in range(first, last + 1):
        a, b = at(x, j), at(y, k - j)
        if a is not None and b is not None:
            total = plus(total, a * b * (j / k) if derivative and j != k else a * b)
    return total


def negative(a: Coefficient) -> Coefficient:
    """Return a coefficient with the other sign."""
    return None if a is None else -a


def over(a: Coefficient, b: Tensor) -> Coefficient:
    """Return the quotient of a coefficient and a Tensor."""
    return None if a is None else a / b


def _mul(node: Expanded) -> Recurrence:
    x, y = node.xs
    return lambda k: products(x, y, k, 0, k)


def _square(node: Expanded) -> Recurrence:
    (x,) = node.xs
    return lambda k: products(x, x, k, 0, k)


def _div(node: Expanded) -> Recurrence:
    (x, y), z = node.xs, node.y
    return lambda k: over(plus(at(x, k), negative(products(y, z, k, 1, k))), y[0])


def _reciprocal(node: Expanded) -> Recurrence:
    (x,), y = node.xs, node.y

    def next_coefficient(k: int) -> Coefficient:
        total = products(x, y, k, 1, k)
        return None if total is None else -total * y[0]

    return next_coefficient


def _sqrt(node: Expanded) -> Recurrence:
    (x,), y = node.xs, node.y
    return lambda k: over(plus(at(x, k), negative(products(y, y, k, 1, k - 1))), 2 * y[0])


def _pow(node: Expanded) -> Recurrence | None:
    """The power by multiplications, for constant exponents that are integers from 1 to 32."""
    x, exponent = node.xs
    if len(exponent) > 1 or getattr(exponent[0], "ndim", 0) != 0:
        return None
    try:
        n = float(exponent[0])
    except (TypeError, ValueError, RuntimeError):  # inside vmap the Tensor has no value yet
        return None
    if n != int(n) or not 1 <= n <= 32:
        return None
    powers: list[Series] = [x]  # powers of x with increasing exponents; the last is the result
    for _ in range(1, int(n)):
        powers.append([powers[-1][0] * x[0]])

    def next_coefficient(k: int) -> Coefficient:
        for below, power in zip(powers, powers[1:], strict=False):
            power.append(products(below, x, k, 0, k))
        return at(powers[-1], k)

    return next_coefficient


def _exp(node: Expanded) -> Recurrence:
    (x,), y = node.xs, node.y
    return lambda k: products(x, y, k, 1, k, derivative=True)


def _expm1(node: Expanded) -> Recurrence:
    (x,), y = node.xs, node.y

    def next_coefficient(k: int) -> Coefficient:
        return products(x, [y[0] + 1, *y[1:]], k, 1, k, derivative=True)

    return next_coefficient


def _log(shift: int) -> Callable[[Expanded], Recurrence]:
    def log_rule(node: Expanded) -> Recurrence:
        (x,), y = node.xs, node.y
        base = x[0] + shift if shift else x[0]

        def next_coefficient(k: int) -> Coefficient:
            return over(plus(at(x, k), negative(products(y, x, k, 1, k - 1, derivative=True))), base)

        return next_coefficient

    return log_rule


def _pair(own: Primitive, other: Primitive, to_own: int, to_other: int) -> Callable[[Expanded], Recurrence]:
    """The rule of one of two functions f, g with ``f' = to_own g x'`` and ``g' = to_other f x'``."""

    def pair_rule(node: Expanded) -> Recurrence:
        (x,), y = node.xs, node.y
        partner: Series = [apply(other, (x[0],), {})]
        y[0] = apply(own, (x[0],), {})

        def next_coefficient(k: int) -> Coefficient:
            mine, theirs = (products(x, s, k, 1, k, derivative=True) for s in (partner, y))
            partner.append(negative(theirs) if to_other < 0 else theirs)
            return negative(mine) if to_own < 0 else mine

        return next_coefficient

    return pair_rule


def _by_itself(factor: Callable[[Series, int], Coefficient]) -> Callable[[Expanded], Recurrence]:
    """The rule of a function with ``y' = w x'``, where ``factor(y, k)`` is the coefficient k of w."""

    def rule_by_itself(node: Expanded) -> Recurrence:
        (x,), y = node.xs, node.y
        w: Series = []

        def next_coefficient(k: int) -> Coefficient:
            w.append(factor(y, k - 1))
            return products(x, w, k, 1, k, derivative=True)

        return next_coefficient

    return rule_by_itself


def _whole(node: Expanded) -> Callable[[Tensor], Tensor]:
    return lambda a: a


def _triangle(node: Expanded) -> Callable[[Tensor], Tensor]:
    """Return the function that cuts out the triangle that ``solve_triangular`` reads."""
    upper, unit = bool(node.params["upper"]), int(bool(node.params["unit"]))
    return lambda a: TRIU(a, diagonal=unit) if upper else TRIL(a, diagonal=-unit)


def _solve(
    primitive: Primitive, part: Callable[[Expanded], Callable[[Tensor], Tensor]]
) -> Callable[[Expanded], Recurrence]:
    """``a y = b``: ``y_k = a_0^-1 (b_k - sum_(j>=1) a_j y_(k-j))``, with the part of a that the primitive reads."""

    def solve_rule(node: Expanded) -> Recurrence:
        (a, b), y, read = node.xs, node.y, part(node)

        def next_coefficient(k: int) -> Coefficient:
            total = at(b, k)
            for j in range(1, k + 1):
                if at(a, j) is not None and at(y, k - j) is not None:
                    total = plus(total, -(read(a[j]) @ y[k - j]))
            return None if total is None else apply(primitive, (a[0], total), node.params)

        return next_coefficient

    return solve_rule


def _inv(node: Expanded) -> Recurrence:
    (a,), y = node.xs, node.y

    def next_coefficient(k: int) -> Coefficient:
        total = None
        for j in range(1, k + 1):
            if at(a, j) is not None and y[k - j] is not None:
                total = plus(total, a[j] @ y[k - j])
        return None if total is None else -(y[0] @ total)

    return next_coefficient


def _einsum(node: Expanded) -> Recurrence:
    """The product rule of all operands: the sum of the products whose orders add up to k."""

    def next_coefficient(k: int) -> Coefficient:
        total = None
        for orders in _splits(k, len(node.xs)):
            factors = [at(x, j) for x, j in zip(node.xs, orders, strict=True)]
            if all(x is not None for x in factors):
                total = plus(total, apply(EINSUM, tuple(factors), node.params))
        return total

    return next_coefficient


def _splits(k: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (k,)
        return
    for first in range(k + 1):
        for rest in _splits(k - first, parts - 1):
            yield (first, *rest)


def _matrix_exp(node: Expanded) -> Recurrence:
    """The exponential of the block Toeplitz matrix of the coefficients, whose last block is the coefficient k.

    Truncated series multiply as these matrices do (Higham 2008, *Functions of Matrices*, section 3.2).
    """
    (x,) = node.xs
    zero = x[0] * 0

    def next_coefficient(k: int) -> Coefficient:
        blocks = [zero if at(x, j) is None else x[j] for j in range(k + 1)]
        rows = [apply(CAT, (*[zero] * i, *blocks[: k + 1 - i]), {"dim": -1}) for i in range(k + 1)]
        whole = apply(MATRIX_EXP, (apply(CAT, tuple(rows), {"dim": -2}),), {})
        n = x[0].shape[-1]
        return whole[..., :n, k * n :]

    return next_coefficient


RULES: dict[Primitive, Callable[[Expanded], Recurrence | None]] = {
    MUL: _mul,
    SQUARE: _square,
    DIV: _div,
    RECIPROCAL: _reciprocal,
    SQRT: _sqrt,
    POW: _pow,
    EXP: _exp,
    EXPM1: _expm1,
    LOG: _log(0),
    LOG1P: _log(1),
    SIN: _pair(SIN, COS, 1, -1),
    COS: _pair(COS, SIN, -1, 1),
    SINH: _pair(SINH, COSH, 1, 1),
    COSH: _pair(COSH, SINH, 1, 1),
    # The factors of the derivatives: 1 - y^2, 1 + y^2 and y (1 - y).
    TANH: _by_itself(lambda y, k: 1 - y[0] * y[0] if k == 0 else negative(products(y, y, k, 0, k))),
    TAN: _by_itself(lambda y, k: 1 + y[0] * y[0] if k == 0 else products(y, y, k, 0, k)),
    SIGMOID: _by_itself(
        lambda y, k: y[0] * (1 - y[0]) if k == 0 else plus(at(y, k), negative(products(y, y, k, 0, k)))
    ),
    SOLVE: _solve(SOLVE, _whole),
    SOLVE_TRIANGULAR: _solve(SOLVE_TRIANGULAR, _triangle),
    INV: _inv,
    EINSUM: _einsum,
    MATRIX_EXP: _matrix_exp,
}

# Primitives ``B(x, w) + L(b)``: bilinear in the first two inputs, and linear in the third input if there is one.
BILINEAR = {
    CONV, CONV_BIAS, CONV_TRANSPOSE, CONV_TRANSPOSE_BIAS, EINSUM2, LINEAR, LINEAR_NO_BIAS, MATMUL, MM, OUTER,
}  # fmt: skip
