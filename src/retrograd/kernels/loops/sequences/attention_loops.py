"""The compiled loops of attention: one problem (a head of an example) after the other, in blocks of rows of scores.

The notation is that of ops/nn/attention/scaled_dot_product.py.
"""
# mypy: disable-error-code="no-untyped-def, call-arg"

from __future__ import annotations

import numpy as np

from ...runtime.loop_blas import product as product_by_blas
from ...runtime.object_layout import DATA
from ...runtime.thread_protocol import load, shared
from ...tiles.packed_products import multiply, packed
from ...tiles.tiles import product
from ..elements.basic_loops import _compiled, _dot, _largest, _loop, _sum
from ..elements.scalar_functions import exp_negative
from .attention import ADDED, CHOOSING
from .common import matrix_at

BLOCK = 64  # number of rows of scores that are in memory at a time
STEP = 16  # number of rows that are masked together: what a causal mask hides from all of them is not computed
FEW = 4  # for at most this many rows, packing keys and values would take longer than the products
_APART = 16  # padding between the rows of a block, so that columns do not conflict in the cache


@_loop
def _transposed(x, rows, width, scale):
    """Return ``scale * x.T``, so that products read along its rows."""
    out = np.empty((width, rows + _APART), x.dtype)
    for low in range(0, rows, 8):
        for e in range(width):
            for j in range(low, min(low + 8, rows)):
                out[e, j] = x[j, e] * scale
    return out


@_loop
def _mask(row, kind, address, i, step, columns, number):
    """Apply row i of the mask to a row of scores."""
    if kind == CHOOSING:
        allowed = matrix_at(address + i * step, 1, columns, np.uint8(0))[0]
        for j in range(columns):
            score = row[j]  # read in any case, so that the loop is vectorized
            row[j] = score if allowed[j] else type(number)(-np.inf)
    elif kind == ADDED:
        added = matrix_at(address + i * step, 1, columns, number)[0]
        for j in range(columns):
            row[j] += added[j]


@_loop
def _find(arrays, offsets, at):
    """Compute the addresses of a problem's arrays."""
    for j in range(len(arrays)):
        at[j] = load(arrays[j] + DATA) + offsets[j]


@_compiled("reassoc", "contract")
def _score(x, keys, scale, scores):
    """Compute ``scores = scale * x @ keys.T``, row by row."""
    for i in range(len(x)):
        row = x[i]
        for j in range(len(keys)):
            key, total = keys[j], type(scale)(0)
            for e in range(row.size):
                total += row[e] * key[e]
            scores[i, j] = total * scale


@_loop
def _weigh(weights, values, out):
    """Compute ``out = weights @ values``, four rows of values at a time."""
    for i in range(len(weights)):
        row, weight = out[i], weights[i]
        row[:] = 0
        whole = weight.size - weight.size % 4
        for j in range(0, whole, 4):
            a, b, c, d = weight[j], weight[j + 1], weight[j + 2], weight[j + 3]
            one, two, three, four = values[j], values[j + 1], values[j + 2], values[j + 3]
            for e in range(row.size):
                row[e] += a * one[e] + b * two[e] + (c * three[e] + d * four[e])
        for j in range(whole, weight.size):
            for e in range(row.size):
                row[e] += weight[j] * values[j, e]


@_loop
def _mask_from(allowed, row):
    """Mask the scores from ``allowed`` on."""
    for j in range(row.size):
        score = row[j]
        row[j] = score if j < allowed else type(score)(-np.inf)


