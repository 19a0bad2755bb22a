"""Cases of rows looked up by number."""

from __future__ import annotations

import numpy as np

from ...case import Call, Case
from ..shape import integers, normals

BAGS = integers([0, 2, 2], [3, 1, 0])
LINE = integers(0, 2, 2, 3, 1, 0)
OFFSETS = integers(0, 2, 2, 5)

CASES = [
    Case(
        "nn.functional.embedding",
        normals(
            lambda n: Call(BAGS, n(4, 3)),
            lambda n: Call(np.array(1), n(4, 3)),
            lambda n: Call(np.zeros((0, 2), np.int64), n(4, 3)),
        ),
        lambda index, weight: weight[index],
    ),
    Case(
        "nn.functional.embedding_bag",
        normals(
            lambda n: Call(BAGS, n(4, 3)),
            lambda n: Call(BAGS, n(4, 3), mode="sum"),
            lambda n: Call(BAGS, n(4, 3), mode="max"),
            lambda n: Call(LINE, n(4, 3), OFFSETS),
            lambda n: Call(LINE, n(4, 3), OFFSETS, mode="max"),
            lambda n: Call(LINE, n(4, 3), OFFSETS, mode="sum", include_last_offset=True),
            lambda n: Call(BAGS, n(4, 3), mode="sum", per_sample_weights=n(2, 3)),
        ),
    ),
    Case(
        "nn.functional.one_hot",
        normals(lambda n: Call(BAGS), lambda n: Call(LINE, 5), lambda n: Call(np.array(2), num_classes=4)),
        order=0,
    ),
]
