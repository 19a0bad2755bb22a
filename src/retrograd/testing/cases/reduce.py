"""Example calls of the operators in ``ops/reduce/``, by module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...core.arrays import Array
from ..case import Call, Calls, Case, Fixed, together
from .math.elementwise import Draw, normal

CASES: list[Case] = []


# binning: Cases of histograms.


def one_dimension(rng: np.random.Generator) -> Iterator[Call]:
    x = Fixed(rng.standard_normal((4, 5)))
    yield Call(x, 6)
    yield Call(x, 4, range=(-1.0, 0.5))
    yield Call(x, 5, weight=Fixed(rng.random((4, 5))), density=True)
    yield Call(x, Fixed(np.array([-2.0, -0.5, 0.0, 1.5])))
    yield Call(Fixed(np.array([1.0, 2.0, 4.0, 2.0])), 3)
    yield Call(Fixed(np.ones(3)), 3)


def several_dimensions(rng: np.random.Generator) -> Iterator[Call]:
    x = Fixed(rng.standard_normal((7, 2)))
    yield Call(x, [2, 3])
    yield Call(x, 2, range=[-1.0, 1.0, 0.0, 2.0])
    yield Call(x, [3, 2], weight=Fixed(rng.random(7)), density=True)
    yield Call(x, [Fixed(np.array([-1.0, 0.0, 2.0])), Fixed(np.array([-2.0, 2.0]))])
    yield Call(Fixed(rng.standard_normal((2, 3, 1))), [3])


def histogram(
    x: Any, bins: Any, range: Any = None, weight: Any = None, density: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    return np.histogram(x, bins, range, density, weight)


def histogramdd(
    x: Any, bins: Any, range: Any = None, weight: Any = None, density: bool = False
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    pairs: Any = None if range is None else np.reshape(range, (-1, 2))
    return np.histogramdd(x.reshape(-1, x.shape[-1]), bins, pairs, density, weight)


CASES += [
    Case("histogram", one_dimension, histogram, order=0),
    Case("histogramdd", several_dimensions, histogramdd, order=0),
]


# reductions: Cases of the reductions.


def distinct(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers at least 0.3 apart and away from 0: no ties, no kinks."""
    size = int(np.prod(shape))
    values = (rng.permutation(size) + 1) * np.where(rng.random(size) < 0.5, -1.0, 1.0) + rng.uniform(0, 0.4, size)
    return values.reshape(shape)


def away_from_zero(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers of either sign between 0.5 and 2 in magnitude."""
    return np.asarray(rng.uniform(0.5, 2, shape) * rng.choice([-1.0, 1.0], shape))


def one_dim(draw: Draw = normal, **options: object) -> Calls:
    """Return calls along one dimension, with and without ``keepdim``, and a call on a 0-d tensor."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        yield Call(draw(rng, (3, 4)), 0, **options)
        yield Call(draw(rng, (3, 4)), -1, True, **options)
        yield Call(draw(rng, (2, 3, 2)), dim=1, keepdim=True, **options)
        yield Call(draw(rng, ()), 0, **options)

    return calls


def all_dims(draw: Draw = normal, **options: object) -> Calls:
    """Return calls without a dimension, with several dimensions, and with one dimension."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        yield Call(draw(rng, (3, 4)), **options)
        yield Call(draw(rng, ()), **options)
        yield Call(draw(rng, (2, 3, 4)), dim=(0, -1), **options)
        yield Call(draw(rng, (2, 3, 4)), dim=(2, 1), keepdim=True, **options)
        yield from one_dim(draw, **options)(rng)

    return calls


def plain(draw: Draw = normal) -> Calls:
    """Return calls whose only argument is the input."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for shape in ((3, 4), (5,), ()):
            yield Call(draw(rng, shape))

    return calls


def calls_of(*makers: Callable[[np.random.Generator], Call]) -> Calls:
    """Return the given calls, each from a function of the random generator."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for make in makers:
            yield make(rng)

    return calls


def integers(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Small integers, zeros among them."""
    return np.asarray(rng.integers(0, 3, shape))


def with_nan(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Distinct numbers and a few NaN."""
    values = distinct(rng, shape)
    return np.where(np.asarray(rng.random(shape)) < 0.3, np.nan, values)


def with_ties(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Few distinct values, zeros among them."""
    return np.asarray(rng.integers(-1, 2, shape)).astype(float)


def empty(*dims: object) -> Calls:
    """A tensor without elements, reduced over each of the dimensions given."""
    return calls_of(*[lambda rng, dim=dim: Call(np.zeros((0, 3)), dim) for dim in dims])


zero_in_products = calls_of(
    lambda rng: Call(np.array([2.0, 0.0, 3.0, 4.0]), 0),
    lambda rng: Call(np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 3.0], [1.0, 2.0, 3.0]]), 1),
    lambda rng: Call(np.zeros((3, 2)), 0),
)
long = calls_of(
    lambda rng: Call(rng.standard_normal((700, 8)), 0), lambda rng: Call(rng.standard_normal((2, 70, 40)), 1)
)


