"""The compiled loops of recurrent layers: all steps of a block of rows of the batch, then all steps of the next block.

The notation is that of ops/nn/recurrent; bias vectors are passed even if a layer has none. Sequences are matrices: row
``first + t * step + r * apart`` belongs to step t of row r of the batch, for ``place = (steps, batch, first, step,
apart)``. If the outputs are bfloat16, given as uint16, packed matrices consist of pairs.
"""

from __future__ import annotations

import numpy as np

from ...runtime.thread_protocol import shared
from ...tiles.packed_products import _panel, multiply
from ...tiles.tiles import BYTES, ROWS
from ..elements.basic_loops import _compiled, _loop, like, wide
from ..elements.scalar_functions import sigmoid, tanh
from .common import area, copy, fetch_rows
from .recurrent import BLOCK

_APART = 16  # padding between the rows of a block, so that columns do not conflict in the cache
# The maximum number of rows processed together: the weights, which fill the cache, are read once for all these rows.
_MOST = 2 * BLOCK


@_compiled()
def _block(width: int, like: np.ndarray) -> np.ndarray:
    """Allocate the rows that are processed together."""
    return np.empty((_MOST, width + _APART), like.dtype)


@_compiled()
def _depth(width: int, a: np.ndarray, panels: np.ndarray) -> int:
    """Return the rows of a packed matrix by which ``width`` numbers like those of ``a`` are multiplied."""
    return width * a.itemsize // panels.itemsize


