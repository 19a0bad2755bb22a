"""Orthogonal polynomials of all degrees against PyTorch's."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.ops.table.registry import OPERATORS

POLYNOMIALS = sorted(name.removeprefix("special.") for name in OPERATORS if "_polynomial_" in name)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_of_all_degrees_equal_pytorchs_and_those_of_negative_ones_are_zero(name):
    torch = pytest.importorskip("torch")
    x, n = np.random.default_rng(0).uniform(-1.5, 1.5, (5, 1)), np.array([-2, 0, 1, 2, 7])
    got = getattr(rg.special, name)(rg.tensor(x), rg.tensor(n)).numpy()
    wanted = getattr(torch.special, name)(torch.tensor(x), torch.tensor(n)).numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-10)
