"""Reentrant backward passes: user code called by a backward pass may start another one, to any depth.

Each nested pass takes a dozen or more Python stack frames, and Python's recursion limit is 1000 frames per thread by
default. Every ``LEVELS`` nested calls therefore continue on a new thread, which gets the modes of the waiting thread.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

from .modes import listing, modes, surroundings

Result = TypeVar("Result")

LEVELS = 24  # nested calls on one thread


class _Here(threading.local):
    depth = 0


_here = _Here()


def reentrant(function: Callable[..., Result], *args: object) -> Result:
    """Return ``function(*args)``, a call that may start a nested backward pass."""
    depth = _here.depth
    if depth == LEVELS:
        return _on_a_thread(function, args)
    _here.depth = depth + 1
    try:
        return function(*args)
    finally:
        _here.depth = depth


def _on_a_thread(function: Callable[..., Result], args: tuple[object, ...]) -> Result:
    found = dict(modes.__dict__)
    contexts = [surrounding() for surrounding in surroundings]
    results: list[Result] = []
    errors: list[BaseException] = []

    def backward_pass() -> None:
        here = modes.__dict__
        thread = id(here)
        here.update(found)
        keep_in_step = [listing({"grad_enabled": found["grad_enabled"]}), listing({"observers": found["observers"]})]
        for entered in keep_in_step:
            entered(thread)
        try:
            with ExitStack() as stack:
                for context in contexts:
                    stack.enter_context(context())
                results.append(function(*args))
        except BaseException as error:  # the waiting thread raises the error again
            errors.append(error)
        finally:
            here.update(grad_enabled=True, observers=(), level=None)
            listing({"grad_enabled": True})(thread)
            listing({"observers": ()})(thread)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(backward_pass,), name="retrograd-backward")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
