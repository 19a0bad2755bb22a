"""Triangular systems by the BLAS in NumPy's wheels; NumPy itself would factorize the matrix first."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.blas import beside_pool, openblas
from ....core.arrays.layout import broadcast_shapes, place_of

LEAST = 8  # minimum number of rows for which one BLAS call per matrix is faster than NumPy's solver
ROW_MAJOR, LEFT = 101, 141  # CblasRowMajor and CblasLeft of CBLAS's header
UPPER, LOWER, AS_IS, TURNED, READ, UNIT = 121, 122, 111, 112, 131, 132
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
_REAL = {"f": ctypes.c_float, "d": ctypes.c_double}


@cache
def _function(kind: str) -> Any:
    """Return ``cblas_?trsm`` for a dtype, or None."""
    function = getattr(openblas(), f"scipy_cblas_{_LETTERS[kind]}trsm64_", None)
    if function is not None:
        number, place = ctypes.c_int64, ctypes.c_void_p
        factor = _REAL.get(kind, place)  # complex factors are passed by address
        function.argtypes = [*[ctypes.c_int] * 5, number, number, factor, place, number, place, number]
        function.restype = None
    return function


def solve(a: Array, b: Array, upper: bool, unit: bool) -> Any:
    """Solve ``A @ X = B`` for broadcast stacks of triangular matrices; return None if NumPy should solve.

    The other triangle is not read, and with ``unit`` neither is the diagonal.
    """
    if type(a) is not np.ndarray or type(b) is not np.ndarray or a.dtype != b.dtype or a.dtype.char not in _LETTERS:
        return None
    n, columns = b.shape[-2:]
    kind = a.dtype.char
    trsm = _function(kind)
    if n < LEAST or trsm is None:
        return None
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.array(np.broadcast_to(b, (*lead, n, columns)), order="C")
    if not out.size:
        return out
    one: Any = 1.0 if kind in _REAL else np.ones(1, a.dtype).ctypes.data_as(ctypes.c_void_p)
    matrices = np.broadcast_to(a, (*lead, n, n))
    for place in np.ndindex(lead):
        matrix = matrices[place]
        turned = matrix.flags.f_contiguous
        if not turned:
            matrix = np.ascontiguousarray(matrix)
        half = UPPER if upper != turned else LOWER
        way, diagonal = TURNED if turned else AS_IS, UNIT if unit else READ
        places = place_of(matrix), n, place_of(out[place]), columns
        beside_pool(trsm, ROW_MAJOR, LEFT, half, way, diagonal, n, columns, one, *places)
    return out
