"""Results that are copies: a write to them leaves the input alone."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg

COPIES = {
    "matrix_power(x, 1)": lambda x: rg.matrix_power(x, 1),
    "linalg.matrix_power(x, 1)": lambda x: rg.linalg.matrix_power(x, 1),
    "diff(x, 0)": lambda x: rg.diff(x, 0),
    "fft.fftshift(x, ())": lambda x: rg.fft.fftshift(x, ()),
    "fft.ifftshift(x, ())": lambda x: rg.fft.ifftshift(x, ()),
    "np.prod(x, axis=())": lambda x: np.prod(x, axis=()),
    "np.sum(x, axis=())": lambda x: np.sum(x, axis=()),
    "np.max(x, axis=())": lambda x: np.max(x, axis=()),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_write_to_a_result_that_is_a_copy_leaves_the_input_alone(name):
    x = rg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = COPIES[name](x)
    assert y is not x and not np.shares_memory(y.array, x.array)
    np.testing.assert_array_equal(y.detach().numpy(), x.detach().numpy())
    y *= 5
    (y.sum() + x.sum()).backward()
    np.testing.assert_array_equal(x.detach().numpy(), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(x.grad.numpy(), np.full((2, 2), 6.0))
