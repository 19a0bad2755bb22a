"""Products of two matrices shared among the threads of the pool, where NumPy has the BLAS that its wheels bring.

Elsewhere, and for small matrices, they are NumPy's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from . import compiled, threads
from .threads import count

USEFUL = 1 << 18  # multiplications from which sharing gains
BLOCK = 48  # rows of the result, or columns: what BLAS's inner loops take at once, for single and double precision
_ONE = {"f": np.float32(1), "d": np.float64(1)}


@cache
def blas() -> ctypes.CDLL | None:
    """OpenBLAS with 64-bit integers as NumPy's wheels have it, or None."""
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):
        for path in folder.glob("libscipy_openblas64_*"):
            try:
                return ctypes.CDLL(str(path))
            except OSError:
                continue
    return None


@cache
def _functions() -> dict[str, int] | None:
    """The addresses of gemm by the dtype's character, and of what sets the number of threads."""
    library = blas()
    names = {"f": "scipy_cblas_sgemm64_", "d": "scipy_cblas_dgemm64_", "limit": "scipy_openblas_set_num_threads64_"}
    if library is None or compiled() is None:
        return None
    try:
        return {key: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for key, name in names.items()}
    except AttributeError:
        return None


def launch_products(loop: Callable[..., object], total: int, least: int, *args: Any) -> None:
    """``launch`` a loop that calls BLAS, which works with one thread meanwhile."""
    library = blas()
    limit = getattr(library, "scipy_openblas_set_num_threads64_", None)
    if limit is None or count() == 1:
        launch(loop, total, least, *args)
        return
    limit(1)
    try:
        launch(loop, total, least, *args)
    finally:
        limit(count())


def dot(x: Any, y: Any) -> Any:
    """``x @ y`` of two matrices, of NumPy or CuPy."""
    if type(x) is not ndarray or x.size * y.shape[1] < USEFUL:
        return x.dot(y)
    return _shared_dot(x, y)


def _shared_dot(x: Any, y: Any) -> Any:
    kind = x.dtype.char
    if kind not in _ONE or y.dtype.char != kind or count() == 1:
        return x.dot(y)
    x_turned, y_turned = not x.flags.c_contiguous, not y.flags.c_contiguous
    rows, columns = x.T if x_turned else x, y.T if y_turned else y
    functions = _functions()
    if functions is None or not (rows.flags.c_contiguous and columns.flags.c_contiguous):
        return x.dot(y)
    from .gemm import product

    out = np.empty((x.shape[0], y.shape[1]), x.dtype)
    longest = max(out.shape)
    blocks = -(-longest // BLOCK)
    # One part for each thread, since each packs all of the other matrix anew.
    least = max(-(-blocks // count()), USEFUL * longest // (x.shape[1] * out.size * BLOCK))
    arguments = functions["limit"], count(), functions[kind], rows, x_turned, columns, y_turned, out, BLOCK, _ONE[kind]
    threads.launch(product, blocks, least, *arguments)
    return out


def launch(loop: Callable[..., object], total: int, least: int, *args: Any) -> None:
    """``threads.launch`` of a loop that calls BLAS, which works with one thread meanwhile."""
    limit = _limit()
    if limit is None:
        threads.launch(loop, total, least, *args)
        return
    limit(1)
    try:
        threads.launch(loop, total, least, *args)
    finally:
        limit(count())


@cache
def _limit() -> Any:
    """What sets the number of BLAS's threads, or None."""
    return getattr(blas(), "scipy_openblas_set_num_threads64_", None)
