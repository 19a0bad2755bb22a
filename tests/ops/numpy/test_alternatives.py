"""What SciPy computes with bare arrays says what to write instead, and that has SciPy's value."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import retrograd as rg
import retrograd.distributions as D
from retrograd.ops.numpy.alternatives import DISTRIBUTION_FUNCTIONS, DISTRIBUTIONS, FUNCTIONS, alternative

scipy = pytest.importorskip("scipy", minversion="1.15")
for module in """fft integrate interpolate linalg ndimage optimize signal sparse.linalg spatial.distance""".split():  # noqa: SIM905
    pytest.importorskip(f"scipy.{module}")
linalg, stats, special = scipy.linalg, pytest.importorskip("scipy.stats"), pytest.importorskip("scipy.special")

rng = np.random.default_rng(8)
V, W = rng.uniform(0.2, 0.9, 4), rng.uniform(0.2, 0.9, 4)
P = V / V.sum()
M = rng.uniform(0.1, 0.9, (4, 4)) + 4 * np.eye(4)
SPD = M @ M.T
I, J = np.ogrid[:4, :4]
EYE = np.eye(4)


def through_eigenvalues(function, a):
    w, v = np.linalg.eig(a)
    return np.matmul(v * function(w), np.linalg.inv(v))


# SciPy's call, and what its error says to write, on one array each.
PAIRS = {
    "scipy.fft.rfft": (lambda x: scipy.fft.rfft(x), lambda x: rg.fft.rfft(x), V),
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
    "scipy.interpolate.interp1d": (
        lambda x: scipy.interpolate.interp1d([0, 1, 2, 3], x)([0.5, 2.2]),
        lambda x: np.interp([0.5, 2.2], [0, 1, 2, 3], x),
        V,
    ),
    "scipy.linalg.block_diag": (lambda x: linalg.block_diag(x, M), lambda x: rg.block_diag(x, rg.tensor(M)), M),
    "scipy.linalg.cholesky": (lambda x: linalg.cholesky(x, lower=True), lambda x: rg.linalg.cholesky(x), SPD),
    "scipy.linalg.cho_solve": (
        lambda x: linalg.cho_solve((np.linalg.cholesky(SPD), True), x),
        lambda x: rg.cholesky_solve(x[:, None], rg.tensor(np.linalg.cholesky(SPD)))[:, 0],
        V,
    ),
    "scipy.linalg.expm": (lambda x: linalg.expm(x), lambda x: rg.linalg.matrix_exp(x), M),
    "scipy.linalg.khatri_rao": (
        lambda x: linalg.khatri_rao(x, M),
        lambda x: np.reshape(np.einsum("ik,jk->ijk", x, M), (16, 4)),
        SPD,
    ),
    "scipy.linalg.logm": (lambda x: linalg.logm(x), lambda x: through_eigenvalues(np.emath.log, x), M),
    "scipy.linalg.sqrtm": (lambda x: linalg.sqrtm(x), lambda x: through_eigenvalues(np.emath.sqrt, x), M),
    "scipy.linalg.solve_triangular": (
        lambda x: linalg.solve_triangular(x, W),
        lambda x: rg.linalg.solve_triangular(x, rg.tensor(W)[:, None], upper=True)[:, 0],
        M,
    ),
    "scipy.linalg.solve_sylvester": (
        lambda x: linalg.solve_sylvester(x, SPD, M),
        lambda x: np.reshape(np.linalg.solve(np.kron(x, EYE) + np.kron(EYE, SPD.T), M.reshape(-1)), (4, 4)),
        M,
    ),
    "scipy.linalg.inv": (lambda x: linalg.inv(x), lambda x: rg.linalg.inv(x), M),
    "scipy.linalg.det": (lambda x: linalg.det(x), lambda x: rg.linalg.det(x), M),
    "scipy.linalg.eigvalsh": (lambda x: linalg.eigvalsh(x), lambda x: rg.linalg.eigvalsh(x), SPD),
    "scipy.signal.convolve": (lambda x: scipy.signal.convolve(x, W), lambda x: np.convolve(x, W), V),
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
    "scipy.special.comb": (lambda x: special.comb(x, 2), lambda x: rg.scipy.special.comb(x, 2), V + 3),
    "scipy.special.factorial": (lambda x: special.factorial(x), lambda x: rg.scipy.special.factorial(x), V),
    "scipy.special.logsumexp": (lambda x: special.logsumexp(x), lambda x: rg.scipy.special.logsumexp(x), V),
    "scipy.special.softmax": (lambda x: special.softmax(x), lambda x: rg.scipy.special.softmax(x), V),
    "scipy.special.polygamma": (lambda x: special.polygamma(2, x), lambda x: rg.scipy.special.polygamma(2, x), V),
    "scipy.special.spherical_jn": (
        lambda x: special.spherical_jn(2, x),
        lambda x: rg.scipy.special.spherical_jn(2, x),
        V,
    ),
    "scipy.stats.entropy": (lambda x: stats.entropy(x), lambda x: np.sum(special.entr(x)), P),
    "scipy.stats.pearsonr": (lambda x: stats.pearsonr(x, W)[0], lambda x: np.corrcoef(x, W)[0, 1], V),
    "scipy.stats.zscore": (lambda x: stats.zscore(x), lambda x: (x - np.mean(x)) / np.std(x), V),
    "scipy.stats.norm.logpdf": (lambda x: stats.norm.logpdf(x), lambda x: D.Normal(0.0, 1.0).log_prob(x), V),
    "scipy.stats.gamma.logpdf": (lambda x: stats.gamma.logpdf(x, 2), lambda x: D.Gamma(2.0, 1.0).log_prob(x), V),
    "scipy.stats.dirichlet.logpdf": (
        lambda x: stats.dirichlet.logpdf(x / x.sum(), np.ones(4)),
        lambda x: D.Dirichlet(rg.ones(4, dtype=rg.float64)).log_prob(x / x.sum()),
        V,
    ),
    "scipy.stats.norm.cdf": (lambda x: stats.norm.cdf(x, 0.5, 2), lambda x: special.ndtr((x - 0.5) / 2), V),
    "scipy.stats.beta.cdf": (lambda x: stats.beta.cdf(x, 2, 3), lambda x: special.betainc(2, 3, x), V),
    "scipy.stats.gamma.cdf": (lambda x: stats.gamma.cdf(x, 2, scale=3), lambda x: special.gammainc(2, x / 3), V),
    "scipy.stats.chi2.cdf": (lambda x: stats.chi2.cdf(x, 3), lambda x: special.chdtr(3, x), V),
    "scipy.stats.t.cdf": (lambda x: stats.t.cdf(x, 3), lambda x: special.stdtr(3, x), V),
    "scipy.stats.f.cdf": (lambda x: stats.f.cdf(x, 3, 4), lambda x: special.fdtr(3, 4, x), V),
    "scipy.stats.poisson.cdf": (lambda x: stats.poisson.cdf(2, x), lambda x: special.pdtr(2, x), V),
    "scipy.stats.binom.cdf": (lambda x: stats.binom.cdf(2, 5, x), lambda x: special.bdtr(2, 5, x), V),
    "scipy.stats.multivariate_normal.logpdf": (
        lambda x: stats.multivariate_normal.logpdf(x, W, SPD),
        lambda x: D.MultivariateNormal(rg.tensor(W), rg.tensor(SPD)).log_prob(x),
        V,
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
    (lambda x: scipy.integrate.odeint(lambda y, t: -y, x, [0.0, 1.0]), "odeint.*Runge-Kutta"),
    (lambda x: scipy.integrate.solve_ivp(lambda t, y: -y * x[0], (0.0, 1.0), [1.0]), "solve_ivp.*Runge-Kutta"),
    (lambda x: scipy.ndimage.gaussian_filter(x, 1.0), "gaussian_filter.*conv1d"),
    (lambda x: scipy.optimize.minimize(lambda y: (x * y[0]).sum(), [1.0]), r"minimize.*value\.item\(\)"),
    (lambda x: scipy.signal.lfilter([1.0, 2.0], [1.0], x), "lfilter.*np.convolve"),
    (lambda x: scipy.sparse.csr_matrix(EYE) @ x, "sparse.*retrograd.sparse_coo_tensor"),
    (lambda x: stats.gaussian_kde(x), "gaussian_kde.*retrograd.distributions"),
    (lambda x: np.polynomial.Polynomial(x), "numpy.polynomial.*np.polyval"),
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
    assert all(hasattr(special, words.partition("(")[0]) for words in DISTRIBUTION_FUNCTIONS.values())


def test_nothing_is_known_of_other_libraries():
    assert alternative("sklearn.linear_model.ridge") == ""


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
