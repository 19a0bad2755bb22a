"""The hooks of leaves and nodes, and the handles that remove hooks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any


class LeafHooks:
    """The hooks of a leaf: on its complete gradient, before the addition to ``.grad``, and after the addition."""

    __slots__ = ("before_accumulation", "metadata", "on_accumulation", "on_gradient")

    def __init__(self) -> None:
        self.metadata: dict[str, object] = {}  # written by user programs, see ``hooks.metadata``
        self.on_gradient: dict[int, Callable[[Any], Any]] = {}
        self.before_accumulation: dict[int, Callable[[Any], object]] = {}
        self.on_accumulation: dict[int, Callable[[Any], object]] = {}


class NodeHooks:
    """The hooks of a node that get all its gradients: before and after its rules run."""

    __slots__ = ("after", "before")

    def __init__(self) -> None:
        self.before: dict[int, Callable[[Any], object]] = {}
        self.after: dict[int, Callable[[Any, Any], object]] = {}


class RemovableHandle:
    """Removes a hook, by ``handle.remove()`` or at the end of a ``with`` block.

    ``flags`` are dictionaries to which the handle adds the hook's ``id``, with True, until the hook is removed.
    """

    _ids = count()

    def __init__(
        self,
        hooks: dict[int, Any],
        hook: object = None,
        prepend: bool = False,
        flags: Sequence[dict[int, bool]] = (),
    ) -> None:
        self.id = next(self._ids)
        self._hooks = hooks
        self._flags = flags
        for flag in flags:
            flag[self.id] = True
        if hook is not None:  # callers of PyTorch's class add the hook themselves
            hooks[self.id] = hook
        if prepend:
            assert isinstance(hooks, OrderedDict)
            hooks.move_to_end(self.id, last=False)

    def hooks_dict_ref(self) -> dict[int, object]:
        """Return the dictionary that contains the hook, keyed by the ``id`` of handles (PyTorch's name for it)."""
        return self._hooks

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        for hooks in (self._hooks, *self._flags):
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()
