"""Example calls of ``retrograd.scipy.special``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..case import Call, Case
from . import function


def case(name: str, *calls: Callable[..., Call], **options: Any) -> Case:
    """Return the case of a function of SciPy; each call draws its arrays with ``draw(low, high, *shape)``."""

    def drawn(rng: np.random.Generator) -> Iterator[Call]:
        for call in calls:
            yield call(lambda low, high, *shape: rng.uniform(low, high, shape))

    options.setdefault("reference", function(f"scipy.{name}"))
    options.setdefault("dtypes", ("float32",))
    return Case(name, drawn, torch="", **options)


N = np.array([0, 1, 3])

CASES = [
    case(
        "special.logsumexp",
        lambda u: Call(u(-2, 2, 2, 3)),
        lambda u: Call(u(-2, 2, 2, 3), axis=1, b=u(0.5, 1, 3), keepdims=True),
        lambda u: Call(u(-2, 2, 3), b=u(-2, -1, 3), return_sign=True),
    ),
    case("special.softmax", lambda u: Call(u(-2, 2, 2, 3), axis=0)),
    case("special.log_softmax", lambda u: Call(u(-2, 2, 2, 3), axis=(0, 1)), lambda u: Call(u(-2, 2, 3))),
    case("special.multigammaln", lambda u: Call(u(2.2, 4, 3), 3)),
    case("special.polygamma", lambda u: Call(2, u(0.5, 3, 2, 3)), lambda u: Call(N, u(0.5, 3, 2, 3))),
    case("special.comb", lambda u: Call(u(3, 5, 3), u(0.5, 2, 3)), lambda u: Call(u(3, 5, 3), 2, repetition=True)),
    case("special.perm", lambda u: Call(u(3, 5, 3), u(0.5, 2, 3))),
    case("special.factorial", lambda u: Call(u(0.5, 4, 3))),
    case("special.diric", lambda u: Call(u(0.3, 3, 3), 3), lambda u: Call(u(0.3, 3, 2), 4)),
    *(
        case(
            f"special.spherical_{kind}",
            lambda u: Call(N, u(0.5, 4, 2, 3)),
            lambda u: Call(2, u(0.5, 4, 2), derivative=True),
        )
        for kind in ("jn", "yn", "in", "kn")
    ),
    case("special.legendre_p", lambda u: Call(N, u(-0.9, 0.9, 3), diff_n=2)),
    case("special.assoc_legendre_p", lambda u: Call(N, np.array([0, 1, -2]), u(-0.8, 0.8, 2, 3))),
    case("special.sph_legendre_p", lambda u: Call(N, np.array([0, 1, -2]), u(0.2, 2, 2, 3))),
    case("special.sph_harm_y", lambda u: Call(N, np.array([0, 1, -2]), u(0.2, 2, 2, 3), u(0.2, 2, 3))),
]
