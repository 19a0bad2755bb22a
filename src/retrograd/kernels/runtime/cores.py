"""How much of the machine this process is to use."""

from __future__ import annotations

import os
from functools import cache

MOST = 1024  # threads, whatever OMP_NUM_THREADS says
wanted: list[int] = []  # threads, where ``threads.set_count`` has said it


def count() -> int:
    """How many threads work: what ``set_count`` said, else ``OMP_NUM_THREADS``, else one per core of this process."""
    return wanted[0] if wanted else cores()


@cache
def cores() -> int:
    """``OMP_NUM_THREADS`` if it is a number from 1 to ``MOST``, else the cores on which this process may run."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").strip()
    if wanted.isdecimal() and len(wanted) <= 4 and 0 < int(wanted) <= MOST:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
