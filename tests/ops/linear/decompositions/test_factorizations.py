"""QR, Cholesky and singular value decompositions of complex matrices, and where QR has no derivative."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from tests.helpers.values import complex_normal


def test_qr_without_a_derivative_says_so():
    x = rg.ones(3, 2, requires_grad=True)
    q, _ = rg.linalg.qr(x, "complete")
    with pytest.raises(RuntimeError, match="mode='complete' only for square"):
        q.sum().backward()


def test_cholesky_factors_of_complex_matrices_solve():
    a, b = complex_normal(3, 3), complex_normal(3, 2)
    a = a @ a.conj().T + np.eye(3)
    for upper in (False, True):
        factor = rg.linalg.cholesky(rg.tensor(a), upper=upper)
        np.testing.assert_allclose(a @ rg.cholesky_solve(rg.tensor(b), factor, upper).numpy(), b, atol=1e-12)
        np.testing.assert_allclose(a @ rg.cholesky_inverse(factor, upper).numpy(), np.eye(3), atol=1e-12)


def test_factors_of_complex_matrices_put_them_together_again():
    a = complex_normal(2, 4)
    q, r = rg.linalg.qr(rg.tensor(a))
    np.testing.assert_allclose((q @ r).numpy(), a, atol=1e-12)
    u, s, v = (factor.numpy() for factor in rg.svd(rg.tensor(a)))
    np.testing.assert_allclose(u * s @ v.conj().T, a, atol=1e-12)
