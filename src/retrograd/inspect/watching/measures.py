"""Measurements of one recorded step: distributions of gradients and weights, activations.

Recording every tenth step must cost little. So during the step, ``reading`` takes only the exact norm, mean, minimum
and maximum of an array and a sample of its elements; ``distributions`` processes the samples of many arrays in one
pass later. Callers suppress floating-point warnings once for all measurements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import nan
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module, backend_of
from ...core.arrays.dtypes import FLOATING, DType
from ..statistics import statistics

WHOLE = 512  # the number of elements in a sample; smaller arrays are used as a whole
BINS = 30
_BLOCK = 1 << 16
_TINY = 1e-15  # below this norm, squares may have underflowed
_FLAT = 0.97  # |tanh| above this has a derivative below 0.06


@dataclass(frozen=True, slots=True)
class Distribution:
    """The distribution of one array's elements; for complex numbers, of their magnitudes.

    ``norm`` (Euclidean), ``mean``, ``std`` (of the population), ``minimum`` and ``maximum`` are computed from all
    elements; ``zeros``, a share, and ``counts``, between ``minimum`` and ``maximum``, from a sample of up to 512 evenly
    spaced elements. If an element is not finite, the norm is not finite, and the other figures ignore such elements.
    """

    size: int
    norm: float
    mean: float
    std: float
    minimum: float
    maximum: float
    zeros: float
    counts: Array

    @property
    def rms(self) -> float:
        """The root mean square."""
        return self.norm / math.sqrt(self.size) if self.size else 0.0

    @property
    def finite(self) -> bool:
        """Whether all elements are finite."""
        return math.isfinite(self.norm)

    @property
    def edges(self) -> Array:
        """The edges of the bins of ``counts``."""
        return np.linspace(self.minimum, self.maximum, len(self.counts) + 1)


@dataclass(slots=True)
class Activation:
    """The outputs of a module or an activation function during a step, over all its calls.

    ``mean`` and ``std`` are computed from a sample; ``finite`` says whether all elements are finite. ``saturated`` is
    the share of outputs beyond 0.97 of the range of tanh or sigmoid; for softmax, the share of nearly one-hot rows.
    ``dead`` is the share of a relu's units (channels of images, else the last axis) that were zero for every example of
    the last records. ``saturated`` and ``dead`` are None if they do not apply. ``hidden`` says whether a layer with
    parameters followed.
    """

    kind: str
    mean: float
    std: float
    finite: bool
    saturated: float | None = None
    dead: float | None = None
    hidden: bool = False


@dataclass(slots=True)
class StepRecord:
    """One step: its losses and gradients, and the size of its update.

    Attributes:
        step: its number, from 0.
        losses: the Tensors with one element on which ``backward()`` was called.
        rates: the learning rates of the parameter groups of all optimizers.
        decays: the weight decays of the parameter groups; 0 if an optimizer has none.
        groups: by parameter, the index of its group in ``rates``.
        gradients: by parameter, the gradient that the optimizer read; without parameters that had none.
        weights: by parameter, the values before the step.
        update_ratios: by parameter, the norm of the update divided by the norm of the weights before the step.
        total_norm: the norm of all gradients together that the optimizer read.
        total_norm_before_clipping: the norm of all gradients together at the end of the backward pass.
        activations: by module without children, and by call of an activation function in other modules.
        carried: whether the backward pass added to gradients that the previous step had already used.
    """

    step: int
    losses: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    decays: list[float] = field(default_factory=list)
    groups: dict[str, int] = field(default_factory=dict)
    gradients: dict[str, Distribution] = field(default_factory=dict)
    weights: dict[str, Distribution] = field(default_factory=dict)
    update_ratios: dict[str, float] = field(default_factory=dict)
    total_norm: float = 0.0
    total_norm_before_clipping: float = 0.0
    activations: dict[str, Activation] = field(default_factory=dict)
    carried: bool = False

    @property
    def loss(self) -> float | None:
        """The mean of the losses, None if there are none."""
        return sum(self.losses) / len(self.losses) if self.losses else None


def norm_of(array: Array) -> float:
    """Return the Euclidean norm of all elements, in the precision of the dtype and the range of float64."""
    flat = _real(array.reshape(-1))
    total = math.fsum([float(block.dot(block)) for block in _blocks(flat)])
    return math.sqrt(total) if _TINY**2 < total < math.inf else _scaled_norm(flat)


def _scaled_norm(flat: Array) -> float:
    flat = flat.astype(np.float64)
    largest = float(abs(flat).max()) if flat.size else 0.0
    if not 0 < largest < math.inf:
        return largest
    flat = flat / largest
    return largest * math.sqrt(float(flat.dot(flat)))


def _blocks(flat: Array) -> list[Array]:
    """Split an array into blocks that stay in the processor's cache while they are read repeatedly."""
    return [flat[start : start + _BLOCK] for start in range(0, flat.size, _BLOCK)] if flat.size > _BLOCK else [flat]


