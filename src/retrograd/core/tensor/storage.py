"""Memory shared by a base and its views: who shares it, whether a graph node still needs it, and a fresh copy for all.

Every reference to a ``Storage`` object is either a Tensor that lives in the memory or a graph node that saved it for
its derivative. So its reference count, less the Tensors, tells whether a write must go to a fresh buffer. A Tensor gets
its Storage only when it is first saved or aliased; ``members`` lists the Tensors once there is more than one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol
from weakref import ref

import numpy as np

from ...core.arrays import Array
from ..arrays.devices import Wrapping, array_module, backend_of


class Storage:
    """The identity of a piece of memory.

    Made for nearly every operator, so the defaults are the class's and no ``__init__`` runs.
    """

    members: list[ref[Any]] | None = None
    derived: list[ref[Any]] | None = None  # the views whose history is that of their base as it is now
    version: int = 0
    limit: int = 16
    created_in: Any = None  # the run of vmap inside which a factory function allocated the memory
    origin: Storage | None = None  # of a Tensor that the engine made on saved memory: the Storage that memory has


class Member(Protocol):
    """What lives in a memory: a Tensor, of which this module needs no more."""

    array: Any
    _storage: Storage | None
    _base: Any


def borrowed(origin: Storage | None) -> Storage:
    """The storage of a Tensor on memory that a node saved: a node that saves it again holds the origin, too."""
    storage = Storage()
    storage.origin = origin
    return storage


def storage_of(x: Member) -> Storage:
    """The storage of a Tensor, made at the first call."""
    storage = x._storage
    if storage is None:
        storage = x._storage = Storage()
    return storage


def share(alias: Member, x: Member, related: bool) -> None:
    """Enter ``alias`` among the Tensors that live in x's memory; a related one follows x's history, too."""
    storage = x._storage
    if storage is None:
        storage = x._storage = Storage()
    members = storage.members
    if members is None:
        members = storage.members = [ref(x)]
    elif len(members) >= storage.limit:
        # Dead entries are dropped when the list doubles, so that a loop of short-lived views costs O(1) each.
        members[:] = [member for member in members if member() is not None]
        storage.limit = 2 * len(members) + 16
        if storage.derived:
            storage.derived = [member for member in storage.derived if member() is not None]
    entry = ref(alias)
    members.append(entry)
    alias._storage = storage
    if related:
        base = x._base
        alias._base = x if base is None else base
        if storage.derived is None:
            storage.derived = [entry]
        else:
            storage.derived.append(entry)
    else:
        alias._base = None


def leave(x: Member) -> None:
    """Take x out of the Tensors in its memory, for it to be given other memory."""
    storage, x._storage = x._storage, None
    if storage is not None and storage.members is not None:
        storage.members[:] = [member for member in storage.members if member() is not x]


def sharers(x: Member) -> list[Any]:
    """Every living Tensor in x's memory, x included."""
    storage = x._storage
    if storage is None or storage.members is None:
        return [x]
    return [tensor for member in storage.members if (tensor := member()) is not None]


def living(members: list[ref[Any]]) -> int:
    """How many of the Tensors are still there."""
    return len([None for member in members if member() is not None])


def _count_of_a_local() -> int:
    value = object()
    return sys.getrefcount(value)


# What getrefcount says of an object that one local variable holds; it differs between Python versions.
LOCAL_ONLY = _count_of_a_local()


def is_saved(x: Member) -> bool:
    """Whether a graph node still needs what x's memory holds now."""
    storage = x._storage
    if storage is None:
        return False
    if storage.origin is not None:
        return True
    holders = sys.getrefcount(storage) - LOCAL_ONLY
    return holders > 1 and holders > (1 if storage.members is None else living(storage.members))


def unshare(x: Member, *, keep_values: bool) -> None:
    """Move x, and whoever shares its memory, to a fresh buffer; nodes that saved the old one keep it.

    Without ``keep_values`` the new memory of a Tensor that shares with nobody is left unset.
    """
    tensors = sharers(x)
    old = x._storage
    storage = Storage()
    if old is not None:
        storage.version, storage.derived, storage.created_in = old.version, old.derived, old.created_in
    if len(tensors) == 1:
        array = x.array
        fresh = backend_of(array).xp.empty(array.shape, array.dtype)
        if keep_values:
            fresh[...] = array
        x.array = fresh
        x._storage = storage
        return
    backend = backend_of(x.array)
    spans = [byte_span(tensor.array) for tensor in tensors]
    low, high = min(span[0] for span in spans), max(span[1] for span in spans)
    xp = backend.xp
    memory = backend.strided(x.array, low - backend.address(x.array), (high - low,), (1,), xp.dtype("u1")).copy()
    for tensor in tensors:
        array = tensor.array
        offset = backend_of(array).address(array) - low
        tensor.array = backend.strided(memory, offset, array.shape, array.strides, array.dtype)
        tensor._storage = storage
    enter(storage, tensors)


def enter(storage: Storage, tensors: Sequence[Member]) -> None:
    """Enter all Tensors that live in a new memory, instead of one by one as ``share`` does."""
    storage.members = [ref(tensor) for tensor in tensors]
    storage.limit = 2 * len(tensors) + 16


def byte_span(array: Array, start: int | None = None) -> tuple[int, int]:
    """The addresses of the first byte of the array's memory and of the one after its last; ``start`` is its address."""
    if start is None:
        start = backend_of(array).address(array)
    low = high = start
    if array.size == 0:
        return start, start
    for length, stride in zip(array.shape, array.strides, strict=True):
        reach = (length - 1) * stride
        if reach < 0:
            low += reach
        else:
            high += reach
    return low, high + array.dtype.itemsize


def shares_memory(view: Array, array: Array) -> bool:
    """Whether a forward's result is a view of its input."""
    if view is array:
        return True
    owner = view.base
    if owner is None:
        if type(view) is np.ndarray or type(view) is not type(array):
            return False
        allocation = backend_of(view).allocation  # CuPy's arrays at an address have no base
        return allocation(view) is allocation(array)
    return owner is array or owner is array.base or bool(array_module(array).may_share_memory(view, array))


def overlaps_itself(array: Any) -> bool:
    """Whether several elements may share a place in memory (expand, overlapping windows)."""
    if isinstance(array, Wrapping):
        return array.overlaps()
    if array.size <= 1 or array.__class__ is np.ndarray and array.flags.c_contiguous:
        return False
    reach = array.dtype.itemsize
    axes = sorted(
        (abs(stride), length) for length, stride in zip(array.shape, array.strides, strict=True) if length > 1
    )
    for stride, length in axes:
        if stride < reach:
            return True
        reach += stride * (length - 1)
    return False


def is_writable(array: Array) -> bool:
    """Whether NumPy lets the array's memory be written; CuPy has no read-only arrays."""
    return getattr(array.flags, "writeable", True)
