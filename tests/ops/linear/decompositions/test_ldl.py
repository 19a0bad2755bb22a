"""LDL factors and pivots against LAPACK's, as PyTorch calls it."""

import numpy as np
import pytest

import retrograd as rg


@pytest.mark.parametrize("kind", ["real", "symmetric", "hermitian"])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 6, 12])
def test_ldl_factors_and_pivots_are_lapacks(n, kind):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(n)
    for trial in range(20):
        a = rng.standard_normal((n, n)) + (0 if kind == "real" else 1j * rng.standard_normal((n, n)))
        a = a + (a.conj().T if kind == "hermitian" else a.T)
        if trial % 2:
            a[np.diag_indices(n)] *= 0.01
        got = rg.linalg.ldl_factor(rg.tensor(a), hermitian=kind == "hermitian")
        wanted = torch.linalg.ldl_factor(torch.tensor(a), hermitian=kind == "hermitian")
        assert got.pivots.tolist() == wanted.pivots.tolist()
        np.testing.assert_allclose(got.LD.numpy(), np.tril(wanted.LD.numpy()), rtol=1e-9, atol=1e-9)
        b = rng.standard_normal((n, 2)).astype(a.dtype)
        x = rg.linalg.ldl_solve(*got, rg.tensor(b), hermitian=kind == "hermitian")
        np.testing.assert_allclose(a @ x.numpy(), b, rtol=1e-8, atol=1e-8)
