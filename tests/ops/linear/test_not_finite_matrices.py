"""Matrices with infinities or NaN: LAPACK's singular values may never come back from them, so they are refused."""

import numpy as np
import pytest

import retrograd as rg


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", ["svd", "svdvals", "pinv", "lstsq", "cond", "matrix_rank"])
def test_decompositions_refuse_what_is_not_finite(name, value):
    x = np.random.default_rng(0).standard_normal((5, 5))
    x[1, 2] = value
    x = rg.tensor(x, requires_grad=True)
    with pytest.raises(RuntimeError, match="non-finite values"):
        getattr(rg.linalg, name)(*([x, x] if name == "lstsq" else [x]))


def test_the_derivative_of_a_determinant_that_is_not_finite_is_nan():
    x = np.random.default_rng(0).standard_normal((4, 4))
    x[0, 0] = np.inf
    x = rg.tensor(x, requires_grad=True)
    x.det().backward()
    assert x.grad.isnan().all()
