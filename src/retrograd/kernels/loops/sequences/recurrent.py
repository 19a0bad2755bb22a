"""Recurrent layers by compiled loops over all steps; threads process different rows of the batch, or different units.

The references, with the same signatures, are in ops/nn/recurrent.
"""

from __future__ import annotations

import numpy as np

from ....core.arrays import Array
from ... import SEVERAL, USEFUL, WORTH_SHARING, loop, multiplies
from ...runtime.cores import count
from ...runtime.levels import multiplies_bfloat16
from ...runtime.result_arrays import empty
from ...runtime.threads import launch, launch_products, sleep_function
from ...tiles.vector_width import width
from ..layout.copies import LARGE, copied
from ..matrices.pairs import paired

BLOCK = 8  # minimum number of rows of the batch that are processed together
APART = 16  # padding between the rows of a block, so that columns do not conflict in the cache
SHARED = 1 << 16  # minimum number of multiplications of a thread between two steps
HEAD = 256  # bytes of the words of a part of a team's steps, besides those of the steps (``next_task``)
_NO_WORDS = np.zeros((1, 1), np.int64)


def takes(gates: Array) -> bool:
    """Return whether to use the loops: for NumPy arrays with enough gates, of float32 or float64."""
    return type(gates) is np.ndarray and gates.dtype.char in "fd" and gates.size >= SEVERAL and multiplies()


def takes_pairs(x: Array, *others: Array) -> bool:
    """Return whether to use the loops on the inputs and weights of a layer of bfloat16 with states of even length."""
    same = all(type(y) is np.ndarray and y.dtype == x.dtype for y in others)
    useful = same and len(x) * len(others[-1]) >= SEVERAL and others[-1].shape[1] % 2 == 0
    return useful and multiplies_bfloat16() and multiplies()


def by_sequence(x: Array) -> bool:
    """Return whether the steps of each sequence are closer in memory than the sequences, in an array (T, N, features).

    This is the order of inputs with ``batch_first``.
    """
    steps, batch = x.shape[:2]
    return type(x) is np.ndarray and steps > 1 < batch and abs(x.strides[0]) < abs(x.strides[1])


def lstm(gates: Array, h: Array, w_hh: Array, bias: Array | None, cells: Array, out: Array) -> None:
    """Run the forward of ``ops.nn.recurrent.lstm`` in place; multiply pairs if h, w_hh and out are bfloat16.

    Here and below, all sequences that are written have the memory order of ``gates``.
    """
    _run("lstm", gates, gates, w_hh, True, _words(_dense(h)), _vector(bias, gates), cells, _rows(out, gates))


def lstm_backward(
    dout: Array,
    dh: Array,
    dc: Array,
    h: Array,
    gates: Array,
    cells: Array,
    out: Array,
    w_hh: Array,
    da: Array,
    previous: Array,
) -> None:
    """Run the backward of ``ops.nn.recurrent.lstm`` in place; multiply pairs if dout, w_hh and da are bfloat16."""
    before, after, into, states = [_rows(x, gates) for x in (gates, out, da, previous)]
    _run("lstm_backward", gates, dout, w_hh, False, dh, dc, _words(_dense(h)), before, cells, after, into, states)


def gru(
    gates: Array, h: Array, w_hh: Array, b_ih: Array | None, b_hh: Array | None, recurrent_n: Array, out: Array
) -> None:
    """Run the forward of ``ops.nn.recurrent.gru`` in place; multiply pairs if h, w_hh and out are bfloat16."""
    biases = _vector(b_ih, gates), _vector(b_hh, gates)
    sequences = _rows(recurrent_n, gates), _rows(out, gates)
    _run("gru", gates, gates, w_hh, True, _words(_dense(h)), *biases, *sequences)


def gru_backward(
    dout: Array,
    dh: Array,
    h: Array,
    gates: Array,
    recurrent_n: Array,
    out: Array,
    w_hh: Array,
    dx_gates: Array,
    dh_gates: Array,
    previous: Array,
) -> None:
    """Run the backward of ``ops.nn.recurrent.gru`` in place; multiply pairs if arrays but ``dh`` are bfloat16."""
    sequences = [_rows(x, gates) for x in (gates, recurrent_n, out, dx_gates, dh_gates, previous)]
    _run("gru_backward", gates, dout, w_hh, False, dh, _words(_dense(h)), *sequences)


