"""Cases of pooling and max_unpool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ....core.arrays import Array
from ...case import Call, Calls, Case, Fixed


def distinct(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return numbers so far apart that the steps of central differences do not change which number is the largest."""
    size = int(np.prod(shape))
    return (rng.permutation(size).reshape(shape) - size / 2) / 4 + 0.05


def images(axes: int, *several: dict[str, object], batch: bool = True) -> Calls:
    """Return calls on an image and on a batch with each of the keywords; each axis is shorter than the one before."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for index, keywords in enumerate(several):
            size = tuple(6 - axis if axes < 3 else 4 - axis // 2 for axis in range(axes))
            shape = (2, *size) if batch and index == 1 else (1 + index % 2, 2, *size)
            yield Call(distinct(rng, shape), **keywords)

    return calls


def ties(axes: int, **keywords: object) -> Calls:
    """Equal elements, infinities and NaN."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        shape = (1, 2) + (4,) * axes
        yield Call(np.zeros(shape), **keywords)
        yield Call(rng.integers(0, 2, shape).astype(float), **keywords)
        yield Call(np.full(shape, -np.inf), **keywords)
        x = rng.standard_normal(shape)
        x.flat[::5] = np.nan
        yield Call(x, **keywords)

    return calls


def empty(axes: int, **keywords: object) -> Calls:
    """A batch of no images."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        yield Call(np.ones((0, 2) + (4,) * axes), **keywords)

    return calls


def positive(axes: int) -> Calls:
    """Norms of positive numbers."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        options: tuple[tuple[Any, dict[str, Any]], ...] = (
            (2, {}),
            (3, {"stride": 1}),
            (1.5, {"stride": 2, "ceil_mode": True}),
            (float("inf"), {}),
        )
        for power, keywords in options:
            yield Call(np.abs(distinct(rng, (1, 2) + (4,) * axes)) / 8 + 0.2, power, 2, **keywords)

    return calls


def unpools(axes: int) -> Calls:
    """Return calls of unpooling with the indices of a pooling, also with a given output size."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        shape = (2, 1) + (2,) * axes
        corners = np.zeros((2,) * axes, np.int64)
        for axis in range(axes):
            steps = np.arange(2).reshape((2,) + (1,) * (axes - 1 - axis))
            corners = corners + (2 * steps + 1) * 4 ** (axes - 1 - axis)
        indices = np.broadcast_to(corners, shape).copy()
        yield Call(rng.standard_normal(shape), indices, 2)
        yield Call(rng.standard_normal(shape), indices, 2, output_size=(5,) * axes)
        yield Call(rng.standard_normal(shape[1:]), indices[0], (3,) * axes, stride=2, padding=0)

    return calls


MAX_OPTIONS: tuple[dict[str, object], ...] = (
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2, "stride": 1, "dilation": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
)
AVG_OPTIONS: tuple[dict[str, object], ...] = (
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 3, "stride": 1, "padding": 1, "count_include_pad": False},
)
OVERRIDE: dict[str, object] = {"kernel_size": 2, "divisor_override": 3}


def output_sizes(axes: int) -> tuple[dict[str, Any], ...]:
    """Return calls with output sizes that divide the input's size, that do not divide it, and with None."""
    return (
        {"output_size": 1},
        {"output_size": (4, 3, 2)[:axes]},
        {"output_size": (2, None, 3)[:axes]} if axes > 1 else {"output_size": 5},
    )


CASES = [
    *[
        Case(f"nn.functional.max_pool{axes}d", images(axes, *MAX_OPTIONS), edge_calls=ties(axes, kernel_size=2))
        for axes in (1, 2, 3)
    ],
    *[
        Case(
            f"nn.functional.avg_pool{axes}d",
            images(axes, *AVG_OPTIONS, *([OVERRIDE] if axes > 1 else [])),
            edge_calls=empty(axes, kernel_size=2),
        )
        for axes in (1, 2, 3)
    ],
    *[Case(f"nn.functional.lp_pool{axes}d", positive(axes)) for axes in (1, 2, 3)],
    *[
        Case(
            f"nn.functional.adaptive_avg_pool{axes}d",
            images(axes, *output_sizes(axes)),
            edge_calls=empty(axes, output_size=2),
        )
        for axes in (1, 2, 3)
    ],
    *[
        Case(
            f"nn.functional.adaptive_max_pool{axes}d",
            images(axes, *output_sizes(axes)),
            edge_calls=ties(axes, output_size=3),
        )
        for axes in (1, 2, 3)
    ],
    *[Case(f"nn.functional.max_unpool{axes}d", unpools(axes)) for axes in (1, 2, 3)],
]


def fractional(axes: int) -> Calls:
    """Return calls with given random samples, which determine the positions of the windows."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        shape = (2, 3) + (6,) * axes
        samples = rng.random((2, 3, axes))
        yield Call(distinct(rng, shape), 2, (3,) * axes, _random_samples=Fixed(samples))
        yield Call(distinct(rng, shape), (2,) * axes, output_ratio=(0.7,) * axes, _random_samples=Fixed(samples))
        yield Call(distinct(rng, shape[1:]), 3, (1,) * axes, _random_samples=Fixed(samples[:1]))

    return calls


CASES += [
    Case(f"nn.functional.fractional_max_pool{axes}d{form}", fractional(axes), torch="", dtypes=("float32",))
    for axes in (2, 3)
    for form in ("", "_with_indices")
]
