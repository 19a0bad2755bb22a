"""Gradients of eigenvalues and eigenvectors where eigenvalues are equal."""

import numpy as np
import pytest

import retrograd as rg

rng = np.random.default_rng(0)
BASIS = np.linalg.qr(rng.standard_normal((4, 4)))[0]
WEIGHTS = rng.standard_normal((4, 4))


@pytest.mark.parametrize("matrix", [np.eye(4), np.diag([1.0, 1.0, 1.0, 2.0]), np.zeros((4, 4))])
def test_symmetric_functions_of_equal_eigenvalues_have_their_gradient(matrix):
    for function, wanted in [
        (lambda w: w.sum(), np.eye(4)),
        (lambda w: (w**3).sum(), 3 * matrix @ matrix),
        (lambda w: (w**2).sum() ** 2, 4 * (matrix**2).sum() * matrix),
    ]:
        for values in (lambda a: rg.linalg.eigvalsh(a), lambda a: rg.linalg.eigh(a)[0]):
            x = rg.tensor(matrix, requires_grad=True)
            np.testing.assert_allclose(rg.autograd.grad(function(values(x)), x)[0].numpy(), wanted, atol=1e-12)


def test_a_single_eigenvector_beside_equal_eigenvalues_has_its_gradient():
    x = rg.tensor(np.diag([1.0, 1.0, 1.0, 2.0]), requires_grad=True)

    def alignment(a):
        v = rg.linalg.eigh(a).eigenvectors[:, -1]
        return v @ rg.tensor(WEIGHTS) @ v

    gradient = rg.autograd.grad(alignment(x), x)[0].numpy()
    direction = WEIGHTS + WEIGHTS.T
    for step in (np.outer(BASIS[0], BASIS[0]), direction):
        h = 1e-6
        values = [alignment(rg.tensor(np.diag([1.0, 1.0, 1.0, 2.0]) + sign * h * step)).item() for sign in (1, -1)]
        np.testing.assert_allclose((gradient * step).sum(), (values[0] - values[1]) / (2 * h), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("decompose", [lambda a: rg.linalg.eigh(a)[1], lambda a: rg.linalg.svd(a)[0]])
def test_vectors_of_equal_values_have_a_gradient_that_is_not_finite_as_in_pytorch_and_jax(decompose):
    x = rg.tensor(np.eye(4), requires_grad=True)
    (gradient,) = rg.autograd.grad((decompose(x) * rg.tensor(WEIGHTS)).sum(), x)
    assert not np.isfinite(gradient.numpy()).any()
