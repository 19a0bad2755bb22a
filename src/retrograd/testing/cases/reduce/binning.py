"""Cases of histograms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...case import Call, Case, Fixed


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


def histogram(x: Any, bins: Any, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    return np.histogram(x, bins, range, density, weight)


def histogramdd(x: Any, bins: Any, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    pairs: Any = None if range is None else np.reshape(range, (-1, 2))
    return np.histogramdd(x.reshape(-1, x.shape[-1]), bins, pairs, density, weight)


CASES = [
    Case("histogram", one_dimension, histogram, order=0),
    Case("histogramdd", several_dimensions, histogramdd, order=0),
]
