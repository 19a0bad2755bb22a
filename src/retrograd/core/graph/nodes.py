"""The nodes and edges of the computational graph.

A ``Node`` is one recorded call. Its ``parents`` hold, for each input, the node that computed the input, the leaf
Tensor itself, or None if the input needs no gradient. Each node takes the next sequence number when it is created.
Inputs are created before outputs, so descending sequence numbers are a topological order and traversals need no
recursion.

This module does not import Tensor or Primitive; the backward pass is in ``backward.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from itertools import count
from operator import attrgetter
from typing import Any, Protocol, TypeAlias

from .modes import modes, watchers
from .plan import Plan

next_sequence = count().__next__

NOTHING: tuple[Any, ...] = ()
Edge: TypeAlias = Any  # what a node stores for an input: the node that computed it, the leaf Tensor, or None


class Node:
    """One recorded call of a primitive.

    ``parents`` are in ``left`` and ``right`` if the primitive has one or two inputs, since a tuple per node would cost
    Python's garbage collector as much as the node; otherwise ``more`` is a tuple of all of them, of which ``left`` and
    ``right`` are the first two.
    ``shape`` and ``dtype`` are those of the output; with several outputs, tuples of them. ``saved`` holds the values
    that the rules read, in the order of the primitive's layout: a tuple, None after a backward pass has freed it, or a
    ``Released`` object that can recompute it. ``recipe`` is set only under a memory budget: how to repeat the call.
    """

    __slots__ = (
        "__weakref__", "dtype", "hooks", "left", "more", "plan", "recipe", "right", "saved", "sequence", "shape",
        "site",
    )  # fmt: skip

    plan: Plan
    left: Edge
    right: Edge
    more: Edge
    saved: Any
    sequence: int
    shape: Any
    dtype: Any
    hooks: dict[int, Callable[[Any], Any]] | None
    site: Any
    recipe: Any

    def __repr__(self) -> str:
        return f"<{self.operator} node {self.sequence}>"

    @property
    def parents(self) -> tuple[Edge, ...]:
        """For each input, the node that computed it, the leaf, or None if it needs no gradient."""
        if self.more is not None:
            return self.more
        return (self.left,) if self.plan.unary else (self.left, self.right)

    @parents.setter
    def parents(self, parents: tuple[Edge, ...]) -> None:
        """Set the parents. If the plan changes as well, set ``plan`` first."""
        width = len(parents)
        self.left = parents[0] if parents else None
        self.right = parents[1] if width > 1 else None
        self.more = None if width == (1 if self.plan.unary else 2) else parents

    @property
    def operator(self) -> str:
        """The name of the recorded operator. A node that selects one of several outputs has the same name."""
        return self.plan.primitive.name if self.plan.select is None else self.parents[0].operator

    def name(self) -> str:
        """Return ``operator``: PyTorch's spelling."""
        return self.operator

    @property
    def next_functions(self) -> tuple[tuple[Node | AccumulateGrad | None, int], ...]:
        """For each input, the node that computed it and the index of its output there; (None, 0) for a constant."""
        return tuple([(shown(parent), output_number(parent)) for parent in self.parents])


class AccumulateGrad:
    """Represent a leaf as a node in ``next_functions``, as PyTorch does.

    The graph itself refers to the leaf Tensor. Two instances are equal if they refer to the same leaf.
    """

    __slots__ = ("variable",)

    next_functions: tuple[tuple[Node | AccumulateGrad | None, int], ...] = ()

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    def name(self) -> str:
        """Return ``"AccumulateGrad"``."""
        return "AccumulateGrad"

    def __repr__(self) -> str:
        return f"<AccumulateGrad of {self.variable!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return hash((AccumulateGrad, id(self.variable)))


def shown(edge: object) -> Node | AccumulateGrad | None:
    """Return the end of an edge as users see it: a node, an ``AccumulateGrad`` for a leaf, or None."""
    return edge if edge is None or type(edge) is Node else AccumulateGrad(edge)


