"""What one library took over what another took."""

from __future__ import annotations

import statistics
from typing import Any

Results = dict[str, dict[str, Any]]  # figures by library


def ratio(results: Results, library: str, figure: str, other: str = "torch") -> float | None:
    """A library's figure divided by another's, by default PyTorch's.

    Of times it is the median of the quotients of all rounds: a machine may work faster in one minute than in the next,
    but the two halves of a quotient were measured within seconds of each other.
    """
    if library not in results or other not in results:
        return None
    one, two = results[library], results[other]
    if figure == "seconds_median" and "rounds" in one and "rounds" in two:
        return statistics.median(mine / others for mine, others in zip(one["rounds"], two["rounds"], strict=True))
    quotient: float = one[figure] / two[figure]
    return quotient
