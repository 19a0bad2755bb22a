"""Whether numbers too small for full precision are set to zero, on all threads of the pool.

A processor takes a hundred times as long for them. Its floating-point mode belongs to a thread; a new one inherits it.
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from typing import Any

from . import threads
from .levels import machine

FLUSH = 0x8040  # of MXCSR: set to zero what an operation gives and takes where that is too small for full precision

# Where a saved mode (fenv_t of the C library) has the word of the processor, and the bits that set to zero what an
# operation gives and takes: FTZ and DAZ of MXCSR, FZ of FPCR.
_PLACES = {
    ("Linux", "x86_64"): (28, FLUSH),
    ("Darwin", "x86_64"): (4, FLUSH),
    ("Linux", "aarch64"): (0, 1 << 24),
}


@cache
def flushes() -> bool:
    """Whether products in single precision flush: on processors whose mode is known, which are slow without."""
    return machine() in ("x86_64", "AMD64")


@cache
def _library() -> Any:
    place = _PLACES.get((platform.system(), platform.machine()))
    functions = threads.foreign("fegetenv", "fesetenv")
    return None if place is None or functions is None else (ctypes.CDLL(None), *place, functions[1])


_kept: list[Any] = []  # modes that helpers may still read


def set_flush(mode: bool) -> bool:
    """Set the mode of the calling thread and of the helpers, which share its products; whether that can be done here.

    BLAS's own threads, which work where Numba is not installed, stay as they are: nothing leads to them.
    """
    found = _library()
    if found is None:
        return False
    library, offset, bits, set_mode = found
    saved = ctypes.create_string_buffer(64)
    library.fegetenv(saved)
    word = ctypes.c_uint32.from_buffer(saved, offset)
    word.value = word.value | bits if mode else word.value & ~bits
    library.fesetenv(saved)
    _kept.append(saved)
    threads.take_mode(ctypes.addressof(saved), set_mode)
    return True
