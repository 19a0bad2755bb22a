"""The compiled loops of attention: one problem (an example's head) after the other, in blocks of rows of its scores.

The mathematics and its notation are those of ops/nn/attention/scaled_dot_product.py.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from ..blas import product
from ..loops import _dot, _largest, _loop, _sum
from ..native import shared
from .attention import ADDED, CHOOSING
from .numbers import exp, matrix_at

BLOCK = 64  # rows of scores that are in memory at a time
_APART = 16  # numbers between the rows of a block, lest columns fall on the same lines of the cache


@_loop
def _transposed(x, rows, width, scale):
    """``scale * x.T``, so that products read it along its rows."""
    out = np.empty((width, rows + _APART), x.dtype)
    for low in range(0, rows, 8):
        for e in range(width):
            for j in range(low, min(low + 8, rows)):
                out[e, j] = x[j, e] * scale
    return out


@_loop
def _mask(row, kind, address, i, step, columns, number):
    """A row of scores under row i of the mask."""
    if kind == CHOOSING:
        allowed = matrix_at(address + i * step, 1, columns, np.uint8(0))[0]
        for j in range(columns):
            row[j] = row[j] if allowed[j] else type(number)(-np.inf)
    elif kind == ADDED:
        added = matrix_at(address + i * step, 1, columns, number)[0]
        for j in range(columns):
            row[j] += added[j]


@shared("contract")
def attention(table, form, causal, scale, kept, start, stop):
    """The problems from ``start`` to ``stop``.

    ``table`` has for each the addresses of q, k, v, mask, keep, out, top and total; ``form`` the lengths L, S, E and
    Ev, the distances of the rows of q, k, v and out, the kind of mask and, in bytes, the distances of its rows and of
    those of keep (0: none). ``kept`` is the share of the weights that dropout keeps.
    """
    rows, columns, width, width_v, q_step, k_step, v_step, out_step, kind, mask_step, keep_step = form
    one = type(scale)(1)
    scores = np.empty((BLOCK, columns + _APART), type(scale))
    for n in range(start, stop):
        q, k = matrix_at(table[n, 0], rows, q_step, scale), matrix_at(table[n, 1], columns, k_step, scale)
        v, out = matrix_at(table[n, 2], columns, v_step, scale), matrix_at(table[n, 5], rows, out_step, scale)
        tops, totals = matrix_at(table[n, 6], 1, rows, scale)[0], matrix_at(table[n, 7], 1, rows, scale)[0]
        keys = _transposed(k, columns, width, scale)
        for low in range(0, rows, BLOCK):
            high = min(low + BLOCK, rows)
            seen = min(high, columns) if causal else columns
            s = scores[: high - low, :seen]
            product(q[low:high, :width], keys[:, :seen], s, 0)
            for i in range(low, high):
                allowed = min(i + 1, seen) if causal else seen
                row = scores[i - low]
                _mask(row, kind, table[n, 3], i, mask_step, allowed, scale)
                top = _largest(row[:allowed])
                top = type(scale)(0) if top == -np.inf else top
                for j in range(allowed):
                    row[j] = exp(row[j] - top)
                row[allowed:seen] = 0
                total = type(scale)(_sum(row[:allowed]))
                total = one if total == 0 else total
                tops[i], totals[i] = top, total
                if keep_step:
                    chosen = matrix_at(table[n, 4] + i * keep_step, 1, seen, np.uint8(0))[0]
                    for j in range(seen):
                        row[j] = row[j] if chosen[j] else type(scale)(0)
            product(s, v[:seen, :width_v], out[low:high, :width_v], 0)
            for i in range(low, high):
                share = one / (totals[i] * kept)
                for e in range(width_v):
                    out[i, e] *= share


@shared("contract")
def attention_backward(table, form, causal, scale, kept, start, stop):
    """As ``attention``; ``table`` goes on with the addresses of dout, dq, dk, dv, ``form`` with their rows' steps."""
    rows, columns, width, width_v, q_step, k_step, v_step, out_step, kind, mask_step, keep_step = form[:11]
    dout_step, dq_step, dk_step, dv_step = form[11:]
    one = type(scale)(1)
    probabilities = np.empty((BLOCK, columns + _APART), type(scale))
    slopes = np.empty((BLOCK, columns + _APART), type(scale))
    shares = np.empty((BLOCK, width_v + _APART), type(scale))
    for n in range(start, stop):
        q, k = matrix_at(table[n, 0], rows, q_step, scale), matrix_at(table[n, 1], columns, k_step, scale)
        v, out = matrix_at(table[n, 2], columns, v_step, scale), matrix_at(table[n, 5], rows, out_step, scale)
        tops, totals = matrix_at(table[n, 6], 1, rows, scale)[0], matrix_at(table[n, 7], 1, rows, scale)[0]
        dout, dq = matrix_at(table[n, 8], rows, dout_step, scale), matrix_at(table[n, 9], rows, dq_step, scale)
        dk, dv = matrix_at(table[n, 10], columns, dk_step, scale), matrix_at(table[n, 11], columns, dv_step, scale)
        keys = _transposed(k, columns, width, scale)
        values = _transposed(v, columns, width_v, one)
        for j in range(columns):
            dk[j, :width] = 0
            dv[j, :width_v] = 0
        for low in range(0, rows, BLOCK):
            high = min(low + BLOCK, rows)
            seen = min(high, columns) if causal else columns
            p, ds, g = (
                probabilities[: high - low, :seen],
                slopes[: high - low, :seen],
                shares[: high - low, :width_v],
            )
            for i in range(low, high):
                share = one / totals[i]
                for e in range(width_v):
                    shares[i - low, e] = dout[i, e] * share
            product(q[low:high, :width], keys[:, :seen], p, 0)
            product(g, values[:, :seen], ds, 0)
            for i in range(low, high):
                allowed = min(i + 1, seen) if causal else seen
                row, slope, top = probabilities[i - low], slopes[i - low], tops[i]
                inner = type(scale)(_dot(shares[i - low, :width_v], out[i, :width_v]))
                _mask(row, kind, table[n, 3], i, mask_step, allowed, scale)
                if keep_step:
                    chosen = matrix_at(table[n, 4] + i * keep_step, 1, seen, np.uint8(0))[0]
                    larger = one / kept
                    for j in range(allowed):
                        weight, factor = exp(row[j] - top), larger if chosen[j] else type(scale)(0)
                        slope[j] = (slope[j] * factor - inner) * weight * scale
                        row[j] = weight * factor
                else:
                    for j in range(allowed):
                        row[j] = exp(row[j] - top)
                        slope[j] = (slope[j] - inner) * row[j] * scale
                row[allowed:seen] = 0
                slope[allowed:seen] = 0
            product(p.T, g, dv[:seen, :width_v], 1)
            product(ds.T, q[low:high, :width], dk[:seen, :width], 1)
            product(ds, k[:seen, :width], dq[low:high, :width], 0)
