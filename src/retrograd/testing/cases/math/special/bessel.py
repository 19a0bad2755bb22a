"""Cases of Bessel functions, of the zeta function and of incomplete gamma functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ....case import Call, Case, Fixed
from ..arithmetic import apart, normal, positive, unary_calls, uniform


def library(name: str) -> Callable[..., Any]:
    """SciPy's function, imported when it is called."""

    def call(*args: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(*args)

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


def sinc(x: Any) -> Any:
    return np.sinc(x / np.pi)


# PyTorch has no derivative of these.
BESSEL = [
    *((f"bessel_{name}", name, apart(0.05, -0.05)) for name in ("j0", "j1")),
    *((f"bessel_{name}", name, positive) for name in ("y0", "y1")),
    *((f"modified_bessel_{name}", name, normal) for name in ("i0", "i1")),
    *((f"modified_bessel_{name}", name, positive) for name in ("k0", "k1")),
    *((f"scaled_modified_bessel_{name}", name + "e", positive) for name in ("k0", "k1")),
]
SINGLE = ("float32",)

CASES = [
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
