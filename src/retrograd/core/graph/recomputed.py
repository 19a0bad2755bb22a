"""Compute an input of a matrix product again for the backward pass, where that costs little.

A linear layer saves its input for the gradient of its weight. If the input is the result of an elementwise function or
a normalization, whose node has saved all that the result depends on, then the linear layer's node saves a reference to
these values instead of its input, and the input is freed with the last Tensor that uses it. The backward pass computes
the input again when it reaches the linear layer. This saves a third of a transformer's saved bytes, at the cost of one
elementwise computation per input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast
from weakref import ReferenceType, ref

from numpy import ndarray

from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor
from .modes import watchers
from .nodes import Node
from .plan import Plan
from .primitive import Primitive

Pairs: TypeAlias = dict[tuple[object, object], Callable[..., object]]
# A compiled program computes an input again and its own gradient in one call where there is a function for both. The
# keys are a forward function and a function ``f(g, *inputs)``, or the names of their loops. The function for both
# returns the forward's result before the other's results, or it writes the other's only result over g.
together: Pairs = {}
over_cotangent: Pairs = {}


class Recomputed:
    """Takes the place of the saved values of the nodes that read one array, and can compute the array again."""

    __slots__ = ("__weakref__", "_array", "_plan", "_saved", "_waiting")

    def __init__(self, array: ndarray, source: Node) -> None:
        self._array = ref(array)
        self._plan: Plan = source.plan
        self._saved: tuple[object, ...] = source.saved
        self._waiting: list[tuple[ReferenceType[Node], int, tuple[object, ...]]] = []

    def of(self, source: Node) -> bool:
        """Return whether this object computes the result of the node ``source``."""
        return self._saved is source.saved

    def take(self, node: Node, place: int) -> None:
        """Replace the saved values of a node by this object; the value at ``place`` is the array to compute again."""
        saved = node.saved
        self._waiting.append((ref(node), place, (*saved[:place], None, *saved[place + 1 :])))
        node.saved = self

    def restore(self) -> None:
        """Compute the array and restore the saved values of all nodes that refer to this object."""
        array = self._array()
        if array is None:
            array = self._computed()
            self._array = ref(array)
        for reference, place, saved in self._waiting:
            node = reference()
            if node is not None and node.saved is self:
                node.saved = (*saved[:place], array, *saved[place + 1 :])

    def _computed(self) -> ndarray:
        primitive = cast(Primitive, self._plan.primitive)
        width = len(primitive.inputs)
        names = primitive.layout[width + 1 :]
        params = {
            name: value
            for name, value in zip(names, self._saved[width + 1 :], strict=False)
            if name not in primitive.residuals and not name.endswith("_shape")
        }
        array: ndarray = primitive(*self._saved[:width], **params)
        return array


def recompute_input(result: Tensor, x: Tensor, place: int) -> None:
    """Free the array of x that the node of ``result`` saved at ``place``, if computing the array again costs little.

    A Tensor x that shares memory with other Tensors remains saved: a write to one of them is not in x's history.
    """
    node, source, array = result._node, x._node, x.array
    if type(node) is not Node or type(source) is not Node or watchers or type(array) is not ndarray:
        return
    if type(node.saved) is not tuple or type(source.saved) is not tuple or node.saved[place] is not array:
        return
    plan = source.plan
    width = len(plan.primitive.inputs)
    if not plan.primitive.cheap or plan.keep_ans or not all(plan.keep[:width]):
        return
    storage = storage_of(x)
    if x._base is not None or storage.members is not None or storage.version or storage.origin is not None:
        return
    known = None if storage.recomputed is None else storage.recomputed()
    if not isinstance(known, Recomputed) or not known.of(source):
        known = Recomputed(array, source)
        storage.recomputed = ref(known)
    known.take(node, place)


__all__ = ["recompute_input"]
