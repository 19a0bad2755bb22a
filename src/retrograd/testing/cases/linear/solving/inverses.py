"""Cases of inverses, determinants, powers and exponentials."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ....case import Call, Calls, Case, together

Function = Callable[..., Any]


def of_normal(*groups: tuple[tuple[int, ...], ...], **options: Any) -> Calls:
    """A call per group, of normal arrays of its shapes; square matrices are moved away from singular ones."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for shapes in groups:
            arrays = []
            for shape in shapes:
                x = rng.standard_normal(shape)
                if len(shape) >= 2 and shape[-1] == shape[-2]:
                    x = x + 3 * np.eye(shape[-1])
                arrays.append(x)
            yield Call(*arrays, **options)

    return calls


def of_complex(*shapes: tuple[int, ...]) -> Calls:
    """A call per shape, of a complex matrix away from singular ones."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for shape in shapes:
            yield Call(rng.standard_normal(shape) + 1j * rng.standard_normal(shape) + 3 * np.eye(shape[-2], shape[-1]))

    return calls


def of_positive(function: Function) -> Function:
    """A function of positive-definite matrices as one of any matrix."""
    return lambda x, *args, **kwargs: function(x @ x.mH, *args, **kwargs)


def names(*both: str, calls: Calls, order: int = 2, **options: Any) -> list[Case]:
    """The same case for several names."""
    return [Case(name, calls, order=order, dtypes=(), **options) for name in both]


SQUARE = (((3, 3),), ((2, 2, 2),), ((1, 1),))
POWERS = together(*(of_normal(((3, 3),), ((2, 2, 2),), n=n) for n in (0, 1, 2, 5, -2)))

CASES = [
    *names("linalg.inv", "inverse", calls=of_normal(*SQUARE)),
    *names("linalg.det", "det", calls=together(of_normal(*SQUARE), of_complex((3, 3), (2, 2, 2)))),
    *names("linalg.slogdet", "slogdet", calls=together(of_normal(*SQUARE), of_complex((3, 3), (2, 2, 2)))),
    *names("logdet", calls=together(of_normal(*SQUARE), of_complex((3, 3))), wrap=of_positive),
    *names("linalg.matrix_power", calls=POWERS),
    *names("matrix_power", calls=POWERS),
    *names("matrix_exp", "linalg.matrix_exp", calls=of_normal(*SQUARE)),
]
