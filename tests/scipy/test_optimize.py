"""retrograd.scipy.optimize: values of SciPy, derivatives by the implicit function theorem."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.func import grad, jacrev, jvp, vmap
from retrograd.scipy import optimize

theirs = pytest.importorskip("scipy.optimize")


def double(values, **options):
    return rg.tensor(values, dtype=rg.float64, **options)


TWO = double(2.0, requires_grad=True)


def rosenbrock(x, a):
    return (a[0] - x[0]) ** 2 + a[1] * (x[1] - x[0] ** 2) ** 2


@pytest.mark.parametrize(
    "root",
    [
        lambda s: optimize.root(lambda x, s: x**2 - s, np.ones(2), (s,)).x,
        lambda s: optimize.root(lambda x: x**2 - s, np.ones(2), method="lm").x,
        lambda s: optimize.fsolve(lambda x, s: x**2 - s, np.ones(2), (s,)),
        lambda s: optimize.root(lambda x: x**2 - s, np.ones(2), method="krylov", tol=1e-10).x,
        *[
            lambda s, name=name: getattr(optimize, name)(lambda x, s: x * x - s, 0.0, 3.0, (s,))
            for name in ("bisect", "brenth", "brentq", "ridder", "toms748")
        ],
        lambda s: optimize.newton(lambda x, s: x * x - s, 1.0, args=(s,)),
        lambda s: optimize.newton(lambda x, s: x * x - s, 1.0, fprime=lambda x, s: 2 * x, args=(s,)),
        lambda s: optimize.root_scalar(lambda x, s: x * x - s, (s,), bracket=[0, 3]).root,
        lambda s: optimize.fixed_point(lambda x, s: (x + s / x) / 2, 1.0, (s,)),
    ],
)
def test_a_square_root_has_its_derivatives_to_second_order(root):
    np.testing.assert_allclose(root(TWO).detach().numpy(), 2**0.5, rtol=1e-6)
    assert gradcheck(root, (TWO,), atol=1e-4) and gradgradcheck(root, (TWO,), atol=1e-4)


@pytest.mark.parametrize(
    "method", [None, *(pytest.param(m, marks=pytest.mark.slow) for m in ("Newton-CG", "trust-exact", "Nelder-Mead"))]
)
def test_a_minimum_has_gradients_whatever_method_found_it(method):
    a = double([1.0, 10.0], requires_grad=True)

    def minimum(a):
        return optimize.minimize(rosenbrock, np.zeros(2), (a,), method=method, tol=1e-10).x

    np.testing.assert_allclose(minimum(a).detach().numpy(), [1, 1], rtol=1e-5)
    assert gradcheck(minimum, (a,), atol=1e-3)


def test_unknowns_at_a_bound_move_with_the_bound():
    a, bound = double([1.0, 10.0], requires_grad=True), double([0.5], requires_grad=True)

    def minimum(a, bound):
        return optimize.minimize(rosenbrock, np.zeros(2), (a,), bounds=[(None, bound[0]), (None, None)]).x

    np.testing.assert_allclose(minimum(a, bound).detach().numpy(), [0.5, 0.25], rtol=1e-4)
    assert gradcheck(minimum, (a, bound), atol=1e-3)
    x = optimize.minimize_scalar(lambda x: (x - TWO) ** 2, bounds=(0.0, 5.0)).x
    np.testing.assert_allclose(grad(lambda s: optimize.minimize_scalar(lambda x: (x - s) ** 2).x)(TWO).item(), 1.0)
    np.testing.assert_allclose(x.item(), 2.0, rtol=1e-5)


def test_fitted_parameters_and_their_covariance_have_gradients_by_the_data():
    x = np.linspace(0, 1, 6)
    y = double(2 * np.exp(-1.3 * x) + 0.01 * np.sin(9 * x), requires_grad=True)

    def fitted(y):
        return optimize.curve_fit(lambda x, a, b: a * rg.exp(-b * x), double(x), y)

    found = theirs.curve_fit(lambda x, a, b: a * np.exp(-b * x), x, y.detach().numpy())
    for ours, other in zip(fitted(y), found, strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), other, rtol=1e-4)
    assert gradcheck(fitted, (y,), atol=1e-4)


def test_without_tensors_the_results_are_scipys():
    assert type(optimize.root(lambda x: x**2 - 4, [1.0]).x) is np.ndarray
    assert type(optimize.brentq(lambda x: x - 1, 0, 3)) is float
    assert type(optimize.minimize(lambda x: (x**2).sum(), [1.0]).x) is np.ndarray


@pytest.mark.slow
def test_roots_and_minima_are_found_for_all_examples_of_vmap():
    a = double([[4.0, 9.0], [1.0, 16.0]])
    found = vmap(lambda a: optimize.root(lambda x: x**2 - a, rg.ones(2, dtype=rg.float64)).x)(a)
    np.testing.assert_allclose(found.numpy(), a.numpy() ** 0.5, rtol=1e-9)
    slopes = vmap(grad(lambda a: optimize.minimize(lambda x: ((x - a) ** 2).sum(), a * 0).x.sum()))(a)
    np.testing.assert_allclose(slopes.numpy(), 1, rtol=1e-9)

    def squares(a):
        return optimize.least_squares(lambda x: rg.stack([x[0] ** 3 - a, 0.1 * x[0]]), np.ones(1)).x.sum()

    def scalar(a):
        return optimize.minimize_scalar(lambda x: (x - a) ** 2 + x**4).x

    def fitted(a):
        x = rg.arange(4, dtype=rg.float64)
        p, covariance = optimize.curve_fit(lambda x, b, c: b * x + c, x, rg.sin(a * x))
        return p.sum() + covariance.sum()

    def cubic(x, a):
        return x**3 + x - a

    def bracketed(a):
        return optimize.brentq(cubic, 0.0, 2.0, (a,))

    def near(a):
        return optimize.newton(cubic, 1.0, args=(a,)) + optimize.root_scalar(cubic, (a,), bracket=(0.0, 2.0)).root

    a = double([0.7, 1.5])
    assert np.isnan(vmap(lambda a: optimize.bisect(cubic, 1.0, 2.0, (a,)))(double([0.7, 2.5])).numpy()).tolist() == [
        1,
        0,
    ]
    for function in (squares, scalar, fitted, bracketed, near):
        for f in (function, grad(function)):
            np.testing.assert_allclose(vmap(f)(a).numpy(), [f(x).item() for x in a], rtol=1e-5)
    with pytest.raises(RuntimeError, match="least_squares: SciPy cannot iterate inside vmap; use optimize.root"):
        vmap(lambda a: optimize.least_squares(lambda x: x - a, np.ones(1), bounds=(0, 1)).x)(a)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: optimize.brentq(lambda x: x * x + TWO, 0, 3), ValueError, "different signs"),
        (lambda: optimize.linprog(double([1.0], requires_grad=True)), NotImplementedError, "no derivative"),
        (
            lambda: optimize.minimize(lambda x: (x * TWO).sum(), [1.0], constraints={"type": "eq", "fun": sum}),
            NotImplementedError,
            "constraints",
        ),
        (lambda: optimize.least_squares(lambda x: x - TWO, [1.0], loss="hubert"), ValueError, "'huber'.*got 'hubert'"),
        (lambda: optimize.root(lambda x: rg.stack([TWO, TWO]), [1.0]), ValueError, "as many numbers as"),
        (lambda: optimize.root(3, [1.0]), TypeError, "expected a function"),
    ],
)
def test_what_has_no_solution_or_derivative_is_an_error(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_derivative_of_a_search_without_success_is_an_error():
    two = double(2.0, requires_grad=True)
    searches = (
        lambda a: optimize.root(lambda x, a: x**2 + a, np.ones(1), (a,)),
        lambda a: optimize.minimize(lambda x, a: ((x - a) ** 4).sum(), np.ones(1), (a,), options={"maxiter": 1}),
        lambda a: optimize.least_squares(lambda x, a: x**3 - a, np.ones(1), args=(a,), max_nfev=1),
    )
    for search in searches:
        found = search(two)
        assert not found.success
        with pytest.raises(RuntimeError, match="has no derivative, since the search failed: "):
            found.x.sum().backward()
        with pytest.raises(RuntimeError, match="has no derivative"):
            jvp(lambda a, search=search: search(a).x, (two.detach(),), (rg.ones_like(two),))


def test_a_minimum_at_the_limit_of_rounding_has_its_derivatives():
    def minimum(x):
        return optimize.minimize(lambda y: ((y - x) ** 2).sum() + (y**4).sum(), np.ones(2), tol=1e-12).x

    x = double([0.3515, 0.5299])  # BFGS ends with "precision loss"
    y = minimum(x).detach().numpy()
    slopes = 1 / (1 + 6 * y**2)  # of y + 2 y^3 = x
    np.testing.assert_allclose(jacrev(minimum)(x).numpy(), np.diag(slopes), atol=1e-8)
    second = grad(lambda x: grad(lambda x: minimum(x).sum())(x).sum())(x)
    np.testing.assert_allclose(second.numpy(), -12 * y * slopes**3, atol=1e-7)


def test_a_bracket_of_whole_numbers_is_searched_in_double_precision():
    a = double(0.7, requires_grad=True)
    root = optimize.brentq(lambda x: x**3 + x - a, 0, 2)
    assert root.dtype == rg.float64
    np.testing.assert_allclose(root.item(), theirs.brentq(lambda x: x**3 + x - 0.7, 0, 2), rtol=1e-12)


def test_an_assignment_is_a_constant_index():
    cost = double([[4.0, 1.0], [3.0, 2.0]], requires_grad=True)
    cost[optimize.linear_sum_assignment(cost)].sum().backward()
    np.testing.assert_array_equal(cost.grad.numpy(), [[0, 1], [1, 0]])


@pytest.mark.parametrize("loss", ["soft_l1", "huber", "cauchy", "arctan", lambda z: [z / (1 + z)]])
def test_robust_least_squares_have_the_derivative_of_their_minimum(loss):
    t = np.linspace(0, 3, 12)
    outliers = 3.0 * (np.arange(12) % 5 == 1)

    def fitted(p, xp=np):
        def residuals(x, scale):
            return x[0] * np.exp(-x[1] * t) - scale * np.exp(-0.7 * t) - outliers

        given = (
            loss if isinstance(loss, str) else lambda z: xp.stack([loss(z)[0], (1 + z) ** -2.0, -2 * (1 + z) ** -3.0])
        )
        options = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-14, "jac": "cs" if xp is np else "2-point"}
        f_scale = 0.5 * p if xp is rg else 0.5 * float(p)
        module = optimize if xp is rg else theirs
        return module.least_squares(residuals, [1.0, 0.5], args=(p,), loss=given, f_scale=f_scale, **options).x

    p = rg.tensor(1.3, dtype=rg.float64, requires_grad=True)
    slope = [rg.autograd.grad(x, p, retain_graph=True)[0].item() for x in fitted(p, rg)]
    h = 1e-3  # the minimum is known to the root of its tolerance, 3e-8
    np.testing.assert_allclose(slope, (fitted(1.3 + h) - fitted(1.3 - h)) / (2 * h), rtol=1e-4, atol=5e-5)


def test_the_jacobian_of_least_squares_gets_keywords_and_may_be_sparse():
    sparse = pytest.importorskip("scipy.sparse")
    a = rg.tensor([2.0, 3.0], dtype=rg.float64, requires_grad=True)
    found = optimize.least_squares(
        lambda x, a, power: x**power - a,
        np.ones(2),
        jac=lambda x, a, power: sparse.diags_array([power * x.detach().numpy() ** (power - 1)], offsets=[0]),
        args=(a,),
        kwargs={"power": 2},
    )
    np.testing.assert_allclose(found.x.tolist(), np.sqrt([2.0, 3.0]), rtol=1e-6)
    np.testing.assert_allclose(rg.autograd.grad(found.x.sum(), a)[0].tolist(), 0.5 / np.sqrt([2.0, 3.0]), rtol=1e-6)
