"""Determinants, matrix exponentials and powers where PyTorch is no reference."""

from __future__ import annotations

import numpy as np

import retrograd as rg


def test_the_gradient_of_the_determinant_of_a_singular_matrix_is_its_cofactors():
    x = rg.tensor(np.array([[1.0, 2.0], [2.0, 4.0]]), requires_grad=True)
    rg.linalg.det(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), [[4.0, -2.0], [-2.0, 1.0]], atol=1e-12)


def test_matrix_exponential_of_a_large_rotation():
    angle = 20.0
    x = rg.tensor(np.array([[0.0, -angle], [angle, 0.0]]))
    c, s = np.cos(angle), np.sin(angle)
    np.testing.assert_allclose(rg.matrix_exp(x).numpy(), [[c, -s], [s, c]], atol=1e-12)


def test_powers_of_infinite_numbers_to_0_are_1():
    x = rg.tensor([[np.inf, 1.0], [np.nan, 2.0]], requires_grad=True)
    power = rg.matrix_power(x, 0)
    np.testing.assert_array_equal(power.detach().numpy(), np.eye(2))
    power.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros((2, 2)))
    np.testing.assert_array_equal(rg.linalg.vander(rg.tensor([np.inf, 2.0])).numpy(), [[1, np.inf], [1, 2]])
