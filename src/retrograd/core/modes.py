"""Thread-local modes: whether operators on this thread are recorded, and who watches them."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class _Modes(threading.local):
    grad_enabled: bool = True
    inference: bool = False
    anomaly: Any = None


modes = _Modes()

# One entry per thread that has anomaly mode on: while it is empty, the hot path asks nothing more.
watchers: list[None] = []

# One entry per thread that has switched recording off: while it is empty, every thread records.
unrecorded: list[None] = []


def _set_mode(name: str, value: Any) -> None:
    if name == "grad_enabled" and value is not modes.grad_enabled:
        if value:
            unrecorded.pop()
        else:
            unrecorded.append(None)
    setattr(modes, name, value)


def decorated(function: Function, mode: Callable[[], AbstractContextManager[Any]]) -> Function:
    """The function inside a mode made anew for each call; a generator is inside while it runs, not in between."""

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with mode():
            return function(*args, **kwargs)

    @functools.wraps(function)
    def steps(*args: Any, **kwargs: Any) -> Iterator[Any]:
        generator = function(*args, **kwargs)
        resume, value = generator.send, None
        while True:
            try:
                with mode():
                    result = resume(value)
            except StopIteration as stop:
                return stop.value
            try:
                resume, value = generator.send, (yield result)
            except GeneratorExit:
                with mode():
                    generator.close()
                raise
            except BaseException as error:
                resume, value = generator.throw, error

    return steps if inspect.isgeneratorfunction(function) else inside  # type: ignore[return-value]


def is_grad_enabled() -> bool:
    """Whether operators on this thread are recorded for differentiation.

    >>> is_grad_enabled()
    True
    """
    return modes.grad_enabled


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside ``inference_mode``."""
    return modes.inference


class _Mode:
    """A context manager and decorator that sets thread-local modes and restores them, however it is left.

    One instance may be entered again while it is active (recursion in a decorated function), so what is to be
    restored is a stack.
    """

    def __init__(self) -> None:
        self._outer: list[dict[str, Any]] = []

    def _changes(self) -> dict[str, Any]:
        raise NotImplementedError

    def _enter(self) -> None:
        changes = self._changes()
        self._outer.append({name: getattr(modes, name) for name in changes})
        for name, value in changes.items():
            _set_mode(name, value)

    def __enter__(self) -> Any:
        self._enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for name, value in self._outer.pop().items():
            _set_mode(name, value)

    def __call__(self, function: Function) -> Function:
        # Each call enters a mode of its own: one decorated function may run on several threads at once.
        return decorated(function, self._clone)

    def _clone(self) -> _Mode:
        return type(self)()


class no_grad(_Mode):
    """Record nothing: results of operators inside need no gradient. A context manager and a decorator.

    >>> x = rg.ones(2, requires_grad=True)
    >>> with rg.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        mode = super().__new__(cls)
        if function is None:
            return mode
        mode.__init__()  # type: ignore[misc]
        return mode(function)

    def _changes(self) -> dict[str, Any]:
        return {"grad_enabled": False}


class enable_grad(no_grad):
    """Record again inside ``no_grad``.

    >>> x = rg.ones(2, requires_grad=True)
    >>> with rg.no_grad(), rg.enable_grad():
    ...     (x * 2).requires_grad
    True
    """

    def _changes(self) -> dict[str, Any]:
        return {"grad_enabled": True}


class inference_mode(_Mode):
    """As ``no_grad``, for programs that never differentiate what they compute inside; ``inference_mode(False)`` is off.

    >>> with rg.inference_mode():
    ...     rg.is_grad_enabled(), rg.is_inference_mode_enabled()
    (False, True)
    """

    def __new__(cls, mode: Any = True) -> Any:
        made = super().__new__(cls)
        if callable(mode):
            made.__init__()  # type: ignore[misc]
            return made(mode)
        return made

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self._mode = bool(mode)

    def _changes(self) -> dict[str, Any]:
        return {"grad_enabled": not self._mode, "inference": self._mode}

    def _clone(self) -> _Mode:
        return inference_mode(self._mode)


class set_grad_enabled(_Mode):
    """Turn recording on or off: at once when called as a function, until the end as a context manager.

    >>> with rg.set_grad_enabled(False):
    ...     rg.is_grad_enabled()
    False
    >>> rg.is_grad_enabled()
    True
    """

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self._mode = bool(mode)
        self._enter()

    def _changes(self) -> dict[str, Any]:
        return {"grad_enabled": self._mode}

    def __enter__(self) -> Any:
        if not self._outer:
            self._enter()
        return self

    def __call__(self, function: Function) -> Function:
        # The constructor has already switched the caller's mode; a decorator must not.
        if self._outer:
            self.__exit__(None, None, None)
        return super().__call__(function)

    def _clone(self) -> _Mode:
        clone = set_grad_enabled.__new__(set_grad_enabled)
        _Mode.__init__(clone)
        clone._mode = self._mode
        return clone
