"""How much of the machine this process is to use."""

from __future__ import annotations

import os
from functools import cache


@cache
def cores() -> int:
    """``OMP_NUM_THREADS``, else the cores on which this process may run."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
