"""Example calls of ``retrograd.scipy.stats``: all methods of a distribution at points of its support."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ...core.arrays import Array
from ..case import Call, Case
from . import Draw, Function, case, function

PARAMETERS = ("mean", "var", "std")


def methods(*names: str) -> Callable[[function], Function]:
    """Return a wrapper that calls a distribution's methods: at points, at probabilities (``ppf``), and its moments."""

    def wrap(distributions: function) -> Function:
        def call(x: object, q: object, *args: object, **kwargs: object) -> object:
            distribution = distributions.target()
            found = []
            for name in names:
                point = () if name in PARAMETERS else (q,) if name in ("ppf", "isf") else (x,)
                found.append(getattr(distribution, name)(*point, *args, **kwargs))
            return found

        return call

    return wrap


CONTINUOUS = methods("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf", *PARAMETERS)
DENSITY = methods("logpdf", *PARAMETERS)  # also differentiable with respect to shapes
DISTRIBUTION = methods("pdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf")
COUNTS = methods("pmf", "logpmf", "cdf", "sf", "logsf", *PARAMETERS)

SHAPES: dict[str, tuple[tuple[float, float], ...]] = {
    "norm": (), "halfnorm": (), "expon": (), "rayleigh": (), "cauchy": (), "laplace": (), "logistic": (), "uniform": (),
    "gumbel_r": (), "gumbel_l": (), "lognorm": ((0.3, 1),), "weibull_min": ((1.2, 3),), "pareto": ((2.5, 4),),
}  # fmt: skip
FIXED: dict[str, tuple[float, ...]] = {
    "gamma": (2.3,), "invgamma": (3.3,), "chi2": (3.5,), "beta": (2.2, 1.6), "f": (3.5, 5.5), "t": (3.5,),
}  # fmt: skip


def points(name: str, u: Draw) -> Array:
    return {"pareto": u(1.3, 3, 3), "beta": u(0.2, 0.8, 3), "uniform": u(0.2, 0.8, 3)}.get(name, u(0.3, 2, 3))


def continuous() -> Iterator[Case]:
    for name, ranges in SHAPES.items():

        def call(u: Draw, name: str = name, ranges: tuple[tuple[float, float], ...] = ranges) -> Call:
            x, shapes = points(name, u), [u(*span, 3) for span in ranges]
            return Call(x * 1.5 + 0.5, u(0.1, 0.9, 3), *shapes, np.array(0.5), scale=np.full(3, 1.5))

        moments = methods("pdf", "logpdf", "cdf", "sf", "ppf", "isf") if name == "cauchy" else CONTINUOUS
        yield case(f"stats.{name}", call, wrap=moments)
    for name, values in FIXED.items():

        def density(u: Draw, name: str = name, values: tuple[float, ...] = values) -> Call:
            x = points(name, u)
            shapes = [np.array(value) + (2 if name == "f" else 0) for value in values]
            return Call(x * 1.5 + 0.5, 0.5, *shapes, 0.5, np.array(1.5))

        def distribution(u: Draw, name: str = name, values: tuple[float, ...] = values) -> Call:
            return Call(points(name, u), u(0.1, 0.9, 3), *values)

        yield case(f"stats.{name}", density, wrap=DENSITY, dtypes=())
        yield case(f"stats.{name}", distribution, wrap=DISTRIBUTION, dtypes=())


K = np.array([0, 1, 3])