@_compiled()
def _multiply(a: np.ndarray, rows: int, width: int, panels: np.ndarray, out: np.ndarray) -> None:
    """Compute ``a[:rows, :width] @ m`` for a packed m."""
    depth = _depth(width, a, panels)
    multiply(a.view(panels.dtype)[:rows, :depth], panels, depth, panels.size // depth, out, False)


@_compiled()
def _multiply_ahead(
    a: np.ndarray,
    rows: int,
    width: int,
    panels: np.ndarray,
    out: np.ndarray,
    areas: tuple[tuple[int, int, int], ...],
    coming: int,
) -> None:
    """Compute ``_multiply`` and prefetch ``coming`` rows of areas, some after each tile, while the memory is idle."""
    depth, lanes = _depth(width, a, panels), BYTES // out.itemsize
    factor, vectors = a.view(panels.dtype)[:, :depth], panels.size // (depth * lanes)
    number, done, fetched = 0, 0, 0
    while number < vectors:
        _, count = _panel(number, vectors)
        part = panels[number * depth * lanes : (number + count) * depth * lanes]
        for top in range(0, rows, ROWS):
            bottom = min(rows, top + ROWS)
            multiply(factor[top:bottom], part, depth, count * lanes, out[top:bottom, number * lanes :], False)
            done += count * (bottom - top)
            until = coming * done // (vectors * rows)
            fetch_rows(areas, fetched, until)
            fetched = until
        number += count


# Loops run from 0 over slices, so that the compiler needs no check for negative indices.


@_loop
def _thirds(row: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return row[:size], row[size : 2 * size], row[2 * size : 3 * size]


@_loop
def _keep(row: np.ndarray, out: np.ndarray) -> None:
    for j in range(row.size):
        out[j] = row[j]


@_loop
def _keep_both(row: np.ndarray, out: np.ndarray, block: np.ndarray) -> None:
    for j in range(out.size):
        out[j] = like(row[j], out)
        block[j] = like(row[j], block)


@_loop
def _add_sigmoid(a: np.ndarray, more: np.ndarray, bias: np.ndarray) -> None:
    for j in range(a.size):
        a[j] = sigmoid(a[j] + more[j] + bias[j])


@_loop
def _add_tanh(a: np.ndarray, more: np.ndarray, bias: np.ndarray) -> None:
    for j in range(a.size):
        a[j] = tanh(a[j] + more[j] + bias[j])


@shared("contract")
def lstm(
    gates: np.ndarray,
    place: tuple[int, ...],
    h: np.ndarray,
    across: np.ndarray,
    bias: np.ndarray,
    cells: np.ndarray,
    out: np.ndarray,
    start: int,
    stop: int,
) -> None:
    steps, batch, first, step, apart = place
    size = h.shape[1]
    state, rows = _block(size, h), _block(4 * size, gates)
    for low in range(start * BLOCK, min(stop * BLOCK, batch), _MOST):
        high = min(low + _MOST, stop * BLOCK, batch)
        for r in range(low, high):
            _keep(h[r], state[r - low])
        for t in range(steps):
            _multiply(state, high - low, size, across, rows)
            for r in range(low, high):
                at = first + t * step + r * apart
                a, more, c = gates[at], rows[r - low], cells[t + 1, r]
                _add_sigmoid(a[: 2 * size], more[: 2 * size], bias[: 2 * size])
                _add_tanh(a[2 * size : 3 * size], more[2 * size :], bias[2 * size :])
                _add_sigmoid(a[3 * size :], more[3 * size :], bias[3 * size :])
                i, f, g = _thirds(a, size)
                o, old, new = a[3 * size :], cells[t, r], out[at]
                for j in range(size):
                    c[j] = f[j] * old[j] + i[j] * g[j]
                for j in range(size):
                    new[j] = like(o[j] * tanh(c[j]), new)
                _keep(new, state[r - low])


@shared("contract")
def lstm_backward(
    dout: np.ndarray,
    place: tuple[int, ...],
    dh: np.ndarray,
    dc: np.ndarray,
    gates: np.ndarray,
    cells: np.ndarray,
    w_hh: np.ndarray,
    da: np.ndarray,
    start: int,
    stop: int,
) -> None:
    steps, batch, first, step, apart = place
    size, one = dout.shape[1], gates.dtype.type(1)
    slopes, rows, back = np.empty(4 * size, gates.dtype), _block(4 * size, da), _block(size, gates)
    di, df, dg = _thirds(slopes, size)
    do = slopes[3 * size :]
    flat = cells.reshape((steps + 1) * batch, size)
    for low in range(start * BLOCK, min(stop * BLOCK, batch), _MOST):
        high = min(low + _MOST, stop * BLOCK, batch)
        for t in range(steps - 1, -1, -1):
            for r in range(low, high):
                at = first + t * step + r * apart
                i, f, g = _thirds(gates[at], size)
                o, along, hidden, cell = gates[at, 3 * size :], dout[at], dh[r], dc[r]
                old, c = cells[t, r], cells[t + 1, r]
                for j in range(size):
                    level = tanh(c[j])
                    d = (wide(along[j]) + hidden[j]) * o[j]
                    do[j] = d * level * (one - o[j])
                    cell[j] += d * (one - level * level)
                for j in range(size):
                    di[j] = cell[j] * g[j] * i[j] * (one - i[j])
                    dg[j] = cell[j] * i[j] * (one - g[j] * g[j])
                for j in range(size):
                    df[j] = cell[j] * old[j] * f[j] * (one - f[j])
                    cell[j] *= f[j]
                _keep_both(slopes, da[at], rows[r - low])
            before = first + (t - 1) * step + low * apart
            areas = (
                area(gates, before, apart),
                area(da, before, apart),
                area(dout, before, apart),
                area(flat, (t - 1) * batch + low, 1),
            )
            _multiply_ahead(rows, high - low, 4 * size, w_hh, back, areas, high - low if t > 0 else 0)
            for r in range(low, high):
                copy(back[r - low], dh[r])


@shared("contract")
def gru(
    gates: np.ndarray,
    place: tuple[int, ...],
    h: np.ndarray,
    across: np.ndarray,
    b_ih: np.ndarray,
    b_hh: np.ndarray,
    recurrent_n: np.ndarray,
    out: np.ndarray,
    start: int,
    stop: int,
) -> None:
    steps, batch, first, step, apart = place
    size, one = h.shape[1], gates.dtype.type(1)
    state, rows = _block(size, h), _block(3 * size, gates)
    bias = b_ih[: 2 * size] + b_hh[: 2 * size]
    b_in, b_hn = b_ih[2 * size :], b_hh[2 * size :]
    for low in range(start * BLOCK, min(stop * BLOCK, batch), _MOST):
        high = min(low + _MOST, stop * BLOCK, batch)
        for r in range(low, high):
            _keep(h[r], state[r - low])
        for t in range(steps):
            _multiply(state, high - low, size, across, rows)
            for q in range(high - low):
                at = first + t * step + (low + q) * apart
                a, recurrent, new, old = gates[at], recurrent_n[at], out[at], state[q]
                _add_sigmoid(a[: 2 * size], rows[q], bias)
                r, z, n = _thirds(a, size)
                hidden = rows[q, 2 * size : 3 * size]
                for j in range(size):
                    recurrent[j] = hidden[j] + b_hn[j]
                for j in range(size):
                    n[j] = tanh(n[j] + b_in[j] + r[j] * recurrent[j])
                for j in range(size):
                    new[j] = like((one - z[j]) * n[j] + z[j] * wide(old[j]), new)
                _keep(new, old)


@shared("contract")
def gru_backward(
    dout: np.ndarray,
    place: tuple[int, ...],
    dh: np.ndarray,
    h: np.ndarray,
    gates: np.ndarray,
    recurrent_n: np.ndarray,
    out: np.ndarray,
    w_hh: np.ndarray,
    dx_gates: np.ndarray,
    dh_gates: np.ndarray,
    start: int,
    stop: int,
) -> None:
    steps, batch, first, step, apart = place
    size, one = dout.shape[1], gates.dtype.type(1)
    slopes, rows, back = np.empty(3 * size, gates.dtype), _block(3 * size, out), _block(size, gates)
    dr, dz, dn = _thirds(slopes, size)
    inward = np.empty(size, gates.dtype)
    for low in range(start * BLOCK, min(stop * BLOCK, batch), _MOST):
        high = min(low + _MOST, stop * BLOCK, batch)
        for t in range(steps - 1, -1, -1):
            for q in range(high - low):
                at = first + t * step + (low + q) * apart
                r, z, n = _thirds(gates[at], size)
                along, hidden, recurrent = dout[at], dh[low + q], recurrent_n[at]
                old = h[low + q] if t == 0 else out[at - step]
                for j in range(size):
                    d = wide(along[j]) + hidden[j]
                    inward[j] = d * (one - z[j]) * (one - n[j] * n[j])
                    dz[j] = d * (wide(old[j]) - n[j]) * z[j] * (one - z[j])
                    hidden[j] = d * z[j]
                for j in range(size):
                    dr[j] = inward[j] * recurrent[j] * r[j] * (one - r[j])
                    dn[j] = inward[j] * r[j]
                _keep_both(slopes, dh_gates[at], rows[q])
                copy(slopes, dx_gates[at, : 2 * size])
                copy(inward, dx_gates[at, 2 * size :])
            before = first + (t - 1) * step + low * apart
            areas = (
                area(gates, before, apart),
                area(recurrent_n, before, apart),
                area(dx_gates, before, apart),
                area(dh_gates, before, apart),
                area(dout, before, apart),
                area(out, before - step if t > 1 else before, apart),
            )
            _multiply_ahead(rows, high - low, 3 * size, w_hh, back, areas, high - low if t > 0 else 0)
            for q in range(high - low):
                more, hidden = back[q], dh[low + q]
                for j in range(size):
                    hidden[j] += more[j]


@shared("contract")
def rnn(
    out: np.ndarray,
    place: tuple[int, ...],
    h: np.ndarray,
    across: np.ndarray,
    bias: np.ndarray,
    relu: bool,
    start: int,
    stop: int,
) -> None:
    steps, batch, first, step, apart = place
    size, zero = h.shape[1], out.dtype.type(0)
    state, rows = _block(size, h), _block(size, out)
    for low in range(start * BLOCK, min(stop * BLOCK, batch), _MOST):
        high = min(low + _MOST, stop * BLOCK, batch)
        for r in range(low, high):
            _keep(h[r], state[r - low])
        for t in range(steps):
            _multiply(state, high - low, size, across, rows)
            for r in range(low, high):
                new, more = out[first + t * step + r * apart], rows[r - low]
                if relu:
                    for j in range(size):
                        a = new[j] + more[j] + bias[j]
                        new[j] = zero if a <= zero else a
                else:
                    _add_tanh(new, more, bias)
                copy(new, state[r - low, :size])


@shared("contract")
def rnn_backward(
    dout: np.ndarray,
    place: tuple[int, ...],
    dh: np.ndarray,
    out: np.ndarray,
    w_hh: np.ndarray,
    relu: bool,
    da: np.ndarray,
    start: int,
    stop: int,
) -> None:
    steps, batch, first, step, apart = place
    size, one, zero = dout.shape[1], dh.dtype.type(1), dh.dtype.type(0)
    slopes, rows, back = np.empty(size, dh.dtype), _block(size, da), _block(size, dh)
    for low in range(start * BLOCK, min(stop * BLOCK, batch), _MOST):
        high = min(low + _MOST, stop * BLOCK, batch)
        for t in range(steps - 1, -1, -1):
            for r in range(low, high):
                at = first + t * step + r * apart
                level, along, hidden = out[at], dout[at], dh[r]
                for j in range(size):
                    y = wide(level[j])
                    slope = (one if y > zero else zero) if relu else one - y * y
                    slopes[j] = slope * (wide(along[j]) + hidden[j])
                _keep_both(slopes, da[at], rows[r - low])
            _multiply(rows, high - low, size, w_hh, back)
            for r in range(low, high):
                copy(back[r - low], dh[r])
