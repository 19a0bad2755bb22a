"""Set whether subnormal numbers are flushed to zero, on all threads of the pool.

Processors are about a hundred times slower on subnormal numbers. The floating-point mode is a setting of each thread; a
new thread inherits it.
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from typing import Any

from . import threads
from .levels import machine

FLUSH = 0x8040  # FTZ and DAZ in MXCSR: flush subnormal results and operands to zero

# The offset of the processor's control word in C's fenv_t, and its bits that flush subnormal results and operands: FTZ
# and DAZ in MXCSR, FZ in FPCR.
_PLACES = {
    ("Linux", "x86_64"): (28, FLUSH),
    ("Darwin", "x86_64"): (4, FLUSH),
    ("Linux", "aarch64"): (0, 1 << 24),
}


@cache
def flushes() -> bool:
    """Return whether single-precision products flush subnormal numbers: on x86-64."""
    return machine() in ("x86_64", "AMD64")


@cache
def _library() -> Any:
    place = _PLACES.get((platform.system(), platform.machine()))
    functions = threads.foreign("fegetenv", "fesetenv")
    return None if place is None or functions is None else (ctypes.CDLL(None), *place, functions[1])


_kept: list[Any] = []  # kept alive: modes that workers may still read


def set_flush(mode: bool) -> bool:
    """Set the mode of the calling thread and of the workers; return False if the platform does not support it.

    The mode of BLAS's own threads cannot be changed.
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
