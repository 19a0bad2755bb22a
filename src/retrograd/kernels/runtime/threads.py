"""The thread pool for compiled loops, matrix products and Python functions on ranges.

``launch(loop, total, least, *args)`` runs a compiled loop on several threads without the GIL. The loop is decorated by
``thread_protocol.shared``; two parts of its range must not write to the same element. ``in_shares`` runs a Python
function on several threads; the function must release the GIL to become faster. Idle workers poll for a while
(``thread_protocol.serve``), then sleep.
"""

from __future__ import annotations

import ctypes
import os
from _queue import SimpleQueue  # `queue` would import more
from collections.abc import Callable
from threading import Thread, get_ident
from typing import TYPE_CHECKING

import numpy as np

from ...core.arrays import blas
from ...core.opaque_calls import LoopMissing
from .cores import count, wanted
from .thread_memory import BYTES, CALLED, CLOCK, MODE, OPEN, SET_MODE, SLEEP, SPIN, YIELD

if TYPE_CHECKING:
    from .loop_calls import Loop

AWAKE = 2_000_000  # ns for which an idle worker polls before it sleeps, since waking it up is slow
PARTS = 4  # number of parts of a loop per thread, so that a preempted thread delays the others by at most one part
# Loops of up to this many minimum parts per thread are short: they have one part per thread.
SHORT = 8


def set_count(number: int) -> None:
    """Set the number of threads of the pool and of BLAS."""
    wanted[:] = [number]
    blas.set_threads(number)


