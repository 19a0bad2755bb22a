"""erf and erfc against SciPy, over their whole range."""

import numpy as np
import pytest

import retrograd as rg


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_erf_is_accurate_everywhere(dtype):
    special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(-6, 6, 40001), np.geomspace(1e-30, 1, 1001)]).astype(dtype)
    wanted = special.erf(x.astype(np.float64))
    got = rg.erf(rg.Tensor(x)).numpy()
    assert got.dtype == dtype
    np.testing.assert_allclose(got, wanted, rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_allclose(
        rg.erfc(rg.Tensor(x)).numpy(), special.erfc(x.astype(np.float64)), rtol=4e-15 if dtype == np.float64 else 2e-7
    )
