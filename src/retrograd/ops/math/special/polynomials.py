"""Orthogonal polynomials, computed by recurrences in plain operators, which also give the gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.arrays.devices import all_examples, array_module
from ....core.arrays.layout import broadcast_shapes
from ....core.graph.primitive import apply2, operand
from ....core.tensor.tensor import Tensor, new_tensor
from ...table.elementwise_primitives import WHERE
from ...table.registry import operator
from ...table.types import Operand
from ..arithmetic import MUL

# The polynomial of degree k + 1, from x, k and the polynomials of degrees k and k - 1.
Step = Callable[[Tensor, int, Tensor, Tensor], Tensor]


def _chebyshev(x: Tensor, k: int, p: Tensor, before: Tensor) -> Tensor:
    return 2 * x * p - before


def _polynomial(
    input: Operand, n: Operand, first: Callable[[Tensor], Tensor], step: Step, shifted: bool = False
) -> Tensor:
    """Return the polynomials of degrees n by the recurrence from degree 1; 0 for negative degrees."""
    x, degree = operand(input), operand(n, "n")
    xp = array_module(x)
    degrees = degree.array.astype(np.int64)
    shape = broadcast_shapes(x.array.shape, degrees.shape)
    zero = xp.zeros(shape, x.array.dtype)
    numbers = all_examples(degrees)
    x = x * 1.0 + (new_tensor(zero) if degrees.ndim else 0)
    if degree.dtype.kind not in "biu" and degrees.ndim:
        x = x.to(apply2(MUL, new_tensor(zero), degree).dtype)  # floating degrees take part in type promotion
    if shifted:
        x = 2 * x - 1
    before, p = x * 0 + 1, first(x)
    result: Any = before * 0
    most = int(numbers.max()) if numbers.size else 0
    for k in range(most + 1):
        if not numbers.ndim:
            result = before
        elif bool((numbers == k).any()):
            result = WHERE(xp.broadcast_to(degrees == k, shape), before, result)
        if k < most:
            before, p = p, step(x, k + 1, p, before) if k + 1 < most else p
    return result


@operator(namespace="special", method=False, real=True, shape="broadcast", dtype="float")
def chebyshev_polynomial_t(input: Operand, n: Operand) -> Tensor:
    """``T_n(input)``, Chebyshev's polynomials of the first kind:
    ``T_0 = 1``, ``T_1 = x``, ``T_(k+1) = 2 x T_k - T_(k-1)``.

    Derivative: input: ``g T_n'(input)``, by the recurrence; n: none.

    Args:
        input: the points at which to evaluate the polynomials.
        n: the degrees, rounded towards 0; the polynomial of a negative degree is 0.

    Source: DLMF 18.9.

    >>> rg.special.chebyshev_polynomial_t(rg.tensor([0.5, 2.0]), 3)
    tensor([-1., 26.])
    """
    return _polynomial(input, n, lambda x: x, _chebyshev)


@operator(namespace="special", method=False, real=True, like=chebyshev_polynomial_t)
def chebyshev_polynomial_u(input: Operand, n: Operand) -> Tensor:
    """``U_n(input)``, Chebyshev's polynomials of the second kind:
    ``U_0 = 1``, ``U_1 = 2 x``, ``U_(k+1) = 2 x U_k - U_(k-1)``.

    Derivative: input: ``g U_n'(input)``, by the recurrence; n: none.

    >>> rg.special.chebyshev_polynomial_u(rg.tensor([0.5, 2.0]), 3)
    tensor([-1., 56.])
    """
    return _polynomial(input, n, lambda x: 2 * x, _chebyshev)


@operator(namespace="special", method=False, real=True, like=chebyshev_polynomial_t)
def chebyshev_polynomial_v(input: Operand, n: Operand) -> Tensor:
    """``V_n(input)``, Chebyshev's polynomials of the third kind:
    ``V_0 = 1``, ``V_1 = 2 x - 1``, ``V_(k+1) = 2 x V_k - V_(k-1)``.

    Derivative: input: ``g V_n'(input)``, by the recurrence; n: none.

    >>> rg.special.chebyshev_polynomial_v(rg.tensor([0.5, 2.0]), 3)
    tensor([-1., 41.])
    """
    return _polynomial(input, n, lambda x: 2 * x - 1, _chebyshev)


@operator(namespace="special", method=False, real=True, like=chebyshev_polynomial_t)
def chebyshev_polynomial_w(input: Operand, n: Operand) -> Tensor:
    """``W_n(input)``, Chebyshev's polynomials of the fourth kind:
    ``W_0 = 1``, ``W_1 = 2 x + 1``, ``W_(k+1) = 2 x W_k - W_(k-1)``.

    Derivative: input: ``g W_n'(input)``, by the recurrence; n: none.

    >>> rg.special.chebyshev_polynomial_w(rg.tensor([0.5, 2.0]), 3)
    tensor([-1., 71.])
    """
    return _polynomial(input, n, lambda x: 2 * x + 1, _chebyshev)


@operator(namespace="special", method=False, real=True, like=chebyshev_polynomial_t)
def shifted_chebyshev_polynomial_t(input: Operand, n: Operand) -> Tensor:
    """``T^*_n(input) = T_n(2 input - 1)``: Chebyshev's polynomials of the first kind on ``[0, 1]``.

    Derivative: input: ``g T^*_n'(input)``, by the recurrence; n: none.

    Source: DLMF 18.7.

    >>> rg.special.shifted_chebyshev_polynomial_t(rg.tensor([0.5, 2.0]), 3)
    tensor([-0., 99.])
    """
    return _polynomial(input, n, lambda x: x, _chebyshev, shifted=True)


@operator(namespace="special", method=False, real=True, like=shifted_chebyshev_polynomial_t)
def shifted_chebyshev_polynomial_u(input: Operand, n: Operand) -> Tensor:
    """``U^*_n(input) = U_n(2 input - 1)``: Chebyshev's polynomials of the second kind on ``[0, 1]``.

    Derivative: input: ``g U^*_n'(input)``, by the recurrence; n: none.

    >>> rg.special.shifted_chebyshev_polynomial_u(rg.tensor([0.5, 2.0]), 3)
    tensor([ -0., 204.])
    """
    return _polynomial(input, n, lambda x: 2 * x, _chebyshev, shifted=True)


@operator(namespace="special", method=False, real=True, like=shifted_chebyshev_polynomial_t)
def shifted_chebyshev_polynomial_v(input: Operand, n: Operand) -> Tensor:
    """``V^*_n(input) = V_n(2 input - 1)``: Chebyshev's polynomials of the third kind on ``[0, 1]``.

    Derivative: input: ``g V^*_n'(input)``, by the recurrence; n: none.

    >>> rg.special.shifted_chebyshev_polynomial_v(rg.tensor([0.5, 2.0]), 3)
    tensor([  1., 169.])
    """
    return _polynomial(input, n, lambda x: 2 * x - 1, _chebyshev, shifted=True)


@operator(namespace="special", method=False, real=True, like=shifted_chebyshev_polynomial_t)
def shifted_chebyshev_polynomial_w(input: Operand, n: Operand) -> Tensor:
    """``W^*_n(input) = W_n(2 input - 1)``: Chebyshev's polynomials of the fourth kind on ``[0, 1]``.

    Derivative: input: ``g W^*_n'(input)``, by the recurrence; n: none.

    >>> rg.special.shifted_chebyshev_polynomial_w(rg.tensor([0.5, 2.0]), 3)
    tensor([ -1., 239.])
    """
    return _polynomial(input, n, lambda x: 2 * x + 1, _chebyshev, shifted=True)


@operator(namespace="special", method=False, real=True, like=chebyshev_polynomial_t)
def hermite_polynomial_h(input: Operand, n: Operand) -> Tensor:
    """``H_n(input)``, the physicists' Hermite polynomials:
    ``H_0 = 1``, ``H_1 = 2 x``, ``H_(k+1) = 2 x H_k - 2 k H_(k-1)``.

    Derivative: input: ``g H_n'(input)``, by the recurrence; n: none.

    >>> rg.special.hermite_polynomial_h(rg.tensor([0.5, 2.0]), 3)
    tensor([-5., 40.])
    """
    return _polynomial(input, n, lambda x: 2 * x, lambda x, k, p, before: 2 * x * p - 2 * k * before)


@operator(namespace="special", method=False, real=True, like=chebyshev_polynomial_t)
def hermite_polynomial_he(input: Operand, n: Operand) -> Tensor:
    """``He_n(input)``, the probabilists' Hermite polynomials:
    ``He_0 = 1``, ``He_1 = x``, ``He_(k+1) = x He_k - k He_(k-1)``.

    Derivative: input: ``g He_n'(input)``, by the recurrence; n: none.

    >>> rg.special.hermite_polynomial_he(rg.tensor([0.5, 2.0]), 3)
    tensor([-1.375,  2.   ])
    """
    return _polynomial(input, n, lambda x: x, lambda x, k, p, before: x * p - k * before)


@operator(namespace="special", method=False, real=True, like=chebyshev_polynomial_t)
def laguerre_polynomial_l(input: Operand, n: Operand) -> Tensor:
    """``L_n(input)``, Laguerre's polynomials:
    ``L_0 = 1``, ``L_1 = 1 - x``, ``(k + 1) L_(k+1) = (2 k + 1 - x) L_k - k L_(k-1)``.

    Derivative: input: ``g L_n'(input)``, by the recurrence; n: none.

    >>> rg.special.laguerre_polynomial_l(rg.tensor([0.5, 2.0]), 3)
    tensor([-0.1458, -0.3333])
    """
    return _polynomial(input, n, lambda x: 1 - x, lambda x, k, p, before: ((2 * k + 1 - x) * p - k * before) / (k + 1))


@operator(namespace="special", method=False, real=True, like=chebyshev_polynomial_t)
def legendre_polynomial_p(input: Operand, n: Operand) -> Tensor:
    """``P_n(input)``, Legendre's polynomials:
    ``P_0 = 1``, ``P_1 = x``, ``(k + 1) P_(k+1) = (2 k + 1) x P_k - k P_(k-1)``.

    Derivative: input: ``g P_n'(input)``, by the recurrence; n: none.

    >>> rg.special.legendre_polynomial_p(rg.tensor([0.5, 2.0]), 3)
    tensor([-0.4375, 17.    ])
    """
    return _polynomial(input, n, lambda x: x, lambda x, k, p, before: ((2 * k + 1) * x * p - k * before) / (k + 1))
