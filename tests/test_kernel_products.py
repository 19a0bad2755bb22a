"""Matrix products inside compiled loops."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba")

from retrograd.kernels import blas, cblas
from retrograd.kernels.machine import Loop
from retrograd.kernels.objects import njit

pytestmark = pytest.mark.skipif(not cblas.available(), reason="no BLAS of NumPy's found")
product = blas.product


@njit
def multiplying(a, b, c, beta):
    product(a, b, c, beta)


multiply = Loop(__name__, "multiply", multiplying)


def transposed(a):
    """The same matrix, with the first axis contiguous, as part of a larger one."""
    larger = np.zeros((a.shape[1] + 1, a.shape[0] + 1), a.dtype)
    larger[1:, 1:] = a.T
    return larger[1:, 1:].T


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "k", "n"), [(5, 7, 9), (1, 7, 1), (5, 1, 3), (1, 1, 1), (5, 0, 3), (0, 7, 3), (4, 2, 0)])
def test_products_of_parts_of_matrices(dtype, m, k, n):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m + 2, k + 3)).astype(dtype), rng.standard_normal((k + 1, n + 2)).astype(dtype)
    a, b = a[1 : m + 1, 2 : k + 2], b[:k, 1 : n + 1]
    whole = np.full((m + 1, n + 3), 2, dtype)
    c, wanted = whole[1:, 1 : n + 1], a @ b
    for left, right in ((a, b), (transposed(a), transposed(b))):
        whole[:] = 2
        multiply(left, right, c, 1.0)
        np.testing.assert_allclose(c, 2 + wanted, rtol=1e-5)
        whole[:] = np.nan
        multiply(left, right, c, 0.0)
        np.testing.assert_allclose(c, wanted, rtol=1e-5)
        assert np.isnan(whole).sum() == whole.size - c.size  # nothing beside it was written
