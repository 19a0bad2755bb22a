"""Cases of positions and membership."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...case import Call, Case, Fixed
from ..shape.shape import integers, normals


def coordinates(indices: Any, shape: Any) -> Any:
    size = int(np.prod(shape))
    return np.unravel_index(np.where(indices < 0, indices + size, indices), shape)


CASES = [
    Case(
        "argwhere",
        normals(
            lambda n: Call(integers([0, 2], [3, 0])),
            lambda n: Call(Fixed(n(2, 3) * np.array([1.0, 0.0, 1.0]))),
            lambda n: Call(np.array([True, False])),
            lambda n: Call(np.array(3)),
            lambda n: Call(Fixed(n(0, 3))),
        ),
        lambda x: np.argwhere(x),
        order=0,
    ),
    Case(
        "nonzero_static",
        normals(
            lambda n: Call(integers([0, 2], [3, 0]), size=3),
            lambda n: Call(integers([0, 2], [3, 0]), size=1, fill_value=7),
            lambda n: Call(integers(1, 2), size=0),
        ),
        order=0,
    ),
    Case(
        "unravel_index",
        normals(
            lambda n: Call(integers(5, 0, 3), (2, 3)),
            lambda n: Call(integers([23], [-1]), (2, 3, 4)),
            lambda n: Call(np.array(4), 6),
            lambda n: Call(integers(), (2, 3)),
        ),
        coordinates,
        order=0,
    ),
    Case(
        "isin",
        normals(
            lambda n: Call(integers([1, 2], [3, 4]), integers(2, 3)),
            lambda n: Call(integers([1, 2], [3, 4]), integers([2], [3]), invert=True),
            lambda n: Call(Fixed(np.array([1.5, np.nan, 2.0])), Fixed(np.array([np.nan, 1.5]))),
            lambda n: Call(integers(1, 2), Fixed(np.array([1.0, 2.5]))),
            lambda n: Call(integers(1, 2), 2),
            lambda n: Call(2, integers(1, 2)),
            lambda n: Call(integers(1, 2), integers(), assume_unique=True),
        ),
        lambda x, y, assume_unique=False, invert=False: np.isin(x, y, invert=invert),
        order=0,
    ),
]
