"""Calls on their way: what ``async_op=True`` returns, and the thread that sees them through while the program goes on.

The thread makes a group's calls in the order of the program, asynchronous or not: all ranks have that order.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from .groups import seconds_of, urgent


class Work:
    """A collective that may still be on its way; its Tensors are ready after ``wait()``."""

    def __init__(self, call: Callable[[], Any] | None = None) -> None:
        self._call = call
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._result: Any = None

    def _run(self) -> None:
        try:
            assert self._call is not None
            self._result = self._call()
        except BaseException as error:
            self._error = error
        self._call = None
        self._done.set()

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Wait until it is done.

        Args:
            timeout: seconds, or a timedelta; the group's own timeout counts in any case.

        Raises:
            RuntimeError: it failed, or ``timeout`` is over.
        """
        if not self._done.is_set():
            urgent.set()
            try:
                if not self._done.wait(None if timeout is None else seconds_of("wait", timeout)):
                    raise RuntimeError(f"wait: not done within {timeout}")
            finally:
                urgent.clear()
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Whether it is done, without waiting."""
        return self._done.is_set()

    def is_success(self) -> bool:
        """Whether it is done and did not fail."""
        return self._done.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        """What it failed with."""
        return self._error

    def result(self) -> Any:
        """The Tensors that were written, after ``wait()``."""
        self.wait()
        return self._result


class Communicator:
    """The thread, started by the first asynchronous call."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._pending: deque[Work] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._busy = False

    def run(self, call: Callable[[], Any], async_op: bool) -> Work | None:
        """Make a call after those that are on their way: here, where none is and nobody wants to go on meanwhile."""
        if not async_op and (self._thread is None or not self._occupied()):
            call()
            return None
        work = self.submit(Work(call))
        if async_op:
            return work
        work.wait()
        return None

    def submit(self, work: Work) -> Work:
        """Give the thread something to do."""
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="retrograd.communicator", daemon=True)
                self._thread.start()
            self._pending.append(work)
            self._changed.notify()
        return work

    def finish(self) -> None:
        """Wait until nothing is on its way."""
        if self._thread is not None and self._occupied():
            self.submit(Work(lambda: None)).wait()

    def _occupied(self) -> bool:
        with self._changed:
            return self._busy or bool(self._pending)

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                while not self._pending:
                    self._changed.wait()
                work = self._pending.popleft()
                self._busy = True
            work._run()
            del work  # and the Tensors it holds


communicator = Communicator()
if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=communicator._forget)
