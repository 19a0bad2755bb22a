"""Cases of systems of linear equations."""

from __future__ import annotations

from .inverses import chained, drawn, names

CASES = [
    *names(
        "linalg.solve",
        calls=chained(
            drawn(((3, 3), (3, 2)), ((2, 3, 3), (2, 3)), ((3, 3), (3,)), ((2, 3, 3), (3, 1))),
            drawn(((3, 3), (2, 3)), left=False),
        ),
    ),
    *names(
        "linalg.solve_triangular",
        calls=chained(
            drawn(((3, 3), (3, 2)), ((2, 3, 3), (3, 1)), upper=True),
            drawn(((3, 3), (2, 3)), upper=False, left=False),
            drawn(((3, 3), (3, 2)), upper=False, unitriangular=True),
        ),
    ),
    *names(
        "triangular_solve", calls=chained(drawn(((3, 2), (3, 3))), drawn(((3, 2), (3, 3)), upper=False, transpose=True))
    ),
    *names("linalg.tensorsolve", calls=drawn(((2, 3, 6), (2, 3)))),
    *names("linalg.tensorinv", calls=drawn(((4, 2, 2),), ind=1)),
]