@shared("contract")
def attention(arrays, offsets, form, causal, scale, kept, start, stop):
    """Compute the problems ``start`` to ``stop``.

    ``arrays`` has the addresses of q, k, v, mask, keep, out, top and total, and ``offsets`` for each problem the
    offsets of its data. ``form`` has the lengths L, S, E and Ev, the row strides of q, k, v and out, the kind of mask,
    and in bytes the row strides of mask and keep (0: none). ``kept`` is the fraction of weights that dropout keeps.
    """
    rows, columns, width, width_v, q_step, k_step, v_step, out_step, kind, mask_step, keep_step = form
    one = type(scale)(1)
    scores = np.empty((STEP, columns + 2 * _APART), type(scale))
    at = np.empty(len(arrays), np.int64)
    for n in range(start, stop):
        _find(arrays, offsets[n], at)
        q, k = matrix_at(at[0], rows, q_step, scale), matrix_at(at[1], columns, k_step, scale)
        v, out = matrix_at(at[2], columns, v_step, scale), matrix_at(at[5], rows, out_step, scale)
        tops, totals = matrix_at(at[6], 1, rows, scale)[0], matrix_at(at[7], 1, rows, scale)[0]
        few = rows <= FEW
        keys = packed(k, True, width, 0 if few else columns, scale)
        for low in range(0, rows, STEP):
            high = min(low + STEP, rows)
            seen = min(high, columns) if causal else columns
            if few:
                _score(q[:, :width], k[:seen, :width], scale, scores)
            else:
                multiply(q[low:high, :width], keys, width, seen, scores, False)
            for i in range(low, high):
                row = scores[i - low]
                _mask(row, kind, at[3], i, mask_step, seen, scale)
                if causal:
                    _mask_from(i + 1 - low, row[low:seen])
            for i in range(low, high):
                top = _largest(scores[i - low, :seen])
                tops[i] = type(scale)(0) if top == -np.inf else top
            for i in range(low, high):
                row, top = scores[i - low], tops[i]
                for j in range(seen):
                    row[j] = exp_negative(row[j] - top)
            for i in range(low, high):
                total = type(scale)(_sum(scores[i - low, :seen]))
                totals[i] = one if total == 0 else total
            if keep_step:
                for i in range(low, high):
                    row, chosen = scores[i - low], matrix_at(at[4] + i * keep_step, 1, seen, np.uint8(0))[0]
                    for j in range(seen):
                        weight = row[j]
                        row[j] = weight if chosen[j] else type(scale)(0)
            if few:
                _weigh(scores[:rows, :seen], v[:, :width_v], out[:, :width_v])
            else:
                product(scores[: high - low, :seen], v[:seen, :width_v], out[low:high, :width_v], 0)
            for i in range(low, high):
                share, row = one / (totals[i] * kept), out[i]
                for e in range(width_v):
                    row[e] *= share


@_loop
def _sum_over_rows(weights, x, low, causal, sums):
    """Add ``weights.T @ x`` to the sums over rows; the weights are those of a block of rows from ``low`` on.

    The columns from ``low`` on, which earlier rows do not see if ``causal``, have no sums yet.
    """
    if not causal:
        product(weights.T, x, sums, 1 if low else 0)
        return
    if low:
        product(weights[:, :low].T, x, sums[:low], 1)
    for first in range(low, len(sums), STEP):
        last, begin = min(first + STEP, len(sums)), first - low
        product(weights[begin:, first:last].T, x[begin:], sums[first:last], 0)


