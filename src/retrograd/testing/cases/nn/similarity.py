"""Cases of distances and similarities, and of embeddings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case
from ..shape import integers, normals


def cosine_calls(rng: np.random.Generator) -> Iterator[Call]:
    draw = rng.standard_normal
    yield Call(draw((3, 4)), draw((3, 4)))
    yield Call(draw((3, 4)), draw((3, 1)), dim=0)
    yield Call(draw((2, 3)), draw((3,)), dim=-1)
    yield Call(draw((4,)), draw((4,)), dim=0)


def pairwise_calls(rng: np.random.Generator) -> Iterator[Call]:
    draw = rng.standard_normal
    yield Call(draw((3, 4)), draw((3, 4)))
    yield Call(draw((3, 4)), draw((4,)), p=1.0, keepdim=True)
    yield Call(draw((3, 4)), draw((1, 4)), p=3.0, eps=0.1)


def cdist_calls(rng: np.random.Generator) -> Iterator[Call]:
    draw = rng.standard_normal
    yield Call(draw((3, 2)), draw((2, 2)))
    yield Call(draw((2, 1, 2, 3)), draw((2, 2, 3)), p=1.0)
    yield Call(draw((3, 2)), draw((2, 2)), p=3.0)
    yield Call(draw((3, 2)), draw((2, 2)), compute_mode="use_mm_for_euclid_dist")
    yield Call(draw((2, 2, 3)), draw((2, 3)), compute_mode="donot_use_mm_for_euclid_dist")


def pdist_calls(rng: np.random.Generator) -> Iterator[Call]:
    for p in (2.0, 1.0, 3.0):
        yield Call(rng.standard_normal((4, 2)), p)


def coinciding_pairs(rng: np.random.Generator) -> Iterator[Call]:
    x = rng.standard_normal((3, 2))
    x[1] = x[0]
    yield Call(x, x.copy())
    yield Call(np.zeros((0, 2)), x)


def coinciding(rng: np.random.Generator) -> Iterator[Call]:
    x = rng.standard_normal((3, 2))
    x[1] = x[0]
    yield Call(x)
    yield Call(x[:1])


def zero_vectors(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(np.zeros((2, 3)), rng.standard_normal((2, 3)))


CASES = [
    Case("cosine_similarity", cosine_calls, edge_calls=zero_vectors),
    Case("pairwise_distance", pairwise_calls),
    Case("cdist", cdist_calls, edge_calls=coinciding_pairs),
    Case("nn.functional.pdist", pdist_calls, edge_calls=coinciding),
]


BAGS = integers([0, 2, 2], [3, 1, 0])
LINE = integers(0, 2, 2, 3, 1, 0)
OFFSETS = integers(0, 2, 2, 5)

CASES += [
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
