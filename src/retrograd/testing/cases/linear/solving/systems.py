"""Cases of systems of linear equations."""

from __future__ import annotations

from ....case import together
from .inverses import names, of_normal

CASES = [
    *names(
        "linalg.solve",
        calls=together(
            of_normal(((3, 3), (3, 2)), ((2, 3, 3), (2, 3)), ((3, 3), (3,)), ((2, 3, 3), (3, 1))),
            of_normal(((3, 3), (2, 3)), left=False),
        ),
    ),
    *names(
        "linalg.solve_triangular",
        calls=together(
            of_normal(((3, 3), (3, 2)), ((2, 3, 3), (3, 1)), upper=True),
            of_normal(((3, 3), (2, 3)), upper=False, left=False),
            of_normal(((3, 3), (3, 2)), upper=False, unitriangular=True),
        ),
    ),
    *names(
        "triangular_solve",
        calls=together(of_normal(((3, 2), (3, 3))), of_normal(((3, 2), (3, 3)), upper=False, transpose=True)),
    ),
    *names("linalg.tensorsolve", calls=of_normal(((2, 3, 6), (2, 3)))),
    *names("linalg.tensorinv", calls=of_normal(((4, 2, 2),), ind=1)),
]
