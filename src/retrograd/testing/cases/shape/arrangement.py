"""Cases of elements in another arrangement."""

from __future__ import annotations

import numpy as np

from ...case import Call, Case
from .shape import integers, normals

triangles = normals(
    lambda n: Call(n(3, 4)),
    lambda n: Call(n(2, 3, 3), 1),
    lambda n: Call(n(3, 2), diagonal=-1),
    lambda n: Call(n(0, 2)),
)


CASES = [
    Case(
        "Tensor.repeat",
        normals(
            lambda n: Call(n(2, 3), 2, 2),
            lambda n: Call(n(2), (3, 1, 2)),
            lambda n: Call(n(), 2),
            lambda n: Call(n(2), 0),
        ),
        lambda x, *sizes: np.tile(x, sizes[0] if isinstance(sizes[0], tuple) else sizes),
    ),
    Case(
        "tile", normals(lambda n: Call(n(2, 3), (2,)), lambda n: Call(n(2), (2, 2)), lambda n: Call(n(), (3,))), np.tile
    ),
    Case(
        "repeat_interleave",
        normals(
            lambda n: Call(n(2, 3), 2),
            lambda n: Call(n(2, 3), 3, 1),
            lambda n: Call(n(2, 3), integers(1, 0, 2), dim=-1),
            lambda n: Call(n(3), integers(2)),
            lambda n: Call(integers(1, 2)),
        ),
    ),
    Case(
        "flip",
        normals(lambda n: Call(n(2, 3), (0, 1)), lambda n: Call(n(2, 3, 2), (-1,)), lambda n: Call(n(0, 2), (0,))),
        np.flip,
    ),
    Case("fliplr", normals(lambda n: Call(n(2, 3))), np.fliplr),
    Case("flipud", normals(lambda n: Call(n(2, 3)), lambda n: Call(n(3))), np.flipud),
    Case(
        "rot90",
        normals(lambda n: Call(n(2, 3)), lambda n: Call(n(2, 3, 4), 2, (1, 2)), lambda n: Call(n(2, 3), -1, (1, 0))),
        np.rot90,
    ),
    Case(
        "roll",
        normals(
            lambda n: Call(n(2, 3), 1),
            lambda n: Call(n(2, 3), -2, 1),
            lambda n: Call(n(2, 3), (1, 4), (0, -1)),
            lambda n: Call(n(0, 2), 1, 0),
        ),
        np.roll,
    ),
    Case("tril", triangles),
    Case("triu", triangles),
    Case(
        "meshgrid",
        normals(
            lambda n: Call(n(2), n(3), indexing="ij"),
            lambda n: Call(n(2), n(), n(3), indexing="xy"),
            lambda n: Call(n(2), indexing="ij"),
        ),
        np.meshgrid,
    ),
    Case("cartesian_prod", normals(lambda n: Call(n(2), n(3)), lambda n: Call(n(3)), lambda n: Call(n(2), n(0)))),
    Case(
        "combinations",
        normals(lambda n: Call(n(4)), lambda n: Call(n(3), r=3), lambda n: Call(n(3), 2, with_replacement=True)),
    ),
    Case("nn.functional.pixel_shuffle", normals(lambda n: Call(n(2, 8, 2, 3), 2), lambda n: Call(n(9, 1, 2), 3))),
    Case("nn.functional.pixel_unshuffle", normals(lambda n: Call(n(2, 2, 4, 6), 2), lambda n: Call(n(1, 3, 6), 3))),
    Case(
        "nn.functional.channel_shuffle",
        normals(lambda n: Call(n(2, 6, 3), 2), lambda n: Call(n(1, 4, 2, 2), 4)),
        torch="torch.channel_shuffle",
    ),
]
