"""One call on Tensors and on arrays: NumPy's value, and the gradient by differences."""

import numpy as np

import retrograd as rg


def array(value):
    return value.numpy(force=True) if isinstance(value, rg.Tensor) else np.asarray(value)


def compare(function, x):
    """Compare ``function`` of a Tensor with that of the array ``x``, in which NaN stays where it is."""
    t = rg.tensor(x, requires_grad=True)
    y = function(t)
    wanted = np.asarray(function(x))
    assert isinstance(y, rg.Tensor) and y.requires_grad
    assert y.shape == wanted.shape and y.dtype == wanted.dtype
    single = y.dtype == np.float32
    np.testing.assert_allclose(array(y), wanted, rtol=1e-5 if single else 1e-12, atol=1e-5 if single else 1e-12)
    weights = np.random.default_rng(0).standard_normal(wanted.shape)
    (y * weights).real.sum().backward()
    if single:  # too coarse for differences
        assert np.isfinite(array(t.grad)).all() and array(t.grad).any()
        return
    flat = x.reshape(-1)
    h = 1e-6
    numeric = np.zeros_like(flat)
    for i in range(flat.size):
        if np.isnan(flat[i]):
            continue
        up, down = flat.copy(), flat.copy()
        up[i] += h
        down[i] -= h
        change = np.sum((function(up.reshape(x.shape)) - function(down.reshape(x.shape))) * weights)
        numeric[i] = np.real(change) / (2 * h)
    np.testing.assert_allclose(
        array(t.grad), numeric.reshape(x.shape), rtol=2e-6, atol=2e-6 * max(1, abs(numeric).max())
    )
