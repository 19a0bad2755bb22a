"""Pseudo-inverses and least squares."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from tests.helpers.values import complex_normal


def test_pseudo_inverse_of_a_hermitian_matrix_by_its_lower_triangle():
    a = complex_normal(3, 3)
    a = a + a.conj().T
    inverse = rg.linalg.pinv(rg.tensor(np.tril(a)), hermitian=True).numpy()
    np.testing.assert_allclose(a @ inverse, np.eye(3), atol=1e-12)


def test_residuals_of_complex_least_squares_are_real():
    a, b = complex_normal(4, 2), complex_normal(4, 1)[::-1].copy()
    found = rg.linalg.lstsq(rg.tensor(a), rg.tensor(b))
    wanted = np.linalg.lstsq(a, b, rcond=None)[1]
    np.testing.assert_allclose(found.residuals.numpy(), wanted, rtol=1e-10)
    assert found.residuals.dtype == np.float64


def test_pinv_measures_each_matrix_by_its_own_bounds():
    x = rg.stack([rg.diag(rg.tensor([1.0, 0.1])), rg.diag(rg.tensor([100.0, 0.1]))]).double()
    for bounds in ({"atol": 0.2}, {"rtol": rg.tensor([0.2, 0.002])}, {"atol": rg.tensor([0.2, 0.15])}):
        found = rg.linalg.pinv(x, **bounds)
        assert np.allclose(found.numpy(), [np.diag([1.0, 0.0]), np.diag([0.01, 0.0])])
    assert rg.linalg.pinv(x, atol=rg.tensor([0.01, 0.2]))[0, 1, 1].item() == pytest.approx(10)
    mapped = rg.func.vmap(lambda a: rg.linalg.pinv(a, atol=0.2))(x)
    assert np.allclose(mapped.numpy(), rg.linalg.pinv(x, atol=0.2).numpy())
