"""Recipes for recomputing saved values: calls, the values they return, and the memory of these values.

A ``Value`` stands for an array that a recorded ``Call`` returned, which may have been freed. A call refers to its
inputs as Values, so each Value can be recomputed from the available ones. A ``Record`` lists the Values that a node
saved.

Values never change: every reference to an array comes with a reference to its Storage, so a write goes to fresh memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import count
from typing import Any, NamedTuple, Protocol, TypeVar
from weakref import ref

from ..core.arrays import Array
from ..core.arrays.devices import backend_of, is_array
from ..core.arrays.dtypes import DType, promoted
from ..core.graph.backward import as_array
from ..core.graph.nodes import Node
from ..core.graph.primitive import Primitive
from ..core.tensor.storage import Storage
from ..core.tensor.tensor import Tensor

Item = TypeVar("Item")

_number = count().__next__


class Source(NamedTuple):
    """An input that is not the result of a recorded call: a leaf or a constant. It is never freed."""

    array: Array
    storage: Storage | None


class Call:
    """One recorded call, which can be repeated. ``values`` are its outputs, followed by its residuals.

    ``number`` increases with every call, so it is larger than the numbers of the calls whose results this one reads.
    """

    __slots__ = ("bytes", "inplace", "inputs", "number", "params", "primitive", "reads", "seconds", "values")

    def __init__(
        self,
        primitive: Primitive,
        inputs: tuple[object, ...],
        params: dict[str, object],
        inplace: bool,
        seconds: float,
    ) -> None:
        self.primitive = primitive
        self.inputs = inputs  # Values, Sources and plain numbers
        self.reads: tuple[Value, ...] = tuple([x for x in inputs if type(x) is Value])
        self.params = params
        self.inplace = inplace
        self.seconds = seconds
        self.number = _number()
        self.bytes = 0  # of the memory that the call allocates
        self.values: list[ref[Value]] = []

    def makes(self, value: Value, array: Array, homes: dict[int, Value]) -> None:
        """Register a value in memory that this call allocates; ``homes`` has the first value of each allocation."""
        if self.inplace:
            value.bytes = value.layout.reach()[0]
        else:
            while (owner := owner_of(array)) is not None:
                array = owner
            home = homes.setdefault(id(array), value)
            if home is value:
                value.bytes = array.nbytes
            else:
                value.base = home
        self.bytes += value.bytes

    def run(self, arrays: tuple[Any, ...]) -> list[Array]:
        """Return the outputs and residuals for these inputs."""
        primitive, first = self.primitive, arrays[0]
        if primitive.promote is not None:
            arrays = promoted(primitive.name, primitive.promote, arrays, arrays)
        if self.inplace:
            written = self.values[0]()
            assert primitive.write is not None
            out = (written.layout if written is not None else Layout.of(first)).filled(first)
            primitive.write(out, *arrays, **self.params)
            return [out]
        out = primitive.forward(*arrays, **self.params)
        residuals: Sequence[Array] = ()
        if primitive.residuals:
            out, *residuals = out
        outputs = out if primitive.outputs != 1 else (out,)
        return [*(x if is_array(x) else as_array(x, first) for x in outputs), *residuals]


class Layout(NamedTuple):
    """The memory layout of an array. The rounding of a sum depends on it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType

    @classmethod
    def of(cls, array: Array) -> Layout:
        return cls(array.shape, array.strides, array.dtype)

    def reach(self) -> tuple[int, int]:
        """Return the number of bytes that the layout spans, and the offset of the first element."""
        reach = [(length - 1) * step for length, step in zip(self.shape, self.strides, strict=True)]
        low, high = sum(min(step, 0) for step in reach), sum(max(step, 0) for step in reach)
        return high - low + self.dtype.itemsize, -low

    def filled(self, array: Array) -> Array:
        """Return a new array with this layout and the elements of ``array``."""
        backend = backend_of(array)
        size, first = self.reach()
        memory = backend.xp.empty(size, "u1")
        fresh = backend.strided(memory, first, self.shape, self.strides, self.dtype)
        fresh[...] = array
        return fresh


