"""LU decompositions put the matrix together again, and solve."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from tests.helpers.values import complex_normal


def test_pivoted_lu_puts_the_matrix_together_again():
    rng = np.random.default_rng(0)
    for shape in ((4, 4), (5, 3), (3, 5), (2, 3, 3)):
        a = rng.standard_normal(shape)
        p, lower, upper = rg.linalg.lu(rg.tensor(a))
        np.testing.assert_allclose((p @ lower @ upper).numpy(), a, atol=1e-12)


def test_lu_solve_solves():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 4, 4)), rng.standard_normal((2, 4, 3))
    x = rg.linalg.lu_solve(*rg.linalg.lu_factor(rg.tensor(a)), rg.tensor(b))
    np.testing.assert_allclose(a @ x.numpy(), b, atol=1e-12)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_lu_factors_of_complex_matrices_solve(left, adjoint):
    a, b = complex_normal(3, 3), complex_normal(3, 3)
    x = rg.linalg.lu_solve(*rg.linalg.lu_factor(rg.tensor(a)), rg.tensor(b), left=left, adjoint=adjoint).numpy()
    used = a.conj().T if adjoint else a
    np.testing.assert_allclose(used @ x if left else x @ used, b, atol=1e-12)


def test_an_empty_matrix_has_an_empty_lu_decomposition():
    x = rg.zeros(0, 0, dtype=rg.float64, requires_grad=True)
    parts = rg.linalg.lu(x)
    assert [part.shape for part in parts] == [(0, 0)] * 3
    (gradient,) = rg.autograd.grad(parts[1].sum() + parts[2].sum(), x)
    assert gradient.shape == (0, 0)
    assert [part.shape for part in rg.linalg.lu_factor(x)] == [(0, 0), (0,)]
