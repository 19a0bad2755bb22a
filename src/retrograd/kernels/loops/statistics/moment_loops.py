"""The compiled loop of means and sums of squared deviations."""

from __future__ import annotations

import numpy as np

from ...runtime.thread_protocol import shared
from ..elements.basic_loops import _sum, _sum_of_squares


@shared()
def moments(
    x: np.ndarray, length: int, centred: bool, means: np.ndarray, sums: np.ndarray, start: int, stop: int
) -> None:
    """Compute the moments of each row of ``length`` elements; the last row may be shorter."""
    for row in range(start, stop):
        part = x[row * length : min(x.size, (row + 1) * length)]
        means[row] = _sum(part) / part.size if centred else 0.0
        sums[row] = _sum_of_squares(part, means[row])
