"""The compiled loops of attention for bfloat16, given as uint16, whose products multiply pairs (``matrices/pairs.py``).

The notation is that of ``attention_loops.py``. Scores and all sums are float32; weights and the gradients of scores are
rounded to bfloat16 as factors of products.
"""

from __future__ import annotations

import numpy as np

from ...runtime.thread_protocol import shared
from ...tiles.packed_products import multiply, packed
from ..elements.basic_loops import _compiled, _largest, _loop, _sum, like, wide
from ..elements.scalar_functions import exp_negative
from .attention_loops import _APART, BLOCK, _find, _mask
from .common import copy, matrix_at

f, u, h = np.float32, np.uint32, np.uint16


@_loop
def _pair_rows(x: np.ndarray, first: int, rows: int, columns: int, out: np.ndarray) -> None:
    """Write pairs of adjacent rows of x, rounded to bfloat16; the last of an odd number of rows is paired with 0."""
    for i in range((rows + 1) // 2):
        one, two, pairs = x[first + 2 * i], x[min(first + 2 * i + 1, len(x) - 1)], out[i]
        if 2 * i + 1 < rows:
            for j in range(columns):
                pairs[j] = u(u(like(wide(one[j]), _HALVES)) | u(u(like(wide(two[j]), _HALVES)) << u(16)))
        else:
            for j in range(columns):
                pairs[j] = u(like(wide(one[j]), _HALVES))


_HALVES = np.zeros(1, h)


@_loop
def _round(row: np.ndarray, count: int, out: np.ndarray) -> None:
    """Round numbers to bfloat16; write 0 after an odd number of them, which completes the last pair."""
    for j in range(count):
        out[j] = like(row[j], out)
    if count % 2:
        out[count] = 0


@_compiled("reassoc", "contract")
def _dot_halves(x: np.ndarray, y: np.ndarray, count: int) -> np.float32:
    total = f(0)
    for e in range(count):
        total += wide(x[e]) * wide(y[e])
    return total


@shared("contract")
def attention(
    arrays: tuple[int, ...], offsets: np.ndarray, form: tuple[int, ...], causal: bool, scale: float, kept: float,
    start: int, stop: int,
) -> None:  # fmt: skip
    rows, columns, width, width_v, q_step, k_step, v_step, out_step, kind, mask_step, keep_step = form
    half_width, pairs, one = width // 2, (columns + 1) // 2, f(1)
    scores = np.empty((BLOCK, columns + 2 * _APART), np.float32)
    sums = np.empty((BLOCK, width_v + 2 * _APART), np.float32)
    weights = np.empty((BLOCK, pairs + _APART), np.uint32)
    lines, values_by_rows = weights.view(np.uint16), np.empty((pairs, width_v), np.uint32)
    at = np.empty(len(arrays), np.int64)
    for n in range(start, stop):
        _find(arrays, offsets[n], at)
        q, k = matrix_at(at[0], rows, q_step // 2, u(0)), matrix_at(at[1], columns, k_step // 2, u(0))
        v, out = matrix_at(at[2], columns, v_step, h(0)), matrix_at(at[5], rows, out_step, h(0))
        tops, totals = matrix_at(at[6], 1, rows, scale)[0], matrix_at(at[7], 1, rows, scale)[0]
        keys = packed(k, True, half_width, columns, u(1))
        _pair_rows(v, 0, columns, width_v, values_by_rows)
        values = packed(values_by_rows, False, pairs, width_v, u(1))
        for low in range(0, rows, BLOCK):
            high = min(low + BLOCK, rows)
            seen = min(high, columns) if causal else columns
            multiply(q[low:high, :half_width], keys, half_width, seen, scores, False)
            for i in range(low, high):
                allowed = min(i + 1, seen) if causal else seen
                row = scores[i - low]
                for j in range(allowed):
                    row[j] *= scale
                _mask(row, kind, at[3], i, mask_step, allowed, scale)
                top = _largest(row[:allowed])
                top = f(0) if top == -np.inf else top
                for j in range(allowed):
                    row[j] = exp_negative(row[j] - top)
                row[allowed:seen] = 0
                total = f(_sum(row[:allowed]))
                total = one if total == 0 else total
                tops[i], totals[i] = top, total
                if keep_step:
                    chosen = matrix_at(at[4] + i * keep_step, 1, seen, np.uint8(0))[0]
                    for j in range(seen):
                        row[j] = row[j] if chosen[j] else f(0)
                _round(row, seen, lines[i - low])
            multiply(weights[: high - low, : (seen + 1) // 2], values, pairs, width_v, sums, False)
            for i in range(low, high):
                share, line, result = one / (totals[i] * kept), sums[i - low], out[i]
                for e in range(width_v):
                    result[e] = like(line[e] * share, result)


@shared("contract")
def attention_backward(
    arrays: tuple[int, ...], offsets: np.ndarray, form: tuple[int, ...], causal: bool, scale: float, kept: float,
    start: int, stop: int,
) -> None:  # fmt: skip
    rows, columns, width, width_v, q_step, k_step, v_step, out_step, kind, mask_step, keep_step = form[:11]
    dout_step, dq_step, dk_step, dv_step = form[11:]
    half_width, half_width_v, pairs, one = width // 2, width_v // 2, (columns + 1) // 2, f(1)
    probabilities = np.empty((BLOCK, columns + 2 * _APART), np.float32)
    slopes = np.empty((BLOCK, columns + 2 * _APART), np.float32)
    by_q = np.empty((BLOCK, width + 2 * _APART), np.float32)
    by_k = np.empty((columns, width + 2 * _APART), np.float32)
    by_v = np.empty((columns, width_v + 2 * _APART), np.float32)
    p, ds = np.empty((2, BLOCK // 2, columns + _APART), np.uint32)
    ds_by_columns = np.empty((BLOCK, pairs + _APART), np.uint32)
    lines = ds_by_columns.view(np.uint16)
    k_by_rows = np.empty((pairs, width), np.uint32)
    q_by_rows, dout_by_rows = np.empty((BLOCK // 2, width), np.uint32), np.empty((BLOCK // 2, width_v), np.uint32)
    at = np.empty(len(arrays), np.int64)
    for n in range(start, stop):
        _find(arrays, offsets[n], at)
        q, k = matrix_at(at[0], rows, q_step, h(0)), matrix_at(at[1], columns, k_step, h(0))
        q_pairs, k_pairs = matrix_at(at[0], rows, q_step // 2, u(0)), matrix_at(at[1], columns, k_step // 2, u(0))
        v_pairs, out = matrix_at(at[2], columns, v_step // 2, u(0)), matrix_at(at[5], rows, out_step, h(0))
        tops, totals = matrix_at(at[6], 1, rows, scale)[0], matrix_at(at[7], 1, rows, scale)[0]
        dout, dq = matrix_at(at[8], rows, dout_step, h(0)), matrix_at(at[9], rows, dq_step, h(0))
        dout_pairs = matrix_at(at[8], rows, dout_step // 2, u(0))
        dk, dv = matrix_at(at[10], columns, dk_step, h(0)), matrix_at(at[11], columns, dv_step, h(0))
        keys, values = (
            packed(k_pairs, True, half_width, columns, u(1)),
            packed(v_pairs, True, half_width_v, columns, u(1)),
        )
        _pair_rows(k, 0, columns, width, k_by_rows)
        across = packed(k_by_rows, False, pairs, width, u(1))
        by_k[:] = 0
        by_v[:] = 0
        for low in range(0, rows, BLOCK):
            high = min(low + BLOCK, rows)
            seen, half = min(high, columns) if causal else columns, (high - low + 1) // 2
            multiply(q_pairs[low:high, :half_width], keys, half_width, seen, probabilities, False)
            multiply(dout_pairs[low:high, :half_width_v], values, half_width_v, seen, slopes, False)
            for i in range(low, high):
                allowed = min(i + 1, seen) if causal else seen
                row, slope, top, share = probabilities[i - low], slopes[i - low], tops[i], one / totals[i]
                inner = _dot_halves(dout[i], out[i], width_v)
                for j in range(allowed):
                    row[j] *= scale
                _mask(row, kind, at[3], i, mask_step, allowed, scale)
                if keep_step:
                    chosen = matrix_at(at[4] + i * keep_step, 1, seen, np.uint8(0))[0]
                    larger = one / kept
                    for j in range(allowed):
                        weight, factor = exp_negative(row[j] - top) * share, larger if chosen[j] else f(0)
                        slope[j] = (slope[j] * factor - inner) * weight * scale
                        row[j] = weight * factor
                else:
                    for j in range(allowed):
                        row[j] = exp_negative(row[j] - top) * share
                        slope[j] = (slope[j] - inner) * row[j] * scale
                row[allowed:seen] = 0
                slope[allowed:seen] = 0
                _round(slope, seen, lines[i - low])
            _pair_rows(probabilities, 0, high - low, seen, p)
            _pair_rows(slopes, 0, high - low, seen, ds)
            _pair_rows(dout, low, high - low, width_v, dout_by_rows)
            _pair_rows(q, low, high - low, width, q_by_rows)
            of_v = packed(dout_by_rows[:half], False, half, width_v, u(1))
            of_k = packed(q_by_rows[:half], False, half, width, u(1))
            multiply(p[:half, :seen].T, of_v, half, width_v, by_v, True)
            multiply(ds[:half, :seen].T, of_k, half, width, by_k, True)
            multiply(ds_by_columns[: high - low, : (seen + 1) // 2], across, pairs, width, by_q, False)
            for i in range(low, high):
                copy(by_q[i - low], dq[i, :width])
        for j in range(columns):
            copy(by_k[j], dk[j, :width])
            copy(by_v[j], dv[j, :width_v])
