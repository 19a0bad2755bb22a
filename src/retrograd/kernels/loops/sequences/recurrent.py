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
    useful = same and len(x) * others[-1].size >= SEVERAL and others[-1].shape[1] % 2 == 0
    return useful and multiplies_bfloat16() and multiplies()


def lstm(gates: Array, h: Array, w_hh: Array, bias: Array | None, cells: Array, out: Array) -> None:
    """Run the forward of ``ops.nn.recurrent.lstm`` in place; multiply pairs if h, w_hh and out are bfloat16."""
    h, w_hh, states = _dense(h), _dense(w_hh), out
    if out.itemsize == 2:
        out = out.view(np.uint16)
        h, w_hh, states = h.view(np.uint32), w_hh.view(np.uint32), out.view(np.uint32)
    _run("lstm", gates, h, _packed(w_hh, True), _vector(bias, gates), cells, out, states)


def lstm_backward(dout: Array, dh: Array, dc: Array, gates: Array, cells: Array, w_hh: Array, da: Array) -> None:
    """Run the backward of ``ops.nn.recurrent.lstm`` in place; multiply pairs if dout, w_hh and da are bfloat16."""
    dout, w_hh, slopes = _dense(dout), _dense(w_hh), da
    if da.itemsize == 2:
        dout, w_hh, da = dout.view(np.uint16), paired(w_hh[None])[0], da.view(np.uint16)
        slopes = da.view(np.uint32)
    _run("lstm_backward", dout, dh, dc, gates, cells, _packed(w_hh, False), da, slopes)


def gru(
    gates: Array, h: Array, w_hh: Array, b_ih: Array | None, b_hh: Array | None, recurrent_n: Array, out: Array
) -> None:
    """Run the forward of ``ops.nn.recurrent.gru`` in place."""
    biases = _vector(b_ih, gates), _vector(b_hh, gates)
    _run("gru", gates, _dense(h), _packed(w_hh, True), *biases, recurrent_n, out)


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
    """Run the backward of ``ops.nn.recurrent.gru`` in place."""
    arrays = _dense(dout), dh, _dense(h), gates, recurrent_n, _dense(out), _packed(w_hh, False), dx_gates, dh_gates
    _run("gru_backward", *arrays)


def rnn(out: Array, h: Array, w_hh: Any, bias: Any, relu: bool) -> None:
    """Run the forward of ``ops.nn.recurrent.rnn`` in place."""
    _run("rnn", out, _dense(h), _packed(w_hh, True), _vector(bias, out), relu)


def rnn_backward(dout: Array, dh: Any, out: Array, w_hh: Any, relu: bool, da: Any) -> None:
    """Run the backward of ``ops.nn.recurrent.rnn`` in place."""
    _run("rnn_backward", _dense(dout), dh, _dense(out), _packed(w_hh, False), relu, da)


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


def _run(name: str, *args: Any) -> None:
    steps, batch, size = args[0].shape
    blocks = -(-batch // BLOCK)
    least = max(-(-blocks // count()), USEFUL // (steps * BLOCK * size))
    launch_products(loop("loops.sequences.recurrent_loops", name), blocks, least, *args)
