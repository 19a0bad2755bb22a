"""Products of matrices of bfloat16 (ml_dtypes) by the processor's instruction for pairs.

The instruction VDPBF16PS of AVX512_BF16 multiplies two pairs of bfloat16 and adds both products to a float32. Products
of other sizes, and on other processors, are computed in float32.
"""

from __future__ import annotations

import numpy as np

from ....core.arrays import Array
from ....core.arrays.dtypes import float32
from ....core.arrays.layout import cast
from ....core.opaque_calls import LoopMissing
from ... import compiled, loop
from ...runtime.cores import count
from ...runtime.levels import multiplies_bfloat16
from ...runtime.result_arrays import empty
from ...runtime.threads import launch
from . import compact, products

SHARED = 1 << 15  # minimum number of pairs that a thread writes
_MODULE = "loops.matrices.product_loops"


def dot(x: Array, y: Array, bias: Array | None = None, rounds: bool = True) -> Array:
    """Return ``x @ y + bias`` for two matrices of bfloat16, with sums in float32, rounded to bfloat16 if ``rounds``."""
    large = type(x) is type(y) is np.ndarray and x.size * y.shape[1] >= products.USEFUL
    if large and multiplies_bfloat16() and compiled() is not None:
        out = _product(x, y, bias, rounds)
        if out is not None:
            return out
    if large and len(x) <= compact.FEW and y.flags.f_contiguous:
        sums = compact.dot(cast(x, float32), y.T, y.T[:, :0])
    else:
        sums = products.dot(cast(x, float32), cast(y, float32))
    if bias is not None:
        sums += bias.astype(float32)
    return cast(sums, x.dtype) if rounds else sums


def _product(x: Array, y: Array, bias: Array | None = None, rounds: bool = True) -> Array | None:
    """Return the product by tiles of pairs; None if other methods are faster or the loop is missing."""
    (m, k), n = x.shape, y.shape[1]
    if k != len(y):
        return None  # the caller then computes the product in float32, which raises the error
    threads = count()
    x_turned, y_turned = not x.flags.c_contiguous, not y.flags.c_contiguous
    plan = products.planned(m, (k + 1) // 2, n, x_turned, y_turned, "f", threads)
    blocks, least, block, how, ranges, cuts = plan
    if how in (products.WHOLE, products.SINGLY):
        return None
    try:
        left, right = _pairs(x.T) if x_turned else _pairs(x, True), _pairs(y.T, True) if y_turned else _pairs(y)
        if left is None or right is None:
            return None
        sums = empty((m, n), np.uint32)
        if bias is not None:
            sums.view(np.float32)[...] = bias
        taken = np.zeros(max(ranges, 1), np.int64)
        given = left, x_turned, right, y_turned, sums, block, how, taken, cuts
        if not rounds and bias is None:
            launch(loop(_MODULE, "product"), blocks, least, *given)
            return sums.view(np.float32)
        out: Array = empty((m, n), x.dtype)
        launch(loop(_MODULE, "pair_product"), blocks, least, *given, out.view(np.uint16), bias is not None)
    except LoopMissing:
        return None
    return out if rounds else sums.view(np.float32)


def paired(x: Array) -> Array:
    """Return pairs of adjacent rows of each matrix of a dense stack; a last row without a partner is paired with 0."""
    count, rows, columns = x.shape
    out: Array = empty((count, (rows + 1) // 2, columns), np.uint32)
    least = max(1, SHARED // max(columns, 1))
    launch(loop(_MODULE, "pair_rows"), count * out.shape[1], least, x.view(np.uint16), out)
    return out


def _pairs(x: Array, along: bool = False) -> Array | None:
    """Return the pairs of adjacent rows of a row-major matrix, or of adjacent numbers of its rows if ``along``."""
    if not (x.flags.c_contiguous and x.flags.aligned):
        return None
    rows, columns = x.shape
    if not along:
        return paired(x.reshape(1, rows, columns))[0]
    halves = x.view(np.uint16)
    if columns % 2 or x.ctypes.data % 4:
        even = np.zeros((rows, columns + columns % 2), np.uint16)
        even[:, :columns] = halves
        halves = even
    return halves.view(np.uint32)
