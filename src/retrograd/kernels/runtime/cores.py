"""The number of threads that this process uses."""

from __future__ import annotations

import os
from functools import cache

MOST = 1024  # the largest accepted value of OMP_NUM_THREADS
wanted: list[int] = []  # the number of threads set by ``threads.set_count``, if any


def count() -> int:
    """Return the number of threads: set by ``set_count``, else ``OMP_NUM_THREADS``, else one per available core."""
    return wanted[0] if wanted else cores()


@cache
def cores() -> int:
    """Return ``OMP_NUM_THREADS`` if it is a number from 1 to ``MOST``, else the number of cores of this process."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").strip()
    if wanted.isdecimal() and len(wanted) <= 4 and 0 < int(wanted) <= MOST:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
