"""The memory that the nodes of a graph keep for the backward pass, each array counted once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import ref

from ..autograd.checkpoint import Part
from ..autograd.context import Context
from ..core.arrays import Array
from ..core.arrays.devices import is_array
from ..core.graph.nodes import Node
from ..core.mapping.batched import Batched
from ..core.tensor.storage import byte_span


def saved_arrays(node: Node) -> Iterator[Any]:
    """Yield the arrays that a node has saved, including those in a custom Function's context; if a checkpoint freed
    them, the arrays from which they are recomputed."""
    if isinstance(node.saved, Part):
        yield from node.saved.arrays()
    for value in node.saved if isinstance(node.saved, tuple) else ():
        if isinstance(value, tuple):
            yield from filter(is_array, value)
        elif isinstance(value, Context):
            yield from (entry[0] for entry in value._saved or () if entry is not None)
        elif is_array(value):
            yield value


class _NodeRef(ref[Node]):
    __slots__ = ("sequence",)

    sequence: int


class _Piece:
    """A block of memory: its address range, and the number of nodes that save it."""

    __slots__ = ("high", "keepers", "low", "owner")

    def __init__(self, owner: Callable[[], object], address: int) -> None:
        self.owner = owner
        self.low = self.high = address
        self.keepers = 0


class SavedMemory:
    """The memory saved by living nodes: ``total`` bytes now, and the bytes added by each node."""

    def __init__(self) -> None:
        self.total = 0
        self._pieces: dict[int, _Piece] = {}
        self._of_node: dict[int, tuple[_NodeRef, list[int]]] = {}

    def add(self, node: Node) -> int:
        """Count the node's saved arrays; return the bytes that no other node has saved before."""
        added, keys = 0, []
        for array in saved_arrays(node):
            if isinstance(array, Batched):
                continue  # the layer of vmap below saves its array
            owner = owner_of(array)
            key = id(owner)
            piece = self._pieces.get(key)
            low, high = byte_span(array)
            if piece is None or piece.owner() is not owner:
                piece = self._pieces[key] = _Piece(weak(owner), low)
            added -= piece.high - piece.low
            piece.low, piece.high = min(piece.low, low), max(piece.high, high)
            added += piece.high - piece.low
            if key not in keys:
                piece.keepers += 1
                keys.append(key)
        if keys:
            entry = _NodeRef(node, self._died)
            entry.sequence = node.sequence
            self._of_node[node.sequence] = entry, keys
        self.total += added
        return added

    def pieces_of(self, sequence: int) -> list[Any]:
        """Return the owners of the memory that a node saves."""
        _, keys = self._of_node.get(sequence, (None, ()))
        return [owner for key in keys if (owner := self._pieces[key].owner()) is not None]

    def holds(self, sequence: int) -> bool:
        """Return whether a node still saves anything."""
        return sequence in self._of_node

    def release(self, sequence: int) -> None:
        """Record that a node has freed its saved arrays."""
        _, keys = self._of_node.pop(sequence, (None, ()))
        for key in keys:
            piece = self._pieces[key]
            piece.keepers -= 1
            if not piece.keepers:
                self.total -= piece.high - piece.low
                del self._pieces[key]

    def _died(self, entry: Any) -> None:
        self.release(entry.sequence)


def owner_of(array: Array) -> Array:
    """Return the array that owns the memory of an array."""
    while array.base is not None and is_array(array.base):
        array = array.base
    return array


def weak(owner: object) -> Callable[[], object]:
    """Return a weak reference if the object supports it."""
    try:
        return ref(owner)
    except TypeError:  # the node keeps the object alive while it is listed here
        return lambda: owner
