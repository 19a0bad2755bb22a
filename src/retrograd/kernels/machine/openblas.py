"""The BLAS that NumPy's wheels bring, and how many threads it works with.

Its threads wait in loops of their own after each call, which keeps helpers of the pool from running for many times as
long as the call took. So once the pool works, BLAS works with one thread, and products are shared by the pool.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np


@cache
def openblas() -> ctypes.CDLL | None:
    """OpenBLAS with 64-bit integers as NumPy's wheels have it, or None."""
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):
        for path in folder.glob("libscipy_openblas64_*"):
            with suppress(OSError):
                return ctypes.CDLL(str(path))
    return None


def limit(threads: int) -> bool:
    """Let BLAS work with so many threads; whether that could be done."""
    library = openblas()
    if library is None:
        return False
    library.scipy_openblas_set_num_threads64_(threads)
    return True
