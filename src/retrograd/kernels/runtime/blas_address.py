"""Find the matrix products of NumPy's BLAS for compiled loops.

Machine code calls ``cblas_?gemm`` by a symbol with a prefix of Retrograd, which each process binds to the function's
address.
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
# Names with 64-bit integers in NumPy's wheels, OpenBLAS, MKL and Accelerate; the last name usually has 32-bit integers.
_NAMES = "scipy_cblas_{}64_", "cblas_{}64_", "cblas_{}_64", "cblas_{}$NEWLAPACK$ILP64", "cblas_{}"
_PACKED = "darwin", "arm64"  # the platform where arguments on the stack are not padded to 64 bits


def available() -> bool:
    """Return whether NumPy's BLAS was found, which loops with matrix products need."""
    return addresses() is not None


@cache
def addresses() -> dict[str, int] | None:
    """Return the addresses of ``sgemm`` and ``dgemm`` of NumPy's BLAS, or None."""
    for library in _libraries():
        for name in _NAMES:
            functions: Any = {kind: getattr(library, name.format(kind), None) for kind in ("sgemm", "dgemm")}
            if None in functions.values():
                continue
            # Loops pass 64-bit integers. A function with 32-bit integers reads the lower halves, except on big-endian
            # systems and with packed arguments.
            if name == _NAMES[-1] and (sys.byteorder == "big" or (sys.platform, platform.machine()) == _PACKED):
                return None
            found = {kind: ctypes.cast(function, ctypes.c_void_p).value for kind, function in functions.items()}
            return {kind: address for kind, address in found.items() if address is not None}
    return None


@cache
def vector_product(kind: str) -> int | None:
    """Return the address of ``sgemv`` or ``dgemv`` of NumPy's BLAS, with 64-bit integers, or None."""
    for library in _libraries():
        for name in _NAMES[:-1]:
            function: Any = getattr(library, name.format(kind), None)
            if function is not None:
                return ctypes.cast(function, ctypes.c_void_p).value
    return None


@cache
def name_for_llvm() -> None:
    """Define the symbols of NumPy's BLAS for code that LLVM compiles in this process."""
    import llvmlite.binding as llvm

    for kind, address in (addresses() or {}).items():
        llvm.add_symbol(PREFIX + kind, address)


def _libraries() -> list[ctypes.CDLL]:
    """Return NumPy's extension module, which resolves symbols of its dependencies; on Windows also OpenBLAS's DLL."""
    from glob import glob

    try:
        core = np._core._multiarray_umath.__file__  # type: ignore[attr-defined]
        beside = (
            glob(join(dirname(dirname(np.__file__)), "numpy.libs", "*openblas*")) if sys.platform == "win32" else []
        )
        return [ctypes.CDLL(path) for path in (core, *beside)]
    except (AttributeError, OSError):
        return []
