"""Gradients of eigenvalues and eigenvectors where eigenvalues are equal, and matrices that are not finite."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.scipy import linalg

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


def of_matrix(function):
    """Return the function of eigh's, eig's or svd's results that multiplies them to a matrix again."""
    return {
        "eigh": lambda w, v: v @ rg.diag(function(w)) @ v.mH,
        "eig": lambda w, v: (v @ rg.diag(function(w)) @ rg.linalg.inv(v)).real,
        "svd": lambda u, s, vh: u[:, : s.shape[0]] @ rg.diag(function(s)) @ vh,
    }


@pytest.mark.parametrize("name", ["eigh", "eig", "svd"])
def test_a_gradient_that_equal_values_leave_open_is_nan_also_where_its_numerator_is_zero(name):
    decompose = getattr(rg.linalg, name)
    for function in (
        lambda found: found[0 if name == "svd" else 1].abs().sum(),  # rotations of V = I change it by second order
        lambda found: of_matrix(lambda w: w)[name](*found).sum(),
        lambda found: of_matrix(lambda w: w - 1)[name](*found)[0, 1],  # the vectors' gradients are 0, the answer is not
    ):
        x = rg.tensor(np.eye(3), requires_grad=True)
        (gradient,) = rg.autograd.grad(function(decompose(x)), x)
        assert np.isnan(gradient.numpy()).all()


def test_a_singular_value_of_zero_leaves_the_gradient_of_its_vectors_open():
    tall = np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    for shaped in (tall, tall.T):
        x = rg.tensor(shaped, requires_grad=True)
        u, s, vh = rg.linalg.svd(x, full_matrices=False)
        assert np.isnan(rg.autograd.grad((u * s @ vh).sum(), x, retain_graph=True)[0].numpy()).all()
        np.testing.assert_array_equal(rg.autograd.grad(u[0, 0] * vh[0, 0], x)[0].numpy(), 0 * shaped)


def test_tangents_of_equal_values_are_nan_for_their_vectors_alone():
    direction = rg.tensor(WEIGHTS + WEIGHTS.T)
    found = rg.func.jvp(rg.linalg.eigh, (rg.tensor(np.diag([1.0, 1.0, 2.0, 3.0])),), (direction,))[1]
    np.testing.assert_allclose(found.eigenvalues.numpy(), np.diagonal(direction.numpy()))
    assert np.isnan(found.eigenvectors.numpy()[:, :2]).all()
    assert np.isfinite(found.eigenvectors.numpy()[:, 2:]).all()


def test_functions_of_a_matrix_and_projectors_have_their_gradient_at_equal_eigenvalues():
    matrix = BASIS @ np.diag([1.0, 1.0, 2.0, 2.0]) @ BASIS.T
    direction = WEIGHTS + WEIGHTS.T

    def below(a):
        return (rg.eye(4, dtype=rg.float64) - linalg.polar(a - 1.5 * rg.eye(4, dtype=rg.float64))[0]) / 2

    for function in (linalg.sqrtm, linalg.logm, rg.linalg.matrix_exp, below):
        value = lambda a, function=function: (function(a) * rg.tensor(WEIGHTS)).sum()  # noqa: E731
        h, at = 1e-6, rg.tensor(matrix)
        slope = (value(at + h * rg.tensor(direction)) - value(at - h * rg.tensor(direction))) / (2 * h)
        gradient = rg.func.grad(value)(at).numpy()
        np.testing.assert_allclose((gradient * direction).sum(), slope.item(), rtol=1e-6)


# LAPACK's singular values may never come back from infinities or NaN, so these are refused.
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
