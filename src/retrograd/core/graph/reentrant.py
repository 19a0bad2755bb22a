"""Calls of users' code inside a backward pass, which may begin another backward pass, to any depth.

Each pass inside a pass takes a dozen or more of Python's stack frames, of which a thread has a thousand by default. So
from time to time such a call continues on a thread of its own, with the modes of the thread that waits for it.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

from .modes import listing, modes, surroundings

Result = TypeVar("Result")

LEVELS = 24  # calls inside calls on one thread


class _Here(threading.local):
    depth = 0


_here = _Here()


def reentrant(function: Callable[..., Result], *args: object) -> Result:
    """``function(*args)``, where the call may begin a backward pass."""
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
        except BaseException as error:  # raised again by the thread that waits
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