def _real(array: Array) -> Array:
    kind = array.dtype.kind
    if kind == "c":
        return abs(array)
    return array if kind in FLOATING and array.dtype.itemsize > 2 else array.astype(np.float32)


class Reading(NamedTuple):
    """The measures of an array before it changes. ``exact`` has mean, standard deviation, minimum and maximum of a
    large array; for smaller arrays the sample is the whole array."""

    size: int
    norm: float
    exact: tuple[float, float, float, float] | None
    sample: Array


def reading(array: Array) -> Reading:
    """Measure a NumPy or CuPy array."""
    sample = sample_of(array)
    if array.size <= WHOLE:
        return Reading(array.size, norm_of(sample), None, sample)
    x = _real(array.reshape(-1))
    ones = _ones(array_module(x), x.dtype)  # in float32, a dot product with ones takes half the time of a sum
    figures = [(b.dot(b), b.dot(ones[: b.size]), b.min(), b.max()) for b in _blocks(x)]
    squares, sums, lows, highs = [list(map(float, column)) for column in zip(*figures, strict=True)]
    total = math.fsum(squares)
    if _TINY**2 < total < math.inf:
        mean = math.fsum(sums) / x.size
        spread = total / x.size - mean * mean
        if spread > 0.1 * mean * mean:  # otherwise cancellation leaves no digits
            return Reading(x.size, math.sqrt(total), (mean, math.sqrt(spread), min(lows), max(highs)), sample)
    return Reading(x.size, norm_of(x), _of_finite(x), sample)


@cache
def _ones(xp: Any, dtype: DType) -> Array:
    return xp.ones(_BLOCK, dtype)


