"""Copy on write: track which Tensors share memory and whether graph nodes have saved it.

A ``Storage`` is referenced only by the Tensors on one piece of memory and by the graph nodes that saved the memory. If
its reference count exceeds the number of Tensors, a node needs the current values, and a write must go to a copy.

A Tensor gets a Storage when it is first aliased or written; ``members`` lists the Tensors if there are several. A node
that saves memory without a Storage refers to a ``Token``, which is cheaper to create. If the memory gets a Storage
later, the Storage refers to the Token, and nodes refer to the Token until the memory is written.

Nearly every operator creates a Token. A plain object is invisible to Python's garbage collector, whose passes over a
large graph may otherwise take longer than its operators.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol
from weakref import ref

import numpy as np

from ...core.arrays import Array
from ..arrays.devices import Wrapping, array_module, backend_of, is_array

Token = object  # the identity of a piece of memory that one Tensor uses, and that no write has changed


class Storage:
    """The identity of a piece of memory, with the state that views of the memory and writes to it need."""

    members: list[ref[Any]] | None = None
    derived: list[ref[Any]] | None = None  # views whose history is derived from the current history of their base
    version: int = 0
    limit: int = 16  # the length of ``members`` at which ``share`` removes dead references
    created_in: Any = None  # the vmap level inside which the memory was allocated
    recomputed: ref[object] | None = None  # recomputes the array for the backward pass (graph.recomputed)
    origin: object = None  # for a Tensor that the engine created on saved memory: the Storage of that memory
    token: object = None  # the object to which nodes refer that saved the memory before the first write to it


class Member(Protocol):
    """The attributes of a Tensor that this module uses."""

    array: Any
    _storage: object
    _base: Any
    _unrecorded: object


def borrowed(origin: object) -> Storage:
    """Return the storage for a Tensor on saved memory. A node that saves that Tensor also refers to ``origin``."""
    storage = Storage()
    storage.origin = origin
    return storage


def storage_of(x: Member) -> Storage:
    """Return the storage of a Tensor, created at the first call."""
    token = x._storage
    if isinstance(token, Storage):
        return token
    storage = Storage()
    x._storage = storage
    if token is not None:
        storage.token = token
    return storage


def known_storage(x: Member) -> Storage | None:
    """Return the storage of a Tensor, or None if it has none yet."""
    storage = x._storage
    return storage if isinstance(storage, Storage) else None


def token_of(x: Member) -> object:
    """Return the object to which a node refers when it saves a Tensor's memory.

    This is a Token, or the Storage if the memory has been written.
    """
    storage = x._storage
    if storage is None:
        storage = x._storage = Token()
    elif isinstance(storage, Storage) and not storage.version and storage.origin is None:
        if storage.token is None:
            storage.token = Token()
        return storage.token
    return storage


def share(alias: Member, x: Member, related: bool) -> None:
    """Register that ``alias`` shares x's memory; a ``related`` alias is a view, whose history follows x's."""
    storage = x._storage
    if not isinstance(storage, Storage):
        storage = storage_of(x)
    members, entry = storage.members, ref(alias)
    if members is None:
        storage.members = [ref(x), entry]
    else:
        if len(members) >= storage.limit:
            # Dead references are removed whenever the list has doubled: O(1) amortized per short-lived view.
            members[:] = [member for member in members if member() is not None]
            storage.limit = 2 * len(members) + 16
            if storage.derived:
                storage.derived = [member for member in storage.derived if member() is not None]
        if members[-1]() is None:  # for example, in a loop whose views are used by one operator each
            members[-1] = entry
        else:
            members.append(entry)
    alias._storage = storage
    if related:
        base = x._base
        alias._base = x if base is None else base
        derived = storage.derived
        if not derived:
            storage.derived = [entry]
        elif derived[-1]() is None:
            derived[-1] = entry
        else:
            derived.append(entry)
    else:
        alias._base = None


def share_view(view: Member, x: Member, recording: bool) -> None:
    """Register a view of x. A view that is not recorded keeps a reference to the Tensor that it is a view of."""
    share(view, x, recording)
    if not recording:
        view._unrecorded = getattr(x, "_unrecorded", None) or ref(x if x._base is None else x._base)


def unrecorded_source(x: Member) -> object:
    """Return the Tensor that x is a view of if the view was created under ``no_grad``, otherwise None."""
    found: Callable[[], object] | None = getattr(x, "_unrecorded", None) or getattr(x._base, "_unrecorded", None)
    return None if found is None else found()


def leave(x: Member) -> None:
    """Remove x from the Tensors that share its memory, before x gets other memory."""
    storage, x._storage = known_storage(x), None
    if storage is not None and storage.members is not None:
        storage.members[:] = [member for member in storage.members if member() is not x]


def sharers(x: Member) -> list[Any]:
    """Return all live Tensors that share x's memory, including x."""
    storage = known_storage(x)
    if storage is None or storage.members is None:
        return [x]
    return [tensor for member in storage.members if (tensor := member()) is not None]


