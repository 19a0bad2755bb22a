"""``func.vectorize`` against ``numpy.vectorize``."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.func import grad, hessian, jvp, vectorize, vmap

X = np.linspace(-1, 2, 6).reshape(2, 3)


def branching(a, b=2.0):
    return a * a * b if a > 0 else np.sin(a)


def test_functions_that_branch_have_numpys_values_and_their_derivatives():
    theirs, ours, b = np.vectorize(branching), vectorize(branching), np.array([[1.0], [2.0]])
    np.testing.assert_allclose(ours(rg.tensor(X), b=b), theirs(X, b=b))
    slope = (theirs(X + 1e-6, b=b) - theirs(X - 1e-6, b=b)) / 2e-6
    np.testing.assert_allclose(grad(lambda x: ours(x, b=b).sum())(rg.tensor(X)), slope, rtol=1e-8)
    np.testing.assert_allclose(jvp(lambda x: ours(x, b), (rg.tensor(X),), (rg.tensor(1 + 0 * X),))[1], slope, rtol=1e-8)
    curves = hessian(lambda x: ours(x).sum())(rg.tensor(X[1]))
    np.testing.assert_allclose(curves, np.diag(np.where(X[1] > 0, 4.0, -np.sin(X[1]))))
    np.testing.assert_allclose(vmap(vectorize(lambda a: a**3))(rg.tensor(X)), X**3)


def test_core_dimensions_excluded_arguments_several_results_and_dtypes():
    matrices, vector = rg.tensor(np.arange(12.0).reshape(2, 3, 2)), rg.tensor([1.0, 2.0])
    product = vectorize(np.dot, signature="(m,n),(n)->(m)")
    np.testing.assert_allclose(product(matrices, vector), matrices.numpy() @ vector.numpy())
    assert vectorize(np.polyval, excluded={0})([1.0, 0.0, 2.0], vector).tolist() == [3, 6]
    assert [x.tolist() for x in vectorize(lambda a: (a, 2 * a))(vector)] == [[1, 2], [2, 4]]

    @vectorize(otypes=[np.float32])
    def doubled(a):
        return 2 * a

    assert doubled(matrices).dtype is rg.float32
    assert doubled(rg.zeros(0)).shape == (0,)
    assert vectorize(lambda a: a + 1)([1, 2]).tolist() == [2, 3]  # NumPy's numbers in, an array out
    assert vectorize(lambda a: 0.0 if a > 0 else a)(vector).dtype is rg.float32
    with pytest.raises(ValueError, match="size 0 inputs unless `otypes` is set"):
        vectorize(branching)(rg.zeros(0))
    with pytest.raises(ValueError, match="inconsistent size for core dimension 'n': 3 vs 2"):
        product(matrices, rg.zeros(3))
    with pytest.raises(ValueError, match="not a valid gufunc signature"):
        vectorize(np.dot, signature="n->n")
    with pytest.raises(TypeError, match="expected 2 arguments"):
        product(matrices)