def _of_finite(x: Array) -> tuple[float, float, float, float]:
    """Return mean, standard deviation, minimum and maximum of the finite elements."""
    found = statistics(x)
    low, high = found.minimum, found.maximum
    if not (math.isfinite(low) and math.isfinite(high)):
        finite = x[array_module(x).isfinite(x)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    return found.mean, found.std, low, high


def distributions(readings: Sequence[Reading], bins: int = BINS) -> list[Distribution]:
    """Return the distributions of the measured arrays.

    >>> from retrograd.inspect.watching.measures import distributions, reading
    >>> found, = distributions([reading(np.array([1.0, 2.0, 3.0, 4.0]))], bins=2)
    >>> found.mean, found.norm**2, found.counts, found.edges
    (2.5, 30.0, array([2, 2]), array([1. , 2.5, 4. ]))
    """
    sizes = np.array([len(x.sample) for x in readings], dtype=np.intp)
    if not sizes.sum():
        return [_empty(x, bins) for x in readings]
    pooled = np.concatenate([x.sample for x in readings])
    good = np.isfinite(pooled)
    if not good.all():
        owner = np.repeat(np.arange(len(sizes)), sizes)
        sizes = np.bincount(owner[good], minlength=len(sizes))
        pooled = pooled[good]
    filled = np.flatnonzero(sizes)
    if not filled.size:
        return [_empty(x, bins) for x in readings]
    starts = np.cumsum(sizes[filled]) - sizes[filled]
    lengths = sizes[filled]
    means = np.add.reduceat(pooled, starts) / lengths
    lows, highs = np.minimum.reduceat(pooled, starts), np.maximum.reduceat(pooled, starts)
    away = pooled - np.repeat(means, lengths)
    stds = np.sqrt(np.add.reduceat(away * away, starts) / lengths)
    zeros = np.add.reduceat((pooled == 0).astype(np.float64), starts) / lengths
    figures = np.stack([means, stds, lows, highs, zeros], axis=1)
    places: list[int] = filled.tolist()
    for row, place in zip(figures, places):
        exact = readings[place].exact
        if exact is not None:
            row[:4] = exact
    counts = _histograms(pooled, lengths, figures[:, 2], figures[:, 3], bins)
    known = {
        place: Distribution(readings[place].size, readings[place].norm, mean, std, low, high, zero, histogram)
        for place, (mean, std, low, high, zero), histogram in zip(places, figures.tolist(), counts)
    }
    return [known.get(place) or _empty(x, bins) for place, x in enumerate(readings)]


def _histograms(pooled: Array, lengths: Array, lows: Array, highs: Array, bins: int) -> Array:
    """Return the histogram of each segment of the pooled samples, on evenly spaced bins between its ends."""
    width = highs - lows
    scale = np.where(width > 0, bins / np.where(width > 0, width, 1), 0.0)
    scale[~np.isfinite(scale)] = 0.0
    place = ((pooled - np.repeat(lows, lengths)) * np.repeat(scale, lengths)).astype(np.intp)
    np.minimum(place, bins - 1, out=place)
    place += np.repeat(np.arange(len(lengths)) * bins, lengths)
    return np.bincount(place, minlength=len(lengths) * bins).reshape(len(lengths), bins)


def _empty(x: Reading, bins: int) -> Distribution:
    return Distribution(x.size, x.norm, nan, nan, 0.0, 0.0, 0.0, np.zeros(bins, dtype=np.int64))


def sample_of(array: Array) -> Array:
    """Return a copy of up to 512 evenly spaced elements as a NumPy array.

    The stride is coprime to the row length, so that the sample covers all columns.
    """
    flat = array.reshape(-1)
    if flat.size > WHOLE:
        step = -(-flat.size // WHOLE)
        while math.gcd(step, array.shape[-1]) > 1:
            step += 1
        flat = flat[::step]
    return np.array(backend_of(flat).to_numpy(_real(flat)), dtype=np.float64)


class Calls:
    """The calls of one module or activation function during a step."""

    MOST = 8  # the most calls per step whose outputs are sampled

    def __init__(self, kind: str = "") -> None:
        self.kind = kind
        self.order = 0  # the position of the last call among all calls of the step
        self.alive: Array | None = None
        self._finite = True
        self._samples: list[Array] = []
        self._rows: list[Array] = []

    def add(self, array: Array) -> None:
        """Add an output; the array is only read."""
        if not array.size:
            return
        self._finite = self._finite and _finite(array)
        if len(self._samples) < self.MOST:
            self._samples.append(sample_of(array))
            if self.kind == "softmax":
                self._rows.append(_peaks(array))
        if self.kind == "relu" and array.ndim >= 2:
            axis = _axis_of_units(array)
            others = tuple(index for index in range(array.ndim) if index != axis)
            alive = backend_of(array).to_numpy(array.max(axis=others) > 0)
            known = self.alive
            self.alive = alive if known is None or known.shape != alive.shape else known | alive

    def has_units_of(self, array: Array) -> bool:
        """Return whether an output has as many units as those added before, or units are not counted."""
        return self.alive is None or array.ndim < 2 or len(self.alive) == array.shape[_axis_of_units(array)]

    def measured(self) -> Activation:
        """Return the measurements of the outputs."""
        x = np.concatenate(self._samples) if self._samples else np.zeros(0)
        if not self._finite:
            x = x[np.isfinite(x)]
        if not x.size:
            return Activation(self.kind, nan, nan, self._finite)
        mean = float(x.sum()) / x.size
        x_from_mean = x - mean
        std = math.sqrt(float(x_from_mean.dot(x_from_mean)) / x.size)
        saturated = None
        if self.kind == "tanh":
            saturated = float((abs(x) > _FLAT).mean())
        elif self.kind == "sigmoid":
            saturated = float((abs(2 * x - 1) > _FLAT).mean())
        elif self.kind == "softmax":
            saturated = float((np.concatenate(self._rows) > 0.99).mean())
        return Activation(self.kind, mean, std, self._finite, saturated)


def _axis_of_units(array: Array) -> int:
    return array.ndim - 1 if array.ndim <= 3 else 1


def _finite(array: Array) -> bool:
    return math.isfinite(float(_real(array).sum())) or bool(array_module(array).isfinite(array).all())


def _peaks(array: Array) -> Array:
    """Return the maximum of each of some rows."""
    rows = array.reshape(-1, array.shape[-1])
    return backend_of(array).to_numpy(_real(rows[:: max(1, len(rows) // 256)]).max(axis=1))


def densities_over_time(records: Sequence[Sequence[Distribution]], bins: int = 60) -> tuple[Array, Array]:
    """Combine the histograms of each record into one density, on bins that all records share.

    Returns:
        The edges of the bins, ``(bins + 1,)``, and the densities, ``(records, bins)``, each with the integral 1, or all
        zero if a record has no finite value.

    >>> from retrograd.inspect.watching.measures import densities_over_time, distributions, reading
    >>> arrays = np.array([0.0, 1.0]), np.array([1.0, 1.0, 3.0])
    >>> found = [distributions([reading(array)], bins) for array, bins in zip(arrays, (2, 4))]
    >>> edges, densities = densities_over_time(found, bins=3)
    >>> edges, densities.sum(axis=1) * np.diff(edges)[0]
    (array([0., 1., 2., 3.]), array([1., 1.]))
    """
    known = [[found for found in record if found.counts.any()] for record in records]
    ends = [end for record in known for found in record for end in (found.minimum, found.maximum)] or [0.0, 1.0]
    low, high = min(ends), max(ends)
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, bins + 1)
    densities = np.zeros((len(records), bins))
    for density, record in zip(densities, known):
        for found in record:
            # Values are assumed to be uniform within a bin, so that the cumulative sum is piecewise linear.
            if found.minimum < found.maximum:
                share = found.size / found.counts.sum()
                cumulative = np.concatenate([[0], np.cumsum(found.counts)]) * share
                density += np.diff(np.interp(edges, found.edges, cumulative))
            else:
                density[min(bins - 1, int((found.minimum - low) / (high - low) * bins))] += found.size
        density /= max(density.sum(), 1e-300) * (edges[1] - edges[0])
    return edges, densities
