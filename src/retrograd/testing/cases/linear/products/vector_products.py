"""Cases of products of vectors and of chains of matrices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....case import Call, together
from ..solving.inverses import names, of_normal


def chains(rng: np.random.Generator) -> Iterator[Call]:
    yield Call([rng.standard_normal(shape) for shape in ((2, 3), (3, 4), (4, 2))])
    yield Call([rng.standard_normal(shape) for shape in ((3,), (3, 4), (4, 2), (2,))])
    yield Call([rng.standard_normal(shape) for shape in ((5, 1), (1, 5))])


CASES = [
    *names("linalg.multi_dot", calls=chains),
    *names("linalg.diagonal", calls=together(of_normal(((3, 4),), ((2, 3, 3),)), of_normal(((3, 4),), offset=1))),
    *names("trace", calls=of_normal(((3, 3),), ((2, 3),))),
    *names("kron", calls=of_normal(((2, 3), (2, 2)), ((3,), (2,)), ((2,), (2, 2)), ((), (2,)))),
    *names(
        "linalg.vecdot", calls=together(of_normal(((2, 3), (2, 3)), ((2, 3), (3,))), of_normal(((3, 2), (3, 2)), dim=0))
    ),
    *names(
        "linalg.cross",
        calls=together(of_normal(((2, 3), (2, 3)), ((1, 3), (2, 3))), of_normal(((3, 2), (3, 2)), dim=0)),
    ),
    *names("cross", calls=of_normal(((3, 2), (3, 2)), ((2, 3), (2, 3)))),
    *names("linalg.vander", calls=together(of_normal(((3,),), ((2, 2),)), of_normal(((3,),), N=4))),
]
