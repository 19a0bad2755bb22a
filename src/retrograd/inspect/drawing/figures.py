"""Numbers and shapes as short texts for pictures, tables and tooltips."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.arrays.devices import backend_of
from ...core.tensor.tensor import Tensor
from ..statistics import Statistics, statistics


class Figures(NamedTuple):
    """A few figures of an array's finite elements."""

    size: int
    minimum: float
    maximum: float
    mean: float
    norm: float
    zeros: int
    nans: int
    infinities: int

    @classmethod
    def of(cls, found: Statistics) -> Figures:
        """Return the figures of a trace's statistics; shares become counts."""
        zeros, nans, infinities = [round(share * found.size) for share in (found.zeros, found.nans, found.infinities)]
        return cls(found.size, found.minimum, found.maximum, found.mean, found.norm, zeros, nans, infinities)

    @property
    def alarm(self) -> str:
        """The numbers of NaN and infinite elements as text; empty for finite values."""
        parts = [(self.nans, "NaN"), (self.infinities, "infinite")]
        return ", ".join(f"{count:,} {word}" for count, word in parts if count)

    @property
    def extent(self) -> str:
        """The range of the values."""
        if self.size == 1 and self.minimum == self.minimum:
            return number(self.minimum)
        parts = []
        if self.size > self.nans:
            parts.append(f"{number(self.minimum)} to {number(self.maximum)}")
            if self.size > self.nans + self.infinities:
                parts += [f"mean {number(self.mean)}", f"norm {number(self.norm)}"]
            if self.zeros:
                parts.append(f"{self.zeros / self.size:.0%} zeros")
        return ", ".join(parts)

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.alarm, self.extent))) or "no elements"


def figures(values: object) -> Figures:
    """Return the figures of a Tensor or array; for complex numbers, of their magnitudes."""
    return Figures.of(statistics(values.array if isinstance(values, Tensor) else values))


def numbers_of(values: object) -> np.ndarray:
    """Return the elements of a Tensor or array as a NumPy array."""
    array = values.array if isinstance(values, Tensor) else values
    return backend_of(array).to_numpy(array)


def number(value: float) -> str:
    """Return a number with four digits.

    >>> number(0.000123456), number(1234567.0), number(2.0)
    ('0.0001235', '1.235e+06', '2')
    """
    return f"{value:.4g}"


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as users write it.

    >>> shape_text((2, 3))
    '(2, 3)'
    """
    return str(tuple(int(length) for length in shape))


def short_shape(shape: tuple[int, ...]) -> str:
    """Return a shape in short form, for pictures.

    >>> short_shape((2, 3)), short_shape(())
    ('2×3', 'scalar')
    """
    return "×".join(str(int(length)) for length in shape) or "scalar"


def byte_text(count: float) -> str:
    """Return a number of bytes with a suitable unit.

    >>> byte_text(1536)
    '1.5 KB'
    """
    for unit in ("bytes", "KB", "MB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GB"
