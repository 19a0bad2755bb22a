"""Convert saved float32 arrays to bfloat16, which takes half of the memory, until the backward pass reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from weakref import ref

from numpy import ndarray
from numpy.lib.stride_tricks import as_strided

from ...core.arrays import Array
from ...core.arrays.dtypes import float32
from ...core.arrays.layout import place_of
from ...core.graph.nodes import Node
from .ledger import Half, Ledger, Memory
from .recipes import saved_places

SMALL = 1024  # bytes of an array below which it is not halved


class View(NamedTuple):
    """A view of a halved array, or the whole array."""

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


External = tuple[Array | View, object, Memory]  # the value, the Storage that protects it, and its memory


class Halved:
    """Takes the place of the saved values of a node (see ``Released`` in core/graph/nodes.py)."""

    __slots__ = ("_node", "_restored", "values")

    def __init__(self, node: Node, values: list[object], restored: Callable[[Node], None]) -> None:
        self._node, self.values, self._restored = ref(node), values, restored

    def restore(self) -> None:
        """Return the values to the node, in float32."""
        node = self._node()
        if node is not None and node.saved is self:
            node.saved = tuple([_map(value, View, View.restored) for value in self.values])
            self._restored(node)


def halve_node(ledger: Ledger, node: Node, restored: Callable[[Node], None]) -> list[object]:
    """Keep what a node saved in bfloat16, until it is restored; return all that it holds, if an array was halved."""
    places, halves = saved_places(node.plan), list[object]()

    def halved(array: Array) -> object:
        view = _view(ledger, array)
        if view is None:
            return array
        halves.append(view.half.array)
        return view

    values = [_map(value, ndarray, halved) if place in places else value for place, value in enumerate(node.saved)]
    if not halves:
        return []
    node.saved = Halved(node, values, restored)
    return halves + values


def halved_external(ledger: Ledger, external: External, unsaved: set[int]) -> External:
    """Return an external of a segment in bfloat16, if that frees memory."""
    array, storage, memory = external
    view = _view(ledger, array) if isinstance(array, ndarray) else None
    if view is None:
        return external
    half = ledger.memory_of(view.half.array)
    ledger.hold(half)
    ledger.drop(memory)
    if memory.key in unsaved:
        unsaved.remove(memory.key)
        unsaved.add(half.key)
    return view, storage, half


def _view(ledger: Ledger, array: Array) -> View | None:
    """Return a view of a halved array; None if that would free no memory, or the array is not float32."""
    memory = ledger.memory_of(array)
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
