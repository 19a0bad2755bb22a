"""retrograd.scipy.integrate: values of SciPy, derivatives by samples, limits, parameters and initial values."""

import warnings

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.func import grad, vmap
from retrograd.scipy import integrate

theirs = pytest.importorskip("scipy.integrate")
RNG = np.random.default_rng(0)


def double(values, **options):
    return rg.tensor(values, dtype=rg.float64, **options)


@pytest.mark.parametrize("name", ["trapezoid", "simpson", "cumulative_trapezoid", "cumulative_simpson"])
@pytest.mark.parametrize("count", [2, 3, 6, 9])
def test_rules_for_samples_are_scipys_and_have_gradients_by_samples_and_points(name, count):
    ours, other = getattr(integrate, name), getattr(theirs, name)
    y, x = RNG.standard_normal((2, count)), np.sort(RNG.random(count))
    for options in ({}, {"x": x}, {"dx": 0.3}):
        np.testing.assert_allclose(ours(double(y), **options).numpy(), other(y, **options), rtol=1e-10)
    np.testing.assert_allclose(ours(double(y.T), axis=0).numpy(), other(y.T, axis=0), rtol=1e-10)
    assert gradcheck(lambda y, x: ours(y, x=x), (double(y, requires_grad=True), double(x, requires_grad=True)))
    if count in (2, 3, 9):
        np.testing.assert_allclose(integrate.romb(double(y), dx=0.1).numpy(), theirs.romb(y, dx=0.1))


@pytest.mark.parametrize(
    ("f", "a", "b"),
    [
        (lambda x: np.exp(-x * x), -np.inf, np.inf),
        (lambda x: np.sin(x) / (1 + x), 0.0, 5.0),
        (lambda x: 1 / np.sqrt(x), 0.0, 1.0),
        (lambda x: np.log(x), 0.0, 1.0),
        (lambda x: np.exp(-x), 1.0, np.inf),
        (lambda x: np.exp(x), -np.inf, 1.0),
        (lambda x: abs(x - 0.3), 0.0, 1.0),
        (lambda x: np.exp(-x), np.inf, 0.0),
        (lambda x: x * 0 + 3.0, 1.0, 1.0),
    ],
)
def test_integrals_are_those_of_scipy(f, a, b):
    value, error = integrate.quad(f, double(a), b)
    np.testing.assert_allclose(value.item(), theirs.quad(f, a, b)[0], atol=1e-8)
    assert error < 1e-6


def test_an_integral_has_gradients_by_parameters_and_limits_to_second_order():
    p, a, b = (double(v, requires_grad=True) for v in (1.3, 0.2, 2.0))

    def finite(p, a, b):
        return integrate.quad(lambda x: rg.sin(p * x * x), a, b)[0]

    def infinite(p, a):
        return integrate.quad(lambda x, p: rg.exp(-p * x), a, np.inf, (p,))[0]

    assert gradcheck(finite, (p, a, b)) and gradgradcheck(finite, (p, a, b))
    assert gradcheck(infinite, (p, a)) and gradgradcheck(infinite, (p, a))
    slopes = vmap(grad(lambda p: integrate.quad(lambda x: rg.exp(-p * x), 0, np.inf)[0]))(double([1.0, 2.0]))
    np.testing.assert_allclose(slopes.numpy(), [-1, -0.25], rtol=1e-8)


def test_an_integrand_may_branch_and_return_arrays():
    p = double([1.3, 2.0], requires_grad=True)
    value, _ = integrate.quad(lambda x: x * p[0] if x < 1 else p[0], 0, 2, points=[1.0])
    np.testing.assert_allclose(value.item(), 1.95, rtol=1e-10)
    assert gradcheck(lambda p: integrate.quad_vec(lambda x: rg.cos(p * x), 0, 1)[0], (p,))
    assert gradcheck(lambda p: integrate.fixed_quad(lambda x: rg.cos(x), p[0], p[1])[0], (p,))

    def double_integral(p):
        return integrate.dblquad(lambda y, x: rg.exp(-p[0] * x * y), 0, 1, 0, lambda x: x)[0]

    expected = theirs.dblquad(lambda y, x: np.exp(-1.3 * x * y), 0, 1, 0, lambda x: x)[0]
    np.testing.assert_allclose(double_integral(p).item(), expected, rtol=1e-9)
    assert gradcheck(double_integral, (p,))


