"""The compiled loops of recurrent layers: all steps of a block of rows of the batch, then all steps of the next block.

The notation is that of ops/nn/recurrent; bias vectors are passed even if a layer has none. Sequences are matrices: row
``first + t * step + r * apart`` belongs to step t of row r of the batch, for ``place = (steps, batch, first, step,
apart)``. If the outputs are bfloat16, given as uint16, packed matrices consist of pairs.

If there are fewer blocks than threads, several threads share the steps of a block, by units: ``team`` and ``words`` are
those of ``next_task``. Threads exchange what they multiply by the rows of ``room``; of two buffers one
is read while the other is written. Backward loops also write the states before each step.
"""

from __future__ import annotations

import numpy as np

from ...runtime.thread_protocol import shared
from ...tiles.packed_products import _pack, _panel, _room
from ...tiles.tiles import BYTES, ROWS, strip
from ..elements.basic_loops import _compiled, _loop, like, wide
from ..elements.scalar_functions import sigmoid, tanh
from .common import address, area, copy, fetch_rows, next_task, units_of
from .recurrent import APART, BLOCK

# The maximum number of rows processed together: the weights, which fill the cache, are read once for all these rows.
_MOST = 2 * BLOCK


@_compiled()
def _buffers(count: int, width: int, like: np.ndarray) -> np.ndarray:
    """Allocate buffers for the rows that are processed together."""
    return np.empty((count, _MOST, width + APART), like.dtype)


