"""Results of matrices that are singular or not positive-definite, against PyTorch's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import retrograd as rg


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_cholesky_ex_returns_what_elimination_computed_before_the_bad_pivot(upper, dtype):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((5, 6, 6)).astype(dtype)
    x = x @ x.swapaxes(-1, -2) + (1j * np.tril(np.triu(np.ones((6, 6)), 1), 1) if dtype == np.complex128 else 0)
    x = (x + x.conj().swapaxes(-1, -2)) / 2
    for i in range(4):
        x[i, i + 1, i + 1] = -3.0
    x[4] += 10 * np.eye(6)
    mine, its = rg.linalg.cholesky_ex(rg.tensor(x), upper=upper), torch.linalg.cholesky_ex(torch.tensor(x), upper=upper)
    assert mine.info.tolist() == its.info.tolist() and mine.info[-1] == 0 and (mine.info[:-1] > 0).all()
    np.testing.assert_allclose(mine.L.numpy(), its.L.numpy(), rtol=1e-10, atol=1e-12)


def test_inverses_and_solutions_of_singular_matrices_divide_by_the_zero_pivots_as_pytorch_does():
    inf, nan = math.inf, math.nan
    a = rg.tensor([[[1.0, 2.0], [2.0, 4.0]], [[0.0, 1.0], [0.0, 2.0]], [[2.0, 0.0], [0.0, 4.0]], [[0.0, 0.0]] * 2])
    inverse, info = rg.linalg.inv_ex(a)
    assert info.tolist() == [2, 1, 0, 1]
    wanted = [[[-inf, inf], [inf, -inf]], [[inf, -inf], [0, 0.5]], [[0.5, 0], [0, 0.25]], [[nan, nan], [nan, inf]]]
    np.testing.assert_array_equal(inverse.array, wanted)
    result, info = rg.linalg.solve_ex(a, rg.ones(2))
    assert info.tolist() == [2, 1, 0, 1]
    np.testing.assert_array_equal(result.array, [[-inf, inf], [inf, 0.5], [0.5, 0.25], [nan, inf]])
    result = rg.linalg.solve_ex(a[1], rg.eye(2), left=False).result
    np.testing.assert_array_equal(result.array, [[nan, -inf], [nan, nan]])
    assert rg.isnan(rg.linalg.inv_ex(a[0].to(rg.complex64)).inverse).all()
