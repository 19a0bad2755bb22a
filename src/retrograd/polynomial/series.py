"""The classes of ``numpy.polynomial`` with coefficients, roots, data and domains that may be Tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
from numpy.polynomial.polyutils import getdomain, mapparms

from ..core.arrays.devices import Wrapping
from ..core.tensor.tensor import Tensor
from ..ops.numpy.arguments import floating, tensor
from ..scipy.decorators import ArrayLike, detached, has_tensor
from . import families
from .families import Family, is_series

if TYPE_CHECKING:
    from typing import Self

    from numpy.polynomial._polybase import ABCPolyBase as _Base
else:
    _Base = object

_STATIC = ("add", "sub", "mul", "div", "pow", "val", "int", "der", "fit", "line", "roots", "fromroots")
Given = TypeVar("Given")


def _given(value: Given) -> Given:
    """Return an argument as a Tensor if it contains a Tensor, otherwise unchanged."""
    return cast("Given", floating(tensor(value))) if has_tensor([value]) else value


def _checked(value: object) -> object:
    """Return an array of zeros of the argument's shape, for the checks in NumPy's code."""
    return np.zeros(tuple(value.shape)) if isinstance(value, Tensor) else value


def _ours(value: object) -> object:
    """Convert a series of NumPy to the class of this module."""
    kind = CLASSES.get(type(value).__name__)
    if kind is None or isinstance(value, Series):
        return value
    series = cast("Series", value)
    return kind(series.coef, series.domain, series.window, series.symbol)


def _spread(domain: np.ndarray) -> np.ndarray:
    """Return the domain; an interval around the point if the domain is one point."""
    return domain + np.array([-1, 1]) * (domain[0] == domain[1])


class Series(_Base):
    """The base class of the six classes; other methods are inherited from NumPy."""

    family: Family

    def __init_subclass__(cls) -> None:
        for name in _STATIC:
            setattr(cls, f"_{name}", staticmethod(getattr(cls.family, f"{cls.family.prefix}{name}")))

    def __init__(
        self, coef: ArrayLike, domain: ArrayLike | None = None, window: ArrayLike | None = None, symbol: str = "x"
    ) -> None:
        given = {"coef": _given(coef), "domain": _given(domain), "window": _given(window)}
        super().__init__(**{name: _checked(value) for name, value in given.items()}, symbol=symbol)
        for name, value in given.items():
            if isinstance(value, Tensor):
                setattr(self, name, value.clone())

    def __call__(self, arg: ArrayLike) -> object:
        given = _given(arg)
        if not has_tensor([given, self.coef, self.domain, self.window]) and not is_series(given):
            return super().__call__(arg)
        off, scale = mapparms(self.domain, self.window)
        x = off + scale * (given if isinstance(given, Tensor) or is_series(given) else np.asarray(given))
        return self._val(x.item() if isinstance(arg, (int, float)) and not isinstance(x, Tensor) else x, self.coef)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in ("domain", "window", "symbol"))
        return f"{type(self).__name__}({self.coef!r}, {parts})"

    def _shown(self) -> Self:
        """Return the series with NumPy arrays in place of Tensors."""
        series = object.__new__(type(self))
        series.__dict__.update(detached(self.__dict__))
        return series

    def _generate_string(self, term_method: Callable[[str, str], str]) -> str:
        return repr(self) if _mapped(self) else super(Series, self._shown())._generate_string(term_method)

    def _repr_latex_(self) -> str:
        return repr(self) if _mapped(self) else super(Series, self._shown())._repr_latex_()

    def _get_coefficients(self, other: object) -> object:
        return super()._get_coefficients(_ours(other))

    def __truediv__(self, other: object) -> Self:
        if isinstance(other, Tensor) and not other.ndim:
            return type(self)(self.coef / other, self.domain, self.window, self.symbol)
        return super().__truediv__(other)

    def trim(self, tol: float = 0) -> Self:
        """Return the series without trailing coefficients whose absolute values are at most ``tol``."""
        kept = np.flatnonzero(abs(np.asarray(detached(self.coef))) > tol)
        coef = self.coef[: kept[-1] + 1] if len(kept) else self.coef[:1] * 0
        return type(self)(coef, self.domain, self.window, self.symbol)

    def convert(
        self, domain: ArrayLike | None = None, kind: type | None = None, window: ArrayLike | None = None
    ) -> Series:
        """Return the series in another basis, domain or window."""
        return super().convert(domain, CLASSES.get(getattr(kind, "__name__", ""), kind), window)

    def roots(self) -> Tensor | np.ndarray:
        """Return the roots, ascending."""
        off, scale = mapparms(self.window, self.domain)
        return off + scale * self._roots(self.coef)

    @classmethod
    def fit(
        cls,
        x: ArrayLike,
        y: ArrayLike,
        deg: int | list[int],
        domain: ArrayLike | None = None,
        rcond: float | None = None,
        full: bool = False,
        w: ArrayLike | None = None,
        window: ArrayLike | None = None,
        symbol: str = "x",
    ) -> Self | tuple[Self, list[object]]:
        """Return the least-squares fit to ``y`` at ``x``; a domain that is computed from ``x`` is a constant."""
        places = floating(tensor(x)) if has_tensor([x]) else np.asanyarray(x)
        if domain is None and isinstance(places, Tensor):
            ends = np.stack([np.min(places.detach()), np.max(places.detach())])
            domain = ends if isinstance(places.array, Wrapping) else _spread(detached(ends))
        elif domain is None:
            domain = _spread(getdomain(places))
        elif isinstance(domain, list) and not domain:
            domain = cls.domain
        window = cls.window if window is None else window
        off, scale = mapparms(domain, window)
        found = cls._fit(off + scale * places, _given(y), deg, w=_given(w), rcond=rcond, full=full)
        coef, *status = found if full else (found,)
        series = cls(coef, domain=domain, window=window, symbol=symbol)
        return (series, status[0]) if full else series

    @classmethod
    def fromroots(
        cls, roots: ArrayLike, domain: ArrayLike | None = (), window: ArrayLike | None = None, symbol: str = "x"
    ) -> Self:
        """Return the product of ``x - root`` for all roots."""
        zeros = floating(tensor(roots)) if has_tensor([roots]) else np.atleast_1d(np.asarray(roots))
        if domain is None:
            domain = np.stack([np.min(zeros), np.max(zeros)])
        elif np.shape(domain) == (0,):
            domain = cls.domain
        window = cls.window if window is None else window
        off, scale = mapparms(domain, window)
        coef = cls._fromroots(off + scale * zeros) / scale ** len(zeros)
        return cls(coef, domain=domain, window=window, symbol=symbol)


def _mapped(series: Series) -> bool:
    return isinstance(getattr(series.coef, "array", None), Wrapping)


def _reflected(name: str) -> Callable[[Series, object], object]:
    """Return a reflected operator, which Python calls if the left operand is a series of NumPy."""

    def method(self: Series, other: object) -> object:
        if is_series(other):
            return getattr(_ours(other), f"__{name}__")(self)
        return getattr(super(Series, self), f"__r{name}__")(other)

    return method


for _name in ("add", "sub", "mul", "floordiv", "mod", "divmod"):
    setattr(Series, f"__r{_name}__", _reflected(_name))


class Polynomial(Series, np.polynomial.Polynomial):
    """Powers of x. Methods and arguments are NumPy's.

    >>> from retrograd.polynomial import Polynomial
    >>> c = rg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> p = Polynomial(c)
    >>> p.deriv()(2.0)
    tensor(14., grad_fn=<add>)
    """

    family = families.polynomial


class Chebyshev(Series, np.polynomial.Chebyshev):
    """Chebyshev polynomials of the first kind. Methods and arguments are NumPy's.

    >>> from retrograd.polynomial import Chebyshev
    >>> x = np.linspace(-1, 1, 5)
    >>> Chebyshev.fit(x, rg.tensor(1 + x**2), 2)(3.0).round(decimals=6)
    tensor(10., dtype=float64)
    """

    family = families.chebyshev


class Legendre(Series, np.polynomial.Legendre):
    """Legendre polynomials. Methods and arguments are NumPy's.

    >>> from retrograd.polynomial import Legendre
    >>> Legendre(rg.tensor([0.0, 0.0, 1.0]))(0.5)
    tensor(-0.125)
    """

    family = families.legendre


class Laguerre(Series, np.polynomial.Laguerre):
    """Laguerre polynomials. Methods and arguments are NumPy's.

    >>> from retrograd.polynomial import Laguerre
    >>> Laguerre(rg.tensor([0.0, 1.0]))(0.25)
    tensor(0.75)
    """

    family = families.laguerre


class Hermite(Series, np.polynomial.Hermite):
    """Hermite polynomials as in physics. Methods and arguments are NumPy's.

    >>> from retrograd.polynomial import Hermite
    >>> Hermite(rg.tensor([0.0, 0.0, 1.0]))(0.5)
    tensor(-1.)
    """

    family = families.hermite


class HermiteE(Series, np.polynomial.HermiteE):
    """Hermite polynomials as in probability theory. Methods and arguments are NumPy's.

    >>> from retrograd.polynomial import HermiteE
    >>> HermiteE(rg.tensor([0.0, 0.0, 1.0]))(0.5)
    tensor(-0.75)
    """

    family = families.hermite_e


CLASSES: dict[str, type[Series]] = {
    kind.__name__: kind for kind in (Polynomial, Chebyshev, Legendre, Laguerre, Hermite, HermiteE)
}
