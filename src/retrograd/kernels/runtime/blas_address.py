"""The address of NumPy's BLAS, under a name that compiled loops call.

Machine code calls ``cblas_?gemm`` by a name of our own, to which each process gives the function's address.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache
from os.path import dirname, join
from typing import Any

import numpy as np

PREFIX = "retrograd_cblas_"
# With integers of 64 bits: NumPy's wheels, OpenBLAS, MKL, Accelerate. The last has 32 in most builds of BLAS.
_NAMES = "scipy_cblas_{}64_", "cblas_{}64_", "cblas_{}_64", "cblas_{}$NEWLAPACK$ILP64", "cblas_{}"
_PACKED = "darwin", "arm64"  # where arguments on the stack take no more room than they need


def available() -> bool:
    """Whether NumPy's BLAS was found, and loops that multiply may run."""
    return addresses() is not None


@cache
def addresses() -> dict[str, int] | None:
    """Where ``sgemm`` and ``dgemm`` of NumPy's BLAS are, or None."""
    for library in _libraries():
        for name in _NAMES:
            functions: Any = {kind: getattr(library, name.format(kind), None) for kind in ("sgemm", "dgemm")}
            if None in functions.values():
                continue
            # Integers are passed in 64 bits. A function that takes 32 reads the lower halves, but for two systems.
            if name == _NAMES[-1] and (sys.byteorder == "big" or (sys.platform, platform.machine()) == _PACKED):
                return None
            found = {kind: ctypes.cast(function, ctypes.c_void_p).value for kind, function in functions.items()}
            return {kind: address for kind, address in found.items() if address is not None}
    return None


@cache
def name_for_llvm() -> None:
    """Let code that LLVM compiles in this process call NumPy's BLAS by our names."""
    import llvmlite.binding as llvm

    for kind, address in (addresses() or {}).items():
        llvm.add_symbol(PREFIX + kind, address)


def _libraries() -> list[ctypes.CDLL]:
    """NumPy's extension, through which all it depends on is searched; on Windows the library beside it."""
    from glob import glob

    try:
        core = np._core._multiarray_umath.__file__  # type: ignore[attr-defined]
        beside = (
            glob(join(dirname(dirname(np.__file__)), "numpy.libs", "*openblas*")) if sys.platform == "win32" else []
        )
        return [ctypes.CDLL(path) for path in (core, *beside)]
    except (AttributeError, OSError):
        return []
