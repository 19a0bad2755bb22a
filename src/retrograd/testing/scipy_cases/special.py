"""Example calls of ``retrograd.scipy.special``."""

from __future__ import annotations

import numpy as np

from ..case import Call
from . import case

N = np.array([0, 1, 3])
M = np.array([0, 1, -2])

CASES = [
    case(
        "special.logsumexp",
        lambda u: Call(u(-2, 2, 2, 3)),
        lambda u: Call(u(-2, 2, 2, 3), axis=1, b=u(0.5, 1, 3), keepdims=True),
        lambda u: Call(u(-2, 2, 3), b=u(-2, -1, 3), return_sign=True),
    ),
    case(
        "special.softmax",
        lambda u: Call(u(-2, 2, 2, 3), axis=0),
        lambda u: Call(u(-2, 2, 2, 3) + 1000),
    ),
    case("special.log_softmax", lambda u: Call(u(-2, 2, 2, 3), axis=(0, 1)), lambda u: Call(u(-2, 2, 3))),
    case("special.multigammaln", lambda u: Call(u(2.2, 4, 3), 3)),
    case(
        "special.polygamma",
        lambda u: Call(2, u(0.5, 3, 2, 3)),
        lambda u: Call(N, u(0.5, 3, 2, 3)),
        lambda u: Call(0, u(0.5, 3, 2)),
    ),
    case(
        "special.comb",
        lambda u: Call(u(3, 5, 3), u(0.5, 2, 3)),
        lambda u: Call(u(3, 5, 3), 2, repetition=True),
        lambda u: Call(u(1, 2, 3), 4),
    ),
    case("special.perm", lambda u: Call(u(3, 5, 3), u(0.5, 2, 3))),
    case(
        "special.factorial",
        lambda u: Call(u(0.5, 4, 3)),
        lambda u: Call(u(-4, -1.5, 2)),
    ),
    case(
        "special.diric",
        lambda u: Call(u(0.3, 3, 3), 3),
        lambda u: Call(u(0.3, 3, 2), 4),
        lambda u: Call(u(0, 0, 2), 5),
    ),
    *(
        case(
            f"special.spherical_{kind}",
            lambda u: Call(N, u(0.5, 4, 2, 3)),
            lambda u: Call(2, u(0.5, 4, 2), derivative=True),
        )
        for kind in ("jn", "yn", "in", "kn")
    ),
    case("special.spherical_jn", lambda u: Call(np.array([[0], [1], [2]]), u(0, 0, 2))),  # finite at 0
    case("special.legendre_p", lambda u: Call(N, u(-0.9, 0.9, 3), diff_n=2)),
    case("special.assoc_legendre_p", lambda u: Call(N, M, u(-0.8, 0.8, 2, 3))),
    case("special.sph_legendre_p", lambda u: Call(N, M, u(0.2, 2, 2, 3))),
    case("special.sph_harm_y", lambda u: Call(N, M, u(0.2, 2, 2, 3), u(0.2, 2, 3))),
]
