"""Products with a matrix that is stored in fewer bits than it is multiplied in.

The matrix ``w`` is bfloat16, float16, or 8-bit integers with ``scales``: a float16 for every 32 integers of a row, as
in the format Q8_0 of GGUF. Without scales, ``scales`` has no columns. ``x @ w.T`` has a column for each row of ``w``;
products are computed in float32, or in float64 if x is float64. The matrix as a whole is never expanded: loops expand
each number in a register, and BLAS multiplies with some rows at a time.
"""

from __future__ import annotations

import numpy as np
from numpy import ndarray

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.arrays.dtypes import DType, float32
from ....core.arrays.layout import cast
from ....core.opaque_calls import LoopMissing
from ... import compiled, loop
from ...runtime.result_arrays import empty
from ...runtime.threads import launch
from .products import dot as product

BLOCK = 32  # number of integers that share one scale
FEW = 6  # maximum rows of the other factor for which loops are faster than expanding and calling BLAS
SHARED = 1 << 15  # minimum number of elements that a thread reads
CHUNK = 1 << 19  # number of elements that are expanded at once
_MODULE = "loops.matrices.product_loops"
_LOOPS = {"E": "bfloat16_rows", "e": "float16_rows", "b": "block_rows"}  # the loops by the dtype's character


def expanded(w: Array, scales: Array, dtype: DType = float32) -> Array:
    """Return the numbers of a matrix in a floating dtype."""
    if not scales.shape[1]:
        return cast(w, dtype)
    if _fits(w, scales) and dtype == float32:
        out = empty(w.shape, float32)
        try:
            launch(loop(_MODULE, "expand_blocks"), len(w), _least(w), w, scales.view(np.uint16), out)
            return out
        except LoopMissing:
            pass
    blocks = w.reshape(len(w), scales.shape[1], BLOCK)
    return np.multiply(blocks, scales[:, :, None].astype(dtype), dtype=dtype).reshape(w.shape)


def dot(x: Array, w: Array, scales: Array) -> Array:
    """Return ``x @ w.T`` for an x of float32 or float64."""
    if x.shape[1] != w.shape[1]:
        raise ValueError(f"expected rows of {w.shape[1]} elements to multiply with w.T, got rows of {x.shape[1]}")
    if len(x) <= FEW and x.dtype == float32 and type(x) is ndarray and _fits(w, scales):
        stored = (w, scales.view(np.uint16)) if scales.shape[1] else (w.view(np.uint16),)
        out = empty((len(x), len(w)), float32)
        try:
            launch(loop(_MODULE, _LOOPS[w.dtype.char]), len(w), _least(w), np.ascontiguousarray(x), *stored, out)
            return out
        except LoopMissing:
            pass
    out = array_module(x).empty((len(x), len(w)), x.dtype)
    for part in _parts(w):
        out[:, part] = product(x, expanded(w[part], scales[part], x.dtype).T)
    return out


def back(g: Array, w: Array, scales: Array) -> Array:
    """Return ``g @ w`` for a g of float32 or float64."""
    out = array_module(g).zeros((len(g), w.shape[1]), g.dtype)
    for part in _parts(w):
        out += product(g[:, part], expanded(w[part], scales[part], g.dtype))
    return out


def _fits(w: Array, scales: Array) -> bool:
    """Return whether the loops support a matrix."""
    if type(w) is not ndarray or not w.size or w.dtype.char not in _LOOPS or compiled() is None:
        return False
    if w.dtype.char == "b":
        rows, columns = w.shape
        scaled = columns % BLOCK == 0 and scales.shape == (rows, columns // BLOCK) and scales.dtype.char == "e"
        return scaled and scales.flags.c_contiguous and w.flags.c_contiguous
    return w.flags.c_contiguous and w.flags.aligned


def _least(w: Array) -> int:
    """Return how many rows of a matrix a thread reads at least."""
    return max(1, SHARED // w.shape[1])


def _parts(w: Array) -> list[slice]:
    step = max(1, CHUNK // max(1, w.shape[1]))
    return [slice(start, start + step) for start in range(0, len(w), step)]
