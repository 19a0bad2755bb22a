"""Copies and pickles of Tensors. Only leaves can be copied, since a copy has no history; unpickling gives a leaf."""

from __future__ import annotations

import sys
from copy import deepcopy
from typing import Any

from ..arrays.devices import backend_for, backend_of
from ..arrays.dtypes import with_own_dtype
from .storage import share

# Packages that use deepcopy as an out-of-place copy: their deepcopies are clones, with a history. The integrations of
# these packages add the names.
KEEP_HISTORY: set[str] = set()


class Copies:
    """The methods of Tensor that ``copy``, ``deepcopy`` and ``pickle`` call."""

    __slots__ = ()

    def __copy__(self: Any) -> Any:
        if self._node is not None:
            return self.view_as(self)  # with its history
        copied = _blank(type(self))
        copied._initialise(self.array)
        share(copied, self, related=False)
        copied._requires = self._requires
        if hasattr(self, "__dict__"):
            copied.__dict__.update(self.__dict__)
        return copied

    def __deepcopy__(self: Any, memo: dict[int, object]) -> Any:
        if self._requires and sys._getframe(2).f_globals.get("__name__", "").partition(".")[0] in KEEP_HISTORY:
            return self.clone()
        if self._node is not None:
            raise RuntimeError(
                f"deepcopy: only leaves can be deep-copied, not the result of {self._node.operator}; use detach() first"
            )
        copied = memo.get(id(self))
        if copied is None:
            copied = memo[id(self)] = _blank(type(self))
            copied._initialise(self.array.copy())
            copied._requires = self._requires
            if self._grad is not None:
                copied._grad = self._grad.__deepcopy__(memo)
            if hasattr(self, "__dict__"):
                copied.__dict__.update(deepcopy(self.__dict__, memo))
        return copied

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        # The result of an operator is unpickled as a leaf, as in PyTorch.
        array = backend_of(self.array).to_numpy(self.array)
        return _rebuild, (type(self), array, str(self.device), self._requires, getattr(self, "__dict__", None))


def _blank(kind: Any) -> Any:
    """Return an instance of a Tensor class without calling ``__init__``."""
    return kind.__new__(kind)


def _rebuild(kind: object, array: object, device: str, requires: bool, attributes: dict[str, object] | None) -> Any:
    tensor = _blank(kind)
    tensor._initialise(with_own_dtype(backend_for(device).asarray(array)))
    tensor._requires = requires
    if attributes:
        tensor.__dict__.update(attributes)
    return tensor
