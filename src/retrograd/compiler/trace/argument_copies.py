"""Copies of the containers among the arguments; changes that the traced function makes are applied to the originals."""

from __future__ import annotations

from collections import deque
from dataclasses import is_dataclass
from typing import Any

from ...func.nests import kind_of
from .untrace import as_real


class Copies:
    """The caller's containers, paired with the copies that the function receives.

    Args:
        nest: the caller's arguments.
        copy: a copy of them.
        leaves: the caller's leaves, by the ids of the leaves in the copy.
    """

    def __init__(self, nest: Any, copy: Any, leaves: dict[int, Any]) -> None:
        self._leaves = leaves
        self._pairs: dict[int, tuple[Any, Any, Any]] = {}
        self._pair(nest, copy)

    def _pair(self, nest: object, copy: object) -> None:
        kind = kind_of(nest)
        if kind is None or nest is None:
            return
        before = list(kind.parts(copy)[0])
        self._pairs[id(copy)] = nest, copy, before
        for (_, child), (_, other) in zip(kind.parts(nest)[0], before, strict=True):
            self._pair(child, other)

    def give_back(self) -> bool:
        """Apply the changes of the copies to the caller's containers; return whether there were any."""
        changed = False
        for nest, copy, before in self._pairs.values():
            kind = kind_of(copy)
            now = [] if kind is None else list(kind.parts(copy)[0])
            same = len(now) == len(before) and all(
                path == other and child is old for (path, child), (other, old) in zip(now, before, strict=True)
            )
            if not same:
                changed = True
                self._fill(nest, copy)
        return changed

    def _fill(self, nest: Any, copy: Any) -> None:
        if isinstance(nest, (list, deque)):
            items = list(map(self._own, copy))
            nest.clear()
            nest.extend(items)
        elif isinstance(nest, dict):
            entries = {key: self._own(value) for key, value in copy.items()}
            nest.clear()
            nest.update(entries)
        elif is_dataclass(nest):
            for name, value in vars(copy).items():
                object.__setattr__(nest, name, self._own(value))

    def _own(self, x: object) -> Any:
        if id(x) in self._pairs:
            return self._pairs[id(x)][0]
        return self._leaves[id(x)] if id(x) in self._leaves else as_real(x)
