"""Thread-local modes: whether operators on this thread are recorded, and which observers are active."""

from __future__ import annotations

import functools
import inspect
import io
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from operator import call
from typing import Any, Self, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")


class _Modes(threading.local):
    def __init__(self) -> None:
        self.grad_enabled = True
        self.inference = False
        self.observers: tuple[Any, ...] = ()  # each an ``Observer``, which knows Tensors and nodes
        self.level: Any = None  # the level of the innermost function under vmap
        self.transform = ""  # the name of the transform of ``func`` that is running
        self.written: list[Any] | None = None  # weak references to the Tensors written in place under the transform
        self.tracer: Any = None  # the observer that traces a program for the compiler
        self.stance = "default"  # the stance of compiled functions on this thread


modes = _Modes()

# Threads (the ``id`` of their modes) that have observers or are inside vmap. While the set is empty, operators check
# nothing else.
watchers: set[int] = set()

# Threads that have switched recording off. While the set is empty, every thread records.
unrecorded: set[int] = set()

# Further context that a replay of part of a program must restore (``autocast``, once it is imported). Each function is
# called in the original run and returns a function that makes a context manager for the replay.
surroundings: list[Callable[[], Callable[[], AbstractContextManager[object]]]] = []

# Functions that describe the casts of operators on this thread (``autocast``, once it is imported), for trace guards.
casting: list[Callable[[], tuple[object, ...]]] = []


class AtomicExit(io.IOBase):
    """A context manager that restores its state even when Ctrl-C arrives during ``__exit__``.

    Python checks for signals at the start of a function, at a backward jump and after each call of a C function, and
    may raise KeyboardInterrupt there. An ``__exit__`` written in Python can therefore be interrupted before its first
    line. ``io.IOBase.__exit__`` is written in C and calls ``close``, to which ``__enter__`` assigns a C function that
    restores everything in one call and returns a false value.
    """

    __slots__ = ("close",)

    close: Any
    closed = True  # the finalizer of IOBase must not call ``close``


class Mode(AtomicExit):
    """A context manager and decorator that sets thread-local modes and always restores them.

    An instance is reentrant; each exit restores the modes found by the matching entry.
    """

    __slots__ = ()

    changes: dict[str, Any]  # the modes to set, by name: grad_enabled or observers among them

    def __init__(self) -> None:
        self.close = None

    def __enter__(self) -> Self:
        here, changes = modes.__dict__, self.changes
        if watchers and "grad_enabled" in changes:
            for observer in modes.observers:
                observer.switched(changes["grad_enabled"])
        thread = id(here)
        found = {}
        for name in changes:
            found[name] = here[name]
        undo: tuple[Callable[[], None], ...] = partial(here.update, found), partial(listing(found), thread)
        if self.close is not None:
            undo = *undo, partial(setattr, self, "close", self.close)
        restore = partial(any, map(call, undo))  # one C call runs all of ``undo``, since each call returns None
        try:
            self.close = restore
            here.update(changes)
            listing(changes)(thread)
        except BaseException:
            restore()
            raise
        return self

    def __call__(self, function: Function) -> Function:
        # Each call enters a new instance, since the decorated function may run on several threads at once.
        if inspect.isclass(function):
            warnings.warn(
                f"{type(self).__name__}: decorating the class {function.__name__} affects only its construction; "
                "decorate its __init__ or the intended methods instead",
                FutureWarning,
                stacklevel=2,
            )
        return decorated(function, self._clone)

    def _clone(self) -> Mode:
        return type(self)()


def listing(values: dict[str, Any]) -> Callable[[int], None]:
    """Return the method that adds a thread with these modes to ``unrecorded`` or ``watchers``, or removes it."""
    if "grad_enabled" in values:
        return unrecorded.discard if values["grad_enabled"] else unrecorded.add
    return watchers.add if values["observers"] or values.get("level", modes.level) is not None else watchers.discard


class on_level(Mode):
    """Run operators on a level of ``vmap``; None is outside of all levels."""

    def __init__(self, level: object) -> None:
        super().__init__()
        self.changes = {"level": level, "observers": modes.observers}


