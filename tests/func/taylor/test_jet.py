"""jet and ravel_pytree, with JAX's meaning."""

from math import factorial

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import linalg as L
from retrograd.func import grad, jet, jvp, ravel_pytree, vmap


def double(values, **options):
    return rg.tensor(values, dtype=rg.float64, **options)


def test_the_derivatives_along_a_line_are_those_of_the_function():
    value, found = jet(rg.exp, (double(0.5),), ([1.0, 0.0, 0.0, 0.0],))
    np.testing.assert_allclose([x.item() for x in (value, *found)], np.exp(0.5), rtol=1e-12)
    _, found = jet(lambda x: 1 / (1 - x), (double(0.0),), ([1.0, 0.0, 0.0, 0.0],))
    np.testing.assert_allclose([x.item() for x in found], [factorial(k) for k in (1, 2, 3, 4)], rtol=1e-12)


def nested(function, x, terms):
    """The derivatives of ``function`` along a curve by nested forward mode."""

    def curve(t):
        return x + sum(c * (t**k / factorial(k)) for k, c in enumerate(terms, 1))

    def lower(k):
        if k == 0:
            return lambda t: function(curve(t))
        return lambda t: jvp(lower(k - 1), (t,), (rg.ones_like(t),))[1]

    return [lower(k)(double(0.0)) for k in range(1, len(terms) + 1)]


A = double([[4.0, 0.5, -0.3], [0.2, 3.0, 0.7], [-0.6, 0.1, 5.0]])
S = A @ A.T


class Cube(rg.autograd.Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        return 3 * g * ctx.saved_tensors[0] ** 2

    @staticmethod
    def jvp(ctx, t):
        return 3 * t * ctx.saved_tensors[0] ** 2


def written(x):
    y = x * 1
    y.mul_(x)
    y[0] = y[1] * x[2]
    return y.exp_()


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: rg.tanh(x) / (x.flip(0) + 3) - rg.sigmoid(x) * rg.tan(x / 3) + rg.expm1(x) * rg.log1p(x * x),
        lambda x: rg.sqrt(x + 4) * rg.sinh(x) + rg.log(x + 3) * rg.cosh(x) - rg.reciprocal(x + 4) * rg.cos(x),
        lambda x: (x - x.detach()) ** 3 + (x + 3) ** 1.5 + 2.0**x + (x + 3) ** x + x**2 * rg.erf(x) * rg.lgamma(x + 4),
        lambda x: rg.einsum("i,ij,j->", x, A * x, x.exp()) + F.linear(x, A * x, x.sin()) @ rg.outer(x, x) @ (A @ x),
        lambda x: F.conv1d(x.reshape(1, 1, 3), (A[:1, :2] * x[:2])[None], x[1:2]),
        lambda x: L.solve(A * x.exp(), x) + L.inv(A + x) @ L.solve_triangular(A * x, S, upper=True),
        lambda x: L.eigvalsh(S + rg.diag(x * x)) + L.cholesky(S + rg.diag(x)) @ L.matrix_exp(A * x / 9),
        lambda x: F.softmax(x * x, 0) * F.relu(x) + rg.where(x > 0, x.exp(), x.std()) * x.sort()[0] + x.cumprod(0),
        lambda x: rg.fft.fft(x * x).abs() + rg.abs(rg.exp(1j * x) + x),
        written,
        lambda x: Cube.apply(x.sin()),
    ],
)  # fmt: skip
def test_the_series_of_an_operator_is_that_of_nested_forward_mode(function):
    rng = np.random.default_rng(0)
    x, *terms = double(rng.uniform(-1, 1, (4, 3)))
    value, found = jet(function, (x,), (terms,))
    np.testing.assert_allclose(value.numpy(), function(x).numpy(), rtol=1e-13)
    for a, b in zip(found, nested(function, x, terms), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-11, atol=1e-11)


def test_a_jet_of_order_ten_has_the_known_series():
    """Of tan(x) + atan(x), for which nested forward mode would take 2^10 passes."""
    value, found = jet(lambda x: rg.tan(x) + rg.atan(x), (double(0.0),), ([1.0] + [0.0] * 9,))
    series = [2, 0, 1 / 3 - 1 / 3, 0, 2 / 15 + 1 / 5, 0, 17 / 315 - 1 / 7, 0, 62 / 2835 + 1 / 9, 0]
    expected = [c * factorial(k) for k, c in enumerate(series, 1)]
    np.testing.assert_allclose([x.item() for x in found], expected, rtol=1e-12, atol=1e-9)


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

    def mixed(x):
        return jet(lambda x: F.softplus(x) * rg.atan(x) ** 3 + x * S[0, 1], (x,), ([x * x, x * 0 + 1, x * 0],))[1][2]

    np.testing.assert_allclose(vmap(grad(mixed))(xs).numpy(), [grad(mixed)(x).item() for x in xs], rtol=1e-12)
    step = 1e-5
    numeric = [(mixed(x + step) - mixed(x - step)).item() / (2 * step) for x in xs]
    np.testing.assert_allclose(vmap(grad(mixed))(xs).numpy(), numeric, rtol=1e-7)
    outside = double(0.4, requires_grad=True)
    jet(lambda x: rg.exp(outside * x), (double(0.5),), ([1.0, 0.0],))[1][1].backward()  # a^2 exp(a x)
    np.testing.assert_allclose(outside.grad.item(), (2 * 0.4 + 0.5 * 0.16) * np.exp(0.2), rtol=1e-12)


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
