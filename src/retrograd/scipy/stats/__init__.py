"""Distributions and statistics of scipy.stats on Tensors.

``families`` has the formulas of univariate distributions, ``distributions`` their methods,
``multivariate`` distributions of vectors and density estimates, ``statistics`` functions of samples. Import
the names from ``retrograd.scipy.stats``.
"""

from ..decorators import other_names
from .distributions import (
    bernoulli,
    beta,
    binom,
    cauchy,
    chi2,
    expon,
    f,
    gamma,
    geom,
    gumbel_l,
    gumbel_r,
    halfnorm,
    invgamma,
    laplace,
    logistic,
    lognorm,
    nbinom,
    norm,
    pareto,
    poisson,
    rayleigh,
    t,
    uniform,
    weibull_min,
)
from .multivariate import dirichlet, gaussian_kde, multivariate_normal
from .statistics import (
    entropy,
    gmean,
    hmean,
    kurtosis,
    linregress,
    moment,
    pearsonr,
    sem,
    skew,
    variation,
    zmap,
    zscore,
)

__all__ = [
    "bernoulli", "beta", "binom", "cauchy", "chi2", "dirichlet", "entropy", "expon", "f", "gamma", "gaussian_kde",
    "geom", "gmean", "gumbel_l", "gumbel_r", "halfnorm", "hmean", "invgamma", "kurtosis", "laplace", "linregress",
    "logistic", "lognorm", "moment", "multivariate_normal", "nbinom", "norm", "pareto", "pearsonr", "poisson",
    "rayleigh", "sem", "skew", "t", "uniform", "variation", "weibull_min", "zmap", "zscore",
]  # fmt: skip

__getattr__ = other_names(__name__)