class _Job:
    """The shares of one call of ``in_shares``. A share is computed by the thread that claims it first.

    The caller claims every share that no worker has started, so it waits only for running shares. If workers are busy,
    cannot be started or were stopped at interpreter shutdown, the caller computes all shares itself.
    """

    def __init__(self, work: Callable[[int, int], object], total: int, shares: int) -> None:
        self.work: Callable[[int, int], object] | None = work  # None after the call, so that late workers keep no data
        self.bounds = [total * share // shares for share in range(shares + 1)]
        self.owners: dict[int, int] = {}
        self.results: dict[int, BaseException | None] = {}  # the errors, or None, of shares that workers have finished
        self.ended: SimpleQueue[None] = SimpleQueue()  # one item per finished share, to wake the caller
        self.calls = False  # whether a worker that polls must be interrupted to take a share

    def help(self) -> None:
        work, me = self.work, get_ident()
        if work is None:
            return
        for share in range(len(self.bounds) - 2, 0, -1):  # the caller claims shares from 1 on
            if share not in self.owners and self.owners.setdefault(share, me) == me:
                error = None
                try:
                    work(self.bounds[share], self.bounds[share + 1])
                except BaseException as raised:
                    error = raised
                self.results[share] = error
                self.ended.put(None)

    # The loops of the caller are methods: from Python 3.12 on, Ctrl-C at the jump back of a loop can leave the function
    # without its ``finally``, since CPython forgets the handler of jumps that it inserts after a condition.

    def begin(self, pool: _Pool, size: int, me: int) -> None:
        """Offer all shares but one to workers, and compute the shares that no worker has claimed."""
        shares = len(self.bounds) - 1
        pool.grow(size)
        for _ in range(shares - 1):
            pool.give(self)
        work = self.work
        for share in range(shares):
            if self.owners.setdefault(share, me) == me and work is not None:
                work(self.bounds[share], self.bounds[share + 1])

    def finish(self, me: int) -> None:
        """Claim the shares that nobody has started and wait for the others. It may be interrupted and repeated."""
        for share in range(len(self.bounds) - 1):
            if self.owners.setdefault(share, me) != me:
                while share not in self.results:
                    self.ended.get()


MOST_THREADS = 1024  # upper limit for the size of the pool: each thread needs memory for its stack


class _Pool:
    """The workers of a process: daemon threads, which do not delay its exit."""

    def __init__(self) -> None:
        self.size = 1  # the number of threads, including the caller
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()  # None makes a worker poll for launches
        self.asleep: list[None] = []  # one item per worker that is blocked on ``jobs`` and has not been woken
        self.serve: Callable[[int], object] | None = None  # None before the first launch, or if not available
        memory = np.zeros(BYTES + 64, np.uint8)
        self.words = memory[-memory.ctypes.data % 64 :][:BYTES].view(np.int64)  # see thread_memory.py
        self.address = self.words.ctypes.data
        self.words[MODE // 8], self.words[SET_MODE // 8] = _mode

    def grow(self, size: int) -> None:
        for number in range(self.size, min(size, MOST_THREADS)):
            try:
                Thread(target=self._help, name=f"retrograd-kernels-{number}", daemon=True).start()
            except RuntimeError:  # too many threads, or the interpreter is ending
                break
        self.size = max(self.size, size)

    def learn_to_serve(self) -> bool:
        """Enable polling without the GIL; return False without the loop or without POSIX functions of the C library."""
        functions = foreign("sched_yield", "usleep", "clock_gettime")
        if functions is None:
            return False
        from .loop_calls import loops
        from .numba_functions import sharers

        try:
            serve = loops("runtime.thread_protocol").serve.entry(0)
        except LoopMissing:
            return False
        self.words[YIELD // 8], self.words[SLEEP // 8], self.words[CLOCK // 8] = functions
        self.words[SPIN // 8] = AWAKE
        blas.pool_begins()
        sharers[:] = [in_shares]
        # The caller compiles ``serve``: a worker that compiles could hold locks when the program forks.
        self.serve = serve
        return True

    def _help(self) -> None:
        counted = False  # whether this worker's next item of ``asleep`` has already been removed
        while True:
            if not counted:
                self.asleep.append(None)
            if self.words[OPEN // 8]:  # a launch was opened before this worker was listed as asleep
                self.wake()
            job = self.jobs.get()
            counted = False
            if job is not None:
                if job.calls:
                    try:
                        self.asleep.pop()
                    except IndexError:
                        counted = True
                job.help()
            elif self.serve is not None:
                self.serve(self.address)

    def wake(self) -> None:
        """Wake a sleeping worker, if there is one, to poll for launches."""
        try:
            self.asleep.pop()
        except IndexError:  # no worker sleeps, or another caller woke it
            return
        self.jobs.put(None)

    def give(self, job: _Job) -> None:
        """Assign a share of a job to one worker."""
        try:
            self.asleep.pop()
        except IndexError:
            job.calls = True
            self.words[CALLED // 8] = 1
        self.jobs.put(job)


def foreign(*names: str) -> list[int] | None:
    """Return the addresses of functions of the C library, or None if one of them is missing."""
    if os.name != "posix":
        return None
    try:
        library = ctypes.CDLL(None)
        return [ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names]
    except (OSError, AttributeError):
        return None


_mode = [0, 0]  # the addresses of the workers' floating-point mode and of the function that sets it
_pool = _Pool()


def _begin_again() -> None:
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_begin_again)


def take_mode(mode: int, set_mode: int) -> None:
    """Set the floating-point mode of all workers, by the addresses of the mode and of C's ``fesetenv``."""
    _mode[:] = mode, set_mode
    _pool.words[SET_MODE // 8] = set_mode
    _pool.words[MODE // 8] = mode


def launch(loop: Loop, total: int, least: int, *args: object) -> None:
    """Run a loop decorated by ``thread_protocol.shared`` on ``range(total)`` in parts of at least ``least``.

    A short loop is divided into one part per thread. The caller then nearly always computes the first part, which is in
    its cache if the caller wrote the same part of the array before.
    """
    if total <= least or (size := count()) == 1:
        for entry in loop.entries:  # ``loop(...)``, inlined: its frame costs 60 ns, and a call on 64 elements takes 300
            if entry(0, 1, 0, total, 0, *args) is not NotImplemented:
                return
        loop(0, 1, 0, total, 0, *args)
        return
    address = _awake(size)
    if not address:
        in_shares(lambda start, stop: loop(0, 1, start, stop, 0, *args), total, least)
        return
    parts = size if least > 1 and total <= SHORT * size * least else PARTS * size
    loop(address, size, 0, total, max(least, -(-total // parts)), *args)


def launch_products(loop: Loop, total: int, least: int, *args: object) -> None:
    """Launch a loop that calls BLAS, with one BLAS thread per thread of the pool."""
    blas.one_thread(launch, loop, total, least, *args)


def _awake(size: int) -> int:
    """Make ``size - 1`` workers poll for launches; return the address that they poll, or 0 if they cannot poll."""
    pool = _pool
    if pool.serve is None and not pool.learn_to_serve():
        return 0
    if pool.size < size:
        pool.grow(size)
    for _ in range(min(len(pool.asleep), size - 1)):
        pool.wake()
    return pool.address


def sleep_function() -> int:
    """Return the address of C's ``usleep``, or 0 before the first launch."""
    return int(_pool.words[SLEEP // 8])


def helpers() -> np.ndarray:
    """Return the address that workers poll and the number of threads, for compiled code that launches loops."""
    size = count()
    address = _awake(size) if size > 1 else 0
    return np.array((address, size if address else 1), np.int64)


def in_shares(work: Callable[[int, int], object], total: int, least: int) -> None:
    """Run ``work(start, stop)`` on equal shares of ``range(total)``, of at least ``least``, on several threads.

    When the call returns or raises an error, no thread is running ``work``.

    Raises:
        BaseException: an error of ``work``; errors in shares of the caller take precedence.
    """
    size = count()
    shares = min(size, total // max(least, 1))
    if shares <= 1:
        work(0, total)
        return
    job, me, pool = _Job(work, total, shares), get_ident(), _pool
    try:
        job.begin(pool, size, me)
    finally:
        interrupt = None
        while True:
            try:
                job.finish(me)
                break
            except BaseException as error:
                interrupt = error
        job.work = None
        pool.words[CALLED // 8] = 0
        if interrupt is not None:
            raise interrupt
    for share in sorted(job.results):
        raised = job.results[share]
        if raised is not None:
            raise raised
