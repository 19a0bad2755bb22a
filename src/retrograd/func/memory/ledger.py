"""Count the memory that a graph holds: each allocation once, as long as a node or a segment refers to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import ref

from numpy import ndarray

from ...core.arrays import Array
from ...core.arrays.bfloat16 import bfloat16
from ...core.arrays.devices import backend_of, is_array
from ...core.arrays.dtypes import DType, float32
from ...core.arrays.layout import cast
from ...core.tensor.storage import Storage, storage_of
from ...core.tensor.tensor import Tensor


class Half:
    """A bfloat16 copy of a float32 array."""

    def __init__(self, whole: Array) -> None:
        self.array = cast(whole, bfloat16())
        self._whole = ref(whole)

    def whole(self) -> Array:
        """Return the float32 array; if it has been freed, return a new one from the bfloat16 numbers."""
        found = self._whole()
        if found is None:
            found = cast(self.array, float32)
            self._whole = ref(found)
        return found


class Memory(ref[Any]):
    """An allocation: a weak reference to the array that owns the memory, and how many nodes and segments hold it.

    ``fixed`` memory is never freed. ``user`` is a Tensor of the user's program on the memory, if there is one; then the
    memory does not count towards the budget.
    """

    __slots__ = ("bytes", "fixed", "half", "holders", "key", "user")

    __hash__ = object.__hash__
    __eq__ = object.__eq__
    bytes: int
    fixed: bool
    half: ref[Half] | None
    holders: int
    key: int
    user: ref[Tensor] | None

    @property
    def counted(self) -> bool:
        """Return whether the memory counts towards the budget."""
        return self.user is None and (self.fixed or self.holders > 0)


class Budget:
    """A limit in bytes, and the statistics of its recomputations."""

    limit: int
    saved_dtype: DType | None
    halved = peak = recomputations = 0
    seconds = 0.0


class Ledger:
    """The memory that a graph holds, by the ``id`` of the array that owns it."""

    def __init__(self) -> None:
        self.memories: dict[int, Memory] = {}
        self.bytes = 0
        self.fixed = 0  # the part of ``bytes`` that cannot be freed
        self.most_fixed = 0  # the maximum of ``fixed`` since the last backward pass
        self.died = _on_death(ref(self))

    def memory_of(self, array: Array) -> Memory:
        """Return the Memory of an array."""
        while type(array) is ndarray and type(array.base) is ndarray:
            array = array.base
        if type(array) is not ndarray or array.base is not None:
            while (owner := owner_of(array)) is not None:
                array = owner
        key = id(array)
        memory = self.memories.get(key)
        if memory is None:
            memory = self.memories[key] = Memory(array, self.died)
            memory.bytes, memory.key = array.nbytes, key
            memory.holders, memory.fixed, memory.user, memory.half = 0, False, None, None
        return memory

    def hold(self, memory: Memory) -> bool:
        """Count one more holder; return whether it is the first."""
        memory.holders += 1
        if memory.holders > 1 or memory.fixed:
            return False
        if memory.user is None:
            self.bytes += memory.bytes
        return True

    def drop(self, memory: Memory) -> None:
        """Remove one holder."""
        memory.holders -= 1
        unused = not memory.holders and not memory.fixed and memory.user is None
        if unused and self.memories.get(memory.key) is memory:
            self.bytes -= memory.bytes

    def fix(self, array: Array, tensor: Tensor | None = None) -> None:
        """Mark the array's memory as never freed; it does not count while a user's ``tensor`` on it is alive."""
        memory = self.memory_of(array)
        if memory.fixed and (tensor is None or memory.user is not None):
            return
        self.count(memory, -1)
        if tensor is not None:
            self.use(memory, tensor)
        memory.fixed = True
        self.count(memory, 1)

    def note_user(self, array: Array, tensor: Tensor) -> None:
        """Do not count the array's memory while ``tensor``, a Tensor of the user, is alive."""
        memory = self.memory_of(array)
        if memory.user is None:
            self.count(memory, -1)
            self.use(memory, tensor)
            self.count(memory, 1)

    def count(self, memory: Memory, sign: int) -> None:
        """Add the memory to the counted bytes, or subtract it (``sign`` -1), unless it does not count."""
        if memory.counted:
            self.bytes += sign * memory.bytes
            if memory.fixed:
                self.fixed += sign * memory.bytes
                self.most_fixed = max(self.most_fixed, self.fixed)

    def use(self, memory: Memory, tensor: Tensor) -> None:
        memory.user = ref(tensor, partial(_released, ref(self), memory.key, ref(storage_of(tensor))))


def _on_death(ledger: ref[Ledger]) -> Callable[[Memory], None]:
    def forget(memory: Memory) -> None:
        here = ledger()
        if here is not None and here.memories.get(memory.key) is memory:
            del here.memories[memory.key]
            here.count(memory, -1)

    return forget


def _released(ledger: ref[Ledger], key: int, storage: ref[Storage], user: object) -> None:
    """Handle that a user's Tensor was freed: find another Tensor on the same memory, or else count the memory."""
    here = ledger()
    memory = None if here is None else here.memories.get(key)
    if here is None or memory is None or memory.user is not user:
        return
    memory.user = None
    shared = storage()
    for member in (shared.members if shared is not None else None) or ():
        tensor = member()
        if tensor is not None:
            here.use(memory, tensor)
            return
    here.count(memory, 1)


def owner_of(array: Array) -> Array | None:
    """Return the array that this one is a view of, or None."""
    owner = backend_of(array).owner(array)
    while owner is not None and not is_array(owner):  # an object that implements only the array interface
        owner = getattr(owner, "owner" if hasattr(owner, "owner") else "base", None)
    return owner