@shared("contract")
def attention_backward(arrays, offsets, form, causal, scale, kept, start, stop):
    """Compute the gradients of the problems ``start`` to ``stop``.

    ``arrays`` and ``form`` begin as for ``attention``; dout, dq, dk and dv, and their row strides, follow.
    """
    rows, columns, width, width_v, q_step, k_step, v_step, out_step, kind, mask_step, keep_step = form[:11]
    dout_step, dq_step, dk_step, dv_step = form[11:]
    one = type(scale)(1)
    probabilities = np.empty((BLOCK, columns + 2 * _APART), type(scale))
    slopes = np.empty((BLOCK, columns + 2 * _APART), type(scale))
    inner = np.empty(STEP, type(scale))
    at = np.empty(len(arrays), np.int64)
    for n in range(start, stop):
        _find(arrays, offsets[n], at)
        q, k = matrix_at(at[0], rows, q_step, scale), matrix_at(at[1], columns, k_step, scale)
        v, out = matrix_at(at[2], columns, v_step, scale), matrix_at(at[5], rows, out_step, scale)
        tops, totals = matrix_at(at[6], 1, rows, scale)[0], matrix_at(at[7], 1, rows, scale)[0]
        dout, dq = matrix_at(at[8], rows, dout_step, scale), matrix_at(at[9], rows, dq_step, scale)
        dk, dv = matrix_at(at[10], columns, dk_step, scale), matrix_at(at[11], columns, dv_step, scale)
        keys, values = packed(k, True, width, columns, scale), packed(v, True, width_v, columns, one)
        for low in range(0, rows, BLOCK):
            high = min(low + BLOCK, rows)
            for first in range(low, high, STEP):
                last = min(first + STEP, high)
                seen = min(last, columns) if causal else columns
                p, ds = probabilities[first - low : last - low], slopes[first - low : last - low]
                multiply(q[first:last, :width], keys, width, seen, p, False)
                multiply(dout[first:last, :width_v], values, width_v, seen, ds, False)
                for i in range(first, last):
                    inner[i - first] = _dot(dout[i, :width_v], out[i, :width_v])
                    _mask(p[i - first], kind, at[3], i, mask_step, seen, scale)
                    if causal:
                        _mask_from(i + 1 - first, p[i - first, first:seen])
                for i in range(first, last):
                    row, slope, level = p[i - first], ds[i - first], inner[i - first]
                    top, share = tops[i], one / totals[i]
                    if keep_step:
                        chosen = matrix_at(at[4] + i * keep_step, 1, seen, np.uint8(0))[0]
                        larger = one / kept
                        for j in range(seen):
                            weight, factor = exp_negative(row[j] - top) * share, larger if chosen[j] else type(scale)(0)
                            slope[j] = (slope[j] * factor - level) * weight * scale
                            row[j] = weight * factor
                    else:
                        for j in range(seen):
                            weight = exp_negative(row[j] - top) * share
                            slope[j] = (slope[j] - level) * weight * scale
                            row[j] = weight
                product(ds[:, :seen], k[:seen, :width], dq[first:last, :width], 0)
            seen = min(high, columns) if causal else columns
            p, ds = probabilities[: high - low, :seen], slopes[: high - low, :seen]
            _sum_over_rows(p, dout[low:high, :width_v], low, causal, dv[:seen, :width_v])
            _sum_over_rows(ds, q[low:high, :width], low, causal, dk[:seen, :width])
        for j in range(rows if causal else columns, columns):  # no row has seen these columns
            dk[j, :width] = 0
            dv[j, :width_v] = 0


