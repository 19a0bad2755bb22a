"""What to write instead of functions of SciPy that compute with bare arrays: they do not ask a Tensor, as ufuncs do."""

from __future__ import annotations

from ..._generated import fft, linalg, special
from ...core.missing_names import provided

# Under other names, or not functions of one call.
FUNCTIONS = {
    "scipy.fft": "retrograd.fft",
    "scipy.integrate": "Runge-Kutta steps written with Tensors, or np.dot of values with weights",
    "scipy.integrate.cumulative_trapezoid": "retrograd.cumulative_trapezoid",
    "scipy.integrate.simpson": "np.dot with Simpson's weights",
    "scipy.integrate.trapezoid": "np.trapezoid",
    "scipy.interpolate": "np.interp",
    "scipy.linalg": "np.linalg or retrograd.linalg",
    "scipy.linalg.block_diag": "retrograd.block_diag",
    "scipy.linalg.cho_factor": "retrograd.linalg.cholesky",
    "scipy.linalg.cho_solve": "retrograd.cholesky_solve",
    "scipy.linalg.circulant": "c[(i - j) % n] with i, j = np.ogrid[:n, :n]",
    "scipy.linalg.expm": "retrograd.linalg.matrix_exp",
    "scipy.linalg.khatri_rao": "np.einsum('ik,jk->ijk', a, b)",
    "scipy.linalg.logm": "np.matmul(v * np.emath.log(w), np.linalg.inv(v)) with w, v = np.linalg.eig(a)",
    "scipy.linalg.polar": "u @ vh and the rest of retrograd.linalg.svd",
    "scipy.linalg.solve_banded": "retrograd.linalg.solve with the whole matrix",
    "scipy.linalg.solve_sylvester": "np.linalg.solve with np.kron(a, eye) + np.kron(eye, b.T)",
    "scipy.linalg.sqrtm": "np.matmul(v * np.emath.sqrt(w), np.linalg.inv(v)) with w, v = np.linalg.eig(a)",
    "scipy.linalg.toeplitz": "c[abs(i - j)] with i, j = np.ogrid[:n, :n]",
    "scipy.ndimage": "retrograd.nn.functional.conv1d, conv2d and interpolate",
    "scipy.optimize": "numbers and arrays as results of your functions: value.item(), gradient.numpy()",
    "scipy.signal": "np.convolve, np.correlate, retrograd.nn.functional.conv2d, retrograd.fft or retrograd.stft",
    "scipy.signal.convolve": "np.convolve, or retrograd.nn.functional.conv2d",
    "scipy.signal.fftconvolve": "np.convolve, or a product of retrograd.fft.rfft",
    "scipy.signal.stft": "retrograd.stft",
    "scipy.sparse": "retrograd.sparse_coo_tensor",
    "scipy.sparse.linalg": "retrograd.linalg.solve",
    "scipy.spatial.distance": "np.linalg.norm of the differences",
    "scipy.spatial.distance.cdist": "retrograd.cdist",
    "scipy.spatial.distance.pdist": "retrograd.nn.functional.pdist",
    "scipy.special": "retrograd.special, or ufuncs of scipy.special (expit, gammaln, jv ...) without SCIPY_ARRAY_API",
    "scipy.stats": "retrograd.distributions, or the formula in NumPy's functions",
    "scipy.stats.entropy": "np.sum(scipy.special.entr(p))",
    "scipy.stats.pearsonr": "np.corrcoef(x, y)[0, 1]",
    "scipy.stats.zscore": "(x - np.mean(x)) / np.std(x)",
}

# Distributions of scipy.stats, and the ufuncs of scipy.special that are their distribution functions.
DISTRIBUTIONS = {
    "bernoulli": "Bernoulli",
    "beta": "Beta",
    "binom": "Binomial",
    "cauchy": "Cauchy",
    "chi2": "Chi2",
    "dirichlet": "Dirichlet",
    "expon": "Exponential",
    "f": "FisherSnedecor",
    "gamma": "Gamma",
    "geom": "Geometric",
    "gumbel_r": "Gumbel",
    "halfcauchy": "HalfCauchy",
    "halfnorm": "HalfNormal",
    "invgamma": "InverseGamma",
    "laplace": "Laplace",
    "lognorm": "LogNormal",
    "multinomial": "Multinomial",
    "multivariate_normal": "MultivariateNormal",
    "nbinom": "NegativeBinomial",
    "norm": "Normal",
    "pareto": "Pareto",
    "poisson": "Poisson",
    "t": "StudentT",
    "uniform": "Uniform",
    "vonmises": "VonMises",
    "weibull_min": "Weibull",
    "wishart": "Wishart",
}
DISTRIBUTION_FUNCTIONS = {
    "beta": "betainc(a, b, x)",
    "binom": "bdtr(k, n, p)",
    "chi2": "chdtr(df, x)",
    "f": "fdtr(dfn, dfd, x)",
    "gamma": "gammainc(a, x / scale)",
    "norm": "ndtr((x - loc) / scale)",
    "poisson": "pdtr(k, mu)",
    "t": "stdtr(df, x)",
}
_METHODS = {"logpdf": "log_prob", "logpmf": "log_prob", "pdf": "log_prob", "pmf": "log_prob", "ppf": "icdf"}


def alternative(function: str, distribution: str = "") -> str:
    """What to use instead of a function of SciPy, or of a distribution's method; empty where nothing is known."""
    home, _, name = function.rpartition(".")
    if home.startswith("scipy.") and (found := provided["scipy_name"](function, distribution)):
        return str(found)
    if distribution:
        if name in ("cdf", "sf", "logcdf", "logsf") and distribution in DISTRIBUTION_FUNCTIONS:
            return f"scipy.special.{DISTRIBUTION_FUNCTIONS[distribution]}"
        if distribution in DISTRIBUTIONS:
            method = _METHODS.get(name, "")
            return f"retrograd.distributions.{DISTRIBUTIONS[distribution]}{method and '.' + method}"
    if function in FUNCTIONS:
        return FUNCTIONS[function]
    for ours, names in (("linalg", linalg), ("fft", fft), ("special", special)):
        if home == f"scipy.{ours}" and name in names.__all__:
            return f"retrograd.{ours}.{name}"
    while home and home not in FUNCTIONS:
        home = home.rpartition(".")[0]
    return FUNCTIONS.get(home, "")
