"""Recurrent layers by compiled loops over all steps; threads process different rows of the batch.

The references, with the same signatures, are in ops/nn/recurrent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.arrays import Array
from ... import SEVERAL, USEFUL, WORTH_SHARING, loop, multiplies
from ...runtime.cores import count
from ...runtime.levels import multiplies_bfloat16
from ...runtime.result_arrays import empty
from ...runtime.threads import launch, launch_products
from ...tiles.vector_width import width
from ..layout.copies import LARGE, copied
from ..matrices.pairs import paired

BLOCK = 8  # minimum number of rows of the batch that are processed together


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
    _run("lstm", gates, gates, _words(_dense(h)), _across(w_hh), _vector(bias, gates), cells, _rows(out, gates))


def lstm_backward(dout: Array, dh: Array, dc: Array, gates: Array, cells: Array, w_hh: Array, da: Array) -> None:
    """Run the backward of ``ops.nn.recurrent.lstm`` in place; multiply pairs if dout, w_hh and da are bfloat16."""
    sequences = _rows(gates, gates), cells, _along(w_hh), _rows(da, gates)
    _run("lstm_backward", gates, dout, dh, dc, *sequences)


def gru(
    gates: Array, h: Array, w_hh: Array, b_ih: Array | None, b_hh: Array | None, recurrent_n: Array, out: Array
) -> None:
    """Run the forward of ``ops.nn.recurrent.gru`` in place; multiply pairs if h, w_hh and out are bfloat16."""
    biases = _vector(b_ih, gates), _vector(b_hh, gates)
    sequences = _rows(recurrent_n, gates), _rows(out, gates)
    _run("gru", gates, gates, _words(_dense(h)), _across(w_hh), *biases, *sequences)


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
) -> None:
    """Run the backward of ``ops.nn.recurrent.gru`` in place; multiply pairs if arrays but ``dh`` are bfloat16."""
    given = dh, _words(_dense(h)), _rows(gates, gates), _rows(recurrent_n, gates), _rows(out, gates), _along(w_hh)
    _run("gru_backward", gates, dout, *given, _rows(dx_gates, gates), _rows(dh_gates, gates))


def rnn(out: Array, h: Array, w_hh: Any, bias: Any, relu: bool) -> None:
    """Run the forward of ``ops.nn.recurrent.rnn`` in place; multiply pairs if h and w_hh are bfloat16."""
    _run("rnn", out, out, _words(_dense(h)), _across(w_hh), _vector(bias, out), relu)


def rnn_backward(dout: Array, dh: Any, out: Array, w_hh: Any, relu: bool, da: Any) -> None:
    """Run the backward of ``ops.nn.recurrent.rnn`` in place; multiply pairs if arrays but ``dh`` are bfloat16."""
    _run("rnn_backward", out, dout, dh, _rows(out, out), _along(w_hh), relu, _rows(da, out))


def _run(name: str, model: Array, sequence: Array, *args: object) -> None:
    """Run a loop on sequences in the memory order of ``model``; the first of them is given apart."""
    steps, batch, size = sequence.shape
    step, apart = (1, steps) if by_sequence(model) else (batch, 1)
    place = (steps, batch, 0, step, apart)
    if model.strides[0] < 0:
        place = (steps, batch, (steps - 1) * step, -step, apart)
    blocks = -(-batch // BLOCK)
    least = max(-(-blocks // count()), USEFUL // (steps * BLOCK * size))
    run = loop("loops.sequences.recurrent_loops", name)
    launch_products(run, blocks, least, _rows(sequence, model), place, *args)


def _rows(x: Array, model: Array) -> Array:
    """Return the rows of a sequence in the memory order of ``model``; without a copy if x has that order."""
    x = x[::-1] if model.strides[0] < 0 else x
    x = _dense(x.transpose(1, 0, 2) if by_sequence(model) else x)
    return _words(x.reshape(-1, x.shape[2]))


def _words(x: Array) -> Array:
    """Return bfloat16 numbers as uint16, other arrays unchanged."""
    return x.view(np.uint16) if x.itemsize == 2 else x


def _across(w_hh: Array) -> Array:
    """Pack the transpose of a weight, or of its pairs of adjacent bfloat16 numbers."""
    w_hh = _dense(w_hh)
    return _packed(w_hh.view(np.uint32) if w_hh.itemsize == 2 else w_hh, True)


def _along(w_hh: Array) -> Array:
    """Pack a weight, or pairs of its rows if it is bfloat16."""
    w_hh = _dense(w_hh)
    return _packed(paired(w_hh[None])[0] if w_hh.itemsize == 2 else w_hh, False)


def _dense(x: Array) -> Array:
    if x.flags.carray:
        return x
    return copied(x) if x.size >= LARGE else np.require(x, requirements=("C", "A"))


def _vector(bias: Array | None, gates: Array) -> Array:
    return np.zeros(gates.shape[2], gates.dtype) if bias is None else _dense(bias)


def _packed(matrix: Array, turned: bool) -> Array:
    """Pack the matrix, or its transpose, for ``tiles.multiply``, aligned to whole vectors."""
    (depth, columns), size = matrix.shape[::-1] if turned else matrix.shape, matrix.itemsize
    lanes = width() // size
    vectors = -(-columns // lanes)
    memory = empty(((depth * vectors + 1) * lanes,), matrix.dtype)
    parts, each = (vectors, depth * lanes) if turned else (depth, columns)
    args = _dense(matrix), turned, depth, columns, memory
    launch(loop("tiles.packed_products", "pack"), parts, max(1, WORTH_SHARING // each), *args)
    return memory[-memory.ctypes.data % width() // size :][: depth * vectors * lanes]
