"""Convert saved float32 arrays to bfloat16, which takes half of the memory, until the backward pass reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol
from weakref import ref

from numpy import ndarray
from numpy.lib.stride_tricks import as_strided

from ...core.arrays import Array
from ...core.arrays.dtypes import float32
from ...core.arrays.layout import place_of
from ...core.graph.nodes import Node
from .ledger import Half, Memory
from .recipes import Call, Value, saved_places

SMALL = 1024  # bytes of an array below which it is not narrowed


class Tape(Protocol):
    """The attributes of a ``segments.Pool`` that this module uses."""

    bytes: int
    limit: int
    lock: Any
    visited: Call | None
    target: Call | None

    def memory_of(self, array: Array) -> Memory: ...
    def hold(self, memory: Memory) -> bool: ...
    def drop(self, memory: Memory) -> None: ...
    def make_room(self) -> None: ...
    def recount(self, call: Call, node: Node, halves: Sequence[Array] = (), values: Sequence[object] = ()) -> None: ...


class Part(Protocol):
    """The attributes of a ``segments.Segment`` that this module uses."""

    closed: bool
    narrowed: bool
    externals: dict[Value, tuple[Any, object, Memory]]
    unsaved: set[int]
    outside: int | None
    gain: tuple[int, int] | None

    def calls(self) -> list[tuple[Call, Node]]: ...


class View(NamedTuple):
    """A view of a narrowed array, or the whole array."""

    half: Half
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def restored(self) -> Array:
        """Return the view in float32."""
        whole = self.half.whole()
        if not self.offset and (whole.shape, whole.strides) == (self.shape, self.strides):
            return whole
        flat = whole.reshape(-1, order="A")  # a view, not a copy, since the array is dense
        return as_strided(flat[self.offset // whole.itemsize :], self.shape, self.strides)


class Narrowed:
    """Takes the place of the saved values of a node (see ``Released`` in core/graph/nodes.py)."""

    __slots__ = ("_call", "_node", "_pool", "values")

    def __init__(self, pool: Tape, call: Call, node: Node, values: list[object]) -> None:
        self._pool, self._call, self._node, self.values = pool, call, ref(node), values

    def restore(self) -> None:
        """Restore the node's saved values, in float32."""
        node, pool = self._node(), self._pool
        if node is None or node.saved is not self:
            return
        node.saved = tuple([_map(value, View, View.restored) for value in self.values])
        with pool.lock:
            pool.recount(self._call, node)
            if pool.bytes > pool.limit:
                pool.make_room()


def narrow(pool: Tape, segment: Part) -> None:
    """Convert a segment's saved arrays, and the values of earlier segments that its calls read, to bfloat16."""
    segment.closed = segment.narrowed = True
    for call, node in segment.calls():
        if call.held and call is not pool.visited and call is not pool.target and type(node.saved) is tuple:
            _narrow_node(pool, call, node)
    for value, (array, storage, memory) in segment.externals.items():
        view = _view(pool, array) if isinstance(array, ndarray) else None
        if view is not None:
            half = pool.memory_of(view.half.array)
            pool.hold(half)
            pool.drop(memory)
            if memory.key in segment.unsaved:
                segment.unsaved.remove(memory.key)
                segment.unsaved.add(half.key)
            segment.externals[value] = view, storage, half
    segment.outside = segment.gain = None


def _narrow_node(pool: Tape, call: Call, node: Node) -> None:
    places, halves = saved_places(node.plan), list[Half]()

    def narrowed(array: Array) -> object:
        view = _view(pool, array)
        if view is None:
            return array
        halves.append(view.half)
        return view

    values = [_map(value, ndarray, narrowed) if place in places else value for place, value in enumerate(node.saved)]
    if halves:
        node.saved = Narrowed(pool, call, node, values)
        pool.recount(call, node, [half.array for half in halves], values)


def _view(pool: Tape, array: Array) -> View | None:
    """Return a View that replaces the array; None if that would free no memory, or the array is not float32."""
    memory = pool.memory_of(array)
    whole = memory()
    if memory.fixed or memory.user is not None or array.dtype != float32 or array.nbytes < SMALL:
        return None
    if type(whole) is not ndarray or whole.dtype != float32 or not whole.flags.forc:
        return None
    half = None if memory.half is None else memory.half()
    if half is None:
        half = Half(whole)
        memory.half = ref(half)
    return View(half, place_of(array) - place_of(whole), array.shape, array.strides)


def _map(value: object, kind: type, function: Callable[..., object]) -> object:
    """Apply a function to a value of the type ``kind``, or to all such values in a tuple; return others unchanged."""
    if type(value) is kind:
        return function(value)
    if type(value) is tuple and any(type(part) is kind for part in value):
        return tuple([_map(part, kind, function) for part in value])
    return value
