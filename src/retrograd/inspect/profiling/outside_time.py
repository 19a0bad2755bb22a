"""The time outside of operators, by line of the program.

The time in which no operator ran is measured from the end of one operator to the start of the next, and a thread
samples the program's frames a few hundred times a second. An interval without a sample is charged to the line that
called the next operator, and the own time of a backward pass or an optimizer to the line that called it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from operator import call
from sysconfig import get_path
from time import perf_counter
from types import FrameType
from typing import Any

from ...core.source_location import Site, stack_of

Stack = tuple[Site, ...]

_LIBRARIES = ("<frozen ", *{get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")})
_SECONDS = 0.002  # the time between two samples
_SWITCH = 1e-4  # Python's switch interval during a profile, so that the sampling thread gets to run
_usual: list[float] = []  # the switch interval before the first active profile
_running: set[int] = set()  # the threads being sampled
_LOADING = f"{__name__.split('.')[0]}.data"  # the package of loaders
_FRAMES = 40  # the most frames searched for a loader
_sampling = threading.RLock()  # held while a sampling thread has frames, whose local variables it keeps alive


class OutsideTime:
    """Seconds in which no operator ran, by the stack of lines."""

    def __init__(self) -> None:
        self.seconds: dict[Stack, float] = {}
        self.loading: set[Stack] = set()  # stacks that were seen inside a loader
        self.loads: list[tuple[float, float]] = []  # intervals in which a loader ran
        self.wall = 0.0  # all profiled seconds
        self.busy = 0  # the nesting depth of operators, backward passes and steps
        self.charged = 0.0  # seconds charged to operators
        self._samples: list[tuple[Stack, float]] = []
        self._loaded = 0.0  # the weight of the samples inside a loader
        self._since = 0.0  # the end of the last operator, backward pass or step, on the clock without observers' time
        self._idle = 0.0  # the same on the clock that includes the observers' time
        self._began = self._charged = 0.0  # start of the outermost active operator, and the charge at that time
        self._caller: Stack = ()
        self._ends: list[float] = []
        self._base = 0

    def start(self, base: int, spent: dict[str, float]) -> tuple[Callable[[], object], ...]:
        """Start to measure; return the functions to call at the end, which are all written in C."""
        self.finish()
        self._base = base
        self._ends.clear()
        self._idle = perf_counter()
        self._since = self._idle - spent.get("seconds", 0.0)
        self._caller = ()
        self.busy = 0
        thread, lock = threading.get_ident(), threading.Lock()
        lock.acquire()
        if not _running:
            _usual[:] = [sys.getswitchinterval()]
        _running.add(thread)
        sys.setswitchinterval(min(_SWITCH, *_usual))
        threading.Thread(target=self._sample, args=(thread, lock), daemon=True).start()
        ends: list[Callable[[], Any]] = [perf_counter, partial(spent.get, "seconds", 0.0)]
        return (
            partial(self._ends.extend, map(call, ends)),
            lock.release,
            partial(_running.discard, thread),
            partial(sys.setswitchinterval, _usual[0]),
        )

    @property
    def caller(self) -> Stack:
        """The lines that called the outermost active operator, backward pass or step."""
        return self._caller

    def finish(self) -> None:
        """Add the time from the last operator to the end."""
        if self._ends:
            end, spent = self._ends
            self._ends.clear()
            self._add(end - spent, self._caller)
            self._since = end - spent

    def enter(self, now: float, caller: Callable[[], Stack]) -> None:
        """Record that an operator, backward pass or step starts, on the clock of operators."""
        if not self.busy:
            self._caller = _program(caller())
            self._add(now, self._caller)
            self._began, self._charged = now, self.charged
        self.busy += 1

    def leave(self, now: float) -> None:
        """Record that an operator, backward pass or step has ended."""
        if not self.busy:  # started before the profile
            return
        self.busy -= 1
        if not self.busy:
            self.wall += now - self._began
            rest = now - self._began - (self.charged - self._charged)
            self.seconds[self._caller] = self.seconds.get(self._caller, 0.0) + max(0.0, rest)
            self._since, self._idle = now, perf_counter()

    def _add(self, now: float, otherwise: Stack) -> None:
        """Divide the time since the last operator among the sampled lines."""
        passed = max(0.0, now - self._since)
        self.wall += passed
        samples, self._samples = self._samples, []
        whole = sum(weight for _, weight in samples)
        if self._loaded > 0.5 * whole:
            self.loads.append((self._since, now))
        self._loaded = 0.0
        for stack, weight in samples if whole else [(otherwise, 1.0)]:
            share = passed * weight / (whole or 1.0)
            self.seconds[stack] = self.seconds.get(stack, 0.0) + share

    def _sample(self, thread: int, lock: Any) -> None:
        last = perf_counter()
        while not lock.acquire(timeout=_SECONDS):
            now = perf_counter()
            if self._ends:
                return
            with _sampling:
                frame = sys._current_frames().get(thread)
                if not self.busy and frame is not None:
                    stack = _program(stack_of(frame, self._base))
                    if stack and not stack[-1].file.startswith("<frozen "):  # else the program has not begun
                        weight = now - max(last, self._idle)
                        self._samples.append((stack, weight))
                        if is_loading(frame):
                            self.loading.add(stack)
                            self._loaded += weight
                del frame
            last = now


def wait_for_samples() -> None:
    """Wait until no sampling thread keeps the local variables of a function alive that may have returned."""
    with _sampling:
        pass


def is_loading(frame: FrameType | None) -> bool:
    """Return whether a frame or one of its callers is that of a loader."""
    for _ in range(_FRAMES if _LOADING in sys.modules else 0):
        if frame is None:
            return False
        if frame.f_globals.get("__name__", "").startswith(_LOADING):
            return True
        frame = frame.f_back
    return False


def _program(stack: Stack) -> Stack:
    """Return a stack up to the last line outside of Python's library and installed packages."""
    for length in range(len(stack), 0, -1):
        if not stack[length - 1].file.startswith(_LIBRARIES):
            return stack[:length]
    return stack[:1]
