"""Formulas of univariate distributions in standard form: location 0 and scale 1, inside of the support.

Each function takes a point and the shapes, Tensors of one dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..._generated import special
from ..._generated import toplevel as ops
from ...core.tensor.tensor import Tensor
from ...ops.numpy.scipy_special import RULES

Formula = Callable[..., Tensor]
Moment = Callable[..., Tensor | float]
Bound = float | Callable[..., Tensor | float]


@dataclass(frozen=True)
class Family:
    """The formulas of a distribution.

    Args:
        shapes: the names of its shape parameters, all positive unless ``valid`` says otherwise.
        low: the least point of the support, a number or a function of the shapes.
        high: the greatest point of the support.
        logpdf: the logarithm of the density, or of the probability of a discrete value.
        cdf: the distribution function.
        sf: 1 minus the distribution function.
        ppf: the inverse of the distribution function; None where the derivative does not exist.
        mean: the mean, a function of the shapes.
        var: the variance.
        logcdf: the logarithm of ``cdf``, if it has a more accurate formula.
        logsf: the logarithm of ``sf``.
        isf: the inverse of ``sf``; by default ``-ppf``, which holds for distributions that are symmetric about 0.
        open_low: whether the density is 0 at ``low`` itself, where the formula is not defined.
        discrete: whether the variable is an integer; there is then no scale.
        valid: a function of the shapes that returns whether they are allowed.
    """

    shapes: tuple[str, ...]
    low: Bound
    high: Bound
    logpdf: Formula
    cdf: Formula
    sf: Formula
    ppf: Formula | None
    mean: Moment
    var: Moment
    logcdf: Formula | None = None
    logsf: Formula | None = None
    isf: Formula | None = None
    open_low: bool = False
    discrete: bool = False
    valid: Formula | None = None


_LOG_ROOT = math.log(2 * math.pi) / 2
_EULER = 0.5772156649015329


def _called(name: str, *arguments: Tensor | float) -> Tensor:
    return RULES[name](*arguments)


def _f_part(x: Tensor, dfn: Tensor, dfd: Tensor) -> Tensor:
    return dfn * x / (dfd + dfn * x)


def _beta_quantile(q: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return _called("betaincinv", a, b, q)


def _f_quantile(q: Tensor, dfn: Tensor, dfd: Tensor) -> Tensor:
    y = _beta_quantile(q, dfn / 2, dfd / 2)
    return dfd * y / (dfn * (1 - y))


def _t_logpdf(x: Tensor, df: Tensor) -> Tensor:
    return -(df + 1) / 2 * ops.log1p(x * x / df) - _called("betaln", df / 2, 0.5 * ops.ones_like(df)) - ops.log(df) / 2


def _t_var(df: Tensor) -> Tensor:
    finite = (df > 2) & ~ops.isinf(df)
    spread = df / ops.where(finite, df - 2, 1.0)
    spread = ops.where(ops.isinf(df), 1.0, spread)
    finite = df > 2
    return ops.where(finite, spread, ops.where(df > 1, math.inf, math.nan))


def _pareto_moment(b: Tensor, order: int) -> Tensor:
    """Return the mean, or the variance for ``order=2``; infinite for small shapes."""
    exists = b > order
    shape = ops.where(exists, b, order + 1.0)
    value = shape / (shape - 1) if order == 1 else shape / ((shape - 1) ** 2 * (shape - 2))
    return ops.where(exists, value, math.inf)


def _invgamma_moment(a: Tensor, order: int) -> Tensor:
    exists = a > order
    shape = ops.where(exists, a, order + 1.0)
    value = 1 / (shape - 1) if order == 1 else 1 / ((shape - 1) ** 2 * (shape - 2))
    return ops.where(exists, value, math.inf)


def _f_mean(dfn: Tensor, dfd: Tensor) -> Tensor:
    exists = dfd > 2
    return ops.where(exists, dfd / ops.where(exists, dfd - 2, 1.0), math.inf)


def _f_var(dfn: Tensor, dfd: Tensor) -> Tensor:
    exists = dfd > 4
    n = ops.where(exists, dfd, 5.0)
    return ops.where(exists, 2 * n * n * (dfn + n - 2) / (dfn * (n - 2) ** 2 * (n - 4)), math.inf)


def _weibull_moment(c: Tensor, order: int) -> Tensor:
    return _called("gamma", 1 + order / c)


def _binom_logpmf(k: Tensor, n: Tensor, p: Tensor) -> Tensor:
    counted = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return counted + special.xlogy(k, p) + special.xlog1py(n - k, -p)


def _nbinom_logpmf(k: Tensor, n: Tensor, p: Tensor) -> Tensor:
    counted = special.gammaln(n + k) - special.gammaln(k + 1) - special.gammaln(n)
    return counted + n * ops.log(p) + special.xlog1py(k, -p)


def _probability(p: Tensor) -> Tensor:
    return (p >= 0) & (p <= 1)


def _count_and_probability(n: Tensor, p: Tensor) -> Tensor:
    return (n >= 0) & (ops.floor(n) == n) & _probability(p)


def _constant(value: float) -> Moment:
    return lambda: value


FAMILIES: dict[str, Family] = {
    "norm": Family(
        (), -math.inf, math.inf,
        lambda x: -x * x / 2 - _LOG_ROOT,
        special.ndtr, lambda x: special.ndtr(-x), special.ndtri, _constant(0.0), _constant(1.0),
        logcdf=special.log_ndtr, logsf=lambda x: special.log_ndtr(-x),
    ),
    "halfnorm": Family(
        (), 0.0, math.inf,
        lambda x: -x * x / 2 - _LOG_ROOT + math.log(2),
        lambda x: special.erf(x / math.sqrt(2)), lambda x: 2 * special.ndtr(-x),
        lambda q: special.ndtri((1 + q) / 2), _constant(math.sqrt(2 / math.pi)), _constant(1 - 2 / math.pi),
        logsf=lambda x: special.log_ndtr(-x) + math.log(2), isf=lambda q: -special.ndtri(q / 2),
    ),
    "lognorm": Family(
        ("s",), 0.0, math.inf,
        lambda x, s: -((ops.log(x) / s) ** 2) / 2 - ops.log(s * x) - _LOG_ROOT,
        lambda x, s: special.ndtr(ops.log(x) / s), lambda x, s: special.ndtr(-ops.log(x) / s),
        lambda q, s: ops.exp(s * special.ndtri(q)),
        lambda s: ops.exp(s * s / 2), lambda s: ops.exp(s * s) * ops.expm1(s * s),
        logcdf=lambda x, s: special.log_ndtr(ops.log(x) / s), logsf=lambda x, s: special.log_ndtr(-ops.log(x) / s),
        isf=lambda q, s: ops.exp(-s * special.ndtri(q)), open_low=True,
    ),
    "gamma": Family(
        ("a",), 0.0, math.inf,
        lambda x, a: special.xlogy(a - 1, x) - x - special.gammaln(a),
        lambda x, a: special.gammainc(a, x), lambda x, a: special.gammaincc(a, x),
        lambda q, a: _called("gammaincinv", a, q), lambda a: a, lambda a: a,
        isf=lambda q, a: _called("gammainccinv", a, q),
    ),
    "invgamma": Family(
        ("a",), 0.0, math.inf,
        lambda x, a: -(a + 1) * ops.log(x) - special.gammaln(a) - 1 / x,
        lambda x, a: special.gammaincc(a, 1 / x), lambda x, a: special.gammainc(a, 1 / x),
        lambda q, a: 1 / _called("gammainccinv", a, q),
        lambda a: _invgamma_moment(a, 1), lambda a: _invgamma_moment(a, 2),
        isf=lambda q, a: 1 / _called("gammaincinv", a, q), open_low=True,
    ),
    "chi2": Family(
        ("df",), 0.0, math.inf,
        lambda x, df: special.xlogy(df / 2 - 1, x) - x / 2 - special.gammaln(df / 2) - df * (math.log(2) / 2),
        lambda x, df: special.gammainc(df / 2, x / 2), lambda x, df: special.gammaincc(df / 2, x / 2),
        lambda q, df: 2 * _called("gammaincinv", df / 2, q), lambda df: df, lambda df: 2 * df,
        isf=lambda q, df: 2 * _called("gammainccinv", df / 2, q),
    ),
    "beta": Family(
        ("a", "b"), 0.0, 1.0,
        lambda x, a, b: special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - _called("betaln", a, b),
        lambda x, a, b: _called("betainc", a, b, x), lambda x, a, b: _called("betaincc", a, b, x),
        _beta_quantile, lambda a, b: a / (a + b), lambda a, b: a * b / ((a + b) ** 2 * (a + b + 1)),
        isf=lambda q, a, b: 1 - _beta_quantile(q, b, a),
    ),
    "f": Family(
        ("dfn", "dfd"), 0.0, math.inf,
        lambda x, dfn, dfd: (
            special.xlogy(dfn / 2, dfn) + special.xlogy(dfd / 2, dfd) + special.xlogy(dfn / 2 - 1, x)
            - (dfn + dfd) / 2 * ops.log(dfd + dfn * x) - _called("betaln", dfn / 2, dfd / 2)
        ),
        lambda x, dfn, dfd: _called("betainc", dfn / 2, dfd / 2, _f_part(x, dfn, dfd)),
        lambda x, dfn, dfd: _called("betaincc", dfn / 2, dfd / 2, _f_part(x, dfn, dfd)),
        _f_quantile, _f_mean, _f_var,
        isf=lambda q, dfn, dfd: 1 / _f_quantile(q, dfd, dfn),
    ),
    "t": Family(
        ("df",), -math.inf, math.inf,
        _t_logpdf, lambda x, df: _called("stdtr", df, x), lambda x, df: _called("stdtr", df, -x),
        lambda q, df: _called("stdtrit", df, q), lambda df: ops.where(df > 1, 0.0 * df, math.inf), _t_var,
    ),
    "expon": Family(
        (), 0.0, math.inf,
        lambda x: -x, lambda x: -ops.expm1(-x), lambda x: ops.exp(-x), lambda q: -ops.log1p(-q),
        _constant(1.0), _constant(1.0), logsf=lambda x: -x,
        isf=lambda q: -ops.log(q),
    ),
    "rayleigh": Family(
        (), 0.0, math.inf,
        lambda x: ops.log(x) - x * x / 2, lambda x: -ops.expm1(-x * x / 2), lambda x: ops.exp(-x * x / 2),
        lambda q: ops.sqrt(-2 * ops.log1p(-q)), _constant(math.sqrt(math.pi / 2)), _constant(2 - math.pi / 2),
        logsf=lambda x: -x * x / 2,
        isf=lambda q: ops.sqrt(-2 * ops.log(q)),
    ),
    "cauchy": Family(
        (), -math.inf, math.inf,
        lambda x: -math.log(math.pi) - ops.log1p(x * x),
        lambda x: ops.atan2(ops.ones_like(x), -x) / math.pi, lambda x: ops.atan2(ops.ones_like(x), x) / math.pi,
        lambda q: -ops.cos(math.pi * q) / ops.sin(math.pi * q), _constant(math.nan), _constant(math.nan),
    ),
    "laplace": Family(
        (), -math.inf, math.inf,
        lambda x: -math.log(2) - ops.abs(x),
        lambda x: ops.where(x > 0, 1 - ops.exp(-ops.abs(x)) / 2, ops.exp(-ops.abs(x)) / 2),
        lambda x: ops.where(x > 0, ops.exp(-ops.abs(x)) / 2, 1 - ops.exp(-ops.abs(x)) / 2),
        lambda q: ops.sign(q - 0.5) * -ops.log(2 * ops.minimum(q, 1 - q)),
        _constant(0.0), _constant(2.0),
    ),
    "logistic": Family(
        (), -math.inf, math.inf,
        lambda x: -x - 2 * ops.logaddexp(ops.zeros_like(x), -x),
        special.expit, lambda x: special.expit(-x), special.logit, _constant(0.0), _constant(math.pi**2 / 3),
        logcdf=lambda x: -ops.logaddexp(ops.zeros_like(x), -x), logsf=lambda x: -ops.logaddexp(ops.zeros_like(x), x),
    ),
    "uniform": Family(
        (), 0.0, 1.0,
        lambda x: 0.0 * x, lambda x: x, lambda x: 1 - x, lambda q: q, _constant(0.5), _constant(1 / 12),
        isf=lambda q: 1 - q,
    ),
    "weibull_min": Family(
        ("c",), 0.0, math.inf,
        lambda x, c: ops.log(c) + special.xlogy(c - 1, x) - x**c,
        lambda x, c: -ops.expm1(-(x**c)), lambda x, c: ops.exp(-(x**c)),
        lambda q, c: (-ops.log1p(-q)) ** (1 / c),
        lambda c: _weibull_moment(c, 1), lambda c: _weibull_moment(c, 2) - _weibull_moment(c, 1) ** 2,
        logsf=lambda x, c: -(x**c),
        isf=lambda q, c: (-ops.log(q)) ** (1 / c),
    ),
    "pareto": Family(
        ("b",), 1.0, math.inf,
        lambda x, b: ops.log(b) - (b + 1) * ops.log(x),
        lambda x, b: -ops.expm1(-b * ops.log(x)), lambda x, b: x ** (-b), lambda q, b: (1 - q) ** (-1 / b),
        lambda b: _pareto_moment(b, 1), lambda b: _pareto_moment(b, 2), logsf=lambda x, b: -b * ops.log(x),
        isf=lambda q, b: q ** (-1 / b),
    ),
    "gumbel_r": Family(
        (), -math.inf, math.inf,
        lambda x: -x - ops.exp(-x), lambda x: ops.exp(-ops.exp(-x)), lambda x: -ops.expm1(-ops.exp(-x)),
        lambda q: -ops.log(-ops.log(q)), _constant(_EULER), _constant(math.pi**2 / 6), logcdf=lambda x: -ops.exp(-x),
        isf=lambda q: -ops.log(-ops.log1p(-q)),
    ),
    "gumbel_l": Family(
        (), -math.inf, math.inf,
        lambda x: x - ops.exp(x), lambda x: -ops.expm1(-ops.exp(x)), lambda x: ops.exp(-ops.exp(x)),
        lambda q: ops.log(-ops.log1p(-q)), _constant(-_EULER), _constant(math.pi**2 / 6), logsf=lambda x: -ops.exp(x),
        isf=lambda q: ops.log(-ops.log(q)),
    ),
    "poisson": Family(
        ("mu",), 0.0, math.inf,
        lambda k, mu: special.xlogy(k, mu) - special.gammaln(k + 1) - mu,
        lambda k, mu: special.gammaincc(k + 1, mu), lambda k, mu: special.gammainc(k + 1, mu), None,
        lambda mu: mu, lambda mu: mu, discrete=True, valid=lambda mu: mu >= 0,
    ),
    "binom": Family(
        ("n", "p"), 0.0, lambda n, p: n,
        _binom_logpmf,
        lambda k, n, p: _called("bdtr", k, n, p), lambda k, n, p: _called("bdtrc", k, n, p), None,
        lambda n, p: n * p, lambda n, p: n * p * (1 - p), discrete=True, valid=_count_and_probability,
    ),
    "bernoulli": Family(
        ("p",), 0.0, 1.0,
        lambda k, p: special.xlogy(k, p) + special.xlog1py(1 - k, -p), lambda k, p: 1 - p, lambda k, p: 1.0 * p, None,
        lambda p: p, lambda p: p * (1 - p), discrete=True, valid=_probability,
    ),
    "nbinom": Family(
        ("n", "p"), 0.0, math.inf,
        _nbinom_logpmf,
        lambda k, n, p: _called("betainc", n, k + 1, p), lambda k, n, p: _called("betaincc", n, k + 1, p), None,
        lambda n, p: n * (1 - p) / p, lambda n, p: n * (1 - p) / p**2,
        discrete=True, valid=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    ),
    "geom": Family(
        ("p",), 1.0, math.inf,
        lambda k, p: special.xlog1py(k - 1, -p) + ops.log(p),
        lambda k, p: -ops.expm1(ops.log1p(-p) * k), lambda k, p: ops.exp(ops.log1p(-p) * k), None,
        lambda p: 1 / p, lambda p: (1 - p) / p**2, discrete=True, valid=lambda p: (p > 0) & (p <= 1),
        logsf=lambda k, p: ops.log1p(-p) * k,
    ),
}  # fmt: skip
