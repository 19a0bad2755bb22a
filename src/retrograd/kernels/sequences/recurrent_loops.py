"""The compiled loops of recurrent layers: all steps of some rows of the batch, then those of the next ones.

The mathematics and its notation are those of ops/nn/recurrent; bias vectors are there even where a layer has none.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from ..blas import product
from ..loops import _compiled, _loop
from .numbers import sigmoid, tanh

BLOCK = 8  # rows of the batch; their number in a product would show in the last bits, so it depends on no threads
_DEPTH, _WIDTH = 256, 64  # with so much of a matrix, a product of few rows runs without copies inside BLAS
_APART = 16  # numbers between the rows of a block, lest columns fall on the same lines of the cache


@_compiled()
def _multiply(a, b, c, beta):
    """``c = a @ b + beta * c`` for few rows."""
    for k in range(0, b.shape[0], _DEPTH):
        for j in range(0, b.shape[1], _WIDTH):
            part, columns = b[k : k + _DEPTH, j : j + _WIDTH], c[:, j : j + _WIDTH]
            product(a[:, k : k + _DEPTH], part, columns, beta if k == 0 else 1)


@_loop
def lstm(gates, h, across, bias, cells, out, first, last):
    steps, batch, size = out.shape
    for low in range(first * BLOCK, min(last * BLOCK, batch), BLOCK):
        high = min(low + BLOCK, batch)
        for t in range(steps):
            before = h[low:high] if t == 0 else out[t - 1, low:high]
            _multiply(before, across, gates[t, low:high], 1)
            for r in range(low, high):
                a, old, c, new = gates[t, r], cells[t, r], cells[t + 1, r], out[t, r]
                for j in range(2 * size):
                    a[j] = sigmoid(a[j] + bias[j])
                for j in range(2 * size, 3 * size):
                    a[j] = tanh(a[j] + bias[j])
                for j in range(3 * size, 4 * size):
                    a[j] = sigmoid(a[j] + bias[j])
                for j in range(size):
                    c[j] = a[size + j] * old[j] + a[j] * a[2 * size + j]
                for j in range(size):
                    new[j] = a[3 * size + j] * tanh(c[j])


@_loop
def lstm_backward(dout, dh, dc, gates, cells, w_hh, da, first, last):
    steps, batch, size = dout.shape
    one = dout.dtype.type(1)
    rows = np.empty((BLOCK, 4 * size + _APART), dout.dtype)
    for low in range(first * BLOCK, min(last * BLOCK, batch), BLOCK):
        high = min(low + BLOCK, batch)
        for t in range(steps - 1, -1, -1):
            for r in range(low, high):
                a, old, c, new = gates[t, r], cells[t, r], cells[t + 1, r], rows[r - low]
                along, hidden, cell = dout[t, r], dh[r], dc[r]
                for j in range(size):
                    o, level = a[3 * size + j], tanh(c[j])
                    d = along[j] + hidden[j]
                    new[3 * size + j] = d * level * o * (one - o)
                    cell[j] += d * o * (one - level * level)
                for j in range(size):
                    i, g = a[j], a[2 * size + j]
                    new[j] = cell[j] * g * i * (one - i)
                    new[2 * size + j] = cell[j] * i * (one - g * g)
                for j in range(size):
                    f = a[size + j]
                    new[size + j] = cell[j] * old[j] * f * (one - f)
                    cell[j] *= f
                for j in range(4 * size):
                    da[t, r, j] = new[j]
            _multiply(rows[: high - low, : 4 * size], w_hh, dh[low:high], 0)


@_loop
def gru(gates, h, across, b_ih, b_hh, recurrent_n, out, first, last):
    steps, batch, size = out.shape
    one = out.dtype.type(1)
    rows = np.empty((BLOCK, 3 * size + _APART), out.dtype)
    for low in range(first * BLOCK, min(last * BLOCK, batch), BLOCK):
        high = min(low + BLOCK, batch)
        for t in range(steps):
            before = h[low:high] if t == 0 else out[t - 1, low:high]
            _multiply(before, across, rows[: high - low, : 3 * size], 0)
            for r in range(low, high):
                a, hidden, old, new, n = gates[t, r], rows[r - low], before[r - low], out[t, r], recurrent_n[t, r]
                for j in range(2 * size):
                    a[j] = sigmoid(a[j] + b_ih[j] + (hidden[j] + b_hh[j]))
                for j in range(size):
                    n[j] = hidden[2 * size + j] + b_hh[2 * size + j]
                for j in range(size):
                    a[2 * size + j] = tanh(a[2 * size + j] + b_ih[2 * size + j] + a[j] * n[j])
                for j in range(size):
                    z = a[size + j]
                    new[j] = (one - z) * a[2 * size + j] + z * old[j]


@_loop
def gru_backward(dout, dh, h, gates, recurrent_n, out, w_hh, dx_gates, dh_gates, first, last):
    steps, batch, size = out.shape
    one = out.dtype.type(1)
    rows = np.empty((BLOCK, 3 * size + _APART), out.dtype)
    for low in range(first * BLOCK, min(last * BLOCK, batch), BLOCK):
        high = min(low + BLOCK, batch)
        for t in range(steps - 1, -1, -1):
            before = h[low:high] if t == 0 else out[t - 1, low:high]
            for r in range(low, high):
                a, n, new, old = gates[t, r], recurrent_n[t, r], rows[r - low], before[r - low]
                along, hidden, inner = dout[t, r], dh[r], dx_gates[t, r]
                for j in range(size):
                    z, level = a[size + j], a[2 * size + j]
                    d = along[j] + hidden[j]
                    inner[2 * size + j] = d * (one - z) * (one - level * level)
                    new[size + j] = d * (old[j] - level) * z * (one - z)
                    hidden[j] = d * z
                for j in range(size):
                    inward, opened = inner[2 * size + j], a[j]
                    new[j] = inward * n[j] * opened * (one - opened)
                    new[2 * size + j] = inward * opened
                for j in range(2 * size):
                    inner[j] = new[j]
                for j in range(3 * size):
                    dh_gates[t, r, j] = new[j]
            _multiply(rows[: high - low, : 3 * size], w_hh, dh[low:high], 1)


@_loop
def rnn(out, h, across, bias, relu, first, last):
    steps, batch, size = out.shape
    zero = out.dtype.type(0)
    for low in range(first * BLOCK, min(last * BLOCK, batch), BLOCK):
        high = min(low + BLOCK, batch)
        for t in range(steps):
            before = h[low:high] if t == 0 else out[t - 1, low:high]
            _multiply(before, across, out[t, low:high], 1)
            for r in range(low, high):
                new = out[t, r]
                if relu:
                    for j in range(size):
                        a = new[j] + bias[j]
                        new[j] = zero if a <= zero else a
                else:
                    for j in range(size):
                        new[j] = tanh(new[j] + bias[j])


@_loop
def rnn_backward(dout, dh, out, w_hh, relu, da, first, last):
    steps, batch, size = out.shape
    one, zero = out.dtype.type(1), out.dtype.type(0)
    rows = np.empty((BLOCK, size + _APART), out.dtype)
    for low in range(first * BLOCK, min(last * BLOCK, batch), BLOCK):
        high = min(low + BLOCK, batch)
        for t in range(steps - 1, -1, -1):
            for r in range(low, high):
                level, along, hidden, new = out[t, r], dout[t, r], dh[r], rows[r - low]
                for j in range(size):
                    slope = (one if level[j] > zero else zero) if relu else one - level[j] * level[j]
                    new[j] = slope * (along[j] + hidden[j])
                for j in range(size):
                    da[t, r, j] = new[j]
            _multiply(rows[: high - low, :size], w_hh, dh[low:high], 0)
