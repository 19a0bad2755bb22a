"""Products of two matrices shared among the threads of the pool, where NumPy has the BLAS that its wheels bring.

Elsewhere, and for small matrices, they are NumPy's.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy import ndarray

from . import compiled
from .blas import openblas
from .threads import count, launch

USEFUL = 1 << 18  # multiplications from which sharing gains
BLOCK = 48  # rows of the result, or columns: a multiple of what BLAS's inner loops take at once
SKINNY = 128  # rows or columns of the result up to which packing the matrices does not pay
_ONE = {"f": np.float32(1), "d": np.float64(1)}


@cache
def _functions() -> dict[str, int] | None:
    """The addresses of gemm by the dtype's character."""
    library = openblas()
    if library is None or compiled() is None:
        return None
    names = {"f": "scipy_cblas_sgemm64_", "d": "scipy_cblas_dgemm64_"}
    try:
        return {kind: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for kind, name in names.items()}
    except AttributeError:
        return None


def dot(x: Any, y: Any) -> Any:
    """``x @ y`` of two matrices, of NumPy or CuPy."""
    if type(x) is not ndarray or x.size * y.shape[1] < USEFUL:
        return x.dot(y)
    return _shared_dot(x, y)


def _shared_dot(x: Any, y: Any) -> Any:
    kind = x.dtype.char
    if kind not in _ONE or y.dtype.char != kind:
        return x.dot(y)
    x_turned, y_turned = not x.flags.c_contiguous, not y.flags.c_contiguous
    rows, columns = x.T if x_turned else x, y.T if y_turned else y
    functions = _functions()
    if functions is None or not (rows.flags.c_contiguous and columns.flags.c_contiguous):
        return x.dot(y)
    from .gemm import product

    out = np.empty((x.shape[0], y.shape[1]), x.dtype)
    shortest, longest = sorted(out.shape)
    block = _small_block(shortest, x.shape[1], y_turned and not x_turned) if kind == "f" else 0
    blocks = -(-longest // (block or BLOCK))
    # One part for each thread, since each packs all of the other matrix anew.
    least = max(-(-blocks // count()), USEFUL * blocks // (x.shape[1] * out.size))
    given = functions[kind], rows, x_turned, columns, y_turned
    launch(product, blocks, least, *given, out, block or BLOCK, block > 0, _ONE[kind])
    return out


def _small_block(shortest: int, k: int, rows_by_rows: bool) -> int:
    """How much of the result OpenBLAS computes without packing the matrices, which it does up to 10^6 products.

    0 where packing pays: for large results, and for products of short rows with rows.
    """
    if shortest > SKINNY or rows_by_rows and k < 256:
        return 0
    return (250_000 if rows_by_rows else 1_000_000) // (shortest * k) // 8 * 8
