"""What SciPy computes with bare arrays says what to write instead, and that has SciPy's value."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import retrograd as rg
from retrograd.ops.numpy.alternatives import DISTRIBUTIONS, FUNCTIONS, alternative

scipy = pytest.importorskip("scipy", minversion="1.15")
for module in """fft integrate interpolate linalg ndimage optimize signal sparse.linalg spatial.distance""".split():  # noqa: SIM905
    pytest.importorskip(f"scipy.{module}")
linalg, stats, special = scipy.linalg, pytest.importorskip("scipy.stats"), pytest.importorskip("scipy.special")

rng = np.random.default_rng(8)
V, W = rng.uniform(0.2, 0.9, 4), rng.uniform(0.2, 0.9, 4)
M = rng.uniform(0.1, 0.9, (4, 4)) + 4 * np.eye(4)
SPD = M @ M.T
EYE = np.eye(4)


# SciPy's call, and what its error says to write, on one array each.
PAIRS = {
    "scipy.integrate.trapezoid": (lambda x: scipy.integrate.trapezoid(x, dx=0.5), lambda x: np.trapezoid(x, dx=0.5), V),
    "scipy.integrate.cumulative_trapezoid": (
        lambda x: scipy.integrate.cumulative_trapezoid(x),
        lambda x: rg.cumulative_trapezoid(x),
        V,
    ),
    "scipy.integrate.simpson": (
        lambda x: scipy.integrate.simpson(x),
        lambda x: np.dot([1 / 3, 4 / 3, 1 / 3], x),
        V[:3],
    ),
    "scipy.spatial.distance.cdist": (
        lambda x: scipy.spatial.distance.cdist(x, M),
        lambda x: rg.cdist(x, rg.tensor(M)),
        SPD,
    ),
    "scipy.spatial.distance.pdist": (
        lambda x: scipy.spatial.distance.pdist(x),
        lambda x: rg.nn.functional.pdist(x),
        M,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_scipys_error_names_what_has_scipys_value(name):
    theirs, ours, x = PAIRS[name]
    t = rg.tensor(x, requires_grad=True)
    with pytest.raises(RuntimeError, match=f"{name} computes with bare arrays; use (?!or)"):
        theirs(t)
    result = ours(t)
    assert result.requires_grad
    np.testing.assert_allclose(result.detach().numpy(), theirs(x), rtol=1e-9, atol=1e-12)


def test_without_a_gradient_scipy_computes_with_the_array_inside():
    np.testing.assert_allclose(linalg.expm(rg.tensor(M)), linalg.expm(M))


UNASKED = [
    (lambda x: linalg.schur(x[:, None] * x), r"schur.*retrograd\.scipy\.linalg\.schur"),
    (lambda x: stats.vonmises.logpdf(x, 1.0), r"vonmises\.logpdf.*retrograd\.distributions\.VonMises\.log_prob"),
    (lambda x: scipy.integrate.odeint(lambda y, t: -y, x, [0.0, 1.0]), r"odeint.*retrograd\.scipy\.integrate\.odeint"),
    (
        lambda x: scipy.integrate.solve_ivp(lambda t, y: -y * x[0], (0.0, 1.0), [1.0]),
        r"solve_ivp.*retrograd\.scipy\.integrate\.solve_ivp",
    ),
    (lambda x: scipy.ndimage.gaussian_filter(x, 1.0), r"gaussian_filter.*retrograd\.scipy\.ndimage\.gaussian_filter"),
    (
        lambda x: scipy.optimize.minimize(lambda y: (x * y[0]).sum(), [1.0]),
        r"minimize.*retrograd\.scipy\.optimize\.minimize",
    ),
    (lambda x: scipy.signal.lfilter([1.0, 2.0], [1.0], x), r"lfilter.*retrograd\.scipy\.signal\.lfilter"),
    (lambda x: scipy.sparse.csr_matrix(EYE).minimum(x), r"sparse.*retrograd.scipy.sparse: csr_array"),
    (lambda x: stats.gaussian_kde(x), r"gaussian_kde.*retrograd\.scipy\.stats\.gaussian_kde"),
    (lambda x: np.polynomial.Polynomial(x), r"numpy\.polynomial\.Polynomial computes.*use retrograd\.polynomial\.Poly"),
    (lambda x: np.polynomial.Chebyshev(V)(x), r"Chebyshev computes.*retrograd\.polynomial\.Chebyshev\(p\.coef, p\.dom"),
    (lambda x: np.polynomial.Polynomial.fit(V, x, 1), r"retrograd\.polynomial\.polynomial\.polyfit"),
    (lambda x: np.polynomial.Legendre.fromroots(x), r"the classes of retrograd\.polynomial"),
    (lambda x: np.vectorize(lambda a: a * a)(x), r"np\.vectorize calls.*retrograd\.func\.vectorize"),
    (lambda x: np.vectorize(lambda a: a.sum(), signature="(n)->()")(x), r"retrograd\.func\.vectorize"),
    (lambda x: np.vectorize(lambda a: a * x[0])(V), r"retrograd\.func\.vectorize"),
]


@pytest.mark.parametrize("call, words", UNASKED)
def test_functions_without_one_of_ours_say_where_to_look(call, words):
    with pytest.raises(RuntimeError, match=words):
        call(rg.tensor(V, requires_grad=True))


def test_minimizers_take_numbers_and_gradients_of_tensors():
    def value_and_gradient(x):
        t = rg.tensor(x, requires_grad=True)
        value = 100 * (t[1] - t[0] ** 2) ** 2 + (1 - t[0]) ** 2
        value.backward()
        return value.item(), t.grad.numpy()

    found = scipy.optimize.minimize(value_and_gradient, [0.0, 0.0], jac=True, method="BFGS")
    np.testing.assert_allclose(found.x, [1.0, 1.0], rtol=1e-5)


@pytest.mark.parametrize(
    "words", [*FUNCTIONS.values(), *map("retrograd.distributions.{}".format, DISTRIBUTIONS.values())]
)
def test_every_name_of_ours_that_is_said_exists(words):
    for name in re.findall(r"(?:retrograd|np|scipy)(?:\.\w+)+", words):
        found = {"retrograd": rg, "np": np, "scipy": scipy}[name.split(".")[0]]
        for part in name.split(".")[1:]:
            found = getattr(found, part)


def test_every_function_of_scipy_that_is_named_exists():
    for name in FUNCTIONS:
        found = scipy
        for part in name.split(".")[1:]:
            found = getattr(found, part)
    assert all(hasattr(stats, name) for name in DISTRIBUTIONS)


def test_nothing_is_known_of_other_libraries():
    assert alternative("sklearn.linear_model.ridge") == ""


@pytest.mark.slow
def test_scipys_array_api_mode_names_ours_instead_of_detaching():
    program = (
        "import retrograd as rg, scipy.special\n"
        "x = rg.ones(2, requires_grad=True)\n"
        "try: print(scipy.special.expit(x).requires_grad)\n"
        "except RuntimeError as error: print(error)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | {"SCIPY_ARRAY_API": "1"}
    )
    assert run.stdout.strip() == "True" or "use retrograd.special.expit" in run.stdout, run.stdout + run.stderr
