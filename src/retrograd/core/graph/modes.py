"""Thread-local modes: whether operators on this thread are recorded, and who watches them."""

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
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class _Modes(threading.local):
    def __init__(self) -> None:
        self.grad_enabled = True
        self.inference = False
        self.observers: tuple[Any, ...] = ()  # each an ``Observer``, which knows Tensors and nodes
        self.level: Any = None  # of the innermost mapped function
        self.transform = ""  # that differentiates the function which runs, by name
        self.written: list[Any] | None = None  # while it runs, references to the Tensors that it wrote in place
        self.tracer: Any = None  # of a program that is being compiled; an observer, too
        self.stance = "default"  # what compiled functions do on this thread


modes = _Modes()

# The threads, by the identity of their modes, that have observers, or are inside vmap: while there are none, the hot
# path asks nothing more.
watchers: set[int] = set()

# Likewise those that have switched recording off: while there are none, every thread records.
unrecorded: set[int] = set()


# What else a part of a program runs in, beside these modes (``autocast``, once it is loaded): each function, called in
# the first run of the part, gives what makes a context manager for a second run.
surroundings: list[Callable[[], Callable[[], AbstractContextManager[Any]]]] = []

# Which casts operators make on this thread (``autocast``, once it is loaded): what traced programs depend on.
casting: list[Callable[[], tuple[Any, ...]]] = []


class AtomicExit(io.IOBase):
    """A context manager that Ctrl-C cannot keep from restoring what it changed.

    Python looks for signals where a function begins, where a loop goes back, and after each call of a function written
    in C; KeyboardInterrupt is raised there. An ``__exit__`` written in Python can thus be left before its first line.
    That of ``io.IOBase`` is written in C and calls ``close``, for which ``__enter__`` puts a C function that restores
    everything in one call and returns nothing true.
    """

    __slots__ = ("close",)

    close: Any
    closed = True  # for IOBase's finalizer: to drop an instance restores nothing


class Mode(AtomicExit):
    """A context manager and decorator that sets thread-local modes and restores them, however it is left.

    One instance may be entered again while it is active; each entry restores what it found.
    """

    __slots__ = ()

    changes: dict[str, Any]  # the modes to set, by name: grad_enabled or observers among them

    def __init__(self) -> None:
        self.close = None

    def __enter__(self) -> Any:
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
        restore = partial(any, map(call, undo))  # makes all calls in one, since each returns None
        try:
            self.close = restore
            here.update(changes)
            listing(changes)(thread)
        except BaseException:
            restore()
            raise
        return self

    def __call__(self, function: Function) -> Function:
        # Each call enters a mode of its own: one decorated function may run on several threads at once.
        if inspect.isclass(function):
            warnings.warn(
                f"{type(self).__name__}: decorating the class {function.__name__} reaches its construction alone; "
                "decorate its __init__ or the methods that are meant",
                FutureWarning,
                stacklevel=2,
            )
        return decorated(function, self._clone)

    def _clone(self) -> Mode:
        return type(self)()


def listing(values: dict[str, Any]) -> Callable[[int], None]:
    """What keeps ``unrecorded`` or ``watchers`` in step with modes of these values."""
    if "grad_enabled" in values:
        return unrecorded.discard if values["grad_enabled"] else unrecorded.add
    return watchers.add if values["observers"] or values.get("level", modes.level) is not None else watchers.discard


class on_level(Mode):
    """Run what is recorded on a layer of ``vmap``, None for outside of all."""

    def __init__(self, level: Any) -> None:
        super().__init__()
        self.changes = {"level": level, "observers": modes.observers}


class Switch(Mode):
    """A mode that its constructor switches at once; used as a context manager, it restores what was before that."""

    __slots__ = ("_switched",)

    _switched: bool  # and not entered yet

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
        if self._switched:  # a decorator leaves the caller's mode alone
            self._switched = False
            self.close()
        return super().__call__(function)


def decorated(function: Function, mode: Callable[[], AbstractContextManager[Any]]) -> Function:
    """The function inside a mode made anew for each call; a generator is inside while it runs, not in between."""

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
    """Tell this thread's observers that the values of a Tensor leave the graph."""
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

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
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
    """Record a function for a transform of ``func``, whose name errors in the function tell."""

    def __init__(self, transform: str) -> None:
        super().__init__()
        self.written: list[Any] = []
        self.changes = {"grad_enabled": True, "transform": transform, "written": self.written}


class inference_mode(Mode):
    """As ``no_grad``, for programs that never differentiate what they compute inside; ``inference_mode(False)`` is off.

    Args:
        mode: on or off.

    >>> with rg.inference_mode():
    ...     rg.is_grad_enabled(), rg.is_inference_mode_enabled()
    (False, True)
    """

    def __new__(cls, mode: Any = True) -> Any:
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


def recording(mode: bool) -> Mode:
    """As ``set_grad_enabled``, for ``with`` alone: nothing changes before the block is entered."""
    return enable_grad() if mode else no_grad()
