"""The threads that share work on ranges: one pool for compiled loops, for products, and for functions of Python.

``launch`` shares the parts of a compiled loop without Python's lock; ``in_shares`` shares calls of a function, which
must let go of the lock to gain anything. Helpers wait for both: awake for a while (``thread_protocol.serve``), then
asleep.

A loop is shared by ``launch(loop, total, least, *args)``: ``thread_protocol.shared`` made it of a function
``body(*args, start, stop)``, which does a part of ``range(total)`` and writes nothing that another part writes.
"""

from __future__ import annotations

import ctypes
import os
from _queue import SimpleQueue  # `queue` would import more
from collections.abc import Callable
from threading import Thread, get_ident
from typing import Any

import numpy as np

from ...core.arrays import blas
from ...core.opaque_calls import LoopMissing
from .cores import count, wanted
from .thread_memory import BYTES, CALLED, CLOCK, MODE, OPEN, SET_MODE, SLEEP, SPIN, YIELD

AWAKE = 2_000_000  # nanoseconds for which a helper looks for work before it sleeps: waking it takes long
PARTS = 4  # of a loop for each thread, so that nobody waits long for one that was kept from running
SHORT = 8  # times the least that is worth sharing, for each thread: below that it is given one part


def set_count(number: int) -> None:
    """Let so many threads work, and so many of BLAS's, which multiplies where the pool does not."""
    wanted[:] = [number]
    blas.set_threads(number)


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
        self.calls = False  # whether it was given to a helper that was not asleep

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


MOST_THREADS = 1024  # of a pool, however many a program asks for: each has a stack of its own


class _Pool:
    """The helpers of a process, which are daemons: no program waits for them."""

    def __init__(self) -> None:
        self.size = 1  # threads, the caller among them
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()  # None: look for launches
        self.asleep: list[None] = []  # an item for each helper that waits at ``jobs`` and was not woken
        self.serve: Callable[[int], object] | None = None  # None until the first launch, and where there is none
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
        """Whether helpers can wait without Python, for which the C library must have what POSIX has."""
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
        # Here: a helper that compiles would hold locks when programs fork.
        self.serve = serve
        return True

    def _help(self) -> None:
        counted = False  # whether somebody has taken the item of this helper's next sleep
        while True:
            if not counted:
                self.asleep.append(None)
            if self.words[OPEN // 8]:  # a launch began while this helper went, and could not wake it
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
        """Let one helper look for launches that sleeps, if one does."""
        try:
            self.asleep.pop()
        except IndexError:  # another caller was faster
            return
        self.jobs.put(None)

    def give(self, job: _Job) -> None:
        """A share of a job for one helper."""
        try:
            self.asleep.pop()
        except IndexError:
            job.calls = True
            self.words[CALLED // 8] = 1
        self.jobs.put(job)


def foreign(*names: str) -> list[int] | None:
    """The addresses of functions of the C library, or None if one of them is not there."""
    if os.name != "posix":
        return None
    try:
        library = ctypes.CDLL(None)
        return [ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names]
    except (OSError, AttributeError):
        return None


_mode = [0, 0]  # the addresses of a floating-point mode that helpers take, and of what sets it
_pool = _Pool()


def _begin_again() -> None:
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_begin_again)


def take_mode(mode: int, set_mode: int) -> None:
    """Let all helpers compute in a floating-point mode, given by addresses: of the mode, and of C's ``fesetenv``."""
    _mode[:] = mode, set_mode
    _pool.words[SET_MODE // 8] = set_mode
    _pool.words[MODE // 8] = mode


def launch(loop: Callable[..., object], total: int, least: int, *args: object) -> None:
    """A loop that ``thread_protocol.shared`` made, on ``range(total)`` in parts of at least ``least``.

    A short one is over soon, whoever waits. There the caller nearly always takes the first half, and finds in its cache
    what it wrote of the same array before.
    """
    if total <= least or (size := count()) == 1:
        loop(0, 1, 0, total, 0, *args)
        return
    address = _awake(size)
    if not address:
        in_shares(lambda start, stop: loop(0, 1, start, stop, 0, *args), total, least)
        return
    parts = size if least > 1 and total <= SHORT * size * least else PARTS * size
    loop(address, size, 0, total, max(least, -(-total // parts)), *args)


def launch_products(loop: Callable[..., object], total: int, least: int, *args: object) -> None:
    """``launch`` for a loop that calls BLAS, which uses one thread in each of the pool's meanwhile."""
    blas.one_thread(launch, loop, total, least, *args)


def _awake(size: int) -> int:
    """Have helpers wait for launches, so that so many threads work; where they wait, or 0 where they cannot."""
    pool = _pool
    if pool.serve is None and not pool.learn_to_serve():
        return 0
    if pool.size < size:
        pool.grow(size)
    for _ in range(min(len(pool.asleep), size - 1)):
        pool.wake()
    return pool.address


def helpers() -> Any:
    """For compiled code that launches loops by itself: where helpers wait for launches now, and how many threads."""
    size = count()
    address = _awake(size) if size > 1 else 0
    return np.array((address, size if address else 1), np.int64)


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
    job, me, pool = _Job(work, total, shares), get_ident(), _pool
    try:
        pool.grow(size)
        for _ in range(shares - 1):
            pool.give(job)
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
        pool.words[CALLED // 8] = 0
        if interrupt is not None:
            raise interrupt
    for share in sorted(job.results):
        raised = job.results[share]
        if raised is not None:
            raise raised
