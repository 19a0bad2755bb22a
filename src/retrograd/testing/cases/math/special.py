"""Example calls of the operators in ``ops/math/special/``, by module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....ops.math.special.libraries import library_for
from ...case import Call, Case, Fixed
from .elementwise import INF, NAN, apart, at, away_from_zero, normal, positive, unary_calls, uniform, unit

CASES: list[Case] = []


# bessel: Cases of Bessel functions, of the zeta function and of incomplete gamma functions.


def library(name: str) -> Callable[..., Any]:
    """SciPy's function, imported when it is called."""

    def call(*args: object) -> Any:
        return getattr(library_for(np.empty(0)), name)(*args)

    return call


def fixed_first(low: float) -> Callable[[np.random.Generator], Iterator[Call]]:
    """Only the second argument has a derivative."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        first, second = uniform(low, low + 2), uniform(0.3, 4.0)
        yield Call(Fixed(first(rng, (2, 3))), second(rng, (2, 3)))
        yield Call(Fixed(first(rng, (2, 1, 3))), second(rng, (4, 1)))
        yield Call(Fixed(first(rng, ())), second(rng, (3,)))
        yield Call(Fixed(first(rng, (3,))), second(rng, ()))

    return calls


def sinc(x: Array) -> Array:
    return np.sinc(x / np.pi)


# PyTorch has no derivative of these functions.
BESSEL = [
    *((f"bessel_{name}", name, apart(0.05, -0.05)) for name in ("j0", "j1")),
    *((f"bessel_{name}", name, positive) for name in ("y0", "y1")),
    *((f"modified_bessel_{name}", name, normal) for name in ("i0", "i1")),
    *((f"modified_bessel_{name}", name, positive) for name in ("k0", "k1")),
    *((f"scaled_modified_bessel_{name}", name + "e", positive) for name in ("k0", "k1")),
]
SINGLE = ("float32",)

CASES += [
    *(
        Case(f"special.{name}", unary_calls(draw), library(theirs), torch="", dtypes=SINGLE)
        for name, theirs, draw in BESSEL
    ),
    Case("special.spherical_bessel_j0", unary_calls(apart(0.3, -0.3)), sinc, torch="", dtypes=SINGLE),
    Case("special.airy_ai", unary_calls(normal), lambda x: library("airy")(x)[0], torch="", dtypes=SINGLE),
    Case("special.zeta", fixed_first(1.5), library("zeta"), dtypes=SINGLE),
    *(
        Case(name, fixed_first(0.5), library(theirs), torch=f"torch.special.{theirs}", dtypes=SINGLE)
        for name, theirs in (
            ("igamma", "gammainc"),
            ("igammac", "gammaincc"),
            ("special.gammainc", "gammainc"),
            ("special.gammaincc", "gammaincc"),
        )
    ),
]


# error_function: Cases of the error function and the normal distribution.

wide = apart(scale=2.0)
TAILS = at(0.0, -0.0, 3.0, -5.0, 10.0, -10.0, 26.0, INF, -INF, NAN)

CASES += [
    Case("erf", unary_calls(wide), edge_calls=TAILS),
    Case("erfc", unary_calls(wide), edge_calls=at(0.0, 3.0, -5.0, 5.0, INF, -INF, NAN)),
    Case("erfinv", unary_calls(uniform(-0.8, 0.8)), edge_calls=at(0.0, 0.5, -0.99)),
    Case("special.erf", unary_calls(wide)),
    Case("special.erfc", unary_calls(wide)),
    Case("special.erfinv", unary_calls(uniform(-0.8, 0.8))),
    Case("special.erfcx", unary_calls(apart(scale=1.0)), edge_calls=at(0.0, -3.0, 5.0, 1e8, NAN)),
    Case("special.ndtr", unary_calls(wide), edge_calls=at(0.0, 3.0, -5.0, INF)),
    Case("special.log_ndtr", unary_calls(wide), edge_calls=at(0.0, 3.0, -5.0, -30.0)),
    Case("special.ndtri", unary_calls(unit), edge_calls=at(0.5, 0.01)),
]


# gamma: Cases of gamma, Bessel and entropy functions.

above_two = uniform(2.2, 5.0)


def polygamma_calls(rng: np.random.Generator) -> Iterator[Call]:
    for n in range(4):
        yield Call(n, positive(rng, (2, 3)))
    yield Call(1, positive(rng, ()))


def polygamma_method_calls(rng: np.random.Generator) -> Iterator[Call]:
    for call in polygamma_calls(rng):
        n, x = call.args
        yield Call(x, n)


def mvlgamma_calls(rng: np.random.Generator) -> Iterator[Call]:
    for p in (1, 2, 4):
        yield Call(above_two(rng, (2, 3)), p)


def from_scipy(name: str) -> Callable[..., Any]:
    """Return SciPy's function, because PyTorch's trigamma is accurate to ten digits only."""

    def function(*args: object) -> Any:
        return getattr(library_for(np.empty(0)), name)(*args)

    return function


CASES += [
    Case("lgamma", unary_calls(positive), edge_calls=at(0.5, 30.0, -0.5)),
    Case("digamma", unary_calls(positive), from_scipy("psi"), torch=""),
    Case("polygamma", polygamma_calls, from_scipy("polygamma"), torch=""),
    Case("Tensor.polygamma", polygamma_method_calls, lambda x, n: from_scipy("polygamma")(n, x), torch=""),
    Case("mvlgamma", mvlgamma_calls),
    Case("i0", unary_calls(normal), edge_calls=at(0.0)),
    Case("special.i0e", unary_calls(away_from_zero), edge_calls=at(0.0, 500.0)),
    Case("special.i1", unary_calls(normal), edge_calls=at(0.0)),
    Case("special.i1e", unary_calls(away_from_zero), edge_calls=at(0.0, 500.0)),
    Case("special.entr", unary_calls(positive), edge_calls=at(1.0, -1.0)),
    Case("special.gammaln", unary_calls(positive)),
    Case("special.digamma", unary_calls(positive), from_scipy("psi"), torch=""),
    Case("special.psi", unary_calls(positive), from_scipy("psi"), torch=""),
    Case("special.polygamma", polygamma_calls, from_scipy("polygamma"), torch=""),
    Case("special.multigammaln", mvlgamma_calls),
    Case("special.i0", unary_calls(normal)),
]


# polynomials: Cases of orthogonal polynomials.


def calls(rng: np.random.Generator) -> Iterator[Call]:
    for n in (0, 1, 2, 5):
        yield Call(normal(rng, (3,)), n)
    yield Call(normal(rng, (2, 4)), np.array([2, 0, 3, 6]))
    yield Call(normal(rng, (2, 1)), np.array([1, 2, 4]))
    yield Call(normal(rng, ()), np.array(3))


def from_scipy_of_polynomials(name: str, shifted: bool = False) -> Callable[..., Any]:
    """Return SciPy's polynomial, whose first argument is the degree."""

    def function(x: Any, n: Any) -> Any:
        return getattr(library_for(np.empty(0)), f"eval_{name}")(n, 2 * x - 1 if shifted else x)

    return function


