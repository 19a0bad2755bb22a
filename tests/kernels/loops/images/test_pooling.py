"""The compiled loops of maxima over adjacent windows of 2 x 2 elements, and means of whole images."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import kernels
from retrograd.kernels.loops.images import pooling
from retrograd.kernels.runtime import threads
from retrograd.ops.nn.spatial.sliding_windows import Window

if not kernels.available():
    pytest.skip("there are no compiled loops", allow_module_level=True)


def window_of(*size):
    return Window(size, (2, 2), (2, 2), (0, 0), (1, 1), tuple(length // 2 for length in size))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [2, 3, 14, 16, 17, 30, 32, 33, 34, 65, 100])
def test_maxima_of_pairs_of_lines_have_the_first_of_equal_elements_or_the_last_nan(columns, dtype):
    values = np.array([-1, -0.0, 0.0, 2, -np.inf, np.inf, np.nan], dtype)
    x = np.random.default_rng(columns).choice(values, (3, 5, 7, columns), p=[0.3, 0.2, 0.2, 0.2, 0.04, 0.03, 0.03])
    window = window_of(7, columns)
    best, winners = pooling.max_pool(x, window)
    across = columns // 2
    parts = x[:, :, :6, : 2 * across].reshape(3, 5, 3, 2, across, 2).swapaxes(3, 4).reshape(3, 5, 3, across, 4)
    missing = np.isnan(parts)
    last = 3 - missing[..., ::-1].argmax(axis=-1)
    expected = np.where(missing.any(axis=-1), last, np.where(missing, -np.inf, parts).argmax(axis=-1))
    np.testing.assert_array_equal(winners, expected)
    np.testing.assert_array_equal(best, np.take_along_axis(parts, expected[..., None], -1)[..., 0])
    g = np.random.default_rng(1).standard_normal(best.shape).astype(dtype)
    placed = np.zeros((3, 5, 3, across, 4), dtype)
    np.put_along_axis(placed, expected[..., None], g[..., None], -1)
    whole = np.zeros_like(x)
    whole[:, :, :6, : 2 * across] = placed.reshape(3, 5, 3, across, 2, 2).swapaxes(3, 4).reshape(3, 5, 6, 2 * across)
    np.testing.assert_array_equal(pooling.max_pool_backward(g, winners, window), whole)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [(8, 8), (9, 30), (300, 400)])
def test_a_mean_of_all_elements_is_accurate_and_has_the_bits_of_one_thread(size, dtype, monkeypatch):
    x = np.random.default_rng(0).random((3, 50, *size)).astype(dtype) + dtype(100)
    results = []
    for count in (1, 3):
        monkeypatch.setattr(threads, "count", lambda count=count: count)
        results.append(F.adaptive_avg_pool2d(rg.from_numpy(x), 1).numpy())
    np.testing.assert_array_equal(*results)
    expected = x.astype(np.longdouble).mean((2, 3), keepdims=True)
    np.testing.assert_allclose(results[0], expected.astype(dtype), rtol=2 * np.finfo(dtype).eps)