def living(members: list[ref[Any]]) -> int:
    """Return the number of live Tensors among weak references."""
    return len([None for member in members if member() is not None])


def _count_of_a_local() -> int:
    value = object()
    return sys.getrefcount(value)


def _count_in_a_call() -> int:
    value = object()
    return _count_of_an_argument(value)


def _count_of_an_argument(value: object) -> int:
    return sys.getrefcount(value)


# The getrefcount of an object referenced by one local variable; the value depends on the Python version.
LOCAL_ONLY = _count_of_a_local()
# The getrefcount of that object in a function to which the variable is passed: from Python 3.14 on, a parameter borrows
# the reference.
ARGUMENT_ONLY = _count_in_a_call()


def is_saved(x: Member) -> bool:
    """Return whether a graph node needs the current values of x's memory."""
    storage = x._storage
    if storage is None:
        return False
    if not isinstance(storage, Storage):
        return sys.getrefcount(storage) > LOCAL_ONLY + 1
    if storage.origin is not None or has_saved_token(storage):
        return True
    holders = sys.getrefcount(storage) - LOCAL_ONLY
    return holders > 1 and holders > (1 if storage.members is None else living(storage.members))


def has_saved_token(storage: Storage) -> bool:
    """Return whether a node saved the memory before it was written."""
    token = storage.token
    return token is not None and sys.getrefcount(token) > LOCAL_ONLY + 1


def unshare(x: Member, *, keep_values: bool) -> None:
    """Move x and all Tensors that share its memory to new memory; nodes that saved the old memory keep it.

    If ``keep_values`` is False, the new memory of a Tensor that shares it with no other is not initialized.
    """
    tensors = sharers(x)
    old = known_storage(x)
    storage = Storage()
    if old is not None:
        storage.version, storage.derived, storage.created_in = old.version, old.derived, old.created_in
    if len(tensors) == 1:
        array = x.array
        xp = backend_of(array).xp
        # A transposed array keeps its strides, so that a sum over the copy rounds exactly as a sum over the original.
        fresh = xp.empty(array.shape, array.dtype) if array.flags.c_contiguous else xp.empty_like(array)
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
    """Register all Tensors on new memory at once."""
    storage.members = [ref(tensor) for tensor in tensors]
    storage.limit = 2 * len(tensors) + 16


def byte_span(array: Array, start: int | None = None) -> tuple[int, int]:
    """Return the half-open range of addresses that the array spans; ``start`` is the address of its first element."""
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


def mark_created(results: Iterable[Member], arrays: Iterable[object], level: object) -> None:
    """Record that the memory of a call's results, except views of ``arrays``, was allocated inside ``vmap``."""
    for x in results:
        if not any(is_array(array) and shares_memory(x.array, array) for array in arrays):
            storage_of(x).created_in = level


def shares_memory(view: Array, array: Array) -> bool:
    """Return whether ``view``, the result of a forward, shares memory with its input ``array``."""
    if view is array:
        return True
    owner = view.base
    if owner is None:
        if type(view) is np.ndarray or type(view) is not type(array):
            return False
        allocation = backend_of(view).allocation  # CuPy arrays made from an address have no base
        return allocation(view) is allocation(array)
    return owner is array or owner is array.base or bool(array_module(array).may_share_memory(view, array))


def overlaps_itself(array: Any) -> bool:
    """Return whether several elements may share memory (expand, overlapping windows)."""
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
    """Return whether the array is writable; CuPy has no read-only arrays."""
    return getattr(array.flags, "writeable", True)