def exclusive_or(x: Array, dim: int | tuple[int, ...] | None = None, keepdim: bool = False) -> Array:
    bits = np.asarray(x, np.float64 if x.dtype.kind == "f" else np.int64).view(np.uint64)
    kept: Array = np.bitwise_xor.reduce(bits, dim, keepdims=True)
    return kept if keepdim else np.squeeze(kept, dim)


CASES += [
    Case(
        "sum",
        together(all_dims(), calls_of(lambda rng: Call(normal(rng, (2, 2)), dtype=np.float64))),
        edge_calls=together(empty(0, 1), long),
    ),
    Case("mean", all_dims(), edge_calls=together(empty(0, 1), long)),
    Case("nansum", all_dims(), edge_calls=all_dims(with_nan)),
    Case("nanmean", all_dims(), edge_calls=all_dims(with_nan)),
    Case(
        "prod",
        together(plain(away_from_zero), one_dim(away_from_zero)),
        edge_calls=together(zero_in_products, empty(0, 1)),
    ),
    Case("all", all_dims(with_ties), edge_calls=together(all_dims(integers), empty(0, 1)), order=0),
    Case("any", all_dims(with_ties), edge_calls=together(all_dims(integers), empty(0, 1)), order=0),
    Case(
        "count_nonzero",
        together(plain(with_ties), calls_of(lambda rng: Call(with_ties(rng, (3, 4)), dim=(0, 1)))),
        order=0,
    ),
    Case(
        "hash_tensor",
        calls_of(
            lambda rng: Call(Fixed(rng.standard_normal((3, 4)))),
            lambda rng: Call(Fixed(rng.standard_normal((3, 4, 5))), (2, 0), keepdim=True),
            lambda rng: Call(Fixed(rng.integers(-9, 9, (3, 5))), -1),
        ),
        exclusive_or,
        order=0,
    ),
]


# differences: Cases of differences and integrals.


