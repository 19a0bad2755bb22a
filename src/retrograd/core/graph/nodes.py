"""The graph of recorded operators: nodes, edges, and what lies below a node.

A ``Node`` is one recorded call. Its ``parents`` are, per input, the node that made it, the leaf Tensor itself, or None
where no gradient is wanted. Nodes carry a sequence number taken when they were made; since inputs exist before
outputs, descending order of these numbers is a topological order and no walk needs recursion.

Nothing here knows what a Tensor or a primitive is; the walks over the graph stand in ``backward.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from operator import attrgetter
from typing import Any, Protocol

from .modes import modes, watchers
from .plan import Plan

next_sequence = count().__next__

NOTHING: tuple[Any, ...] = ()


class Node:
    """One recorded call of a primitive.

    ``shape`` and ``dtype`` are the output's; for several outputs, tuples of them. ``saved`` holds what the rules read,
    laid out as the primitive says: a tuple, None once the walk has freed it, or a ``Released`` in its place.
    """

    __slots__ = ("__weakref__", "dtype", "hooks", "parents", "plan", "saved", "sequence", "shape", "site")

    plan: Plan
    parents: tuple[Any, ...]
    saved: Any
    sequence: int
    shape: Any
    dtype: Any
    hooks: dict[int, Callable[[Any], Any]] | None
    site: Any

    def __repr__(self) -> str:
        return f"<{self.operator} node {self.sequence}>"

    @property
    def operator(self) -> str:
        """The name of the operator that was called; one of several outputs has a node that names it, too."""
        return self.plan.primitive.name if self.plan.select is None else self.parents[0].operator

    def name(self) -> str:
        """As ``operator``, under PyTorch's name."""
        return self.operator

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes this one's inputs came from, each with which of its outputs was the input; None for constants."""
        return tuple([(shown(parent), output_number(parent)) for parent in self.parents])


class AccumulateGrad:
    """Stands for a leaf among nodes, as PyTorch shows it: where gradients end.

    The graph itself holds the leaf; two of these are equal where their leaves are one.
    """

    __slots__ = ("variable",)

    next_functions: tuple[tuple[Any, int], ...] = ()

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    def name(self) -> str:
        """Its name, for every leaf the same."""
        return "AccumulateGrad"

    def __repr__(self) -> str:
        return f"<AccumulateGrad of {self.variable!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return hash((AccumulateGrad, id(self.variable)))


def shown(edge: Any) -> Any:
    """What stands at the end of an edge, for users: a node, also for a leaf, or None."""
    return edge if edge is None or type(edge) is Node else AccumulateGrad(edge)


def output_number(edge: Any) -> int:
    """Which output of its operator an edge stands for; an operator with several has a node for each, beside its own."""
    return edge.plan.select or 0 if type(edge) is Node else 0


class Released(Protocol):
    """Stands for what a node saved and let go, and computes it again."""

    def restore(self) -> None:
        """Give the nodes that this object stands at what they saved."""


def saved_by(node: Node) -> tuple[Any, ...]:
    """What a node saved, computed again where it was let go."""
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
    """Return a node of the graph; ``sequence`` is a number taken earlier, by default the next one."""
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
    """What has a place in the graph: a Tensor, of which this module needs no more."""

    _requires: bool
    _node: Node | None


def edge_of(x: Recorded) -> Any:
    """What a recorded call keeps of an input: its node, the leaf Tensor itself, or None where it needs no gradient."""
    if not x._requires:
        return None
    return x if x._node is None else x._node


def oldest(edges: Iterable[object]) -> int:
    """The sequence number below which no search for these nodes need go; leaves may be read by any node."""
    return min((edge.sequence if type(edge) is Node else -1 for edge in edges), default=-1)


def reachable(roots: Iterable[object], since: int = -1) -> tuple[list[Node], dict[Any, list[Any]]]:
    """The nodes below the roots, latest first, and per node the leaves that no earlier node reads.

    Nodes that were recorded before number ``since`` are left out, with all that is below them.
    """
    seen = {root for root in roots if type(root) is Node}
    order: list[Node] = list(seen)
    first_reader: dict[Any, Node] = {}
    for node in order:  # which grows meanwhile
        for parent in node.parents:
            if type(parent) is Node:
                if parent not in seen and parent.sequence >= since:
                    seen.add(parent)
                    order.append(parent)
            elif parent is not None:
                reader = first_reader.get(parent)
                if reader is None or node.sequence < reader.sequence:
                    first_reader[parent] = node
    order.sort(key=attrgetter("sequence"), reverse=True)
    completes: dict[Any, list[Any]] = {}
    for leaf, reader in first_reader.items():
        completes.setdefault(reader, []).append(leaf)
    return order, completes


def leading_to(wanted: set[Any], order: list[Node]) -> set[Any]:
    """The nodes, of those in the order of a walk, that have a wanted node or leaf below them."""
    leading: set[Any] = set()
    for node in reversed(order):
        for parent in node.parents:
            if parent is not None and (parent in wanted or parent in leading):
                leading.add(node)
                break
    return leading
