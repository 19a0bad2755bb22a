"""What a graph has saved and how it is computed again: calls, the values they give, and the memory these are in.

A ``Value`` is an array that a recorded ``Call`` gave, whether it is there or not; a call refers to its inputs by their
Values, so each can be computed again from what is there. A ``Record`` says which Values a node saved.

Values never change. Whoever refers to an array holds its Storage, too, so that a write goes to fresh memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import count
from typing import Any, NamedTuple, Protocol
from weakref import ref

from ..core.arrays.devices import backend_of, is_array
from ..core.arrays.dtypes import promoted
from ..core.graph.backward import as_array
from ..core.graph.nodes import Node
from ..core.graph.primitive import Primitive
from ..core.tensor.storage import Storage

_number = count().__next__


class Source(NamedTuple):
    """An input that no recorded call gave: a leaf or a constant, kept as it is."""

    array: Any
    storage: Storage | None


class Call:
    """One recorded call, as it is made again. ``values`` are its outputs and then its residuals.

    ``number`` grows from call to call, so it is larger than those of the calls whose results this one reads.
    """

    __slots__ = ("bytes", "inplace", "inputs", "number", "params", "primitive", "reads", "seconds", "values")

    def __init__(
        self,
        primitive: Primitive,
        inputs: tuple[Any, ...],
        params: dict[str, Any],
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
        self.bytes = 0  # of the fresh memory that it makes
        self.values: list[ref[Value]] = []

    def makes(self, value: Value, array: Any, homes: dict[int, Value]) -> None:
        """A value of this call is in memory that the call makes; ``homes`` are the first ones in each piece of it."""
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

    def run(self, arrays: tuple[Any, ...]) -> list[Any]:
        """The outputs and residuals for these inputs."""
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
        residuals: Sequence[Any] = ()
        if primitive.residuals:
            out, *residuals = out
        outputs = out if primitive.outputs != 1 else (out,)
        return [*(x if is_array(x) else as_array(x, first) for x in outputs), *residuals]


class Layout(NamedTuple):
    """How an array lies in memory. The order of a sum, so its last digits, depends on it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any

    @classmethod
    def of(cls, array: Any) -> Layout:
        return cls(array.shape, array.strides, array.dtype)

    def reach(self) -> tuple[int, int]:
        """How many bytes of memory it takes, and at which of them the first element begins."""
        reach = [(length - 1) * step for length, step in zip(self.shape, self.strides, strict=True)]
        low, high = sum(min(step, 0) for step in reach), sum(max(step, 0) for step in reach)
        return high - low + self.dtype.itemsize, -low

    def filled(self, array: Any) -> Any:
        """A fresh array that lies so, with the given elements."""
        backend = backend_of(array)
        size, first = self.reach()
        memory = backend.xp.empty(size, "u1")
        fresh = backend.strided(memory, first, self.shape, self.strides, self.dtype)
        fresh[...] = array
        return fresh


class Group:
    """Values that are not there and hang together, with the seconds of all their calls: a set of a union-find."""

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
    """An array that a call gave.

    ``storage`` is that of its memory once a node has saved it (True for what no Tensor lives in): then the array, while
    anything keeps it alive, is as it was. ``memory`` is set while a node holds it, ``group`` while none does.
    ``base`` is the Value in whose memory this one is; where there is none, its own call makes ``bytes`` of memory for
    it, none for a view of a Source.
    """

    __slots__ = (
        "__weakref__", "base", "bytes", "call", "first", "group", "index", "layout", "memory", "readers", "reference",
        "slots", "storage", "version",
    )  # fmt: skip

    def __init__(self, call: Call, index: int, array: Any, version: int) -> None:
        self.call = call
        self.index = index
        self.layout = Layout.of(array)
        self.version = version
        self.base: Value | None = None
        self.bytes = 0
        self.reference: ref[Any] = ref(array)
        self.storage: Any = None
        self.memory: Memory | None = None
        self.first: Memory | None = None  # that it was in when a node saved it
        self.slots: list[tuple[ref[Record], int, int | None]] = []
        self.readers: list[ref[Value]] = []  # outputs of the calls that read this one
        self.group: Group | None = None
        self.vanish()
        call.values.append(ref(self))
        for x in call.reads:
            append(x.readers, ref(self), lambda reader: reader() is not None)

    @property
    def home(self) -> Value:
        """The Value in whose memory this one is."""
        return self if self.base is None else self.base

    def get(self) -> Any:
        """The array, where it is still there and nobody may have written to it; else None."""
        return None if self.storage is None else self.reference()

    def neighbours(self) -> list[Group]:
        """The groups of the inputs and readers that are not there."""
        groups = [x.group.root() for x in self.call.reads if x.group is not None]
        for reader in self.readers:
            y = reader()
            if y is not None and y.group is not None:
                groups.append(y.group.root())
        return groups

    def vanish(self) -> None:
        """No node holds the value any more."""
        self.memory = None
        if self.group is None:
            group = self.group = Group(self.call.seconds)
            for other in self.neighbours():
                group.join(other)

    def appear(self, memory: Memory, array: Any) -> None:
        """A node holds the value."""
        self.reference = ref(array)
        self.memory = memory
        if self.group is not None:
            self.group.root().seconds -= self.call.seconds
            self.group = None

    def live_slots(self) -> Iterator[tuple[Record, int, int | None]]:
        """Where the value stands, or is to stand: records of nodes that no walk has freed."""
        for reference, place, part in self.slots:
            record = reference()
            if record is not None and record.alive:
                yield record, place, part


