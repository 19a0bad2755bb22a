"""Pack saved Tensors with the user's hook when an operator is recorded, and unpack them for the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from ..core.arrays import Array
from ..core.arrays.devices import is_array
from ..core.errors import describe
from ..core.graph.call_node import attach
from ..core.graph.modes import modes, no_grad
from ..core.graph.nodes import Node
from ..core.graph.observers import Observer, observing
from ..core.graph.plan import Inputs, Params, Recordable
from ..core.tensor.storage import Storage, borrowed, storage_of
from ..core.tensor.tensor import Tensor
from .context import Context


class Packing(Observer):
    """Packs the saved values of nodes recorded on this thread; only the innermost of several is active."""

    def __init__(self, pack: Callable[[Tensor], object], unpack: Callable[[Any], Tensor]) -> None:
        self.pack = pack
        self.unpack = unpack
        self.context: Callable[[], observing | None] = lambda: None  # the context manager of this observer

    def called(
        self, primitive: Recordable, inputs: Inputs, params: Params, outputs: tuple[Tensor, ...], node: Node | None
    ) -> None:
        if node is None or type(node.saved) is not tuple or not node.saved or modes.level is not None:
            return
        innermost = [observer for observer in modes.observers if isinstance(observer, Packing)][-1]
        if innermost is self:
            with no_grad():
                node.saved = Packed(self, primitive, node)

    def packed(self, array: Any, edge: Any, storage: object) -> PackedArray:
        """Return a saved array, packed as a Tensor with its history."""
        return PackedArray(self, array, edge, storage)


class PackedArray:
    """One packed array, with its shape and dtype for checking the unpacked Tensor."""

    def __init__(self, packing: Packing, array: Array, edge: object, storage: object) -> None:
        self.unpack = packing.unpack
        self.shape, self.dtype = array.shape, array.dtype
        self.value = packing.pack(_as_tensor(array, edge, storage))

    def restored(self) -> tuple[Any, Storage]:
        """Return the unpacked array and its Storage."""
        before = len(modes.observers)
        try:
            with no_grad():
                tensor = self.unpack(self.value)
        finally:
            # Close contexts that unpack_hook entered and did not exit, as PyTorch does.
            for observer in reversed(modes.observers[before:]):
                context = observer.context() if isinstance(observer, Packing) else None
                if context is not None:
                    context.close()
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(tensor)}"
            )
        if tensor.array.shape != self.shape or tensor.array.dtype != self.dtype:
            raise RuntimeError(
                f"saved_tensors_hooks: unpack_hook returned {describe(tensor)}, but the saved Tensor was "
                f"{self.dtype}{self.shape}"
            )
        return tensor.array, storage_of(tensor)


def _as_tensor(array: Array, edge: object, storage: object) -> Tensor:
    """Return the saved array as a Tensor, of the leaf's class if it is a leaf. Writes do not change the saved array."""
    if not isinstance(edge, Tensor) or edge.array is not array:
        return attach(array, edge, storage)
    shown = type(edge).__new__(type(edge))
    Tensor._initialize(shown, array)
    shown._requires = True
    if storage is not None:
        shown._storage = borrowed(storage)
    return shown


class Packed:
    """Replaces the saved values of one node (see ``Released`` in core/graph/nodes.py)."""

    def __init__(self, packing: Packing, primitive: Recordable, node: Node) -> None:
        self.node = ref(node)
        width = len(primitive.layout)
        values, storages = list(node.saved[:width]), list(node.saved[width:])
        answer = len(primitive.inputs)
        self.values: list[Any] = values
        self.storages: list[object] = storages
        parents = node.parents
        if primitive.variadic:
            if values[0] is not None and not any(isinstance(value, Context) for value in values):
                values[0] = tuple(map(packing.packed, values[0], parents, storages))
        else:
            for index, edge in enumerate(parents):
                if is_array(values[index]) and storages[index] is not None:
                    values[index] = packing.packed(values[index], edge, storages[index])
        if values[answer] is not None:
            if primitive.outputs == 1:
                values[answer] = packing.packed(values[answer], node, storages[-1])
            else:
                held = storages[-len(values[answer]) :]
                values[answer] = tuple([packing.packed(y, None, s) for y, s in zip(values[answer], held, strict=True)])
        for place in range(answer + 1, width):
            if is_array(values[place]):
                values[place] = packing.packed(values[place], None, None)
            elif isinstance(values[place], Context):
                values[place].pack(packing)
        self.storages = [None] * len(storages)  # release the memory of the packed arrays

    def restore(self) -> None:
        """Unpack the values and restore them in the node."""
        node = self.node()
        if node is None or node.saved is not self:
            return
        primitive = node.plan.primitive
        values, storages = list(self.values), list(self.storages)
        answer = len(primitive.inputs)
        for place, value in enumerate(values):
            if isinstance(value, PackedArray):
                values[place], storage = value.restored()
                if place < answer and not primitive.variadic:
                    storages[place] = storage
                elif place == answer:
                    storages[-1] = storage
            elif type(value) is tuple and value and isinstance(value[0], PackedArray):
                found = [part.restored() for part in value]
                values[place] = tuple([array for array, _ in found])
                held = [storage for _, storage in found]
                if place == answer:
                    storages[-len(held) :] = held
                else:
                    storages[: len(held)] = held
        node.saved = (*values, *storages)
