"""jet and ravel_pytree, with JAX's meaning."""

from math import factorial

import numpy as np
import pytest

import retrograd as rg
from retrograd.func import grad, jet, ravel_pytree, vmap


def double(values):
    return rg.tensor(values, dtype=rg.float64)


def test_the_derivatives_along_a_line_are_those_of_the_function():
    value, found = jet(rg.exp, (double(0.5),), ([1.0, 0.0, 0.0, 0.0],))
    np.testing.assert_allclose([x.item() for x in (value, *found)], np.exp(0.5), rtol=1e-12)
    _, found = jet(lambda x: 1 / (1 - x), (double(0.0),), ([1.0, 0.0, 0.0, 0.0],))
    np.testing.assert_allclose([x.item() for x in found], [factorial(k) for k in (1, 2, 3, 4)], rtol=1e-12)


def test_composed_functions_compose_their_jets():
    """Two curves: (sin t, exp t), whose derivatives at 0 are known, through a product and a matrix."""
    series = ([double(1.0), double(0.0), double(-1.0)], [double(1.0), double(1.0), double(1.0)])
    value, found = jet(lambda x, y: {"product": x * y}, (double(0.0), double(1.0)), series)
    # exp(t) sin(t) = t + t^2 + t^3 / 3 + ...
    np.testing.assert_allclose([x["product"].item() for x in (value, *found)], [0, 1, 2, 2], atol=1e-12)


def test_jets_are_mapped_and_differentiated():
    xs = double([0.1, 0.7])

    def third(x):
        return jet(rg.sin, (x,), ([x * 0 + 1, x * 0, x * 0],))[1][2]

    np.testing.assert_allclose(vmap(third)(xs).numpy(), -np.cos(xs.numpy()), rtol=1e-12)
    np.testing.assert_allclose(vmap(grad(third))(xs).numpy(), np.sin(xs.numpy()), rtol=1e-12)


def test_a_jet_refuses_series_of_another_form():
    with pytest.raises(RuntimeError, match="same number of derivatives"):
        jet(rg.add, (double(0.0), double(1.0)), ([1.0], [1.0, 0.0]))
    with pytest.raises(RuntimeError, match="series"):
        jet(rg.sin, (double(0.0),), ([double([1.0, 2.0])],))


def test_a_nest_is_raveled_and_restored_with_its_dtypes():
    nest = {"w": rg.ones(2, 3), "n": [rg.tensor([1, 2])], "b": double([3.0])}
    vector, unravel = ravel_pytree(nest)
    assert vector.shape == (9,) and vector.dtype == rg.float64
    again = unravel(vector)
    assert again["n"][0].dtype == rg.int64 and again["w"].dtype == rg.float32 and again["w"].shape == (2, 3)
    slope = grad(lambda v: (unravel(v)["b"] ** 2).sum())(vector)
    np.testing.assert_allclose(slope.numpy(), [0] * 8 + [6])
    with pytest.raises(ValueError, match="9 elements"):
        unravel(rg.zeros(3))
    assert ravel_pytree(())[0].shape == (0,)
