"""Statistics of an array's values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import array_module, backend_of
from ..core.arrays.fp_warnings import silent

_BLOCK = 1 << 13
_DIGITS = 0.05  # if the variance is a smaller share of the mean square, ``mean(x^2) - mean(x)^2`` loses digits
_SMALL = 1e-30  # below this mean square, float32 loses digits
_WHOLE = 1024  # arrays up to this size are sampled as a whole
_SAMPLE = 64


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of an array's elements; for complex numbers, of their magnitudes.

    ``minimum`` and ``maximum`` ignore NaN; ``mean`` and ``std`` (of the population) ignore NaN and infinities.
    ``zeros``, ``nans`` and ``infinities`` are shares of all ``size`` elements.
    """

    size: int
    minimum: float
    maximum: float
    mean: float
    std: float
    zeros: float
    nans: float
    infinities: float

    @property
    def finite(self) -> bool:
        """Whether no element is NaN or infinite."""
        return not (self.nans or self.infinities)

    @property
    def norm(self) -> float:
        """The Euclidean norm of the finite elements."""
        count = self.size * (1 - self.nans - self.infinities)
        return math.sqrt(count * (self.std**2 + self.mean**2)) if count else 0.0

    def pooled(self, other: Statistics) -> Statistics:
        """Return the statistics of all elements of two arrays of equal size; ``size`` remains that of one array."""
        low, high = min(self.minimum, other.minimum), max(self.maximum, other.maximum)
        mean = (self.mean + other.mean) / 2
        std = math.sqrt(max(0.0, (self.std**2 + self.mean**2 + other.std**2 + other.mean**2) / 2 - mean**2))
        shares = ((getattr(self, x) + getattr(other, x)) / 2 for x in ("zeros", "nans", "infinities"))
        return Statistics(self.size, low, high, mean, std, *shares)


def statistics(array: Any, exact: bool = True) -> Statistics:
    """Return the statistics of a NumPy or CuPy array; mean and std are to 1e-5 if they need not be ``exact``."""
    size = array.size
    if not size:
        return Statistics(0, math.nan, math.nan, math.nan, math.nan, 0.0, 0.0, 0.0)
    xp = array_module(array)
    with silent():
        x = array.reshape(-1)
        kind = x.dtype.kind
        if kind == "c":
            x = xp.abs(x)
        elif kind == "b":
            x = x.view(xp.uint8)
        zeros = int(xp.count_nonzero(x == 0)) / size  # bools are counted five times as fast as floats
        low, high = float(x.min()), float(x.max())
        nans = infinities = 0
        if not (math.isfinite(low) and math.isfinite(high)):
            missing = xp.isnan(x)
            nans = int(xp.count_nonzero(missing))
            infinities = int(xp.count_nonzero(xp.isinf(x)))
            if nans:
                x = x[~missing]
                low, high = (float(x.min()), float(x.max())) if x.size else (math.nan, math.nan)
            x = x[xp.isfinite(x)]
        mean, std = _moments(x, exact)
    return Statistics(size, low, high, mean, std, zeros, nans / size, infinities / size)


def _moments(x: Any, exact: bool) -> tuple[float, float]:
    """Return mean and standard deviation, computed in blocks in float64; in float32 for float32 unless ``exact``."""
    if not x.size:
        return math.nan, math.nan
    if not exact and x.dtype == np.float32:
        mean = float(x.sum()) / x.size
        square = sum([float(block.dot(block)) for block in blocks(x)]) / x.size
        variance = square - mean * mean
        if math.isfinite(square) and variance > _DIGITS * square > _SMALL:
            return mean, math.sqrt(variance)
    mean = float(x.sum(dtype=np.float64)) / x.size
    squares = 0.0
    for block in blocks(x):
        block = block.astype(np.float64)
        block -= mean
        squares += float(block.dot(block))
    return mean, math.sqrt(squares / x.size)


def blocks(flat: Array) -> list[Array]:
    """Return the parts of a flat array, each so small that BLAS starts no threads for it."""
    return [flat[start : start + _BLOCK] for start in range(0, flat.size, _BLOCK)]


def sample(array: Array) -> np.ndarray:
    """Return evenly spaced elements of the array, in order, as a new NumPy array; all elements of a small array."""
    return backend_of(array).to_numpy(array.reshape(-1)[:: sample_step(array.size)]).copy()


def sample_step(size: int) -> int:
    """Return the stride of the sample of an array of this size."""
    return 1 if size <= _WHOLE else size // _SAMPLE
