"""The compiled loops of lookups: rows of a table, and the classes of logits.

The references and the notation are those of ops/indexing/indexing.py and ops/nn/losses/classes.py.
"""

from __future__ import annotations

import numpy as np

from ...runtime.thread_protocol import shared
from ..elements.basic_loops import _compiled, _largest
from ..elements.scalar_functions import exp
from .lookups import LINE


@shared()
def add_rows(out: np.ndarray, index: np.ndarray, values: np.ndarray, start: int, stop: int) -> None:
    """Compute ``out[index] += values`` for columns ``start * LINE`` to ``stop * LINE``, disjoint per thread."""
    low, high = start * LINE, min(stop * LINE, out.shape[1])
    for n in range(index.size):
        row, more = out[index[n], low:high], values[n, low:high]
        for j in range(row.size):
            row[j] += more[j]


@_compiled("reassoc", "contract")
def _sum_of_exponentials(row: np.ndarray, top: float) -> float:
    total = 0.0
    for j in range(row.size):
        total += exp(row[j] - top)
    return total


@_compiled("reassoc", "contract")
def _sum_of_differences(row: np.ndarray, top: float, weight: np.ndarray) -> float:
    total = 0.0
    if weight.size:
        for j in range(row.size):
            total += (row[j] - top) * weight[j]
    else:
        for j in range(row.size):
            total += row[j] - top
    return total


@shared("contract")
def cross_entropy(
    x: np.ndarray,
    index: np.ndarray,
    class_weight: np.ndarray,
    whole: float,
    smoothing: float,
    rows: np.ndarray,
    tops: np.ndarray,
    totals: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Compute unweighted losses; ``whole`` is the sum of the class weights, whose array is empty if none are given."""
    number = x.dtype.type
    for n in range(start, stop):
        largest = _largest(x[n])
        exponentials = _sum_of_exponentials(x[n], largest)
        log_total = np.log(exponentials)
        tops[n, 0], totals[n, 0] = largest, exponentials
        rows[0, n] = log_total - (x[n, index[n]] - largest)
        if smoothing:
            rows[1, n] = number(whole * log_total - _sum_of_differences(x[n], largest, class_weight))


@_compiled("contract")
def _subtract(row: np.ndarray, even: float, class_weight: np.ndarray) -> None:
    """Subtract ``even`` times the class weights, which are 1 if the array is empty."""
    if class_weight.size:
        for j in range(row.size):
            row[j] -= even * class_weight[j]
    else:
        for j in range(row.size):
            row[j] -= even


@shared("contract")
def cross_entropy_backward(
    x: np.ndarray,
    tops: np.ndarray,
    totals: np.ndarray,
    index: np.ndarray,
    factor: np.ndarray,
    picked: np.ndarray,
    spread: np.ndarray,
    class_weight: np.ndarray,
    dx: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """``softmax(x) * factor`` minus ``picked`` at the class and ``spread`` times the class weights (maybe empty)."""
    for n in range(start, stop):
        row, new, largest, share = x[n], dx[n], tops[n, 0], factor[n] / totals[n, 0]
        for j in range(row.size):
            new[j] = exp(row[j] - largest) * share
        if spread.size:
            _subtract(new, spread[n], class_weight)
        new[index[n]] -= picked[n]


@shared("contract")
def cross_entropy_in_place(
    x: np.ndarray,
    tops: np.ndarray,
    totals: np.ndarray,
    index: np.ndarray,
    factor: np.ndarray,
    picked: np.ndarray,
    spread: np.ndarray,
    class_weight: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Write the results of ``cross_entropy_backward`` to x; a loop over two equal addresses is not vectorized."""
    for n in range(start, stop):
        row, largest, share = x[n], tops[n, 0], factor[n] / totals[n, 0]
        for j in range(row.size):
            row[j] = exp(row[j] - largest) * share
        if spread.size:
            _subtract(row, spread[n], class_weight)
        row[index[n]] -= picked[n]


@shared()
def class_margins(
    x: np.ndarray,
    index: np.ndarray,
    margin: float,
    weight: np.ndarray,
    divisor: float,
    own: np.ndarray,
    rows: np.ndarray,
    slopes: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Compute losses and slopes; ``own`` and ``slopes`` are zeros, and ``weight`` is empty if not given."""
    for n in range(start, stop):
        row, mine, slope, total = x[n], own[n], slopes[n], 0.0
        for target in index[n]:
            if target >= 0:
                mine[target] = True
        for target in index[n]:
            if target >= 0:
                base = margin - row[target]
                for j in range(row.size):
                    hinge = base + row[j]
                    if not (mine[j] or hinge <= 0):  # the test also passes if hinge is NaN
                        total += hinge
                        if hinge > 0:
                            slope[j] += 1
                            slope[target] -= 1
        share = weight[n] if weight.size else 1.0
        rows[n] = total / row.size * share
        for j in range(row.size):
            slope[j] = slope[j] / divisor * share
