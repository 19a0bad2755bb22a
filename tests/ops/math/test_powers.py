"""Powers at the edges of their domain, where the rules multiply zeros by infinities: against PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.func import jvp

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # by torch.func

BASES = (0.0, -0.0, 2.0, -2.0, -1.0, math.inf, -math.inf)
EXPONENTS = (0.0, 1.0, 2.0, 3.0, 0.5, -1.0, -0.5, -1.5)


def first_and_second(grad: Any, function: Callable[..., Any], points: list[Any]) -> list[list[float]]:
    """The gradient, and the gradient of each of its elements."""
    for point in points:
        point.requires_grad_()
    gradient = grad(function(*points), points, create_graph=True, materialize_grads=True)
    rows = [
        grad(value, points, retain_graph=True, materialize_grads=True)
        if value.requires_grad
        else len(points) * [value * 0]
        for value in gradient
    ]
    return [[value.item() for value in row] for row in (gradient, *rows)]


def forward_over_reverse(gradient: Callable[..., Any], jvp: Any, points: list[Any], units: list[Any]) -> list[Any]:
    """The derivative of the gradient along each of the inputs."""
    return [[value.item() for value in jvp(gradient, tuple(points), tuple(unit))[1]] for unit in units]


def ours(function: Callable[..., Any], values: tuple[float, ...]) -> tuple[list[Any], list[Any]]:
    def points() -> list[rg.Tensor]:
        return [rg.tensor(value, dtype=rg.float64) for value in values]

    def gradient(*xs: rg.Tensor) -> Any:
        leaves = [x if x.requires_grad else x.requires_grad_() for x in xs]
        return tuple(rg.autograd.grad(function(*leaves), leaves, create_graph=True, materialize_grads=True))

    units = [[rg.tensor(float(i == j), dtype=rg.float64) for j in range(len(values))] for i in range(len(values))]
    return first_and_second(rg.autograd.grad, function, points()), forward_over_reverse(gradient, jvp, points(), units)


def theirs(function: Callable[..., Any], values: tuple[float, ...]) -> tuple[list[Any], list[Any]]:
    torch = pytest.importorskip("torch")

    def points() -> list[Any]:
        return [torch.tensor(value, dtype=torch.float64) for value in values]

    units = [[torch.tensor(float(i == j), dtype=torch.float64) for j in range(len(values))] for i in range(len(values))]
    gradient = torch.func.grad(function, argnums=tuple(range(len(values))))
    reverse = first_and_second(torch.autograd.grad, function, points())
    return reverse, forward_over_reverse(gradient, torch.func.jvp, points(), units)


def assert_as_torch(function: Callable[..., Any], values: tuple[float, ...]) -> None:
    """Wherever PyTorch has a number that is not NaN, in either mode, ours is that number.

    Of its second derivatives the symmetric ones: at exponent 0 it masks the derivative of ``y x^(y - 1)`` by y, which
    is 1 / x, with that of the first order.
    """
    (reverse, forward), (expected_reverse, expected_forward) = ours(function, values), theirs(function, values)
    np.testing.assert_allclose(reverse[0], expected_reverse[0], rtol=1e-12)
    for actual, wanted in ((reverse[1:], expected_reverse[1:]), (forward, expected_forward)):
        actual, wanted = np.array(actual), np.array(wanted)
        known = np.isclose(wanted, wanted.T)
        np.testing.assert_allclose(actual[known], wanted[known], rtol=1e-12)


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("base", BASES)
def test_derivatives_of_a_tensor_to_the_power_of_a_tensor_are_pytorchs(base, exponent):
    assert_as_torch(lambda x, y: x**y, (base, exponent))


@pytest.mark.parametrize("exponent", [*EXPONENTS, 0, 1, 2, 3, -1])
@pytest.mark.parametrize("base", BASES)
def test_derivatives_of_a_tensor_to_the_power_of_a_number_are_pytorchs(base, exponent):
    if base in (0.0, -math.inf) and math.copysign(1.0, base) < 0 and abs(exponent) == 0.5:
        pytest.skip("a root of -0.0 has an infinite derivative of no sign, one of -inf no value")
    assert_as_torch(lambda x: x**exponent, (base,))


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("base", [*BASES, 0, 2])
def test_derivatives_of_a_number_to_the_power_of_a_tensor_are_pytorchs(base, exponent):
    assert_as_torch(lambda y: base**y, (exponent,))


@pytest.mark.parametrize("exponent", [0.0, 0.25, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("base", [0.0, -0.0, np.float64(0.0), np.zeros(1)])
def test_the_power_of_zero_is_flat_in_its_exponent_to_the_second_order_in_both_modes(base, exponent):
    def slope(y: rg.Tensor) -> rg.Tensor:
        y = y if y.requires_grad else y.requires_grad_()
        (g,) = rg.autograd.grad(np.power(base, y).sum(), y, create_graph=True, materialize_grads=True)
        return g

    y = rg.tensor([exponent], dtype=rg.float64)
    assert jvp(slope, (y,), (rg.ones_like(y),))[1].item() == 0.0
    y = rg.tensor([exponent], dtype=rg.float64, requires_grad=True)
    first = slope(y)
    assert first.item() == 0.0
    if first.requires_grad:
        assert rg.autograd.grad(first.sum(), y, materialize_grads=True)[0].item() == 0.0


def test_the_mixed_derivative_of_a_root_at_zero_is_a_number_forward_over_reverse():
    """Masked as PyTorch masks it: the infinite derivative of the power does not meet the zero of the logarithm."""
    _, ((in_x, in_y), (also_in_x, also_in_y)) = ours(lambda x, y: x**y, (0.0, 0.5))
    assert in_y == also_in_y == 0.0


@pytest.mark.parametrize("y, first, second", [(0.3, 0, 0), (2.0, 0, 0), (0.0, 0, 0), (-1.0, -math.inf, math.inf)])
def test_both_derivatives_of_powers_of_the_number_0_by_the_exponent(y, first, second):
    t = rg.tensor(y, requires_grad=True)
    (g,) = rg.autograd.grad(0.0**t, t, create_graph=True)
    (h,) = rg.autograd.grad(g, t)
    assert (g.item(), h.item()) == (first, second)


@pytest.mark.parametrize("base", [-2.0, -2, 2.0, 0.5 - 1j, True])
def test_a_number_to_complex_powers_has_the_gradient_of_differences(base):
    x = rg.tensor([0.3 + 0.2j, 1 - 1j, -0.5 + 0j], dtype=rg.complex128, requires_grad=True)
    for power in (rg.pow, lambda b, x: b**x, rg.float_power):
        assert rg.autograd.gradcheck(lambda x, power=power: power(base, x), x)


def test_a_negative_number_to_real_powers_has_no_gradient_by_the_power():
    x = rg.tensor([2.0, 0.5], requires_grad=True)
    ((-2.0) ** x).sum().backward()
    assert np.isnan(x.grad.numpy()).all()


def test_an_operator_that_saves_its_result_and_its_input_writes_elsewhere():
    x = rg.Tensor(np.array([0.5, 2.0]), requires_grad=True)
    y = x * 1
    y.hypot_(rg.Tensor(np.array([1.0, 1.0])))
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.5 / math.hypot(0.5, 1), 2 / math.hypot(2, 1)])
