"""Ratios of results between libraries."""

from __future__ import annotations

import statistics
from typing import Any

Results = dict[str, dict[str, Any]]  # results by library


def ratio(results: Results, library: str, figure: str, other: str = "torch") -> float | None:
    """Return a library's result divided by another's, PyTorch's by default.

    For times it is the median of the ratios of all rounds: the speed of a machine varies between minutes, but both
    times of a round are measured within seconds.
    """
    if library not in results or other not in results:
        return None
    one, two = results[library], results[other]
    if figure == "seconds_median" and "rounds" in one and "rounds" in two:
        return statistics.median(mine / others for mine, others in zip(one["rounds"], two["rounds"], strict=True))
    quotient: float = one[figure] / two[figure]
    return quotient
