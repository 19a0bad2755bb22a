"""A second process that compiles loops which will be needed soon, while this one compiles what it needs now.

What it compiles it keeps on disk, where this process finds it. It is told what to compile by lines on its standard
input, tells on its standard output what it has begun and ended, and ends when its input does. Whatever goes wrong with
it, this process compiles by itself, and waits for no loop longer than compiling takes.

It is started where nothing was compiled before, or when a process has compiled for a while. There is one for a folder
where loops are kept, whose lock its first process holds: the ranks of a distributed program have one between them.
There is none where one thread is to work, where loops cannot be kept, in children of ``multiprocessing``, in forked
processes, and with the environment variable ``RETROGRAD_AHEAD=off``.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from io import BufferedReader
from threading import Condition, Thread
from typing import IO, TYPE_CHECKING, NamedTuple

from ..runtime.cores import count
from ..runtime.settings import turned_on
from . import code_store

if TYPE_CHECKING:
    import subprocess

WORTH = 0.5  # seconds of compiling from which on a second process pays, which takes a second to start
SEVERAL = 3  # loops to compile for which it pays at once
SLOW = 2.0  # times the longest compiling so far, after which it is not waited for
GRACE = 0.5  # seconds for it to end
_MOST = 1 << 15  # bytes of jobs that it was told and has not begun: fewer than a pipe holds, so that no write waits
_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.stdin.readline())
from retrograd.kernels.build import compile_process as second
second.serve()
"""

Key = tuple[str, str]  # by which a loop is kept: its name, and the kinds of its arguments


class Job(NamedTuple):
    """A loop, as ``compiled.Loop`` takes it, or a routine, and the kinds of its arguments."""

    module: str
    name: str
    kinds: str
    source: str = ""

    @property
    def key(self) -> Key:
        return f"{self.module.rpartition('.')[2]}.{self.name}", self.kinds


class Ahead:
    """What the second process has been told, and what it does."""

    def __init__(self, allowed: bool | None = None) -> None:
        self._allowed = allowed  # None: not known yet
        self._process: subprocess.Popen[bytes] | None = None
        self._changed = Condition()
        self._later: list[list[Job]] = []  # what it will be told if it is started
        self._told: dict[Key, int] = {}  # what it has not begun: bytes
        self._begun: Key | None = None
        self._since = 0.0
        self._longest = 1.0  # seconds of compiling a loop
        self._lock: IO[bytes] | None = None
        self.loops = 0  # that it has compiled

    def ask(self, jobs: Sequence[Job]) -> None:
        """These loops will be needed, in this order: here the first ones are compiled first, there the last ones."""
        with self._changed:
            if self._allowed is not False:
                known = {*self._told, self._begun}
                wanted = [job for job in dict.fromkeys(jobs) if job.key not in known and not code_store.holds(*job.key)]
                if wanted:
                    self._later.append(wanted)
                if self._process is not None or len(wanted) >= SEVERAL:
                    self._go_on()

    def expect(self) -> None:
        """Nothing is compiled yet: there will be much to do."""
        with self._changed:
            self._go_on(soon=True)

    def compiled(self, seconds: float, total: float, kept: bool) -> None:
        """A loop was compiled here: how long that took, how long all compiling took so far, and whether it is kept."""
        with self._changed:
            self._longest = max(self._longest, seconds)
            if not kept:
                self._give_up()
            elif total >= WORTH:
                self._go_on()

    def wait(self, key: Key) -> None:
        """Before a loop is compiled here: until it has come from there, if it is under way; else it will not come."""
        with self._changed:
            self._later = [[job for job in jobs if job.key != key] for jobs in self._later]
            if self._told.pop(key, None):
                self._tell("leave", key)
            patience = self._since + SLOW * self._longest - time.perf_counter()
            if not self._changed.wait_for(lambda: self._begun != key, max(patience, 0.0)):
                self._give_up()

    def close(self) -> None:
        """End the process, and start no other one."""
        with self._changed:
            self._give_up()

    def _go_on(self, soon: bool = False) -> None:
        """Tell the process what was asked for, and start it if it is not there."""
        if not self._later and not soon:
            return
        if self._allowed is None:
            self._allowed = turned_on("RETROGRAD_AHEAD") and _can_start()
        if self._allowed and self._process is None:
            self._start()
        room = _MOST - sum(self._told.values())
        for jobs in self._later:
            fitting: list[Job] = []
            for job in reversed(jobs):
                room -= (size := len(json.dumps(job)))
                if room < 0 or self._process is None:
                    break
                self._told[job.key] = size
                fitting.insert(0, job)
            self._tell("compile", fitting)
        self._later = []

    def _start(self) -> None:
        import subprocess

        command, pipe = [sys.executable, "-P", "-c", _PROGRAM], subprocess.PIPE
        try:
            self._lock = code_store.lock()
            process = subprocess.Popen(
                command, bufsize=0, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )  # fmt: skip
        except OSError:
            self._give_up()
            return
        self._process = process
        Thread(target=self._hear, args=(process,), name="retrograd-ahead", daemon=True).start()
        self._tell(*[place for place in sys.path if isinstance(place, str)])

    def _tell(self, *message: object) -> None:
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.stdin.write(json.dumps(message).encode() + b"\n")
            except (OSError, ValueError):
                self._give_up()

    def _hear(self, process: subprocess.Popen[bytes]) -> None:
        """What a process tells, on a thread of its own."""
        again = False
        with suppress(OSError, ValueError, TypeError), BufferedReader(process.stdout) as lines:  # type: ignore[type-var]
            for line in lines:
                what, *key = json.loads(line)
                with self._changed:
                    if process is not self._process:
                        return
                    now = time.perf_counter()
                    if what == "begin":
                        self._told.pop(tuple(key), None)
                        self._begun, self._since = tuple(key), now
                    else:
                        self._longest = max(self._longest, now - self._since)
                        self._begun = None
                        self.loops += 1
                    self._changed.notify_all()
            again = process.wait() == 0  # it had nothing to do
        with self._changed:
            if process is self._process:
                self._give_up()
                self._allowed = again

    def _give_up(self) -> None:
        process, self._process, self._begun, self._allowed = self._process, None, None, False
        self._told, self._later = {}, []
        self._changed.notify_all()
        if process is not None and process.stdin is not None:
            process.stdin.close()
            try:
                process.wait(GRACE)
            except Exception:
                process.kill()
                process.wait()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _let_go(self) -> None:
        """In a forked process, whose parent's the other one is."""
        process, lock = self._process, self._lock
        self.__init__(allowed=False)  # type: ignore[misc]
        if lock is not None:
            lock.close()
        if process is not None:
            process.returncode = 0  # it is not waited for
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _can_start() -> bool:
    """Whether there is a core for a second process, and Python to start, in a process that is nobody's worker."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    python = os.path.basename(sys.executable or "").startswith("python") and not getattr(sys, "frozen", False)
    return python and count() > 1 and (multiprocessing is None or multiprocessing.parent_process() is None)


@cache
def _units() -> dict[Key, list[Job]]:
    """For loops of operators, those of their derivatives, and what else comes after them in a step of training."""
    from ..._generated.units import UNITS

    found: dict[Key, list[Job]] = {}
    for unit in UNITS:
        jobs = [Job(f"retrograd.kernels.{module}", name, kinds) for module, name, kinds in unit]
        for number, job in enumerate(jobs):
            found.setdefault(job.key, jobs[number + 1 :])
    return found


def following(key: Key) -> list[Job]:
    """The loops that are needed, as a rule, after one is."""
    return _units().get(key, [])


ahead = Ahead()
atexit.register(ahead.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ahead._let_go)