CASES = [
    *continuous(),
    case("stats.poisson", lambda u: Call(K, 0.5, u(0.5, 3, 3)), wrap=COUNTS, dtypes=()),
    case("stats.binom", lambda u: Call(K + 1, 0.5, 5, u(0.2, 0.8, 3), loc=1), wrap=COUNTS, dtypes=()),
    case(
        "stats.bernoulli",
        lambda u: Call(K[:2], 0.5, u(0.2, 0.8, 2)),
        wrap=methods("pmf", "cdf", "sf", *PARAMETERS),
        dtypes=(),
    ),
    case("stats.nbinom", lambda u: Call(K, 0.5, 4, u(0.2, 0.8, 3)), wrap=COUNTS, dtypes=()),
    case(
        "stats.geom", lambda u: Call(K, 0.5, u(0.2, 0.8, 3)), wrap=methods("pmf", "cdf", "sf", *PARAMETERS), dtypes=()
    ),
    case(
        "stats.multivariate_normal.logpdf",
        lambda u: Call(u(-1, 1, 3, 2), u(-1, 1, 2), np.array([[2.0, 0.5], [0.5, 1.0]])),
        lambda u: Call(u(-1, 1, 2), None, np.array([2.0, 1.0]).sum()),
        wrap=lambda f: lambda x, mean, cov: f(x, mean, (cov + cov.T) / 2 if np.ndim(cov) else cov),
        dtypes=(),
    ),
    case(
        "stats.multivariate_normal.logpdf",
        lambda u: Call(np.array([[0.5, 0.0], [-0.3, 0.0]]), np.zeros(2), np.diag([2.0, 0.0])),
        wrap=lambda f: lambda x, mean, cov: f(x * np.array([1.0, 0.0]), mean * 0, cov * 0 + np.diag([2.0, 0.0]), True),
        dtypes=(),
    ),
    case(
        "stats.multivariate_normal.entropy",
        lambda u: Call(u(-1, 1, 2), np.array([[2.0, 0.5], [0.5, 1.0]])),
        wrap=lambda f: lambda mean, cov: f(mean, (cov + cov.T) / 2),
        dtypes=(),
    ),
    case("stats.multivariate_normal.pdf", lambda u: Call(u(-1, 1, 2, 2), u(-1, 1, 2), u(0.5, 1, 2))),
    case("stats.dirichlet.logpdf", lambda u: Call(u(0.2, 0.3, 2, 3), u(0.5, 2, 3)), dtypes=()),
    case(
        "stats.gaussian_kde",
        lambda u: Call(u(-1, 1, 3), u(-1, 1, 2, 4), "silverman", u(0.5, 1, 4)),
        lambda u: Call(u(-1, 1, 3), u(-1, 1, 4)),
        wrap=lambda f: lambda x, *args: f(*args)(x if np.ndim(args[0]) == 1 else np.stack([x, x])),
        dtypes=(),
    ),
    case("stats.zscore", lambda u: Call(u(0, 1, 4, 2), ddof=1), lambda u: Call(u(0, 1, 3, 2), None)),
    case("stats.zmap", lambda u: Call(u(0, 1, 3), u(0, 1, 4))),
    case("stats.sem", lambda u: Call(u(0, 1, 3, 2))),
    case("stats.variation", lambda u: Call(u(1, 2, 3, 2), axis=1, ddof=1)),
    case("stats.moment", lambda u: Call(u(1, 2, 4), 3), lambda u: Call(u(1, 2, 4), 2, center=0.5)),
    case("stats.skew", lambda u: Call(u(1, 2, 5)), lambda u: Call(u(1, 2, 2, 5), axis=1, bias=False), dtypes=()),
    case("stats.kurtosis", lambda u: Call(u(1, 2, 5)), lambda u: Call(u(1, 2, 5), bias=False, fisher=False), dtypes=()),
    case("stats.gmean", lambda u: Call(u(1, 2, 4)), lambda u: Call(u(1, 2, 4), weights=u(1, 2, 4))),
    case("stats.hmean", lambda u: Call(u(1, 2, 4))),
    case("stats.entropy", lambda u: Call(u(1, 2, 4), base=2), lambda u: Call(u(1, 2, 4, 2), u(1, 2, 4, 2), axis=1)),
    case("stats.pearsonr", lambda u: Call(u(1, 2, 5), u(1, 2, 5)), wrap=lambda f: lambda *a: tuple(f(*a)), dtypes=()),
    case(
        "stats.linregress",
        lambda u: Call(u(1, 2, 5), u(1, 2, 5)),
        wrap=lambda f: lambda *a: (*f(*a), f(*a).intercept_stderr),
        dtypes=(),
    ),
]
