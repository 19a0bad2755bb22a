"""Univariate distributions: SciPy's methods, computed with the formulas of ``families``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..._generated import toplevel as ops
from ...core.tensor.tensor import Tensor
from ..decorators import ArrayLike, floats, has_tensor, scipys
from .families import FAMILIES, Bound, Family

if TYPE_CHECKING:
    from collections.abc import Sequence

# The methods that take a point, and those that take parameters only.
_OF_POINTS = ("pdf", "logpdf", "pmf", "logpmf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")
_OF_PARAMETERS = ("mean", "var", "std")


class Distribution:
    """A distribution of scipy.stats whose methods take Tensors as points and parameters.

    ``pdf``, ``logpdf`` (``pmf`` and ``logpmf`` if discrete), ``cdf``, ``logcdf``, ``sf``, ``logsf``, ``ppf``, ``isf``,
    ``mean``, ``var`` and ``std`` are differentiable with respect to points, shapes, ``loc`` and ``scale``, except for
    the distribution functions of gamma, beta, t, chi2, f and discrete distributions with respect to shapes. Other
    methods are SciPy's. Calling a distribution with parameters returns a distribution with fixed parameters.

    >>> rg.scipy.stats.norm.logpdf(rg.tensor([0.0, 1.0]), loc=1.0)
    tensor([-1.4189, -0.9189])
    """

    def __init__(self, name: str, family: Family) -> None:
        self.name = name
        self.family = family

    def __repr__(self) -> str:
        return f"retrograd.scipy.stats.{self.name}"

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(scipys("scipy.stats"), self.name), name)

    def __call__(self, *args: ArrayLike, **kwargs: ArrayLike) -> Frozen:
        return Frozen(self, args, kwargs)

    def freeze(self, *args: ArrayLike, **kwargs: ArrayLike) -> Frozen:
        """Return the distribution with fixed parameters."""
        return Frozen(self, args, kwargs)

    def _parameters(self, args: Sequence[ArrayLike], kwargs: dict[str, ArrayLike]) -> list[ArrayLike]:
        names = (*self.family.shapes, "loc") if self.family.discrete else (*self.family.shapes, "loc", "scale")
        if len(args) > len(names):
            raise TypeError(f"scipy.stats.{self.name} has the parameters {', '.join(names)}, got {len(args)} arguments")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names or name in given:
                word = "twice" if name in given else "but has no such parameter"
                raise TypeError(f"scipy.stats.{self.name}: got {name} {word}; parameters are {', '.join(names)}")
            given[name] = value
        missing = [name for name in self.family.shapes if name not in given]
        if missing:
            raise TypeError(f"scipy.stats.{self.name}: missing {', '.join(missing)}")
        return [*[given[name] for name in self.family.shapes], given.get("loc", 0.0), given.get("scale", 1.0)]

    def _method(self, name: str, point: ArrayLike, args: tuple[ArrayLike, ...], kwargs: dict[str, ArrayLike]) -> Tensor:
        """Call a method such as ``pdf`` at a point. Without a Tensor among the arguments, SciPy's method is called."""
        if not has_tensor((point, *args, *kwargs.values())):
            return getattr(getattr(scipys("scipy.stats"), self.name), name)(point, *args, **kwargs)
        family = self.family
        if name.removeprefix("log") == ("pdf" if family.discrete else "pmf"):
            raise AttributeError(f"scipy.stats.{self.name} has no {name}")
        x, *shapes, loc, scale = floats(point, *self._parameters(args, kwargs))
        valid = self._valid(shapes, loc, scale)
        if name in ("ppf", "isf"):
            value = self._quantile(x, shapes, name == "isf") * scale + loc
        else:
            value = self._value(name, (x - loc) / scale, shapes)
            if name in ("pdf", "logpdf"):
                value = value - ops.log(scale)
            if name in ("pdf", "pmf"):
                value = ops.exp(value)
        return ops.where(valid & ~ops.isnan(x.detach()), value, math.nan)

    def _valid(self, shapes: list[Tensor], loc: Tensor, scale: Tensor) -> Tensor:
        valid = (scale > 0) & (loc == loc)
        if self.family.valid is not None:
            return valid & self.family.valid(*shapes)
        for shape in shapes:
            valid = valid & (shape > 0)
        return valid

    def _value(self, name: str, y: Tensor, shapes: list[Tensor]) -> Tensor:
        """Return a function, such as ``cdf``, at a standardized point; for ``pdf`` and ``pmf`` the logarithm."""
        family = self.family
        low, high = [_bound(bound, shapes) for bound in (family.low, family.high)]
        at = y.detach()
        if name in ("pdf", "logpdf", "pmf", "logpmf"):
            inside = (at >= low) & (at <= high) & ops.isfinite(at)
            if family.open_low:
                inside = inside & (at > low)
            if family.discrete:
                inside = inside & (ops.floor(at) == at)
            point = ops.where(inside, y, _interior(low, high))
            return ops.where(inside, family.logpdf(point, *shapes), -math.inf)
        if family.discrete:
            y = at = ops.floor(at)
        below, above = at < low, at >= high
        point = ops.where(below | above, _interior(low, high), y)
        if not family.discrete:  # at the lower end, the derivative is that of points outside
            below = at <= low
            point = ops.where(below, _interior(low, high), point)
        upper = name in ("sf", "logsf")
        one, other = (family.sf, family.cdf) if upper else (family.cdf, family.sf)
        formula = family.logsf if upper else family.logcdf
        if not name.startswith("log"):
            inner = one(point, *shapes)
        elif formula is not None:
            inner = formula(point, *shapes)
        else:  # near 1, the logarithm is computed from the other tail, for accuracy
            value = one(point, *shapes)
            near = value.detach() > 0.5
            small = ops.where(near, other(point, *shapes), 0.0)
            inner = ops.where(near, ops.log1p(-small), ops.log(ops.where(near, 1.0, value)))
        none, all_ = (-math.inf, 0.0) if name.startswith("log") else (0.0, 1.0)
        if upper:
            none, all_ = all_, none
        return ops.where(below, none, ops.where(above, all_, inner))

    def _quantile(self, q: Tensor, shapes: list[Tensor], upper: bool) -> Tensor:
        family = self.family
        if family.ppf is None:
            raise NotImplementedError(
                f"scipy.stats.{self.name}: discrete quantiles have no derivative; detach() the arguments"
            )
        low, high = [_bound(bound, shapes) for bound in (family.low, family.high)]
        at = q.detach()
        inside = (at > 0) & (at < 1)
        point = ops.where(inside, q, 0.5)
        if not upper:
            inner = family.ppf(point, *shapes)
        else:
            inner = -family.ppf(point, *shapes) if family.isf is None else family.isf(point, *shapes)
        first, last = (high, low) if upper else (low, high)
        ends = ops.where(at == 0, first, ops.where(at == 1, last, math.nan))
        return ops.where(inside, inner, ends)

    def _moment(self, name: str, args: tuple[ArrayLike, ...], kwargs: dict[str, ArrayLike]) -> Tensor:
        if not has_tensor((*args, *kwargs.values())):
            return getattr(getattr(scipys("scipy.stats"), self.name), name)(*args, **kwargs)
        *shapes, loc, scale = floats(*self._parameters(args, kwargs))
        if name == "mean":
            value = self.family.mean(*shapes) * scale + loc
        else:
            value = self.family.var(*shapes) * scale * scale
            value = ops.sqrt(value) if name == "std" else value
        return ops.where(self._valid(shapes, loc, scale), value, math.nan)


