"""Eigenvalues by lobpcg against PyTorch's."""

import numpy as np
import pytest

import retrograd as rg


@pytest.mark.parametrize("largest", [True, False])
def test_lobpcg_gives_the_eigenvalues_that_pytorchs_gives(largest):
    torch = pytest.importorskip("torch")
    a = np.diag(np.arange(1.0, 13)) + 0.1
    values, vectors = rg.lobpcg(rg.tensor(a), 3, largest=largest)
    torch.manual_seed(0)
    wanted = torch.lobpcg(torch.tensor(a), 3, largest=largest, niter=200, tol=1e-10)[0].numpy()
    np.testing.assert_allclose(values.numpy(), wanted, rtol=1e-6)
    np.testing.assert_allclose(a @ vectors.numpy(), vectors.numpy() * values.numpy(), atol=1e-9)
