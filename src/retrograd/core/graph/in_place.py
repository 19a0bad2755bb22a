"""Rules that write to memory which the backward pass no longer needs.

The logits of a language model are as large as all other saved arrays together, and its embedding has the largest
gradient. The in-place rule of a primitive (``Primitive.in_place``) therefore writes the gradient over a saved array, or
adds the gradient to the cotangent that the parent already has.

The rule is called as ``rule(g, values, total)``. ``values`` is a list of the saved values, to which the graph has no
other reference. ``total`` is the parent's cotangent, or None if it must not be written. The rule returns the gradient,
or ``total`` after adding the gradient to it, or None; after None, the backward pass calls the plan's rule instead.
"""

from __future__ import annotations

from sys import getrefcount
from weakref import ReferenceType, getweakrefs

from numpy import ndarray

from ...core.arrays import Array
from ..arrays.layout import is_view
from ..arrays.summation import LARGE, plus
from ..tensor.storage import LOCAL_ONLY
from .nodes import Node
from .plan import Values


def run_in_place(node: Node, g: Array, cotangents: dict[object, Array], summed: set[object]) -> bool:
    """Run the in-place rule of a node in a pass that frees the graph; return whether the rule computed the gradient.

    The caller must have no reference to the saved values. ``summed`` contains the nodes and leaves to whose cotangent
    only the backward pass has a reference.
    """
    plan, saved, parent = node.plan, node.saved, node.left
    if plan.node_hooks is not None or node.hooks is not None or type(saved) is not tuple or type(g) is not ndarray:
        return False
    node.saved = None
    if getrefcount(saved) != LOCAL_ONLY:  # a checkpoint, for example, also refers to the saved values
        node.saved = saved
        return False
    values: Values = list(saved)
    saved = None
    before = cotangents.get(parent)
    writable = type(before) is ndarray and before.size >= LARGE
    if writable and parent not in summed:
        writable = getrefcount(before) == LOCAL_ONLY + 1 and not is_view(before)
    rule = plan.primitive.in_place
    found = None if rule is None else rule(g, values, before if writable else None)
    if found is None:
        node.saved = tuple(values)
        return False
    if before is None:
        cotangents[parent] = found
    else:
        cotangents[parent] = before if found is before else plus(before, found)
        summed.add(parent)
    return True


def only_reference(values: Values, place: int) -> bool:
    """Return whether ``values[place]``, an array, and the memory that it views have no other reference."""
    array = values.pop(place)
    alone = type(array) is ndarray and getrefcount(array) == LOCAL_ONLY and array.flags.writeable
    alone = alone and not _may_be_read(array)
    if alone and is_view(array):
        base = array.base
        alone = type(base) is ndarray and getrefcount(base) == LOCAL_ONLY + 1 and not is_view(base)
        alone = alone and not _may_be_read(base)
    values.insert(place, array)
    return alone


def _may_be_read(array: ndarray) -> bool:
    """Return whether a weak reference would give the array to a reader; those of a ledger only count its bytes."""
    return any(type(reference) is ReferenceType for reference in getweakrefs(array))


__all__ = ["only_reference", "run_in_place"]