def rnn(out: Array, h: Array, w_hh: Array, bias: Array | None, relu: bool) -> None:
    """Run the forward of ``ops.nn.recurrent.rnn`` in place; multiply pairs if h and w_hh are bfloat16."""
    _run("rnn", out, out, w_hh, True, _words(_dense(h)), _vector(bias, out), relu)


def rnn_backward(
    dout: Array, dh: Array, h: Array, out: Array, w_hh: Array, relu: bool, da: Array, previous: Array
) -> None:
    """Run the backward of ``ops.nn.recurrent.rnn`` in place; multiply pairs if arrays but ``dh`` are bfloat16."""
    after, into, states = [_rows(x, out) for x in (out, da, previous)]
    _run("rnn_backward", out, dout, w_hh, False, dh, _words(_dense(h)), after, relu, into, states)


def _run(name: str, model: Array, sequence: Array, w_hh: Array, turned: bool, *args: object) -> None:
    """Run a loop on sequences in the memory order of ``model``; the first of them is given apart.

    The loop multiplies by ``w_hh``, or by its transpose if ``turned``.
    """
    steps, batch, size = sequence.shape
    step, apart = (1, steps) if by_sequence(model) else (batch, 1)
    place = (steps, batch, 0, step, apart)
    if model.strides[0] < 0:
        place = (steps, batch, (steps - 1) * step, -step, apart)
    blocks, (rows, units) = -(-batch // BLOCK), w_hh.shape
    parts = max(1, min(count() // blocks, -(-units * 4 // width()), batch * w_hh.size // SHARED))
    if parts == 1:
        total, least = blocks, max(-(-blocks // count()), USEFUL // (steps * BLOCK * size))
        words, room = _NO_WORDS, np.empty((1, 1, 1, 1), _words(w_hh).dtype)
    else:
        total, least = blocks * parts, 1
        words = np.zeros((total, HEAD // 8 + steps + 1), np.int64)
        room = np.empty((blocks, 2, BLOCK, (units if turned else rows) + APART), _words(w_hh).dtype)
    given = place, (parts, sleep_function()), words, room, _packed(w_hh, turned, parts)
    run = loop("loops.sequences.recurrent_loops", name)
    launch_products(run, total, least, _rows(sequence, model), *given, *args)


def _rows(x: Array, model: Array) -> Array:
    """Return the rows of a sequence in the memory order of ``model``; without a copy if x has that order."""
    x = x[::-1] if model.strides[0] < 0 else x
    x = _dense(x.transpose(1, 0, 2) if by_sequence(model) else x)
    return _words(x.reshape(-1, x.shape[2]))


def _words(x: Array) -> Array:
    """Return bfloat16 numbers as uint16, other arrays unchanged."""
    return x.view(np.uint16) if x.itemsize == 2 else x


def _dense(x: Array) -> Array:
    if x.flags.carray:
        return x
    return copied(x) if x.size >= LARGE else np.require(x, requirements=("C", "A"))


def _vector(bias: Array | None, gates: Array) -> Array:
    return np.zeros(gates.shape[2], gates.dtype) if bias is None else _dense(bias)


def _packed(w_hh: Array, turned: bool, parts: int) -> Array:
    """Pack a weight, or its transpose, for ``tiles.multiply``, aligned to whole vectors; of bfloat16 its pairs."""
    units, w_hh = w_hh.shape[1], _dense(w_hh)
    if w_hh.itemsize == 2:  # pairs of adjacent numbers, or of rows
        w_hh = w_hh.view(np.uint32) if turned else paired(w_hh[None])[0]
    rows, columns = w_hh.shape
    lanes = width() // w_hh.itemsize
    vectors = -(-units // lanes) * (rows // units if turned else 1)
    depth = columns if turned else rows
    memory = empty(((depth * vectors + 1) * lanes,), w_hh.dtype)
    total, each = (vectors, depth * lanes) if turned else (depth, units)
    args = w_hh, turned, depth, units, parts, memory
    launch(loop("loops.sequences.recurrent_loops", "pack"), total, max(1, WORTH_SHARING // each), *args)
    return memory[-memory.ctypes.data % width() // w_hh.itemsize :][: depth * vectors * lanes]
