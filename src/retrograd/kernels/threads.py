"""Work on ranges, shared among threads. What runs must let go of Python's lock: compiled loops do."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from threading import Thread, get_ident


@cache
def count() -> int:
    """How many threads work: ``OMP_NUM_THREADS``, else one per core this process may use."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Job:
    """The shares of one call. A share belongs to the thread that takes it first.

    The caller takes every share that no helper has begun, so that it waits only for work that is under way: where
    helpers are busy, cannot be started or have ended with the interpreter, the caller does everything itself.
    """

    def __init__(self, work: Callable[[int, int], object], total: int, shares: int) -> None:
        self.work: Callable[[int, int], object] | None = work  # None once the call is over: a late helper holds nothing
        self.bounds = [total * share // shares for share in range(shares + 1)]
        self.owners: dict[int, int] = {}
        self.results: dict[int, BaseException | None] = {}  # of the shares that helpers have ended, their errors
        self.ended: SimpleQueue[None] = SimpleQueue()  # an item for each of these, to wake the caller

    def help(self) -> None:
        work, me = self.work, get_ident()
        if work is None:
            return
        for share in range(len(self.bounds) - 2, 0, -1):  # the caller begins at the other end
            if share not in self.owners and self.owners.setdefault(share, me) == me:
                error = None
                try:
                    work(self.bounds[share], self.bounds[share + 1])
                except BaseException as raised:
                    error = raised
                self.results[share] = error
                self.ended.put(None)


# What helpers wait at, by the number of threads. Helpers are daemons: no program waits for them.
_pools: dict[int, SimpleQueue[_Job]] = {}

if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_pools.clear)


def _pool(size: int) -> SimpleQueue[_Job]:
    jobs = _pools.get(size)
    if jobs is None:
        new: SimpleQueue[_Job] = SimpleQueue()
        jobs = _pools.setdefault(size, new)
        if jobs is new:
            for number in range(1, size):
                try:
                    Thread(target=_serve, args=(jobs,), name=f"retrograd-kernels-{number}", daemon=True).start()
                except RuntimeError:  # too many threads, or the interpreter is ending
                    break
    return jobs


def _serve(jobs: SimpleQueue[_Job]) -> None:
    while True:
        jobs.get().help()


def in_shares(work: Callable[[int, int], object], total: int, least: int) -> None:
    """``work(start, stop)`` on equal shares of ``range(total)``, one of which the caller does; none below ``least``.

    However the call ends, nobody works any more when it has.

    Raises:
        BaseException: what ``work`` raised, first of all in the caller's share.
    """
    size = count()
    shares = min(size, total // max(least, 1))
    if shares <= 1:
        work(0, total)
        return
    job, me = _Job(work, total, shares), get_ident()
    try:
        jobs = _pool(size)
        for _ in range(shares - 1):
            jobs.put(job)
        for share in range(shares):
            if job.owners.setdefault(share, me) == me:
                work(job.bounds[share], job.bounds[share + 1])
    finally:
        interrupt = None
        while True:
            try:  # Ctrl-C may come here, too. Each step can be done again: the job knows who has what, and what ended.
                for share in range(shares):
                    if job.owners.setdefault(share, me) != me:
                        while share not in job.results:
                            job.ended.get()
                break
            except BaseException as error:
                interrupt = error
        job.work = None
        if interrupt is not None:
            raise interrupt
    for share in sorted(job.results):
        raised = job.results[share]
        if raised is not None:
            raise raised