class Switch(Mode):
    """A mode set by the constructor. As a context manager, it restores the mode before the constructor call."""

    __slots__ = ("_switched",)

    _switched: bool  # set by the constructor, but not yet entered

    def __init__(self) -> None:
        super().__init__()
        super().__enter__()
        self._switched = True

    def __enter__(self) -> Any:
        if self._switched:
            self._switched = False
            return self
        return super().__enter__()

    def __call__(self, function: Function) -> Function:
        if self._switched:  # a decorator does not change the caller's mode
            self._switched = False
            self.close()
        return super().__call__(function)


def decorated(function: Function, mode: Callable[[], AbstractContextManager[Any]]) -> Function:
    """Return a function that enters a new mode for each call; a generator is inside the mode only while it runs."""

    @functools.wraps(function)
    def inside(*args: object, **kwargs: object) -> Any:
        with mode():
            return function(*args, **kwargs)

    @functools.wraps(function)
    def steps(*args: object, **kwargs: object) -> Iterator[object]:
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


def tell_departed(x: object, how: str, result: object = None) -> None:
    """Notify this thread's observers that the values of a Tensor leave the graph."""
    for observer in modes.observers:
        observer.departed(x, how, result)


def is_grad_enabled() -> bool:
    """Whether operators on this thread are recorded for differentiation.

    >>> is_grad_enabled()
    True
    """
    return modes.grad_enabled


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside ``inference_mode``.

    >>> rg.is_inference_mode_enabled()
    False
    """
    return modes.inference


class no_grad(Mode):
    """Record nothing: results of operators inside need no gradient. A context manager and a decorator.

    >>> x = rg.ones(2, requires_grad=True)
    >>> with rg.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    def __new__(cls, function: Callable[..., object] | None = None) -> Any:
        mode = super().__new__(cls)
        if function is None:
            return mode
        mode.__init__()  # type: ignore[misc]
        return mode(function)

    changes = {"grad_enabled": False}


class enable_grad(no_grad):
    """Record again inside ``no_grad``.

    >>> x = rg.ones(2, requires_grad=True)
    >>> with rg.no_grad(), rg.enable_grad():
    ...     (x * 2).requires_grad
    True
    """

    changes = {"grad_enabled": True}


class differentiating(Mode):
    """Record a function for a transform of ``func``; errors in the function name the transform."""

    def __init__(self, transform: str) -> None:
        super().__init__()
        self.written: list[Any] = []
        self.changes = {"grad_enabled": True, "transform": transform, "written": self.written}


class inference_mode(Mode):
    """Record nothing, as ``no_grad`` does, for results that are never differentiated.

    ``inference_mode(False)`` records again inside ``inference_mode()``.

    Args:
        mode: on or off.

    >>> with rg.inference_mode():
    ...     rg.is_grad_enabled(), rg.is_inference_mode_enabled()
    (False, True)
    """

    def __new__(cls, mode: object = True) -> Any:
        context = super().__new__(cls)
        if callable(mode):
            context.__init__()  # type: ignore[misc]
            return context(mode)
        return context

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self._mode = bool(mode)
        self.changes = {"grad_enabled": not mode, "inference": self._mode}

    def _clone(self) -> Mode:
        return inference_mode(self._mode)


class set_grad_enabled(Switch):
    """Turn recording on or off: at once when called as a function, until the end as a context manager.

    Args:
        mode: on or off.

    >>> with rg.set_grad_enabled(False):
    ...     rg.is_grad_enabled()
    False
    >>> rg.is_grad_enabled()
    True
    """

    def __init__(self, mode: bool) -> None:
        self._mode = bool(mode)
        self.changes = {"grad_enabled": self._mode}
        super().__init__()

    def _clone(self) -> Mode:
        return recording(self._mode)


def without_recording(function: Callable[..., Result], *args: object) -> Result:
    """Call the function under ``no_grad``, in a third of the time of the context manager, and return its result.

    Each ``finally`` has one statement, so an interrupt after one of them leaves the others to run.
    """
    here = modes.__dict__
    thread, found = id(here), here["grad_enabled"]
    restore = unrecorded.discard if found else unrecorded.add
    try:
        try:
            here["grad_enabled"] = False
            unrecorded.add(thread)
            return function(*args)
        finally:
            restore(thread)
    finally:
        here["grad_enabled"] = found


def recording(mode: bool) -> Mode:
    """Return ``set_grad_enabled(mode)`` for use in ``with``: nothing changes before the block is entered."""
    return enable_grad() if mode else no_grad()
