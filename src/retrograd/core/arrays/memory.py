"""Keep freed memory for the next arrays instead of returning it to the operating system.

glibc allocates arrays above its mmap threshold (128 KiB, rising to at most 32 MiB) by mmap and unmaps them when freed.
Each new array then causes page faults, which cost more than the arithmetic on it. Raising glibc's mmap and trim
thresholds makes new arrays reuse memory of the process. The thresholds are settings of the whole process, so they are
raised only when Retrograd first allocates a large array.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from .devices import registered_backends

# Functions that free further cached memory.
caches: list[Callable[[], None]] = []

LARGE = 1 << 15  # float32 elements of an array at glibc's initial mmap threshold

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
