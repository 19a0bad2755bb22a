"""Cases of gamma, Bessel and entropy functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

from ....case import Call, Case
from ..arithmetic import at, away_from_zero, normal, positive, unary_calls, uniform

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
    """SciPy's function: PyTorch's trigamma has ten digits only."""

    def function(*args: Any) -> Any:
        return getattr(import_module("scipy.special"), name)(*args)

    return function


CASES = [
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