@_compiled()
def _pitch(parts: int, size: int, like: np.ndarray) -> int:
    """Return the distance of gates in a product: with several parts each gate has panels of its own."""
    return size + (-size % (BYTES // like.itemsize) if parts > 1 else 0)


@_compiled()
def _multiply(
    a: np.ndarray,
    rows: int,
    width: int,
    panels: np.ndarray,
    parts: int,
    gates: int,
    size: int,
    u: int,
    v: int,
    out: np.ndarray,
    areas: tuple[tuple[int, int, int, int, int], ...],
    coming: int,
) -> None:
    """Compute columns of ``a[:rows, :width] @ m`` for a packed m: of each gate those of the units ``u`` to ``v``.

    After each panel, while the memory is idle, prefetch some of ``coming`` rows of areas.
    """
    depth, lanes, added = width * a.itemsize // panels.itemsize, BYTES // out.itemsize, panels.dtype.type(0)
    at, down, to, step = address(a), a.strides[0], address(out), out.strides[0]
    if parts == 1:  # the gates have common panels
        gates, v = 1, gates * size
    else:  # other cores wrote most of the rows: their cache lines arrive together and not one after the other
        fetch_rows((area(a, 0, 1, 1, width, 0, width),), 0, rows)
    vectors, low, count = -(-size // lanes), u // lanes, -(-v // lanes) - u // lanes
    done, fetched = 0, 0
    for gate in range(gates):
        number, first = 0, gate * vectors + low
        while number < count:
            _, some = _panel(number, count)
            panel, across = address(panels) + (first + number) * depth * BYTES, some * BYTES
            place, ahead = to + (first + number) * BYTES, panel + depth * across
            strip(
                rows, at, down, panels.itemsize, ROWS * down, panel, across, depth, place, step, added, some, lanes,
                ahead, 0,
            )  # fmt: skip
            number += some
            done += some
            until = coming * done // (gates * count)
            fetch_rows(areas, fetched, until)
            fetched = until


@shared()
def pack(
    matrix: np.ndarray, turned: bool, depth: int, size: int, parts: int, out: np.ndarray, start: int, stop: int
) -> None:
    """Pack the columns, with several parts those of each part of each gate by themselves.

    Threads share the vectors of columns if ``turned``, else the rows.
    """
    step, number = matrix.strides[0], out.dtype.type(0)
    lanes, to = BYTES // out.itemsize, _room(out)
    if turned and parts == 1:  # the gates have common panels
        size = len(matrix)
    for gate in range(len(matrix) // size if turned else 1):
        for part in range(parts):
            u, v = units_of(part, parts, size, number)
            before, count = gate * -(-size // lanes) + u // lanes, -(-(v - u) // lanes)
            at = address(matrix) + ((gate * size + u) * step if turned else u * out.itemsize)
            first, last = (max(start - before, 0), min(stop - before, count)) if turned else (start, stop)
            _pack(at, step, turned, depth, v - u, to + before * depth * BYTES, first, last, number)


# Loops run from 0 over slices, so that the compiler needs no check for negative indices.


@_loop
def _thirds(row: np.ndarray, size: int, u: int, v: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the units ``u`` to ``v`` of the first three gates, which are ``size`` numbers apart."""
    return row[u:v], row[size + u : size + v], row[2 * size + u : 2 * size + v]


@_loop
def _fourth(row: np.ndarray, size: int, u: int, v: int) -> np.ndarray:
    return row[3 * size + u : 3 * size + v]


@_loop
def _keep(row: np.ndarray, out: np.ndarray) -> None:
    for j in range(out.size):
        out[j] = row[j]


@_loop
def _keep_both(row: np.ndarray, out: np.ndarray, block: np.ndarray) -> None:
    for j in range(out.size):
        out[j] = like(row[j], out)
        block[j] = like(row[j], block)


@_loop
def _keep_thirds(row: np.ndarray, out: np.ndarray, block: np.ndarray, size: int, u: int, v: int) -> None:
    """Write the first three gates, which are adjacent in ``row``, to the units ``u`` to ``v`` of two rows."""
    count = v - u
    for k in range(3):
        part = row[k * count : (k + 1) * count]
        _keep_both(part, out[k * size + u : k * size + v], block[k * size + u : k * size + v])


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
    team: tuple[int, int],
    words: np.ndarray,
    room: np.ndarray,
    across: np.ndarray,
    h: np.ndarray,
    bias: np.ndarray,
    cells: np.ndarray,
    out: np.ndarray,
    start: int,
    stop: int,
) -> None:
    steps, batch, first, step, apart = place
    parts, size = team[0], h.shape[1]
    pitch, flat = _pitch(parts, size, gates), cells.reshape((steps + 1) * batch, size)
    mine, rows = _buffers(1, size, h), _buffers(1, 4 * pitch, gates)[0]
    task = (steps + 1, 0, 0, 0, 0, 0, start)
    while True:
        task = next_task(address(words), team, batch, BLOCK, _MOST, steps + 1, stop, task)
        s, part, low, high = task[:4]
        if s > steps:
            return
        u, v = units_of(part, parts, size, gates.dtype.type(0))
        states = room[low // BLOCK] if parts > 1 else mine
        before, state = states[(s + 1) % len(states)], states[s % len(states)]
        if s == 0:
            for r in range(low, high):
                _keep(h[r, u:v], state[r - low, u:v])
            continue
        at = first + (s - 1) * step + low * apart
        areas = (
            area(gates, at, apart, 4, size, u, v),
            area(flat, s * batch + low, 1, 1, size, u, v),
            area(out, at, apart, 1, size, u, v),
        )
        _multiply(before, high - low, size, across, parts, 4, size, u, v, rows, areas, high - low)
        for r in range(low, high):
            at = first + (s - 1) * step + r * apart
            a, more = gates[at], rows[r - low]
            i, f, g = _thirds(a, size, u, v)
            o, old, c, new = _fourth(a, size, u, v), cells[s - 1, r, u:v], cells[s, r, u:v], out[at, u:v]
            i_more, f_more, g_more = _thirds(more, pitch, u, v)
            i_bias, f_bias, g_bias = _thirds(bias, size, u, v)
            _add_sigmoid(i, i_more, i_bias)
            _add_sigmoid(f, f_more, f_bias)
            _add_tanh(g, g_more, g_bias)
            _add_sigmoid(o, _fourth(more, pitch, u, v), _fourth(bias, size, u, v))
            for j in range(c.size):
                c[j] = f[j] * old[j] + i[j] * g[j]
            for j in range(c.size):
                new[j] = like(o[j] * tanh(c[j]), new)
            _keep(new, state[r - low, u:v])


@shared("contract")
def lstm_backward(
    dout: np.ndarray,
    place: tuple[int, ...],
    team: tuple[int, int],
    words: np.ndarray,
    room: np.ndarray,
    w_hh: np.ndarray,
    dh: np.ndarray,
    dc: np.ndarray,
    h: np.ndarray,
    gates: np.ndarray,
    cells: np.ndarray,
    out: np.ndarray,
    da: np.ndarray,
    previous: np.ndarray,
    start: int,
    stop: int,
) -> None:
    steps, batch, first, step, apart = place
    parts, size, one = team[0], dout.shape[1], gates.dtype.type(1)
    mine, back = _buffers(1, 4 * size, da), _buffers(1, size, gates)[0]
    slopes, flat = np.empty(4 * size, gates.dtype), cells.reshape((steps + 1) * batch, size)
    task = (steps + 1, 0, 0, 0, 0, 0, start)
    while True:
        task = next_task(address(words), team, batch, BLOCK, _MOST, steps + 1, stop, task)
        s, part, low, high = task[:4]
        if s > steps:
            return
        u, v = units_of(part, parts, size, gates.dtype.type(0))
        blocks = room[low // BLOCK] if parts > 1 else mine
        before, rows = blocks[(s + 1) % len(blocks)], blocks[s % len(blocks)]
        t = steps - 1 - s
        if s > 0:
            at = first + t * step + low * apart
            areas = (
                area(gates, at, apart, 4, size, u, v),
                area(da, at, apart, 4, size, u, v),
                area(dout, at, apart, 1, size, u, v),
                area(flat, t * batch + low, 1, 1, size, u, v),
                area(out, at - step if t > 0 else at, apart, 1, size, u, v),
                area(previous, at, apart, 1, size, u, v),
            )
            coming = high - low if t >= 0 else 0
            _multiply(before, high - low, 4 * size, w_hh, parts, 1, size, u, v, back, areas, coming)
            for r in range(low, high):
                _keep(back[r - low, u:v], dh[r, u:v])
        if t < 0:
            continue
        di, df, dg = _thirds(slopes, v - u, 0, v - u)
        do = _fourth(slopes, v - u, 0, v - u)
        for r in range(low, high):
            at = first + t * step + r * apart
            i, f, g = _thirds(gates[at], size, u, v)
            o, along = _fourth(gates[at], size, u, v), dout[at, u:v]
            hidden, cell, old, c = dh[r, u:v], dc[r, u:v], cells[t, r, u:v], cells[t + 1, r, u:v]
            for j in range(c.size):
                level = tanh(c[j])
                d = (wide(along[j]) + hidden[j]) * o[j]
                do[j] = d * level * (one - o[j])
                cell[j] += d * (one - level * level)
            for j in range(c.size):
                di[j] = cell[j] * g[j] * i[j] * (one - i[j])
                dg[j] = cell[j] * i[j] * (one - g[j] * g[j])
            for j in range(c.size):
                df[j] = cell[j] * old[j] * f[j] * (one - f[j])
                cell[j] *= f[j]
            _keep_thirds(slopes, da[at], rows[r - low], size, u, v)
            _keep_both(do, _fourth(da[at], size, u, v), _fourth(rows[r - low], size, u, v))
            _keep(h[r, u:v] if t == 0 else out[at - step, u:v], previous[at, u:v])


@shared("contract")
def gru(
    gates: np.ndarray,
    place: tuple[int, ...],
    team: tuple[int, int],
    words: np.ndarray,
    room: np.ndarray,
    across: np.ndarray,
    h: np.ndarray,
    b_ih: np.ndarray,
    b_hh: np.ndarray,
    recurrent_n: np.ndarray,
    out: np.ndarray,
    start: int,
    stop: int,
) -> None:
    steps, batch, first, step, apart = place
    parts, size, one = team[0], h.shape[1], gates.dtype.type(1)
    pitch, bias = _pitch(parts, size, gates), b_ih + b_hh
    mine, rows = _buffers(1, size, h), _buffers(1, 3 * pitch, gates)[0]
    task = (steps + 1, 0, 0, 0, 0, 0, start)
    while True:
        task = next_task(address(words), team, batch, BLOCK, _MOST, steps + 1, stop, task)
        s, part, low, high = task[:4]
        if s > steps:
            return
        u, v = units_of(part, parts, size, gates.dtype.type(0))
        states = room[low // BLOCK] if parts > 1 else mine
        before, state = states[(s + 1) % len(states)], states[s % len(states)]
        if s == 0:
            for r in range(low, high):
                _keep(h[r, u:v], state[r - low, u:v])
            continue
        at = first + (s - 1) * step + low * apart
        areas = (
            area(gates, at, apart, 3, size, u, v),
            area(recurrent_n, at, apart, 1, size, u, v),
            area(out, at, apart, 1, size, u, v),
        )
        _multiply(before, high - low, size, across, parts, 3, size, u, v, rows, areas, high - low)
        r_bias, z_bias, _ = _thirds(bias, size, u, v)
        _, _, b_in = _thirds(b_ih, size, u, v)
        _, _, b_hn = _thirds(b_hh, size, u, v)
        for q in range(high - low):
            at = first + (s - 1) * step + (low + q) * apart
            r, z, n = _thirds(gates[at], size, u, v)
            r_more, z_more, hidden = _thirds(rows[q], pitch, u, v)
            recurrent, new, old = recurrent_n[at, u:v], out[at, u:v], before[q, u:v]
            _add_sigmoid(r, r_more, r_bias)
            _add_sigmoid(z, z_more, z_bias)
            for j in range(n.size):
                recurrent[j] = hidden[j] + b_hn[j]
            for j in range(n.size):
                n[j] = tanh(n[j] + b_in[j] + r[j] * recurrent[j])
            for j in range(n.size):
                new[j] = like((one - z[j]) * n[j] + z[j] * wide(old[j]), new)
            _keep(new, state[q, u:v])


@shared("contract")
def gru_backward(
    dout: np.ndarray,
    place: tuple[int, ...],
    team: tuple[int, int],
    words: np.ndarray,
    room: np.ndarray,
    w_hh: np.ndarray,
    dh: np.ndarray,
    h: np.ndarray,
    gates: np.ndarray,
    recurrent_n: np.ndarray,
    out: np.ndarray,
    dx_gates: np.ndarray,
    dh_gates: np.ndarray,
    previous: np.ndarray,
    start: int,
    stop: int,
) -> None:
    steps, batch, first, step, apart = place
    parts, size, one = team[0], dout.shape[1], gates.dtype.type(1)
    mine, back = _buffers(1, 3 * size, out), _buffers(1, size, gates)[0]
    slopes, inward = np.empty(3 * size, gates.dtype), np.empty(size, gates.dtype)
    task = (steps + 1, 0, 0, 0, 0, 0, start)
    while True:
        task = next_task(address(words), team, batch, BLOCK, _MOST, steps + 1, stop, task)
        s, part, low, high = task[:4]
        if s > steps:
            return
        u, v = units_of(part, parts, size, gates.dtype.type(0))
        blocks = room[low // BLOCK] if parts > 1 else mine
        before, rows = blocks[(s + 1) % len(blocks)], blocks[s % len(blocks)]
        t = steps - 1 - s
        if s > 0:
            at = first + t * step + low * apart
            areas = (
                area(gates, at, apart, 3, size, u, v),
                area(recurrent_n, at, apart, 1, size, u, v),
                area(dx_gates, at, apart, 3, size, u, v),
                area(dh_gates, at, apart, 3, size, u, v),
                area(dout, at, apart, 1, size, u, v),
                area(out, at - step if t > 0 else at, apart, 1, size, u, v),
                area(previous, at, apart, 1, size, u, v),
            )
            coming = high - low if t >= 0 else 0
            _multiply(before, high - low, 3 * size, w_hh, parts, 1, size, u, v, back, areas, coming)
            for q in range(high - low):
                more, hidden = back[q, u:v], dh[low + q, u:v]
                for j in range(hidden.size):
                    hidden[j] += more[j]
        if t < 0:
            continue
        dr, dz, dn = _thirds(slopes, v - u, 0, v - u)
        for q in range(high - low):
            at = first + t * step + (low + q) * apart
            r, z, n = _thirds(gates[at], size, u, v)
            along, hidden, recurrent = dout[at, u:v], dh[low + q, u:v], recurrent_n[at, u:v]
            old = h[low + q, u:v] if t == 0 else out[at - step, u:v]
            for j in range(hidden.size):
                d = wide(along[j]) + hidden[j]
                inward[j] = d * (one - z[j]) * (one - n[j] * n[j])
                dz[j] = d * (wide(old[j]) - n[j]) * z[j] * (one - z[j])
                hidden[j] = d * z[j]
            for j in range(hidden.size):
                dr[j] = inward[j] * recurrent[j] * r[j] * (one - r[j])
                dn[j] = inward[j] * r[j]
            _keep_thirds(slopes, dh_gates[at], rows[q], size, u, v)
            x_r, x_z, x_n = _thirds(dx_gates[at], size, u, v)
            copy(dr, x_r)
            copy(dz, x_z)
            copy(inward, x_n)
            _keep(old, previous[at, u:v])


@shared("contract")
def rnn(
    out: np.ndarray,
    place: tuple[int, ...],
    team: tuple[int, int],
    words: np.ndarray,
    room: np.ndarray,
    across: np.ndarray,
    h: np.ndarray,
    bias: np.ndarray,
    relu: bool,
    start: int,
    stop: int,
) -> None:
    steps, batch, first, step, apart = place
    parts, size, zero = team[0], h.shape[1], out.dtype.type(0)
    mine, rows = _buffers(1, size, h), _buffers(1, size, out)[0]
    task = (steps + 1, 0, 0, 0, 0, 0, start)
    while True:
        task = next_task(address(words), team, batch, BLOCK, _MOST, steps + 1, stop, task)
        s, part, low, high = task[:4]
        if s > steps:
            return
        u, v = units_of(part, parts, size, out.dtype.type(0))
        states = room[low // BLOCK] if parts > 1 else mine
        before, state = states[(s + 1) % len(states)], states[s % len(states)]
        if s == 0:
            for r in range(low, high):
                _keep(h[r, u:v], state[r - low, u:v])
            continue
        areas = (area(out, first + (s - 1) * step + low * apart, apart, 1, size, u, v),)
        _multiply(before, high - low, size, across, parts, 1, size, u, v, rows, areas, high - low)
        for r in range(low, high):
            new, more, along = out[first + (s - 1) * step + r * apart, u:v], rows[r - low, u:v], bias[u:v]
            if relu:
                for j in range(new.size):
                    a = new[j] + more[j] + along[j]
                    new[j] = zero if a <= zero else a
            else:
                _add_tanh(new, more, along)
            copy(new, state[r - low, u:v])


@shared("contract")
def rnn_backward(
    dout: np.ndarray,
    place: tuple[int, ...],
    team: tuple[int, int],
    words: np.ndarray,
    room: np.ndarray,
    w_hh: np.ndarray,
    dh: np.ndarray,
    h: np.ndarray,
    out: np.ndarray,
    relu: bool,
    da: np.ndarray,
    previous: np.ndarray,
    start: int,
    stop: int,
) -> None:
    steps, batch, first, step, apart = place
    parts, size, one, zero = team[0], dout.shape[1], dh.dtype.type(1), dh.dtype.type(0)
    mine, back = _buffers(1, size, da), _buffers(1, size, dh)[0]
    slopes = np.empty(size, dh.dtype)
    task = (steps + 1, 0, 0, 0, 0, 0, start)
    while True:
        task = next_task(address(words), team, batch, BLOCK, _MOST, steps + 1, stop, task)
        s, part, low, high = task[:4]
        if s > steps:
            return
        u, v = units_of(part, parts, size, dh.dtype.type(0))
        blocks = room[low // BLOCK] if parts > 1 else mine
        before, rows = blocks[(s + 1) % len(blocks)], blocks[s % len(blocks)]
        t = steps - 1 - s
        if s > 0:
            at = first + t * step + low * apart
            areas = (
                area(out, at - step if t > 0 else at, apart, 1, size, u, v),
                area(da, at, apart, 1, size, u, v),
                area(dout, at, apart, 1, size, u, v),
                area(previous, at, apart, 1, size, u, v),
            )
            coming = high - low if t >= 0 else 0
            _multiply(before, high - low, size, w_hh, parts, 1, size, u, v, back, areas, coming)
            for r in range(low, high):
                _keep(back[r - low, u:v], dh[r, u:v])
        if t < 0:
            continue
        for r in range(low, high):
            at = first + t * step + r * apart
            level, along, hidden = out[at, u:v], dout[at, u:v], dh[r, u:v]
            for j in range(hidden.size):
                y = wide(level[j])
                slope = (one if y > zero else zero) if relu else one - y * y
                slopes[j] = slope * (wide(along[j]) + hidden[j])
            _keep_both(slopes, da[at, u:v], rows[r - low, u:v])
            _keep(h[r, u:v] if t == 0 else out[at - step, u:v], previous[at, u:v])