def next_to(sign: int, shifted: bool = False) -> Callable[..., Any]:
    """Return V_n, which is ``U_n - U_(n-1)``, or W_n, which is ``U_n + U_(n-1)``."""
    u = from_scipy_of_polynomials("chebyu", shifted)
    return lambda x, n: u(x, n) + sign * np.where(np.asarray(n) > 0, u(x, np.maximum(n, 1) - 1), 0)


_REFERENCES = {
    "hermite_polynomial_h": from_scipy_of_polynomials("hermite"),
    "hermite_polynomial_he": from_scipy_of_polynomials("hermitenorm"),
    "laguerre_polynomial_l": from_scipy_of_polynomials("laguerre"),
    "legendre_polynomial_p": from_scipy_of_polynomials("legendre"),
}
for _prefix, _shifted in (("", False), ("shifted_", True)):
    _REFERENCES |= {
        f"{_prefix}chebyshev_polynomial_t": from_scipy_of_polynomials("chebyt", _shifted),
        f"{_prefix}chebyshev_polynomial_u": from_scipy_of_polynomials("chebyu", _shifted),
        f"{_prefix}chebyshev_polynomial_v": next_to(-1, _shifted),
        f"{_prefix}chebyshev_polynomial_w": next_to(1, _shifted),
    }

# PyTorch has no derivatives of these polynomials.
CASES += [Case(f"special.{name}", calls, f, torch="", dtypes=("float32",)) for name, f in _REFERENCES.items()]