class Group:
    """A set of connected freed values with the total seconds of their calls, in a union-find structure."""

    __slots__ = ("into", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.into: Group | None = None

    def root(self) -> Group:
        group = self
        while group.into is not None:
            if group.into.into is not None:
                group.into = group.into.into
            group = group.into
        return group

    def join(self, other: Group) -> None:
        one, two = self.root(), other.root()
        if one is not two:
            two.into = one
            one.seconds += two.seconds


class Value:
    """An array that a call returned.

    ``storage`` is the Storage of its memory once a node has saved it, True if no Tensor uses the memory; from then on
    the array does not change while it is alive. ``memory`` is set while a node holds the value, ``group`` while none
    does. ``base`` is the Value whose memory this one shares. Without a base, the value's call allocates ``bytes`` for
    it, 0 for a view of a Source.
    """

    __slots__ = (
        "__weakref__", "base", "bytes", "call", "first", "group", "index", "layout", "memory", "readers", "reference",
        "slots", "storage", "version",
    )  # fmt: skip

    def __init__(self, call: Call, index: int, array: Array, version: int) -> None:
        self.call = call
        self.index = index
        self.layout = Layout.of(array)
        self.version = version
        self.base: Value | None = None
        self.bytes = 0
        self.reference: ref[Array] = ref(array)
        self.storage: Storage | bool | None = None
        self.memory: Memory | None = None
        self.first: Memory | None = None  # the memory in which a node first saved it
        self.slots: list[tuple[ref[Record], int, int | None]] = []
        self.readers: list[ref[Value]] = []  # outputs of the calls that read this value
        self.group: Group | None = None
        self.vanish()
        call.values.append(ref(self))
        for x in call.reads:
            append(x.readers, ref(self), lambda reader: reader() is not None)

    @property
    def home(self) -> Value:
        """Return the Value that owns the memory of this one."""
        return self if self.base is None else self.base

    def get(self) -> Array | None:
        """Return the array if it is alive and protected from writes, else None."""
        return None if self.storage is None else self.reference()

    def neighbours(self) -> list[Group]:
        """Return the groups of the inputs and readers that are freed."""
        groups = [x.group.root() for x in self.call.reads if x.group is not None]
        for reader in self.readers:
            y = reader()
            if y is not None and y.group is not None:
                groups.append(y.group.root())
        return groups

    def vanish(self) -> None:
        """Mark the value as freed: no node holds it any more."""
        self.memory = None
        if self.group is None:
            group = self.group = Group(self.call.seconds)
            for other in self.neighbours():
                group.join(other)

    def appear(self, memory: Memory, array: Array) -> None:
        """Mark the value as held by a node."""
        self.reference = ref(array)
        self.memory = memory
        if self.group is not None:
            self.group.root().seconds -= self.call.seconds
            self.group = None

    def live_slots(self) -> Iterator[tuple[Record, int, int | None]]:
        """Yield the positions of the value in the records of nodes that no backward pass has freed."""
        for reference, place, part in self.slots:
            record = reference()
            if record is not None and record.alive:
                yield record, place, part


class Memory:
    """A piece of memory: the array that owns it, and the Values in it that nodes hold."""

    __slots__ = ("bytes", "counted", "fixed", "holder", "locks", "movable", "owner", "used", "values")

    def __init__(self, owner: Array, died: Callable[[ref[Array]], None]) -> None:
        self.owner = ref(owner, died)
        self.bytes = owner.nbytes
        self.values: list[ref[Value]] = []
        self.fixed = False  # whether the memory contains Sources
        self.movable = False
        self.holder: ref[Tensor] | None = None  # a Tensor of the user that uses fixed memory
        self.locks = 0
        self.used = 0
        self.counted = False


class Restorer(Protocol):
    """The interface of ``Pool`` that a Record needs: restore saved values on demand."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Return the lock that is held during a recomputation."""

    def restore(self, record: Record) -> None:
        """Restore all values of the record."""


class Record:
    """The values that one node saved. After some are freed, the record replaces ``node.saved`` and holds the rest."""

    __slots__ = (
        "__weakref__", "bare", "beside", "fixed", "memories", "need", "node", "number", "partial", "places", "pool",
    )  # fmt: skip

    def __init__(self, node: Node, pool: Restorer) -> None:
        self.node = ref(node)
        self.pool = pool
        self.places: list[tuple[int, int | None, Value]] = []
        self.partial: list[Any] = []
        self.fixed = 0  # the bytes that could not be freed when the record was created
        # Set by a Reserve:
        self.number = 0
        self.memories: set[Memory] = set()  # the memory of its values that can be freed
        self.bare = 0  # the bytes needed to recompute it from the leaves
        self.beside = 0  # a hash of the other records that had to stay
        self.need: float = 0  # in smaller budgets than this the record must stay

    @property
    def complete(self) -> bool:
        """Return whether the node holds all of its saved values."""
        node = self.node()
        return node is not None and type(node.saved) is tuple

    @property
    def alive(self) -> bool:
        """Return whether the saved values may still be needed: no backward pass has freed them."""
        node = self.node()
        return node is not None and (node.saved is self or type(node.saved) is tuple)

    def put(self, place: int, part: int | None, array: Array | None) -> None:
        """Set a saved position to an array, or free it with None."""
        if self.complete:
            node = self.node()
            assert node is not None
            self.partial, node.saved = list(node.saved), self
        if part is None:
            self.partial[place] = array
        else:
            held = self.partial[place]
            self.partial[place] = (*held[:part], array, *held[part + 1 :])

    def lacks(self, place: int, part: int | None) -> bool:
        if self.complete:
            return False
        held = self.partial[place]
        return (held if part is None else held[part]) is None

    def restore(self) -> None:
        """Restore all saved values of the node."""
        with self.pool.lock:
            self.pool.restore(self)
            node = self.node()
            if node is not None and node.saved is self:
                node.saved, self.partial = tuple(self.partial), []


def append(items: list[Item], item: Item, lives: Callable[[Item], bool]) -> None:
    """Append to a list, and drop the items that are no longer alive whenever its length has doubled."""
    if len(items) >= 16 and len(items) & (len(items) - 1) == 0:
        items[:] = filter(lives, items)
    items.append(item)


def owner_of(array: Array) -> Array | None:
    """Return the array that this one is a view of, or None."""
    owner = backend_of(array).owner(array)
    while owner is not None and not is_array(owner):  # an object that implements only the array interface
        owner = getattr(owner, "owner" if hasattr(owner, "owner") else "base", None)
    return owner
