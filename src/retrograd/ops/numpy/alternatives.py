"""Alternatives to functions of SciPy that convert Tensors to bare arrays, for error messages."""

from __future__ import annotations

from ..._generated import linalg, special
from ...core.missing_names import provided

# Functions that have another name in Retrograd, or no direct equivalent.
FUNCTIONS = {
    "scipy.fftpack": "np.fft or retrograd.scipy.fft",
    "scipy.fftpack.diff": "np.fft.ifft((2j * np.pi * np.fft.fftfreq(n, period / n)) ** order * np.fft.fft(x)).real",
    "scipy.integrate": "Runge-Kutta steps written with Tensors, or np.dot of values with weights",
    "scipy.integrate.cumulative_trapezoid": "retrograd.cumulative_trapezoid",
    "scipy.integrate.simpson": "np.dot with Simpson's weights",
    "scipy.integrate.trapezoid": "np.trapezoid",
    "scipy.interpolate": "retrograd.scipy.interpolate, whose CubicSpline, BSpline and grids take Tensors",
    "scipy.linalg": "retrograd.scipy.linalg, np.linalg or retrograd.linalg",
    "scipy.linalg.funm": "expm, logm, sqrtm or another function of retrograd.scipy.linalg",
    "scipy.linalg.hessenberg": "retrograd.scipy.linalg.eig; a Hessenberg basis is not unique",
    "scipy.linalg.null_space": "null_space(a.detach()); a basis is not unique, nor is its derivative",
    "scipy.linalg.orth": "retrograd.scipy.linalg.qr; a basis is not unique, nor is its derivative",
    "scipy.ndimage": "retrograd.scipy.ndimage, or retrograd.nn.functional",
    "scipy.ndimage.median_filter": "retrograd.median of windows, x.unfold(-1, size, 1)",
    "scipy.optimize": "numbers and arrays as results of your functions: value.item(), gradient.numpy()",
    "scipy.signal": "retrograd.scipy.signal, or NumPy functions",
    "scipy.signal.cspline1d": "retrograd.scipy.interpolate.make_interp_spline",
    "scipy.signal.medfilt": "retrograd.median of windows, x.unfold(-1, size, 1)",
    "scipy.signal.sosfreqz": "retrograd.scipy.signal.freqz of each section, and their product",
    "scipy.sparse": "operators (A @ x, A * x), which take Tensors, or retrograd.scipy.sparse: csr_array(A) of a matrix "
    "of SciPy and csr_array((values, (rows, columns))) of Tensors have SciPy's methods",
    "scipy.sparse.linalg": "retrograd.scipy.sparse.linalg, whose LinearOperator, splu, cg and others take Tensors, or "
    "retrograd.linalg.solve of A.toarray()",
    "scipy.spatial.distance": "np.linalg.norm of the differences",
    "scipy.spatial.distance.cdist": "retrograd.cdist",
    "scipy.spatial.distance.pdist": "retrograd.nn.functional.pdist",
    "scipy.special": "retrograd.scipy.special, or ufuncs of scipy.special without SCIPY_ARRAY_API",
    "scipy.stats": "retrograd.scipy.stats, retrograd.distributions, or the formula in NumPy's functions",
}

# Distributions of scipy.stats that are not in retrograd.scipy.stats.
DISTRIBUTIONS = {"halfcauchy": "HalfCauchy", "multinomial": "Multinomial", "vonmises": "VonMises", "wishart": "Wishart"}
_METHODS = {"logpdf": "log_prob", "logpmf": "log_prob", "pdf": "log_prob", "pmf": "log_prob", "ppf": "icdf"}


def alternative(function: str, distribution: str = "") -> str:
    """Return the alternative to a SciPy function or a distribution's method, or an empty string."""
    home, _, name = function.rpartition(".")
    if home.startswith("scipy.") and (found := provided["scipy_name"](function, distribution)):
        return str(found)
    if distribution in DISTRIBUTIONS:
        method = _METHODS.get(name, "")
        return f"retrograd.distributions.{DISTRIBUTIONS[distribution]}{method and '.' + method}"
    if function in FUNCTIONS:
        return FUNCTIONS[function]
    for ours, names in (("linalg", linalg), ("special", special)):
        if home == f"scipy.{ours}" and name in names.__all__:
            return f"retrograd.{ours}.{name}"
    while home and home not in FUNCTIONS:
        home = home.rpartition(".")[0]
    return FUNCTIONS.get(home, "")