def output_number(edge: object) -> int:
    """Return the index of the operator's output that an edge refers to.

    An operator with several outputs has one node, and one further node per output that selects the output.
    """
    return edge.plan.select or 0 if type(edge) is Node else 0


class Released(Protocol):
    """Takes the place of saved values that a checkpoint has released, and can recompute them."""

    def restore(self) -> None:
        """Recompute the saved values and store them in the nodes that refer to this object."""


def saved_by(node: Node) -> tuple[Any, ...]:
    """Return the values a node saved, recomputed if a checkpoint has released them."""
    if node.saved is None:
        raise RuntimeError(
            f"{node.operator}: backward through the graph a second time, after what the operator saved was freed. "
            "Specify retain_graph=True at the first backward or autograd.grad call"
        )
    while not isinstance(node.saved, tuple):
        node.saved.restore()
    return node.saved


def new_node(
    plan: Plan,
    parents: tuple[object, ...],
    saved: tuple[object, ...],
    shape: object,
    dtype: object,
    sequence: int | None = None,
) -> Node:
    """Return a new node; ``sequence`` is a number reserved earlier, by default the next one."""
    node = Node()
    node.plan = plan
    node.parents = parents
    node.saved = saved
    node.shape = shape
    node.dtype = dtype
    node.hooks = None
    node.sequence = next_sequence() if sequence is None else sequence
    node.site = None
    if watchers:
        for observer in modes.observers:
            observer.recorded(node)
    return node


class Recorded(Protocol):
    """The attributes of a Tensor that this module reads."""

    _requires: bool
    _node: Node | None


def edge_of(x: Recorded) -> Any:
    """Return the parent that a node stores for an input: its node, the leaf itself, or None without a gradient."""
    if not x._requires:
        return None
    return x if x._node is None else x._node


def oldest(edges: Iterable[object]) -> int:
    """Return the lowest sequence number that a search for these edges must visit; -1 for a leaf."""
    return min((edge.sequence if type(edge) is Node else -1 for edge in edges), default=-1)


def reachable(roots: Iterable[object], since: int = -1) -> tuple[list[Node], dict[Node, list[Any]]]:
    """Return the nodes reachable from the roots, latest first, and per node the leaves that no earlier node reads.

    Nodes with a sequence number below ``since`` are left out, with everything reachable only through them.
    """
    seen = {root for root in roots if type(root) is Node}
    order: list[Node] = list(seen)
    first_reader: dict[object, Node] = {}
    for node in order:  # the loop appends to the list it iterates over
        more = node.more
        for parent in (node.left, node.right) if more is None else more:
            if type(parent) is Node:
                if parent not in seen and parent.sequence >= since:
                    seen.add(parent)
                    order.append(parent)
            elif parent is not None:
                reader = first_reader.get(parent)
                if reader is None or node.sequence < reader.sequence:
                    first_reader[parent] = node
    if len(order) > 1:
        order.sort(key=attrgetter("sequence"), reverse=True)
    completes: dict[Node, list[object]] = {}
    for leaf, reader in first_reader.items():
        completes.setdefault(reader, []).append(leaf)
    return order, completes


def reached_from(roots: Sequence[object]) -> dict[object, int]:
    """Return by node or leaf the roots from which it can be reached, as bits: 1 for the first, 2 for the second."""
    found: dict[object, int] = {}
    for number, root in enumerate(roots):
        found[root] = found.get(root, 0) | 1 << number
    for node in reachable(roots)[0]:
        for parent in node.parents:
            found[parent] = found.get(parent, 0) | found[node]
    return found


def leading_to(wanted: Set[object], order: list[Node]) -> set[Any]:
    """Return those nodes of ``order`` from which a wanted node or leaf can be reached."""
    leading: set[Node] = set()
    for node in reversed(order):
        more = node.more
        for parent in (node.left, node.right) if more is None else more:
            if parent is not None and (parent in wanted or parent in leading):
                leading.add(node)
                break
    return leading
