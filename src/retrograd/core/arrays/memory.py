"""Keep freed memory for the next arrays instead of returning it to the operating system.

glibc allocates arrays above its mmap threshold (128 KiB, rising to at most 32 MiB) by mmap and unmaps them when freed.
Each new array then causes page faults, which cost more than the arithmetic on it. Raising glibc's mmap and trim
thresholds makes new arrays reuse memory of the process. The thresholds are settings of the whole process, so they are
raised only when Retrograd first allocates a large array.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache

import numpy as np

from . import Array
from .devices import backend_of, registered_backends
from .layout import Lines

# Functions that free further cached memory.
caches: list[Callable[[], None]] = []

LASTING = 1 << 20  # minimum bytes of an array that ``lasting_zeros`` allocates outside of the heap
TRIMMED = 1 << 26  # bytes of such arrays after which the heap returns its free memory
LARGE = 1 << 15  # float32 elements of an array at glibc's initial mmap threshold

_since_trim = 0

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_INT = 2**31 - 1


def keep_freed_memory() -> bool:
    """Raise glibc's thresholds and return True, unless the environment sets them.

    Without glibc, or with ``RETROGRAD_KEEP_MEMORY=0``, change nothing and return False.
    """
    if os.environ.get("RETROGRAD_KEEP_MEMORY") == "0" or not _LIBC:
        return False
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    return bool(_LIBC.mallopt(_M_MMAP_THRESHOLD, 1 << 30) and _LIBC.mallopt(_M_TRIM_THRESHOLD, _LARGEST_INT))


@cache
def large_array_met() -> None:
    """Keep freed memory from now on; called for the first array of at least ``LARGE`` elements."""
    keep_freed_memory()


def lasting_zeros(like: Array) -> Array:
    """Return ``np.zeros_like(like)`` for an array that lives as long as the program, such as state of an optimizer.

    Large arrays get pages outside of glibc's heap. Inside, the first step would allocate them between arrays that it
    soon frees, and later steps would find no free range that is large enough for the largest of their arrays. The heap
    then gives back what the initialization of the parameters has freed, which the state does not fill.
    """
    global _since_trim
    dtype = like.dtype
    ordinary = type(like) is not np.ndarray or np.dtype(dtype.str) != dtype or not like.flags.c_contiguous
    if ordinary or like.nbytes < LASTING or os.name != "posix":
        return backend_of(like).xp.zeros_like(like)
    _since_trim += like.nbytes
    if _since_trim >= TRIMMED:
        _since_trim = 0
        trim()
    pages = mmap.mmap(-1, like.nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):  # as NumPy does for its own arrays
        with suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.asarray(Lines(like.shape, dtype, np.frombuffer(pages, np.uint8)))


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's garbage collector, which would visit a growing number of objects again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def trim() -> None:
    """Return the memory of freed arrays, which glibc has kept, to the operating system."""
    if _LIBC:
        _LIBC.malloc_trim(0)


def empty_cache() -> None:
    """Return unused memory to the operating system: that of freed arrays (cached by glibc on Linux, by CuPy on a GPU),
    and the buffers of compiled functions.

    Call this only if another process needs the memory: allocating the next arrays is slower.

    >>> rg.empty_cache()
    """
    gc.collect()
    for let_go in caches:
        let_go()
    trim()
    for backend in registered_backends():
        backend.free_unused()


def _glibc() -> ctypes.CDLL | None:
    if os.name != "posix":
        return None
    try:
        library = ctypes.CDLL(None)
        return library if hasattr(library, "gnu_get_libc_version") and hasattr(library, "mallopt") else None
    except OSError:
        return None


_LIBC = _glibc()
