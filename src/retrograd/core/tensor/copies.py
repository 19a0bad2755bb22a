"""Copies and pickles of Tensors. Only leaves can be copied, since a copy has no history; unpickling gives a leaf."""

from __future__ import annotations

import sys
from copy import deepcopy
from typing import Any, cast

import numpy as np

from ..arrays.devices import backend_for, backend_of
from ..arrays.dtypes import with_own_dtype
from .storage import Member, byte_span, known_storage, leave, share

# Packages that use deepcopy as an out-of-place copy: their deepcopies are clones, with a history. The integrations of
# these packages add the names.
KEEP_HISTORY: set[str] = set()


class Copies:
    """The methods of Tensor that ``copy``, ``deepcopy`` and ``pickle`` call."""

    __slots__ = ()

    def __copy__(self: Any) -> Any:
        if self._node is not None:
            return self.view_as(self)  # the view has the history of this Tensor
        copied = _blank(type(self))
        copied._initialize(self.array)
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
            copied._initialize(self.array.copy())
            copied._requires = self._requires
            storage = known_storage(self)
            if storage is not None and storage.members is not None:
                _share_as(self, copied, memo)
            if self._grad is not None:
                copied._grad = self._grad.__deepcopy__(memo)
            if hasattr(self, "__dict__"):
                copied.__dict__.update(deepcopy(self.__dict__, memo))
        return copied

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        # The result of an operator is unpickled as a leaf, as in PyTorch.
        array = backend_of(self.array).to_numpy(self.array)
        return _rebuild, (type(self), array, str(self.device), self._requires, getattr(self, "__dict__", None))


def _share_as(x: Member, copied: Member, memo: dict[int, object]) -> None:
    """Let the deep copies of Tensors share memory as the Tensors do, if one's memory contains the other's."""
    if type(x.array) is not np.ndarray:
        return
    copies = cast("list[tuple[Member, Member]]", memo.setdefault(id(x._storage), []))
    container = next((pair for pair in copies if _contains(pair[0].array, x.array)), None)
    if container is not None:
        _attach(copied, x.array, container[1], container[0].array)
    else:
        for other, copied_other in copies:
            if _contains(x.array, other.array):
                _attach(copied_other, other.array, copied, x.array)
    copies.append((x, copied))


def _contains(outer: np.ndarray, inner: np.ndarray) -> bool:
    """Return whether the elements of ``inner`` are elements of ``outer``, which is contiguous."""
    if not outer.flags.c_contiguous or outer.dtype != inner.dtype:
        return False
    (low, high), (first, last) = byte_span(outer), byte_span(inner)
    return low <= first and last <= high and (first - low) % outer.dtype.itemsize == 0


def _attach(copied: Member, inner: np.ndarray, whole: Member, outer: np.ndarray) -> None:
    """Move a copy into the memory of the copy of the Tensor that contains its original."""
    start = inner.ctypes.data - outer.ctypes.data
    leave(copied)
    copied.array = np.ndarray(inner.shape, inner.dtype, whole.array, start, inner.strides)
    share(copied, whole, related=False)


def _blank(kind: Any) -> Any:
    """Return an instance of a Tensor class without calling ``__init__``."""
    return kind.__new__(kind)


def _rebuild(kind: object, array: object, device: str, requires: bool, attributes: dict[str, object] | None) -> Any:
    tensor = _blank(kind)
    tensor._initialize(with_own_dtype(backend_for(device).asarray(array)))
    tensor._requires = requires
    if attributes:
        tensor.__dict__.update(attributes)
    return tensor
