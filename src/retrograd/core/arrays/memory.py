"""The memory that arrays come from: freed memory is kept for the next array, until a program gives it back.

glibc maps every array above 128 KiB (at most 32 MiB, as programs run) anew and unmaps it when it is freed, so each new
one is faulted in page by page, which costs more than the arithmetic on it. With the two thresholds raised, arrays come
from memory that the process has already. The thresholds belong to the process, so they stay as they are until a program
makes a large array of ours.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable
from functools import cache

from .devices import registered_backends

# What else lets go of memory that it keeps to use again.
caches: list[Callable[[], None]] = []

LARGE = 1 << 15  # elements from which glibc maps an array of float32 by itself, before it has adapted

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_INT = 2**31 - 1


def keep_freed_memory() -> bool:
    """Raise glibc's thresholds, unless the environment sets them; whether that was done.

    Without glibc, or with ``RETROGRAD_KEEP_MEMORY=0``, nothing changes.
    """
    if os.environ.get("RETROGRAD_KEEP_MEMORY") == "0" or not _LIBC:
        return False
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    return bool(_LIBC.mallopt(_M_MMAP_THRESHOLD, 1 << 30) and _LIBC.mallopt(_M_TRIM_THRESHOLD, _LARGEST_INT))


@cache
def large_array_met() -> None:
    """Keep freed memory from now on: to be called where an array of ``LARGE`` elements or more is met."""
    keep_freed_memory()


def empty_cache() -> None:
    """Give memory that nothing uses now back to the system: that of freed arrays (on Linux glibc's, on a GPU what
    CuPy's pools hold), and what compiled functions keep for their next call.

    Programs need it only before something else wants the memory; the next arrays are slower.

    >>> rg.empty_cache()
    """
    gc.collect()
    for let_go in caches:
        let_go()
    if _LIBC:
        _LIBC.malloc_trim(0)
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
