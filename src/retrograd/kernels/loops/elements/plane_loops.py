"""The compiled loops along a dimension other than the last, on arrays ``(count, along, places)``.

Each loop corresponds to the loop of the same name along rows, and processes ``PLACES`` elements of the last dimension
together.
"""
# mypy: disable-error-code="no-untyped-def, call-arg"

from __future__ import annotations

import numpy as np

from ... import PLACES
from ...runtime.thread_protocol import shared
from .basic_loops import _compiled, _exp_down, _larger
from .scalar_functions import exp


@_compiled()
def _piece(x, item):
    """Return the index of the matrix of a work item, and its first place."""
    pieces = -(-x.shape[2] // PLACES)
    return item // pieces, item % pieces * PLACES


@_compiled()
def _row_part(matrix, first, c):
    """Return up to ``PLACES`` elements of one row, from ``first``, as a contiguous array."""
    return matrix[c][first : first + PLACES]


@_compiled()
def _find_tops(matrix, first, tops):
    """Find the maximum at each place; unspecified if there is a NaN."""
    row = _row_part(matrix, first, 0)
    for j in range(row.size):
        tops[j] = row[j]
    for c in range(1, len(matrix)):
        row = _row_part(matrix, first, c)
        for j in range(row.size):
            tops[j] = _larger(row[j], tops[j])


@_compiled("contract")
def _add_exponentials(matrix, first, tops, totals):
    totals[:] = 0.0
    for c in range(len(matrix)):
        row = _row_part(matrix, first, c)
        for j in range(row.size):
            totals[j] += exp(row[j] - tops[j])


@shared("contract")
def softmax(x, out, start, stop):
    tops, totals = np.empty(PLACES, x.dtype), np.empty(PLACES, np.float64)
    number = x.dtype.type
    for item in range(start, stop):
        n, first = _piece(x, item)
        matrix, new = x[n], out[n]
        top, total = tops[: x.shape[2] - first], totals[: x.shape[2] - first]
        _find_tops(matrix, first, top)
        total[:] = 0.0
        for c in range(len(matrix)):
            row, line = _row_part(matrix, first, c), _row_part(new, first, c)
            for j in range(row.size):
                line[j] = _exp_down(row[j] - top[j])
                total[j] += line[j]
        for j in range(total.size):
            top[j] = number(total[j])
        for c in range(len(matrix)):
            line = _row_part(new, first, c)
            for j in range(line.size):
                line[j] /= top[j]


@shared("contract")
def softmax_backward(g, y, out, start, stop):
    totals, parts = np.empty(PLACES, np.float64), np.empty(PLACES, y.dtype)
    number = y.dtype.type
    for item in range(start, stop):
        n, first = _piece(y, item)
        slopes, matrix, new = g[n], y[n], out[n]
        total, part = totals[: y.shape[2] - first], parts[: y.shape[2] - first]
        total[:] = 0.0
        for c in range(len(matrix)):
            slope, row = _row_part(slopes, first, c), _row_part(matrix, first, c)
            for j in range(row.size):
                total[j] += np.float64(slope[j]) * row[j]
        for j in range(total.size):
            part[j] = number(total[j])
        for c in range(len(matrix)):
            slope, row, line = _row_part(slopes, first, c), _row_part(matrix, first, c), _row_part(new, first, c)
            for j in range(row.size):
                line[j] = row[j] * (slope[j] - part[j])


@shared("contract")
def log_softmax(x, out, start, stop):
    tops, totals = np.empty(PLACES, x.dtype), np.empty(PLACES, np.float64)
    logs = np.empty(PLACES, x.dtype)
    for item in range(start, stop):
        n, first = _piece(x, item)
        matrix, new = x[n], out[n]
        top, total = tops[: x.shape[2] - first], totals[: x.shape[2] - first]
        _find_tops(matrix, first, top)
        _add_exponentials(matrix, first, top, total)
        for j in range(total.size):
            logs[j] = np.log(total[j])
        for c in range(len(matrix)):
            row, line = _row_part(matrix, first, c), _row_part(new, first, c)
            for j in range(row.size):
                line[j] = row[j] - top[j] - logs[j]


@shared("contract")
def log_softmax_backward(g, y, out, start, stop):
    totals, parts = np.empty(PLACES, np.float64), np.empty(PLACES, y.dtype)
    number = y.dtype.type
    for item in range(start, stop):
        n, first = _piece(y, item)
        slopes, matrix, new = g[n], y[n], out[n]
        total, part = totals[: y.shape[2] - first], parts[: y.shape[2] - first]
        total[:] = 0.0
        for c in range(len(matrix)):
            slope = _row_part(slopes, first, c)
            for j in range(slope.size):
                total[j] += slope[j]
        for j in range(total.size):
            part[j] = number(total[j])
        for c in range(len(matrix)):
            slope, row, line = _row_part(slopes, first, c), _row_part(matrix, first, c), _row_part(new, first, c)
            for j in range(row.size):
                line[j] = slope[j] - exp(row[j]) * part[j]


@shared("contract")
def cross_entropy(x, index, rows, tops, totals, start, stop):
    """Compute unweighted losses of logits ``(N, C, places)``."""
    sums = np.empty(PLACES, np.float64)
    for item in range(start, stop):
        n, first = _piece(x, item)
        matrix, top, kept = x[n], _row_part(tops[n], first, 0), _row_part(totals[n], first, 0)
        total, loss, classes = sums[: x.shape[2] - first], _row_part(rows[n], first, 0), _row_part(index[n], first, 0)
        _find_tops(matrix, first, top)
        _add_exponentials(matrix, first, top, total)
        for j in range(total.size):
            kept[j] = total[j]
            loss[j] = np.log(total[j]) - (matrix[classes[j], first + j] - top[j])


@shared("contract")
def cross_entropy_backward(x, tops, totals, index, factor, picked, dx, start, stop):
    """``softmax(x) * factor`` minus ``picked`` at the class."""
    shares = np.empty(PLACES, x.dtype)
    for item in range(start, stop):
        n, first = _piece(x, item)
        matrix, new, top, total = x[n], dx[n], _row_part(tops[n], first, 0), _row_part(totals[n], first, 0)
        whole, at_class = _row_part(factor[n], first, 0), _row_part(picked[n], first, 0)
        share, classes = shares[: x.shape[2] - first], _row_part(index[n], first, 0)
        for j in range(share.size):
            share[j] = whole[j] / total[j]
        for c in range(len(matrix)):
            row, line = _row_part(matrix, first, c), _row_part(new, first, c)
            for j in range(row.size):
                line[j] = exp(row[j] - top[j]) * share[j]
        for j in range(classes.size):
            new[classes[j], first + j] -= at_class[j]
