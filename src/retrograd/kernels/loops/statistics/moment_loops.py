"""The compiled loop of means and of sums of squares about them."""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from ...runtime.thread_protocol import shared
from ..elements.basic_loops import _sum, _sum_of_squares


@shared()
def moments(x, length, centred, means, sums, start, stop):
    """Of each row of so many elements, the last of which may be shorter."""
    for row in range(start, stop):
        part = x[row * length : min(x.size, (row + 1) * length)]
        means[row] = _sum(part) / part.size if centred else 0.0
        sums[row] = _sum_of_squares(part, means[row])