def _bound(bound: Bound, shapes: list[Tensor]) -> Tensor | float:
    value = bound(*shapes) if callable(bound) else bound
    return value.detach() if isinstance(value, Tensor) else value


def _interior(low: Tensor | float, high: Tensor | float) -> Tensor | float:
    """Return a point at which the formulas are finite, for points outside of the support."""
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        return low  # a discrete distribution
    if math.isinf(low):
        return 0.25
    return low + 0.5 if math.isinf(high) else (low + high) / 2


class Frozen:
    """A distribution with fixed parameters.

    >>> rg.scipy.stats.norm(rg.tensor(1.0)).logpdf(1.0)
    tensor(-0.9189)
    """

    def __init__(self, dist: Distribution, args: tuple[ArrayLike, ...], kwargs: dict[str, ArrayLike]) -> None:
        self.dist, self.args, self.kwds = dist, args, kwargs

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(scipys("scipy.stats"), self.dist.name)(*self.args, **self.kwds), name)


def _add_methods() -> None:
    def of_points(name: str) -> None:
        def method(self: Distribution, x: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Tensor:
            return self._method(name, x, args, kwargs)

        def frozen(self: Frozen, x: ArrayLike) -> Tensor:
            return self.dist._method(name, x, self.args, self.kwds)

        for owner, function in ((Distribution, method), (Frozen, frozen)):
            function.__name__ = name
            function.__doc__ = f"Return ``{name}`` at points, differentiable with respect to points and parameters."
            setattr(owner, name, function)

    def of_parameters(name: str) -> None:
        def method(self: Distribution, *args: ArrayLike, **kwargs: ArrayLike) -> Tensor:
            return self._moment(name, args, kwargs)

        def frozen(self: Frozen) -> Tensor:
            return self.dist._moment(name, self.args, self.kwds)

        for owner, function in ((Distribution, method), (Frozen, frozen)):
            function.__name__ = name
            function.__doc__ = f"Return the {name}, differentiable with respect to the parameters."
            setattr(owner, name, function)

    for name in _OF_POINTS:
        of_points(name)
    for name in _OF_PARAMETERS:
        of_parameters(name)


_add_methods()

bernoulli, beta, binom, cauchy, chi2, expon, f, gamma, geom, gumbel_l, gumbel_r, halfnorm = [
    Distribution(name, FAMILIES[name])
    for name in "bernoulli beta binom cauchy chi2 expon f gamma geom gumbel_l gumbel_r halfnorm".split()  # noqa: SIM905
]
invgamma, laplace, logistic, lognorm, nbinom, norm, pareto, poisson, rayleigh, t, uniform, weibull_min = [
    Distribution(name, FAMILIES[name])
    for name in "invgamma laplace logistic lognorm nbinom norm pareto poisson rayleigh t uniform weibull_min".split()  # noqa: SIM905
]