def test_a_divergent_integral_warns_and_limits_must_be_numbers():
    with pytest.warns(theirs.IntegrationWarning, match="may diverge"):
        integrate.quad(lambda x: 1 / x, double(0.0), 1.0)
    with pytest.raises(ValueError, match="single numbers"):
        integrate.quad(lambda x: x, double([0.0, 1.0]), 1.0)
    with pytest.raises(ValueError, match="weight"):
        integrate.quad(lambda x: x, double(0.0), 1.0, weight="cos", wvar=1)


def predator(t, y, a):
    return [a * y[0] - y[0] * y[1], y[0] * y[1] - y[1]]


@pytest.mark.parametrize("method", ["RK45", "DOP853", "LSODA"])
def test_initial_value_problems_have_scipys_signature_and_result(method):
    a = double(1.3, requires_grad=True)
    options = {"method": method, "rtol": 1e-6, "atol": 1e-8, "t_eval": np.linspace(0, 2, 4)}
    ours = integrate.solve_ivp(predator, (0, 2), [1.0, 2.0], args=(a,), **options)
    other = theirs.solve_ivp(predator, (0, 2), [1.0, 2.0], args=(1.3,), **options)
    np.testing.assert_allclose(ours.y.detach().numpy(), other.y, atol=1e-4)
    np.testing.assert_allclose(ours.t.numpy(), other.t)
    assert ours.success and ours.status == 0
    (found,) = rg.autograd.grad(ours.y[0, -1], a)
    above, below = (
        theirs.solve_ivp(predator, (0, 2), [1.0, 2.0], args=(s,), rtol=1e-10, atol=1e-10).y[0, -1]
        for s in (1.3001, 1.2999)
    )
    np.testing.assert_allclose(found.item(), (above - below) / 2e-4, rtol=1e-3)


def test_events_dense_output_and_odeint_are_scipys():
    a = double(1.3, requires_grad=True)
    event = lambda t, y, a: y[0] - y[1]  # noqa: E731
    settings = {"rtol": 1e-8, "atol": 1e-8, "dense_output": True, "events": event}
    ours = integrate.solve_ivp(predator, (0, 3), [1.0, 2.0], args=(a,), **settings)
    other = theirs.solve_ivp(predator, (0, 3), [1.0, 2.0], args=(1.3,), **settings)
    np.testing.assert_allclose(ours.t_events[0].detach().numpy(), other.t_events[0], rtol=1e-6)
    times = np.array([1.0, 2.0])
    np.testing.assert_allclose(ours.sol(times).detach().numpy(), other.sol(times), atol=1e-5)
    assert ours.t_events[0].requires_grad and ours.y.shape[0] == 2 and ours.y.shape[1] == ours.t.shape[0]
    grid = np.linspace(0, 3, 4)
    path = integrate.odeint(lambda y, t, a: rg.stack(predator(t, y, a)), [1.0, 2.0], grid, (a,))
    np.testing.assert_allclose(path.detach().numpy(), other.sol(grid).T, atol=1e-5)


def test_without_tensors_the_results_are_scipys():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert type(integrate.quad(lambda x: x, 0, 1)[0]) is float
    assert type(integrate.solve_ivp(lambda t, y: -y, (0, 1), [1.0]).y) is np.ndarray
    with pytest.raises(ValueError, match="t_eval"):
        integrate.solve_ivp(predator, (0, 1), [1.0, 2.0], args=(double(1.0),), t_eval=[2.0])
