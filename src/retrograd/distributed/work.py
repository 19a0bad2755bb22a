"""``Work``, which ``async_op=True`` returns, and the communicator thread that runs asynchronous calls.

The thread runs the calls of all groups in program order, synchronous ones included, so all ranks have the same order.
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
    """A collective in progress; its Tensors are written when ``wait()`` returns."""

    def __init__(self, call: Callable[[], object] | None = None) -> None:
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
        """Wait for completion.

        Args:
            timeout: a timedelta or seconds; the group's own timeout applies as well.

        Raises:
            RuntimeError: the call failed or ``timeout`` is exceeded.
        """
        if not self._done.is_set():
            urgent.set()
            try:
                if not self._done.wait(None if timeout is None else seconds_of("wait", timeout)):
                    raise RuntimeError(f"wait: the collective did not complete within {timeout}")
            finally:
                urgent.clear()
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Whether the call is complete, without waiting."""
        return self._done.is_set()

    def is_success(self) -> bool:
        """Whether the call completed without an error."""
        return self._done.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        """The exception that the call raised, or None."""
        return self._error

    def result(self) -> Any:
        """Wait, and return the Tensors that the call wrote."""
        self.wait()
        return self._result


class Communicator:
    """The thread that runs asynchronous calls, started by the first asynchronous call."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._pending: deque[Work] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._busy = False

    def run(self, call: Callable[[], object], async_op: bool) -> Work | None:
        """Run a call after all pending calls: on the calling thread if it is synchronous and no call is pending."""
        if not async_op and (self._thread is None or not self._occupied()):
            call()
            return None
        work = self.submit(Work(call))
        if async_op:
            return work
        work.wait()
        return None

    def submit(self, work: Work) -> Work:
        """Queue a call for the thread."""
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="retrograd.communicator", daemon=True)
                self._thread.start()
            self._pending.append(work)
            self._changed.notify()
        return work

    def finish(self) -> None:
        """Wait until no call is pending."""
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
            del work  # release the Tensors that it references


communicator = Communicator()
if hasattr(os, "register_at_fork"):  # a forked child does not inherit its parent's threads
    os.register_at_fork(after_in_child=communicator._forget)
