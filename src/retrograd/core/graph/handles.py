"""Hooks: functions that are called when something has happened, and the handles that take them back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from typing import Any


class LeafHooks:
    """The hooks of a leaf: on its finished gradient, before that is added to ``.grad``, and after that."""

    __slots__ = ("before_accumulation", "metadata", "on_accumulation", "on_gradient")

    def __init__(self) -> None:
        self.metadata: dict[str, Any] = {}  # of programs, see ``hook_methods.metadata``
        self.on_gradient: dict[int, Callable[[Any], Any]] = {}
        self.before_accumulation: dict[int, Callable[[Any], Any]] = {}
        self.on_accumulation: dict[int, Callable[[Any], Any]] = {}


class NodeHooks:
    """The hooks of a node that see all its gradients: before its rules run, and after that."""

    __slots__ = ("after", "before")

    def __init__(self) -> None:
        self.before: dict[int, Callable[[Any], Any]] = {}
        self.after: dict[int, Callable[[Any, Any], Any]] = {}


class RemovableHandle:
    """Takes a hook back: ``handle.remove()``, or at the end of a ``with``."""

    _ids = count()

    def __init__(self, hooks: dict[int, Any], hook: Any = None, prepend: bool = False) -> None:
        self.id = next(self._ids)
        self._hooks = hooks
        if hook is not None:  # PyTorch's own class leaves this to its callers
            hooks[self.id] = hook
        if prepend:
            assert isinstance(hooks, OrderedDict)
            hooks.move_to_end(self.id, last=False)

    def hooks_dict_ref(self) -> dict[int, object]:
        """The hooks that the handle's own is among, by the handles' ``id``: PyTorch's name for them."""
        return self._hooks

    def remove(self) -> None:
        """Take the hook back; a second call does nothing."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()
