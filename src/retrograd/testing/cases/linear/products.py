"""Cases of products of vectors and of chains of matrices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call
from .inverses import chained, drawn, names


def chains(rng: np.random.Generator) -> Iterator[Call]:
    yield Call([rng.standard_normal(shape) for shape in ((2, 3), (3, 4), (4, 2))])
    yield Call([rng.standard_normal(shape) for shape in ((3,), (3, 4), (4, 2), (2,))])
    yield Call([rng.standard_normal(shape) for shape in ((5, 1), (1, 5))])


CASES = [
    *names("linalg.multi_dot", calls=chains),
    *names("linalg.diagonal", calls=chained(drawn(((3, 4),), ((2, 3, 3),)), drawn(((3, 4),), offset=1))),
    *names("trace", calls=drawn(((3, 3),), ((2, 3),))),
    *names("kron", calls=drawn(((2, 3), (2, 2)), ((3,), (2,)), ((2,), (2, 2)), ((), (2,)))),
    *names("linalg.vecdot", calls=chained(drawn(((2, 3), (2, 3)), ((2, 3), (3,))), drawn(((3, 2), (3, 2)), dim=0))),
    *names("linalg.cross", calls=chained(drawn(((2, 3), (2, 3)), ((1, 3), (2, 3))), drawn(((3, 2), (3, 2)), dim=0))),
    *names("cross", calls=drawn(((3, 2), (3, 2)), ((2, 3), (2, 3)))),
    *names("linalg.vander", calls=chained(drawn(((3,),), ((2, 2),)), drawn(((3,),), N=4))),
]
