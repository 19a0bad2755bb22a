"""What a loss consists of: the terms that it adds up, and the examples of its batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...core.arrays.devices import array_module, is_array
from ...core.graph.nodes import Node, edge_of
from ...core.tensor.tensor import Tensor
from .flow import Flow
from .labels import distinct, name_of

# Operators that hand on a sum as it is, or as a multiple.
_ADDS = {"add", "sub", "stack", "cat"}
_REDUCES = {"sum", "mean"}
_RESHAPES = {"reshape", "view", "squeeze", "unsqueeze", "flatten", "unflatten", "contiguous", "clone", "identity"}
_PICKS = {"getitem", "narrow", "select", "slice"}
_HANDS_ON = _REDUCES | _RESHAPES | {"neg", "cast", "expand", "transfer"}


def terms(flow: Flow, names: dict[int, str]) -> Iterator[tuple[str, list[tuple[Any, Any]]]]:
    """Per term of the loss a label and where it is, with its cotangent: what is added up through + and -.

    Sums and means are passed where there is something added below them, as in ``rg.stack(losses).mean()``.
    """
    adding = _adding(flow)
    found = flow.partial(flow.roots, lambda edge: edge not in adding, aside=True)
    edges = sorted(found, key=lambda edge: edge.sequence if type(edge) is Node else -1)
    labels = [("-" if _is_negative(found[edge]) else "") + name_of(edge, names) for edge in edges]
    for label, edge in zip(distinct(labels), edges, strict=True):
        yield label, [(edge, found[edge])]


def _adding(flow: Flow) -> set[Node]:
    """The nodes from the roots on that the terms are added up by: reductions only where that is done below them."""
    candidates = _connected(flow, lambda node: node.operator in _ADDS | _HANDS_ON)
    splitting: set[Node] = set()
    for node in sorted(candidates, key=lambda node: node.sequence):
        parents = [parent for parent in node.parents if parent is not None]
        if node.operator in _ADDS and len(parents) > 1 or any(parent in splitting for parent in parents):
            splitting.add(node)
    return _connected(flow, lambda node: node in splitting or node.operator in ("add", "sub", "neg"))


def _connected(flow: Flow, fits: Callable[[Node], bool]) -> set[Node]:
    """The nodes that fit, and are read by the loss through others that do."""
    found: set[Node] = set()
    stack = [root for root, _ in flow.roots]
    while stack:
        node = stack.pop()
        if type(node) is Node and node not in found and node.hooks is None and fits(node):
            found.add(node)
            stack += node.parents
    return found


def _is_negative(g: Any) -> bool:
    return is_array(g) and g.dtype.kind == "f" and g.size > 0 and bool((g <= 0).all()) and bool((g < 0).any())


LENGTHS = 16  # of a first axis that are tried as the batch's, those next to the loss


class NoExamples(ValueError):
    """No axis of examples was found."""


def examples(flow: Flow, batch: Sequence[Any] | None) -> Iterator[tuple[Any, list[tuple[Any, Any]]]]:
    """Per example its number and its part of the cotangents of the loss's unreduced terms.

    From the loss down, the first Tensors with the batch's first axis are the unreduced terms, as far as they depend on
    data and not on parameters alone. Example ``i`` is what goes through their rows ``i``; what does not go through them
    (a penalty on weights) is "the rest".
    """
    count = number_of_examples(flow, batch)
    readers = _readers(flow, count, batch or ())
    candidates = {edge for edge in flow.useful if type(edge) is Node and _first(edge) == count}
    stops = candidates & readers or candidates
    found = flow.partial(flow.roots, lambda edge: edge in stops or edge is flow.edge)
    rows = [(edge, g) for edge, g in found.items() if edge in stops]
    if not rows:
        raise NoExamples(f"nothing between the loss and the Tensor has a first axis of {count}, the batch's")
    for index in range(count):
        yield index, [(edge, _only(g, index)) for edge, g in rows]
    rest = [(edge, g) for edge, g in found.items() if edge is flow.edge and edge not in stops]
    if rest:
        yield "the rest", rest


def number_of_examples(flow: Flow, batch: Sequence[Any] | None) -> int:
    """The length of the batch: of what was marked, or of what the loss's unreduced terms share with an input."""
    if batch is None:
        return _guessed(flow)
    counts = {x.shape[0] for x in batch if len(x.shape)}
    if len(counts) != 1:
        raise NoExamples(f"batch must have one first axis, got shapes {[tuple(x.shape) for x in batch]}")
    return int(counts.pop())


def _first(node: Node) -> int | None:
    return node.shape[0] if not node.plan.several and node.shape else None


def _only(g: Any, index: int) -> Any:
    row = array_module(g).zeros_like(g)
    row[index] = g[index]
    return row


def _guessed(flow: Flow) -> int:
    """The length of the batch: a first axis that the loss's unreduced terms share with an input.

    Where they are reshaped from something else with that property (tokens from sentences), that is taken.
    """
    pending = deque((root, root) for root, _ in flow.roots)
    seen = set()
    readers: dict[int, set[Node]] = {}
    while pending:
        reader, edge = pending.popleft()
        if edge in seen or type(edge) is not Node or edge not in flow.useful:
            continue
        seen.add(edge)
        lengths: list[int] = []
        unreduced: Any = edge
        while type(unreduced) is Node and (length := _first(unreduced)) is not None and len(lengths) < LENGTHS:
            lengths.append(length)
            unreduced = unreduced.parents[0] if unreduced.operator in _RESHAPES | _PICKS else None
        for length in reversed(lengths):
            if length not in readers:
                if len(readers) == LENGTHS:
                    break
                readers[length] = _readers(flow, length, ())
            if reader in readers[length]:
                return length
        pending += [(edge, parent) for parent in edge.parents]
    raise NoExamples("no input shares its first axis with the loss's unreduced terms; mark one with batch=")


def _readers(flow: Flow, count: int, batch: Sequence[Any]) -> set[Node]:
    """The nodes that depend on data: on what needs no gradient and has this first axis, or on what was marked."""
    marked = {edge_of(x) for x in batch if isinstance(x, Tensor)} - {None}
    readers: set[Node] = set()
    for node in reversed(flow.order):
        if (
            node in marked
            or any(parent in marked or parent in readers for parent in node.parents)
            or any(shape[:1] == (count,) for shape in constants(node, flow.saved(node)))
        ):
            readers.add(node)
    return readers


def constants(node: Node, saved: tuple[Any, ...]) -> list[tuple[int, ...]]:
    """The shapes of the inputs of a call that need no gradient, as far as the node or a trace knows them."""
    traced = [tuple(x.shape) for x in getattr(node.site, "inputs", ()) if not x.requires_grad]
    primitive = node.plan.primitive
    values: Any = saved[0] if primitive.variadic and saved else saved[: len(primitive.inputs)]
    if not isinstance(values, tuple):
        values = (values,)
    known = [value for value, parent in zip(values, node.parents, strict=False) if parent is None]
    # Indices and targets are often parameters of a call.
    known += [value for value in saved[len(primitive.inputs) + 1 : len(primitive.layout)] if is_array(value)]
    return traced + [tuple(value.shape) for value in known if is_array(value)]
