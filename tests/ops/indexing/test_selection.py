"""where: the gradient of the branch taken, and large arrays against NumPy."""

import numpy as np
import pytest

import retrograd as rg
from tests.helpers.values import gradients


def test_the_gradient_of_the_branch_taken_stays_finite():
    (g,) = gradients(lambda x: rg.where(x > 0, x, 0.0).sqrt(), [4.0, -1.0])
    assert g.tolist() == [0.25, 0.0]
    (g,) = gradients(lambda x: x.relu().sqrt(), [4.0, -1.0])
    assert g.tolist() == [0.25, 0.0]
    (g,) = gradients(lambda x: x.clamp(min=0).sqrt(), [4.0, -1.0])
    assert g.tolist() == [0.25, 0.0]
    nan = rg.Tensor(np.array([np.nan, np.nan]))
    (g,) = gradients(lambda x: rg.where(x > 0, x * x, nan), [4.0, -1.0])
    assert g.tolist() == [8.0, 0.0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_selection_on_large_arrays_is_numpys(dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((80, 90)).astype(dtype) for _ in range(2))
    x[::7, ::3], y[::5, ::2], y[3, 4] = np.nan, np.inf, -0.0
    mask = rng.random((80, 90)) < 0.5
    for a, b in ((x, y), (x, 1.5), (2, y), (x, y[0]), (x[:, :1], y), (x.T.copy().T, y[::-1])):
        left = rg.Tensor(a) if isinstance(a, np.ndarray) else a
        right = rg.Tensor(b) if isinstance(b, np.ndarray) else b
        got = rg.where(rg.Tensor(mask), left, right).numpy()
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, np.where(mask, a, b))
    leaf = rg.Tensor(x, requires_grad=True)
    cotangent = rg.Tensor(y)
    rg.where(rg.Tensor(mask), leaf, 0.0).backward(cotangent)
    np.testing.assert_array_equal(leaf.grad.numpy(), np.where(mask, y, 0))
