"""Cases of Cholesky and QR factorizations."""

from __future__ import annotations

from typing import Any

from ....case import together
from ..solving.inverses import SQUARE, Function, names, of_complex, of_normal, of_positive


def without_signs(function: Function) -> Function:
    """Results whose columns' signs are free, squared."""

    def signless(*args: Any, **kwargs: Any) -> Any:
        return [result * result for result in function(*args, **kwargs)]

    return signless


def triangle(x: Any, upper: bool) -> Any:
    return x.triu() if upper else x.tril()


TALL = (((4, 2),), ((2, 3, 2),), ((3, 3),))
WIDE = (((2, 4),),)
COMPLEX = of_complex((4, 2), (2, 3, 3), (2, 4))


def without_phases(function: Function) -> Function:
    """Results whose columns' signs, or phases, are free: their squared magnitudes."""

    def phaseless(*args: Any, **kwargs: Any) -> Any:
        return [(result * result.conj()).real for result in function(*args, **kwargs)]

    return phaseless


CASES = [
    *names(
        "linalg.cholesky",
        calls=together(of_normal(*SQUARE), of_normal(((3, 3),), upper=True), of_complex((2, 3, 3))),
        wrap=of_positive,
    ),
    *names("cholesky", calls=of_normal(*SQUARE), wrap=of_positive),
    *names(
        "cholesky_solve",
        calls=together(of_normal(((3, 2), (3, 3))), of_normal(((3, 2), (3, 3)), upper=True)),
        wrap=lambda f: lambda b, factor, upper=False: f(b, triangle(factor, upper), upper),
    ),
    *names(
        "cholesky_inverse",
        calls=together(of_normal(((3, 3),)), of_normal(((3, 3),), upper=True)),
        wrap=lambda f: lambda factor, upper=False: f(triangle(factor, upper), upper),
    ),
    *names("linalg.qr", calls=together(of_normal(*TALL, *WIDE), COMPLEX), wrap=without_signs),
    *names("qr", calls=of_normal(*TALL), wrap=without_signs),
]
