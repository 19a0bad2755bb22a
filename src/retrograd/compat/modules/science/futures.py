"""``torch.futures``: results that another thread sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future as PythonFuture
from threading import Lock
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")
Other = TypeVar("Other")


class Future(Generic[Value]):
    """A value that is set later, possibly by another thread.

    >>> from retrograd.futures import Future
    >>> future = Future()
    >>> doubled = future.then(lambda done: 2 * done.value())
    >>> future.set_result(21)
    >>> future.done(), doubled.wait()
    (True, 42)
    """

    def __init__(self, *, devices: Sequence[object] | None = None) -> None:
        self._future: PythonFuture[Value] = PythonFuture()

    def done(self) -> bool:
        """Return whether a value or an error is set."""
        return self._future.done()

    def wait(self) -> Value:
        """Wait for the value and return it, or raise the error."""
        return self._future.result()

    def value(self) -> Value:
        """Return the value, or raise the error.

        Raises:
            RuntimeError: the value is not set yet.
        """
        if not self.done():
            raise RuntimeError("Future.value: the future is not completed; call wait()")
        return self._future.result()

    def set_result(self, result: Value) -> None:
        """Set the value. Waiting threads resume, and callbacks run.

        Raises:
            RuntimeError: a value or error is set already.
        """
        if self.done():
            raise RuntimeError("Future can only be marked completed once.")
        self._future.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Set an error, which ``wait`` and ``value`` raise."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        if self.done():
            raise RuntimeError("Future can only be marked completed once.")
        self._future.set_exception(result)

    def then(self, callback: Callable[[Future[Value]], Other]) -> Future[Other]:
        """Return a future of ``callback(self)``, which runs when this future is completed."""
        following: Future[Other] = Future()

        def complete(_: object) -> None:
            try:
                following.set_result(callback(self))
            except Exception as error:
                following.set_exception(error)

        self._future.add_done_callback(complete)
        return following

    def add_done_callback(self, callback: Callable[[Future[Value]], object]) -> None:
        """Run ``callback(self)`` when the future is completed."""
        self._future.add_done_callback(lambda _: callback(self))


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """Return a future that is completed when all futures are; its value is the list of the futures.

    >>> from retrograd.futures import Future, collect_all
    >>> parts = [Future(), Future()]
    >>> every = collect_all(parts)
    >>> for number, part in enumerate(parts):
    ...     part.set_result(number)
    >>> [part.value() for part in every.wait()]
    [0, 1]
    """
    every: Future[list[Future[object]]] = Future()
    parts = list(futures)
    waiting, lock = len(parts), Lock()
    if not parts:
        every.set_result(parts)

    def count(_: Future[Any]) -> None:
        nonlocal waiting
        with lock:
            waiting -= 1
            last = waiting == 0
        if last:
            every.set_result(parts)

    for part in parts:
        part.add_done_callback(count)
    return every


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """Wait for all futures, and return their values, or raise the first error."""
    return [part.wait() for part in collect_all(futures).wait()]


NAMES: Mapping[str, str | Mapping[str, object]] = {"futures": "Future collect_all wait_all", "retrograd": "Future"}
