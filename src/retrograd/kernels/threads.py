"""Work on ranges, shared among threads. What runs must let go of Python's lock: compiled loops do."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Executor  # which imports logging


@cache
def count() -> int:
    """How many threads work: ``OMP_NUM_THREADS``, else one per core this process may use."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool() -> Executor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(count() - 1, "retrograd-kernels")


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def in_shares(work: Callable[[int, int], object], total: int, least: int) -> None:
    """``work(start, stop)`` on equal shares of ``range(total)``, one of which the caller does; none below ``least``."""
    shares = min(count(), total // max(least, 1))
    if shares <= 1:
        work(0, total)
        return
    bounds = [total * share // shares for share in range(shares + 1)]
    others = [_pool().submit(work, start, stop) for start, stop in zip(bounds[1:], bounds[2:], strict=False)]
    try:
        work(bounds[0], bounds[1])
    finally:
        for other in others:
            other.result()
