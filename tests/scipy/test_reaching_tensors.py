"""How SciPy's names reach Tensors: which functions have a form here, and what SciPy's own say of a Tensor."""

import doctest
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

import retrograd as rg
from retrograd.core.errors import ConversionError
from retrograd.testing.programs import replaced
from retrograd.testing.scipy_cases import function, scipy_cases
from tests.helpers.together import in_one_test

scipy = pytest.importorskip("scipy", minversion="1.15")

CASES = {case.name: case for _, case in scipy_cases()}

# Names whose values are checked as part of others, or by tests of their own.
BESIDES = {
    "linalg.solve_lyapunov", "sparse.SparseArray", "sparse.issparse", "sparse.linalg", "stats.dirichlet",
    "stats.multivariate_normal",
}  # fmt: skip


def test_every_public_name_has_a_case():
    modules = {name.partition(".")[0] for name in CASES}
    names = {f"{module}.{name}" for module in modules for name in import_module(f"retrograd.scipy.{module}").__all__}
    assert names - {*CASES} == BESIDES


# SciPy passes the argument on to a ufunc, or to a function of NumPy, and so to the Tensor itself.
TAKE_TENSORS = {"fft.fftshift", "fft.ifftshift"}
# SciPy fails before it asks for an array.
FAIL_EARLIER = {
    "linalg.circulant", "linalg.solve_circulant", "sparse.block_diag", "sparse.linalg.norm",
    "sparse.linalg.spsolve_triangular",
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*switching to the sparse array interface:DeprecationWarning")
@in_one_test("name", sorted({*CASES} - TAKE_TENSORS - FAIL_EARLIER))
def test_scipys_own_function_names_ours(name):
    case = CASES[name]
    call = next(iter(case.calls(np.random.default_rng(0))))

    def made(array, differentiated):
        return rg.tensor(array, requires_grad=True) if differentiated else rg.tensor(array)

    args = [replaced(value, made) for value in call.args]
    kwargs = {key: replaced(value, made) for key, value in call.kwargs.items()}
    with pytest.raises((ConversionError, TypeError, ValueError)) as caught:
        case.wrapped(function(f"scipy.{name}"))(*args, **kwargs)
    error = caught.value
    while error is not None and not isinstance(error, ConversionError):
        error = error.__cause__ or error.__context__
    assert error is not None, caught.value
    assert f"use retrograd.scipy.{name}" in str(error) or "use retrograd.scipy." in str(error)


def test_without_a_tensor_scipy_itself_is_called():
    x = np.array([[2.0, 0.5], [0.5, 1.0]])
    assert isinstance(rg.scipy.linalg.sqrtm(x), np.ndarray)
    assert isinstance(rg.scipy.stats.norm.cdf(0.3), float)
    assert rg.scipy.signal.get_window is scipy.signal.get_window
    assert rg.scipy.special.jv is scipy.special.jv
    with pytest.raises(AttributeError, match="no_such_name"):
        rg.scipy.linalg.no_such_name


def test_fourier_transforms_of_scipy_take_tensors_while_we_are_the_backend():
    x = rg.tensor([1.0, 2.0, 4.0], dtype=rg.float64, requires_grad=True)
    with scipy.fft.set_backend(rg.scipy.fft):
        y = scipy.fft.dct(x, norm="ortho")
        assert isinstance(scipy.fft.fft(np.ones(3)), np.ndarray)
    np.testing.assert_allclose(y.detach().numpy(), scipy.fft.dct([1.0, 2.0, 4.0], norm="ortho"))
    y[0].backward()
    np.testing.assert_allclose(x.grad.numpy(), np.full(3, 1 / np.sqrt(3)))
    with pytest.raises(ConversionError, match=r"use retrograd\.scipy\.fft\.dct"):
        scipy.fft.dct(x)


NOT_SQUARE = rg.ones(2, 3, dtype=rg.float64)
X = rg.ones(3, requires_grad=True)
INFINITE = rg.tensor([[np.inf, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: rg.scipy.linalg.expm(NOT_SQUARE), ValueError, "scipy.linalg.expm"),
        (lambda: rg.scipy.linalg.inv(INFINITE), ValueError, "infs or NaNs"),
        (lambda: rg.scipy.linalg.solve(rg.zeros(2, 2), rg.ones(2)), np.linalg.LinAlgError, "singular"),
        (lambda: rg.scipy.linalg.solve_banded((1, 1), NOT_SQUARE, rg.ones(3)), ValueError, "diagonals"),
        (lambda: rg.scipy.interpolate.CubicSpline([0.0, 0.0], rg.ones(2)), ValueError, "strictly increasing"),
        (
            lambda: rg.scipy.interpolate.interp1d([0.0, 1.0], rg.ones(2))(2.0),
            ValueError,
            "above the interpolation range",
        ),
        (
            lambda: rg.scipy.interpolate.RegularGridInterpolator(([0.0, 1.0],), rg.ones(2))([[3.0]]),
            ValueError,
            "bounds",
        ),
        (lambda: rg.scipy.signal.lfilter([1.0], [0.5, 1.0], rg.ones(3), zi=rg.ones(3)), ValueError, "zi"),
        (lambda: rg.scipy.signal.filtfilt([1.0], [1.0, 0.5], rg.ones(3)), ValueError, "padlen"),
        (lambda: rg.scipy.stats.norm.pdf(rg.ones(2), 0, 1, 2), TypeError, "parameters loc, scale"),
        (lambda: rg.scipy.stats.poisson.pdf(rg.ones(2), 1.0), AttributeError, "no pdf"),
        (lambda: rg.scipy.ndimage.shift(rg.ones(3), 1, mode="torus"), RuntimeError, "boundary mode"),
        (lambda: rg.scipy.ndimage.shift(X, 1, order=5), NotImplementedError, "order must be 0 to 3"),
        (lambda: rg.scipy.fft.dct(rg.ones(3), 7), ValueError, "type"),
        (lambda: rg.scipy.special.sph_harm_y(1.5, 0, rg.ones(1), rg.ones(1)), TypeError, "sph_harm_y"),
    ],
)
def test_bad_arguments_raise_what_scipy_raises(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_derivative_that_is_not_known_is_an_error():
    shape = rg.tensor(2.0, requires_grad=True)
    with pytest.raises(NotImplementedError, match="derivative"):
        rg.scipy.stats.poisson.ppf(0.5, shape)
    with pytest.raises(NotImplementedError, match="lam=None chooses lam by the values"):
        rg.scipy.interpolate.make_smoothing_spline(range(6), rg.rand(6))
    with pytest.raises(NotImplementedError, match="LSQUnivariateSpline with knots"):
        rg.scipy.interpolate.UnivariateSpline(range(6), rg.rand(6))
    with pytest.raises(NotImplementedError, match=r"expm\(t \* logm\(A\)\)"):
        rg.scipy.linalg.fractional_matrix_power(rg.eye(2), shape)


SHAPES = {
    "norm": (), "halfnorm": (), "expon": (), "rayleigh": (), "cauchy": (), "laplace": (), "logistic": (), "uniform": (),
    "gumbel_r": (), "gumbel_l": (), "lognorm": (0.7,), "weibull_min": (1.5,), "pareto": (2.5,), "gamma": (2.3,),
    "invgamma": (3.3,), "chi2": (3.5,), "beta": (2.2, 1.6), "f": (3.5, 5.5), "t": (3.5,), "poisson": (2.0,),
    "binom": (5, 0.3), "bernoulli": (0.3,), "nbinom": (4, 0.3), "geom": (0.3,),
}  # fmt: skip
POINTS = np.array([-9.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0, np.nan])
QUANTILES = np.array([-0.1, 0.0, 1e-3, 0.3, 0.5, 0.9, 1.0, 1.1, np.nan])


@pytest.mark.parametrize("name", SHAPES)
def test_a_distribution_has_scipys_values_at_the_ends_and_outside_of_its_support(name):
    theirs, ours = getattr(scipy.stats, name), getattr(rg.scipy.stats, name)
    discrete = ours.family.discrete
    methods = ["pmf", "logpmf"] if discrete else ["pdf", "logpdf", "ppf", "isf"]
    with np.errstate(all="ignore"):
        for method in [*methods, "cdf", "logcdf", "sf", "logsf"]:
            x = QUANTILES if method in ("ppf", "isf") else POINTS
            wanted = getattr(theirs, method)(x, *SHAPES[name])
            got = getattr(ours, method)(rg.tensor(x), *SHAPES[name]).numpy()
            np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-15, err_msg=method)
            frozen = getattr(ours(*SHAPES[name]), method)(rg.tensor(x)).numpy()
            np.testing.assert_array_equal(frozen, got)
    assert np.isnan(
        ours.cdf(rg.tensor(1.0), *SHAPES[name], **({"loc": np.nan} if discrete else {"scale": -1.0})).item()
    )


@pytest.mark.slow
@pytest.mark.parametrize("module", sorted({name.partition(".")[0] for name in CASES}))
def test_every_public_name_has_an_example_that_runs(module):
    runner, found = doctest.DocTestRunner(), import_module(f"retrograd.scipy.{module}")
    for name in found.__all__:
        tests = doctest.DocTestFinder().find(getattr(found, name), name, module=False, globs={"rg": rg})
        assert sum(bool(test.examples) for test in tests), name
        for test in tests:
            runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def test_scipy_is_not_imported_before_it_is_needed():
    program = (
        "import sys, retrograd as rg, retrograd.scipy.linalg, retrograd.scipy.stats, retrograd.scipy.ndimage\n"
        "print('scipy' in sys.modules, 'retrograd.scipy.fft' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.strip() == "False False", run.stdout + run.stderr