class Memory:
    """A piece of memory: an array that owns it, and the Values that nodes hold in it."""

    __slots__ = ("bytes", "counted", "fixed", "holder", "locks", "movable", "owner", "used", "values")

    def __init__(self, owner: Any, died: Callable[[Any], None]) -> None:
        self.owner = ref(owner, died)
        self.bytes = owner.nbytes
        self.values: list[ref[Value]] = []
        self.fixed = False  # in it are Sources
        self.movable = False
        self.holder: ref[Any] | None = None  # a Tensor of the user's that lives in fixed memory
        self.locks = 0
        self.used = 0
        self.counted = False


class Restorer(Protocol):
    """What computes again what a node saved: a ``Pool``."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held while values are computed again."""

    def restore(self, record: Record) -> None:
        """Put the values back into the record."""


class Record:
    """What one node saved. Where something of it was let go of, it stands in the node's place with the rest."""

    __slots__ = (
        "__weakref__", "bare", "beside", "fixed", "memories", "need", "node", "number", "partial", "places", "pool",
    )  # fmt: skip

    def __init__(self, node: Node, pool: Restorer) -> None:
        self.node = ref(node)
        self.pool = pool
        self.places: list[tuple[int, int | None, Value]] = []
        self.partial: list[Any] = []
        self.fixed = 0  # the bytes that could not be let go of when it was made
        # What a Reserve finds out:
        self.number = 0
        self.memories: set[Memory] = set()  # of its own, that might be let go of
        self.bare = 0  # the bytes that it takes to compute it again from nothing
        self.beside = 0  # a fingerprint of the others that had to stay then
        self.need: float = 0  # in smaller budgets than this it has to stay

    @property
    def complete(self) -> bool:
        """Whether the node itself holds what it saved."""
        node = self.node()
        return node is not None and type(node.saved) is tuple

    @property
    def alive(self) -> bool:
        """Whether nobody else has freed what the node saved."""
        node = self.node()
        return node is not None and (node.saved is self or type(node.saved) is tuple)

    def put(self, place: int, part: int | None, array: Any) -> None:
        """Let a place hold an array, or with None nothing."""
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
        """Give the node what it saved."""
        with self.pool.lock:
            self.pool.restore(self)
            node = self.node()
            if node is not None and node.saved is self:
                node.saved, self.partial = tuple(self.partial), []


def append(items: list[Any], item: object, lives: Callable[[Any], bool]) -> None:
    """Append to a list from which the dead are removed whenever it has doubled."""
    if len(items) >= 16 and len(items) & (len(items) - 1) == 0:
        items[:] = filter(lives, items)
    items.append(item)


def owner_of(array: Any) -> Any:
    """The array that this one is a view of, or None."""
    owner = backend_of(array).owner(array)
    while owner is not None and not is_array(owner):  # a holder of memory under the array interface
        owner = getattr(owner, "owner" if hasattr(owner, "owner") else "base", None)
    return owner
