"""Gradients of logarithms that are NaN, by a cotangent of zeros."""

import pytest

import retrograd as rg


@pytest.mark.parametrize("operator", [rg.xlogy, rg.special.xlog1py])
def test_no_gradient_arrives_where_none_is_sent_though_the_logarithm_is_nan(operator):
    x, y = rg.tensor([-1.0, 2.0], requires_grad=True), rg.tensor([-2.0, -3.0], requires_grad=True)
    assert [g.tolist() for g in rg.autograd.grad(operator(x, y), (x, y), rg.zeros(2))] == [[0, 0], [0, 0]]
