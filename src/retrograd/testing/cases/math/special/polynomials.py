"""Cases of orthogonal polynomials."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

from ....case import Call, Case
from ..arithmetic import normal


def calls(rng: np.random.Generator) -> Iterator[Call]:
    for n in (0, 1, 2, 5):
        yield Call(normal(rng, (3,)), n)
    yield Call(normal(rng, (2, 4)), np.array([2, 0, 3, 6]))
    yield Call(normal(rng, (2, 1)), np.array([1, 2, 4]))
    yield Call(normal(rng, ()), np.array(3))


def from_scipy(name: str, shifted: bool = False) -> Callable[..., Any]:
    """SciPy's polynomial, whose degree comes first."""

    def function(x: Any, n: Any) -> Any:
        return getattr(import_module("scipy.special"), f"eval_{name}")(n, 2 * x - 1 if shifted else x)

    return function


def next_to(sign: int, shifted: bool = False) -> Callable[..., Any]:
    """``U_n - U_(n-1)``, which is V, or the sum, which is W."""
    u = from_scipy("chebyu", shifted)
    return lambda x, n: u(x, n) + sign * np.where(np.asarray(n) > 0, u(x, np.maximum(n, 1) - 1), 0)


_REFERENCES = {
    "hermite_polynomial_h": from_scipy("hermite"),
    "hermite_polynomial_he": from_scipy("hermitenorm"),
    "laguerre_polynomial_l": from_scipy("laguerre"),
    "legendre_polynomial_p": from_scipy("legendre"),
}
for _prefix, _shifted in (("", False), ("shifted_", True)):
    _REFERENCES |= {
        f"{_prefix}chebyshev_polynomial_t": from_scipy("chebyt", _shifted),
        f"{_prefix}chebyshev_polynomial_u": from_scipy("chebyu", _shifted),
        f"{_prefix}chebyshev_polynomial_v": next_to(-1, _shifted),
        f"{_prefix}chebyshev_polynomial_w": next_to(1, _shifted),
    }

# PyTorch has no derivatives of them.
CASES = [Case(f"special.{name}", calls, f, torch="", dtypes=("float32",)) for name, f in _REFERENCES.items()]
