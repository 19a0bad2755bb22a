"""Rules that write to memory which the backward pass no longer needs, and gradients that a pass computes late.

The logits of a language model are as large as all other saved arrays together, and its embedding has the largest
gradient. The in-place rule of a primitive (``Primitive.in_place``) therefore writes the gradient over a saved array, or
adds the gradient to the cotangent that the parent already has.

The rule is called as ``rule(g, values, total)``. ``values`` is a list of the saved values, to which the graph has no
other reference. ``total`` is the parent's cotangent, or None if it must not be written. The rule returns the gradient,
or ``total`` after adding the gradient to it, or None; after None, the backward pass calls the plan's rule instead.

A hook on the complete gradient of a leaf often uses the gradient and frees it. If several nodes read the leaf, as they
do with tied embeddings, the pass would hold the first part of the gradient until the last of these nodes.
``postponed`` lets the pass compute that part late, from arguments that take less memory.
"""

from __future__ import annotations

from copy import copy
from math import prod
from sys import getrefcount
from weakref import ReferenceType, getweakrefs

from numpy import ndarray

from ...core.arrays import Array
from ..arrays.layout import is_view
from ..arrays.summation import LARGE, plus
from ..tensor.storage import LOCAL_ONLY
from ..tensor.tensor import Tensor
from .nodes import Node
from .plan import ALONE, Values

accumulation_hooks: list[None] = []  # an item once a leaf has had a hook on its complete gradient


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


def postponed(order: list[Node], completes: dict[Node, list[Tensor]]) -> list[Node]:
    """Return the order of a pass that frees the graph, with nodes that compute the first part of a gradient late.

    Only large gradients of leaves with hooks on the complete gradient are computed late, just before the second part.
    """
    hooked = [(leaf, leaf._hooks) for leaves in completes.values() for leaf in leaves if leaf.array.size >= LARGE]
    readers: dict[Tensor, list[Node]] = {leaf: [] for leaf, hooks in hooked if hooks and hooks.on_accumulation}
    if not readers:
        return order
    for node in order:
        for parent in node.parents:
            if parent in readers:
                readers[parent].append(node)
    late: dict[Node, list[Node]] = {}
    for leaf, (first, *others) in readers.items():
        if others and first not in others and (later := _later(first, leaf)) is not None:
            late.setdefault(others[0], []).append(later)
    return [each for node in order for each in (*late.get(node, ()), node)] if late else order


def _later(node: Node, leaf: Tensor) -> Node | None:
    """Let another node compute the leaf's gradient from the cotangent of ``node``, if that holds less memory."""
    plan, saved, parents = node.plan, node.saved, list(node.parents)
    index = parents.index(leaf)
    rule, place = next(((rule, place) for at, rule, place in plan.rules if at == index), (None, ALONE))
    if rule is None or plan.primitive.in_place is not None or plan.node_hooks is not None or type(saved) is not tuple:
        return None
    held = prod(node.shape) * node.dtype.itemsize + getattr(saved[place] if place >= 0 else None, "nbytes", 0)
    if plan.several or not plan.keeps_arrays or place < ALONE or held >= leaf.array.nbytes:
        return None
    before, compute = node.parents, rule

    def restore_and_compute(*given: Array) -> Array:
        node.plan, node.parents = plan, before  # the graph remains as the program has recorded it
        return compute(*given)

    later = copy(node)
    later.plan, node.plan = copy(plan), copy(plan)
    later.plan.rules = ((0, restore_and_compute, place),)
    later.left, later.right, later.more, later.hooks = leaf, None, None, None
    node.plan.rules = tuple([(at, _same, ALONE) if at == index else (at, *rest) for at, *rest in plan.rules])
    parents[index] = later
    node.parents = tuple(parents)
    return later


def _same(g: Array) -> Array:
    return g


__all__ = ["accumulation_hooks", "only_reference", "postponed", "run_in_place"]