def differences(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(normal(rng, (5,)))
    yield Call(normal(rng, (3, 4)), 2, 0)
    yield Call(normal(rng, (3, 4)), dim=-1, prepend=normal(rng, (3, 1)), append=normal(rng, (3, 2)))
    yield Call(normal(rng, (3,)), 3)
    yield Call(normal(rng, (3,)), 0)


def integrals(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(normal(rng, (5,)))
    yield Call(normal(rng, (3, 4)), dx=0.5, dim=0)
    yield Call(normal(rng, (3, 4)), np.sort(distinct(rng, (4,))))
    yield Call(normal(rng, (3, 4)), np.sort(distinct(rng, (3,))), dim=0)
    yield Call(normal(rng, (3, 4)), distinct(rng, (3, 4)), dim=1)


CASES += [
    Case("diff", differences),
    Case("trapezoid", integrals),
    Case("cumulative_trapezoid", integrals),
    Case(
        "gradient",
        calls_of(
            lambda rng: Call(normal(rng, (5,))),
            lambda rng: Call(normal(rng, (3, 4)), spacing=2.0, edge_order=2),
            lambda rng: Call(normal(rng, (3, 4)), spacing=[0.5, 2.0], dim=(1, 0)),
            lambda rng: Call(normal(rng, (4,)), spacing=(np.sort(distinct(rng, (4,))),), edge_order=2),
        ),
    ),
]


# extremes: Cases of the extremes.

pairs = calls_of(lambda rng: Call(distinct(rng, (3, 4)), distinct(rng, (4,)) + 0.5))

CASES += [
    Case("amax", all_dims(distinct), edge_calls=all_dims(with_ties)),
    Case("amin", all_dims(distinct), edge_calls=all_dims(with_ties)),
    Case(
        "max",
        together(plain(distinct), one_dim(distinct), pairs),
        edge_calls=together(plain(with_ties), one_dim(with_nan)),
    ),
    Case(
        "min",
        together(plain(distinct), one_dim(distinct), pairs),
        edge_calls=together(plain(with_ties), one_dim(with_nan)),
    ),
    Case(
        "aminmax",
        calls_of(
            lambda rng: Call(distinct(rng, (3, 4))),
            lambda rng: Call(distinct(rng, (3, 4)), dim=0),
            lambda rng: Call(distinct(rng, (3, 4)), dim=-1, keepdim=True),
        ),
        edge_calls=plain(with_ties),
    ),
    Case(
        "argmax",
        together(plain(distinct), one_dim(distinct)),
        edge_calls=together(one_dim(with_ties), plain(with_nan)),
        order=0,
    ),
    Case(
        "argmin",
        together(plain(distinct), one_dim(distinct)),
        edge_calls=together(one_dim(with_ties), plain(with_nan)),
        order=0,
    ),
]


# histograms: Cases of the histograms.

CASES += [
    Case(
        "histc",
        calls_of(
            lambda rng: Call(Fixed(normal(rng, (4, 5))), 7),
            lambda rng: Call(Fixed(normal(rng, (20,))), bins=4, min=-1, max=1),
        ),
        order=0,
    ),
    Case(
        "bincount",
        calls_of(
            lambda rng: Call(rng.integers(0, 5, 9)),
            lambda rng: Call(rng.integers(0, 5, 9), Fixed(normal(rng, (9,))), 8),
        ),
        order=0,
    ),
]


# norms: Cases of the norms.

POWERS = (2, 1, 0, 3, 0.5, 1.5, 2.5, np.inf, -np.inf, -1, "fro")


def norm_calls(rng: np.random.Generator) -> Iterator[Call]:
    for p in POWERS:
        yield Call(distinct(rng, (2, 3)), p)
        if p != "fro":
            yield Call(distinct(rng, (2, 3)), p, 1)
            yield Call(distinct(rng, (2, 2, 3)), p, dim=(0, -1), keepdim=True)
    yield Call(away_from_zero(rng, ()))


def vector_norm_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(distinct(rng, (2, 3)))
    for p in POWERS[:-1]:
        yield Call(distinct(rng, (2, 3)), p, 1)
        yield Call(distinct(rng, (2, 2, 3)), p, dim=(0, -1), keepdim=True)


def dist_calls(rng: np.random.Generator) -> Iterator[Call]:
    for p in (2, 1, 3, np.inf):
        yield Call(distinct(rng, (2, 3)), 9 + distinct(rng, (2, 3)), p)
    yield Call(distinct(rng, (3,)), 9 + distinct(rng, (2, 1)))


def at_zero(rng: np.random.Generator) -> Iterator[Call]:
    for p in (2, 1, 0, 3, 1.5, 2.5, np.inf):
        yield Call(np.zeros((2, 3)), p)
        yield Call(np.array([[0.0, 2.0], [0.0, -2.0]]), p, dim=0)


CASES += [
    Case("norm", norm_calls, edge_calls=at_zero),
    Case("linalg.vector_norm", vector_norm_calls, edge_calls=at_zero),
    Case("dist", dist_calls, edge_calls=calls_of(lambda rng: Call(np.ones(3), np.ones(3)))),
    Case(
        "renorm",
        calls_of(
            lambda rng: Call(3 * away_from_zero(rng, (3, 4)), 2, 0, 1.5),
            lambda rng: Call(3 * away_from_zero(rng, (3, 4)), 1, -1, 100.0),
            lambda rng: Call(away_from_zero(rng, (2, 3, 2)), 3, 1, 1.0),
        ),
    ),
]


# order_statistics: Cases of the order statistics.


def quantiles(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(distinct(rng, (3, 4)), 0.3)
    yield Call(distinct(rng, (3, 4)), 0.25, 1, True)
    yield Call(distinct(rng, (3, 4)), Fixed(np.array([0.0, 0.2, 1.0])), dim=0)
    yield Call(distinct(rng, (2, 3, 2)), Fixed(np.array([0.1, 0.7])), dim=-2, keepdim=True)
    yield Call(distinct(rng, (5,)), Fixed(np.array([0.3, 0.6])), keepdim=True)
    for interpolation in ("lower", "higher", "midpoint", "nearest"):
        yield Call(distinct(rng, (3, 4)), 0.4, 0, interpolation=interpolation)


nan_quantiles = calls_of(
    lambda rng: Call(with_nan(rng, (3, 5)), 0.3, 1),
    lambda rng: Call(with_nan(rng, (3, 5)), Fixed(np.array([0.1, 0.9])), 0),
    lambda rng: Call(np.full((2, 3), np.nan), 0.5, 1),
    lambda rng: Call(np.array([1.0, np.inf, 2.0, -np.inf]), 0.5),
)


def modes(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(distinct(rng, (3, 4)))
    yield Call(distinct(rng, (3, 4)), 0, True)
    yield Call(distinct(rng, ()))


repeated = calls_of(
    lambda rng: Call(np.array([3.0, 1.0, 3.0, 2.0, 1.0])), lambda rng: Call(rng.integers(0, 3, (4, 7)).astype(float), 1)
)


CASES += [
    Case(
        "median", together(plain(distinct), one_dim(distinct)), edge_calls=together(plain(with_nan), one_dim(with_nan))
    ),
    Case(
        "nanmedian",
        together(plain(distinct), one_dim(distinct)),
        edge_calls=together(plain(with_nan), one_dim(with_nan)),
    ),
    Case("mode", modes, edge_calls=repeated),
    Case(
        "kthvalue",
        calls_of(
            lambda rng: Call(distinct(rng, (3, 4)), 2),
            lambda rng: Call(distinct(rng, (3, 4)), 1, 0, True),
            lambda rng: Call(distinct(rng, ()), 1),
        ),
    ),
    Case("quantile", quantiles, edge_calls=nan_quantiles, dtypes=("float32",)),
    Case("nanquantile", quantiles, edge_calls=nan_quantiles, dtypes=("float32",)),
]


# scans: Cases of the scans.


def along_one(draw: Draw = normal) -> Calls:
    """Each dimension once, and a 0-d tensor."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        yield Call(draw(rng, (5,)), 0)
        yield Call(draw(rng, (3, 4)), 0)
        yield Call(draw(rng, (2, 3, 2)), dim=-2)
        yield Call(draw(rng, ()), 0)

    return calls


with_dtype = calls_of(lambda rng: Call(away_from_zero(rng, (3, 2)), dim=0, dtype=np.float64))
empty_of_scans = calls_of(lambda rng: Call(np.zeros((0, 3)), 0), lambda rng: Call(np.zeros((0, 3)), 1))

CASES += [
    Case("cumsum", together(along_one(), with_dtype), edge_calls=empty_of_scans),
    Case(
        "cumprod",
        together(along_one(away_from_zero), with_dtype),
        edge_calls=together(zero_in_products, empty_of_scans),
    ),
    Case("cummax", along_one(distinct), edge_calls=together(along_one(with_ties), along_one(with_nan))),
    Case("cummin", along_one(distinct), edge_calls=together(along_one(with_ties), along_one(with_nan))),
    Case(
        "logcumsumexp",
        along_one(),
        edge_calls=together(
            empty_of_scans,
            calls_of(
                lambda rng: Call(np.array([1000.0, -1000.0, 1000.0, 2000.0]), 0),
                lambda rng: Call(np.array([-np.inf, 1.0, 2.0]), 0),
            ),
        ),
    ),
]


# searching: Cases of distinct elements and of positions of elements.


def searched(rng: np.random.Generator) -> Iterator[Call]:
    ordered = np.sort(distinct(rng, (5,)))
    yield Call(Fixed(ordered), Fixed(distinct(rng, (2, 3))))
    yield Call(Fixed(ordered), Fixed(ordered), right=True)
    yield Call(Fixed(np.sort(distinct(rng, (2, 5)))), Fixed(distinct(rng, (2, 3))), side="right", out_int32=True)
    yield Call(Fixed(ordered), 0.5)


def bucketized(rng: np.random.Generator) -> Iterator[Call]:
    edges = np.sort(distinct(rng, (5,)))
    yield Call(Fixed(distinct(rng, (2, 3))), Fixed(edges))
    yield Call(Fixed(edges), Fixed(edges), right=True)


def repeated_of_searching(rng: np.random.Generator) -> Iterator[Call]:
    values = rng.integers(0, 3, (4, 5))
    yield Call(values)
    yield Call(distinct(rng, (2, 3)))
    yield Call(distinct(rng, (3, 2)), dim=0)
    yield Call(distinct(rng, ()), return_counts=True)
    yield Call(values, return_inverse=True, return_counts=True)
    yield Call(values[:, :2], return_inverse=True, return_counts=True, dim=0)
    yield Call(values[:2], dim=1, return_counts=True)


CASES += [
    Case("unique", repeated_of_searching),
    Case("unique_consecutive", repeated_of_searching),
    Case("searchsorted", searched, order=0),
    Case("bucketize", bucketized, order=0),
    Case(
        "nonzero",
        together(plain(with_ties), calls_of(lambda rng: Call(with_ties(rng, (3, 4)), as_tuple=True))),
        order=0,
    ),
]


# segments: Cases of reductions of consecutive runs.


def calls(rng: np.random.Generator) -> Iterator[Call]:
    for reduce in ("sum", "mean", "max", "min", "prod"):
        yield Call(rng.permutation(12).reshape(6, 2) / 4 + 0.1, reduce, lengths=np.array([1, 2, 3]))
        yield Call(rng.permutation(6) / 4 + 0.1, reduce, lengths=np.array([2, 0, 4]), initial=0.7)
    yield Call(rng.standard_normal((2, 5, 3)), "sum", lengths=np.array([[1, 4], [2, 3]]), axis=1)
    yield Call(rng.standard_normal((6, 2)), "mean", offsets=np.array([0, 2, 6]))


CASES += [Case("segment_reduce", calls, order=1, torch="", dtypes=("float32",))]


# sorting: Cases of sorting, selecting and searching.


def directions(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(distinct(rng, (4,)))
    yield Call(distinct(rng, (3, 4)), 0, True)
    yield Call(distinct(rng, (3, 4)), dim=-1, descending=True)


def topk_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(distinct(rng, (5,)), 2)
    yield Call(distinct(rng, (3, 40)), 3)
    yield Call(distinct(rng, (40, 2)), 3, 0, False)
    yield Call(distinct(rng, (3, 4)), 4, dim=1, largest=False)
    yield Call(distinct(rng, ()), 1)
    yield Call(distinct(rng, (3,)), 0)


CASES += [
    Case("sort", directions, edge_calls=together(along_one(with_nan))),
    Case("argsort", directions, order=0),
    Case("msort", calls_of(lambda rng: Call(distinct(rng, (4,))), lambda rng: Call(distinct(rng, (3, 4))))),
    Case("topk", topk_calls),
]


# variance: Cases of variances and covariances.


def over_dims(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(normal(rng, (3, 4)))
    yield Call(normal(rng, (3, 4)), False)
    yield Call(normal(rng, (3, 4)), 0)
    yield Call(normal(rng, (2, 3, 4)), (0, -1), False, True)
    yield Call(normal(rng, (2, 3, 4)), dim=1, correction=0, keepdim=True)
    yield Call(normal(rng, (5,)), dim=None, correction=2)


without_deviation = calls_of(
    lambda rng: Call(np.ones((3, 4)), 0), lambda rng: Call(np.ones(4)), lambda rng: Call(np.ones(()), correction=0)
)


def covariances(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(normal(rng, (3, 5)))
    yield Call(normal(rng, (5,)))
    yield Call(normal(rng, (3, 5)), correction=0)
    yield Call(normal(rng, (3, 4)), fweights=np.array([1, 2, 3, 1]))
    yield Call(normal(rng, (3, 4)), aweights=Fixed(rng.uniform(0.5, 1, 4)), fweights=np.array([1, 2, 3, 1]))


CASES += [
    Case("var", over_dims, edge_calls=without_deviation),
    Case("std", over_dims, edge_calls=without_deviation),
    Case("var_mean", over_dims),
    Case("std_mean", over_dims),
    Case("cov", covariances, dtypes=("float32",)),
    Case("corrcoef", calls_of(lambda rng: Call(normal(rng, (3, 5)))), dtypes=("float32",)),
]