@shared("contract")
def attention_second(arrays, offsets, form, causal, scale, kept, start, stop):
    """The derivative of ``attention_backward``; the notation is that of its reference.

    ``arrays`` has the addresses of q, k, v, mask, keep, dout, top, total, gq, gk and gv, then of the gradients of q, k,
    v and dout; ``form`` is that of ``attention``, with dout in place of out.
    """
    rows, columns, width, width_v, q_step, k_step, v_step, dout_step, kind, mask_step, keep_step = form[:11]
    gq_step, gk_step, gv_step, by_q_step, by_k_step, by_v_step, by_dout_step = form[11:]
    zero, one = type(scale)(0), type(scale)(1)
    blocks = np.empty((4, BLOCK, columns + _APART), type(scale))
    at = np.empty(len(arrays), np.int64)
    for n in range(start, stop):
        _find(arrays, offsets[n], at)
        q, k = matrix_at(at[0], rows, q_step, scale), matrix_at(at[1], columns, k_step, scale)
        v, dout = matrix_at(at[2], columns, v_step, scale), matrix_at(at[5], rows, dout_step, scale)
        tops, totals = matrix_at(at[6], 1, rows, scale)[0], matrix_at(at[7], 1, rows, scale)[0]
        gq, gk = matrix_at(at[8], rows, gq_step, scale), matrix_at(at[9], columns, gk_step, scale)
        gv = matrix_at(at[10], columns, gv_step, scale)
        by_q = matrix_at(at[11], rows, by_q_step, scale)
        by_k = matrix_at(at[12], columns, by_k_step, scale)
        by_v = matrix_at(at[13], columns, by_v_step, scale)
        by_dout = matrix_at(at[14], rows, by_dout_step, scale)
        keys, values = _transposed(k, columns, width, scale), _transposed(v, columns, width_v, one)
        other_keys, other_values = _transposed(gk, columns, width, scale), _transposed(gv, columns, width_v, one)
        for j in range(columns):
            by_k[j, :width] = 0
            by_v[j, :width_v] = 0
        for low in range(0, rows, BLOCK):
            high = min(low + BLOCK, rows)
            seen = min(high, columns) if causal else columns
            p, a, d, b = (
                blocks[0, : high - low, :seen],
                blocks[1, : high - low, :seen],
                blocks[2, : high - low, :seen],
                blocks[3, : high - low, :seen],
            )
            product_by_blas(q[low:high, :width], keys[:, :seen], p, 0)
            product_by_blas(gq[low:high, :width], keys[:, :seen], a, 0)
            product_by_blas(q[low:high, :width], other_keys[:, :seen], a, 1)
            product_by_blas(dout[low:high, :width_v], values[:, :seen], d, 0)
            product_by_blas(dout[low:high, :width_v], other_values[:, :seen], b, 0)
            for i in range(low, high):
                allowed = min(i + 1, seen) if causal else seen
                p_row, a_row = blocks[0, i - low, :allowed], blocks[1, i - low, :allowed]
                d_row, b_row = blocks[2, i - low, :allowed], blocks[3, i - low, :allowed]
                _mask(p_row, kind, at[3], i, mask_step, allowed, scale)
                top, share, larger = tops[i], one / totals[i], one / kept
                for j in range(allowed):
                    p_row[j] = exp_negative(p_row[j] - top) * share
                if keep_step:
                    chosen = matrix_at(at[4] + i * keep_step, 1, seen, np.uint8(0))[0]
                    for j in range(allowed):
                        factor = larger if chosen[j] else zero
                        d_row[j] *= factor
                        b_row[j] *= factor
                inner, level = type(scale)(_dot(p_row, a_row)), type(scale)(_dot(p_row, d_row))
                for j in range(allowed):
                    slope, along = d_row[j] - level, a_row[j]
                    b_row[j] += along * slope - inner * d_row[j]
                    d_row[j] = p_row[j] * slope * scale
                    a_row[j] = p_row[j] * (along - inner)
                total = type(scale)(_dot(p_row, b_row))
                for j in range(allowed):
                    b_row[j] = p_row[j] * (b_row[j] - total) * scale
                if keep_step:
                    for j in range(allowed):
                        factor = larger if chosen[j] else zero
                        a_row[j] *= factor
                        p_row[j] *= factor
                for x in (p, a, d, b):
                    x[i - low, allowed:seen] = 0
            product_by_blas(p, gv[:seen, :width_v], by_dout[low:high, :width_v], 0)
            product_by_blas(a, v[:seen, :width_v], by_dout[low:high, :width_v], 1)
            product_by_blas(a.T, dout[low:high, :width_v], by_v[:seen, :width_v], 1)
            product_by_blas(b, k[:seen, :width], by_q[low:high, :width], 0)
            product_by_blas(d, gk[:seen, :width], by_q[low:high, :width], 1)
            product_by_blas(b.T, q[low:high, :width], by_k[:seen, :width], 1)
            product_by_blas(d.T, gq[low:high, :width], by_k[:seen, :width], 1)
