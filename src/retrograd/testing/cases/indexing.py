"""Example calls of the operators in ``ops/indexing/``, by module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core.arrays import Array
from ..case import Call, Case, Fixed
from .math.elementwise import INF, NAN, normal
from .shape import integers, normals

CASES: list[Case] = []


# coordinates: Cases of positions and membership.


def coordinates(indices: Any, shape: Any) -> Any:
    size = int(np.prod(shape))
    return np.unravel_index(np.where(indices < 0, indices + size, indices), shape)


CASES += [
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


# diagonals: Cases of diagonals filled in place.

CASES += [
    Case(
        "Tensor.fill_diagonal_",
        normals(
            lambda n: Call(n(3, 3), 2.0),
            lambda n: Call(n(2, 4), 1.5),
            lambda n: Call(n(7, 2), 1.5, wrap=True),
            lambda n: Call(n(7, 2), 1.5),
            lambda n: Call(n(3, 3, 3), 0.5),
        ),
        wrap=lambda f: lambda x, *args, **kwargs: f(x.clone(), *args, **kwargs),
    )
]


# gather: Cases of reading at positions.

ONCE = integers([0, 2], [1, 0])  # no position twice along dimension 1
TWICE = integers([0, 0, 2], [1, 1, 1])
MASK = np.array([[True, False, True], [False, False, True]])

CASES += [
    Case(
        "gather",
        normals(
            lambda n: Call(n(2, 3), 1, TWICE),
            lambda n: Call(n(3, 2), 0, ONCE[:1]),
            lambda n: Call(n(2, 3, 2), -2, integers([[0], [2], [2], [1]])),
            lambda n: Call(n(4), dim=0, index=integers(3, 3, 0)),
            lambda n: Call(n(), 0, np.array(0)),
            lambda n: Call(n(2, 3), 1, np.zeros((2, 0), np.int64)),
        ),
    ),
    Case(
        "take_along_dim",
        normals(
            lambda n: Call(n(2, 3), TWICE, 1),
            lambda n: Call(n(2, 3), integers([0], [2]), dim=-1),
            lambda n: Call(n(1, 3), TWICE, 1),
            lambda n: Call(n(2, 3), integers(5, 0, 5)),
        ),
        lambda x, index, dim=None: np.take_along_axis(x, index, dim),
    ),
    Case(
        "index_select",
        normals(
            lambda n: Call(n(2, 3), 1, integers(2, 0, 2)),
            lambda n: Call(n(2, 3, 2), dim=-2, index=integers(1)),
            lambda n: Call(n(3), 0, np.array(1)),
            lambda n: Call(n(2, 3), 0, integers()),
        ),
    ),
    Case(
        "take", normals(lambda n: Call(n(2, 3), integers([0, -1], [5, 5])), lambda n: Call(n(3), np.array(1))), np.take
    ),
    Case(
        "masked_select",
        normals(lambda n: Call(n(2, 3), MASK), lambda n: Call(n(2, 1), MASK), lambda n: Call(n(2, 3), MASK[0] & False)),
    ),
]


# index_reductions: Cases of slices reduced into positions.


def calls(rng: np.random.Generator) -> Iterator[Call]:
    for reduce in ("prod", "mean", "amax", "amin"):
        for include_self in (True, False):
            x, src = (np.array(rng.permutation(7)[:6] + rng.random(6) / 2).reshape(2, 3) - 2.3 for _ in range(2))
            yield Call(x, 1, integers(0, 2, 0), src, reduce, include_self=include_self)
            yield Call(x, -2, integers(1), src[:1], reduce, include_self=include_self)
            yield Call(rng.random(3), 0, integers(), rng.random(0), reduce, include_self=include_self)


CASES += [Case("index_reduce", calls, dtypes=("float32",))]


# index_write: Cases of writing at positions and under masks.

CASES += [
    Case(
        "index_add",
        normals(
            lambda n: Call(n(2, 3), 1, integers(2, 0, 2), n(2, 3)),
            lambda n: Call(n(2, 3), 0, integers(1), n(1, 3), alpha=2),
            lambda n: Call(n(3), -1, integers(1, 1), n(2)),
        ),
    ),
    Case(
        "index_copy",
        normals(lambda n: Call(n(2, 3), 1, integers(2, 0), n(2, 2)), lambda n: Call(n(2, 3), 0, integers(1), n(1, 3))),
    ),
    Case(
        "index_fill",
        normals(
            lambda n: Call(n(2, 3), 1, integers(2, 0), 1.5),
            lambda n: Call(n(2, 3), 0, integers(1), n()),
            lambda n: Call(n(2, 3), 0, integers(), 1.5),
        ),
    ),
    Case(
        "index_put",
        normals(
            lambda n: Call(n(2, 3), (integers(0, 1), integers(2, 0)), n(2)),
            lambda n: Call(n(2, 3), (integers(1),), n(3)),
            lambda n: Call(n(2, 3), (MASK,), n()),
            lambda n: Call(n(2, 3), (integers(0, 0), integers(2, 2)), n(2), accumulate=True),
            lambda n: Call(n(2, 3), (integers(0, 0),), n(1, 3), True),
        ),
    ),
    Case(
        "put",
        normals(
            lambda n: Call(n(2, 3), integers(0, -1), n(2)),
            lambda n: Call(n(2, 3), integers([1, 1]), n(1, 2), accumulate=True),
        ),
        torch="torch.Tensor.put",
    ),
    Case(
        "masked_scatter",
        normals(
            lambda n: Call(n(2, 3), MASK, n(4)),
            lambda n: Call(n(2, 3), MASK[1], n(2, 2)),
            lambda n: Call(n(3), MASK, n(3)),
        ),
    ),
]


# indexing: Cases of indexing, read and written.

INDICES: tuple[object, ...] = (
    0,
    -1,
    slice(None, None, 2),
    slice(1, 3),
    None,
    Ellipsis,
    (),
    (1, 2, 3),
    (slice(None), -1, None, slice(2, 0)),
    (Ellipsis, 2),
    integers(1, 1, 0),
    integers([0, 1], [1, 1]),
    [1, 0, 1],
    (slice(None), integers(2, 2)),
    (integers(0, 1, 1), integers(2, 0, 0)),
    (integers([0], [1]), slice(None), integers(0, 3, 3)),
    (slice(0, 1), integers(0, 1), integers([1], [3])),
    (None, integers(1, 0)),
    (np.array([True, False]), 1),
    np.array([[True, False, True], [False, False, True]]),
    (Ellipsis, np.array([True, False, True, True])),
    np.array([False, False]),
    integers(),
)

CASES += [
    Case(
        "Tensor.__getitem__",
        normals(
            *[lambda n, index=index: Call(n(2, 3, 4), index) for index in INDICES],
            lambda n: Call(n(), Ellipsis),
            lambda n: Call(n(), None),
            lambda n: Call(n(0, 3), slice(None)),
        ),
        lambda x, index: x[index],
    ),
    Case(
        "Tensor.__setitem__",
        normals(*[lambda n, index=index: Call(Fixed(n(2, 3, 4)), index, 1.5) for index in INDICES]),
        order=0,
    ),
    Case(
        "fill",
        normals(
            lambda n: Call(n(2, 3), 1.5),
            lambda n: Call(n(2, 3), n()),
            lambda n: Call(n(), n()),
            lambda n: Call(n(0), 2),
        ),
    ),
    Case("Tensor.zero_", normals(lambda n: Call(Fixed(n(2, 3)))), order=0),
    Case(
        "Tensor.copy_",
        normals(lambda n: Call(Fixed(n(2, 3)), Fixed(n(3))), lambda n: Call(Fixed(n(2)), integers(1))),
        order=0,
    ),
]


# scatter: Cases of scattering along a dimension.


def reductions(rng: np.random.Generator) -> Iterator[Call]:
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include_self in (True, False):
            x, src = (np.array(rng.permutation(7)[:6] + rng.random(6) / 2).reshape(2, 3) - 2.3 for _ in range(2))
            yield Call(x, 1, TWICE, src, reduce, include_self=include_self)
            yield Call(x, 0, integers([1, 0], [1, 0]), src[:, :2], reduce, include_self=include_self)
            yield Call(rng.random(3), 0, integers(), rng.random(0), reduce, include_self=include_self)


def reduction_edges(rng: np.random.Generator) -> Iterator[Call]:
    x = np.array([[1.0, 2.0, 3.0], [0.0, 2.0, 0.0]])
    src = np.array([[1.0, 1.0, 4.0], [0.0, 2.0, 3.0]])
    for reduce in ("amax", "amin", "sum", "mean"):
        yield Call(x, 1, TWICE, src, reduce)
    yield Call(np.array([1.0, 2.0]), 0, integers(0, 0, 1), np.array([0.0, 3.0, np.inf]), "prod")
    yield Call(np.array([1.0, 2.0]), 0, integers(0, 0, 1), np.array([np.nan, 3.0, np.inf]), "amax")


CASES += [
    Case(
        "scatter",
        normals(
            lambda n: Call(n(2, 3), 1, ONCE, n(2, 2)),
            lambda n: Call(n(3, 2), -2, ONCE, n(2, 2)),
            lambda n: Call(n(2, 3), 1, ONCE, 1.5),
            lambda n: Call(n(2, 3), 1, TWICE, value=-2.0),
            lambda n: Call(n(), 0, np.array(0), n()),
        ),
    ),
    Case(
        "scatter_add",
        normals(
            lambda n: Call(n(2, 3), 1, TWICE, n(2, 3)),
            lambda n: Call(n(3, 2), -2, ONCE, n(2, 2)),
            lambda n: Call(n(4), 0, integers(3, 3, 3), n(3)),
            lambda n: Call(n(4), 0, integers(), n(0)),
        ),
    ),
    Case("scatter_reduce", reductions, edge_calls=reduction_edges, dtypes=("float32",)),
]


# selection: Cases of masks.


def mask(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.random(shape) < 0.5)


def where_calls(rng: np.random.Generator) -> Iterator[Call]:
    for c, x, y in (
        ((2, 3), (2, 3), (2, 3)),
        ((2, 1), (3,), ()),
        ((), (2,), (2,)),
        ((3,), (2, 1), (1,)),
        ((0, 2), (2,), (2,)),
    ):
        yield Call(mask(rng, c), normal(rng, x), normal(rng, y))
    yield Call(mask(rng, (3,)), normal(rng, (3,)), 1.5)
    yield Call(mask(rng, (3,)), 2, normal(rng, (3,)))


def where_edges(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(np.array([True, False]), np.array([1.0, NAN]), np.array([INF, 2.0]))
    yield Call(np.array([True, False]), 1.0, 2)
    yield Call(np.array([[True, False], [True, True]]))


def where_method_calls(rng: np.random.Generator) -> Iterator[Call]:
    for call in where_calls(rng):
        condition, x, y = call.args
        if isinstance(x, np.ndarray):
            yield Call(x, condition, y)


def masked_fill_calls(rng: np.random.Generator) -> Iterator[Call]:
    for x, m in (((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), ()), ((), ()), ((0, 2), (2,))):
        yield Call(normal(rng, x), mask(rng, m), -1.5)
    yield Call(normal(rng, (2, 3)), mask(rng, (2, 1)), normal(rng, ()))


CASES += [
    Case("where", where_calls, np.where, edge_calls=where_edges),
    Case("Tensor.where", where_method_calls, lambda x, condition, y: np.where(condition, x, y)),
    Case("masked_fill", masked_fill_calls, lambda x, mask, value: np.where(mask, value, x)),
]


# slices: Cases of replacing slices.

CASES += [
    Case(
        "select_scatter",
        normals(lambda n: Call(n(2, 3), n(3), 0, 1), lambda n: Call(n(2, 3), n(2), dim=-1, index=-2)),
    ),
    Case(
        "slice_scatter",
        normals(
            lambda n: Call(n(4, 2), n(2, 2), start=1, end=3),
            lambda n: Call(n(2, 4), n(2, 2), 1, 0, None, 2),
            lambda n: Call(n(3), n(3)),
        ),
    ),
    Case(
        "diagonal_scatter",
        normals(lambda n: Call(n(3, 3), n(3)), lambda n: Call(n(2, 3, 3), n(2, 2), 1, -1, 1)),
    ),
]
