"""Split a loss into its terms and into the examples of its batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...core.arrays import Array
from ...core.arrays.devices import array_module, is_array
from ...core.arrays.dtypes import FLOATING
from ...core.graph.nodes import Node, edge_of
from ...core.tensor.tensor import Tensor
from .flow import Flow, Root
from .labels import distinct, name_of

# Operators that pass a sum on unchanged or scaled.
_ADDS = {"add", "sub", "stack", "cat"}
_REDUCES = {"sum", "mean"}
_RESHAPES = {"reshape", "view", "squeeze", "unsqueeze", "flatten", "unflatten", "contiguous", "clone", "identity"}
_PICKS = {"getitem", "narrow", "select", "slice"}
_HANDS_ON = _REDUCES | _RESHAPES | {"neg", "cast", "expand", "transfer"}


def terms(flow: Flow, names: dict[int, str]) -> Iterator[tuple[str, list[Root]]]:
    """Yield each term of the loss, found through + and -, as a label and its edges with their cotangents.

    Sums and means are passed through if their input is itself a sum of terms, as in ``rg.stack(losses).mean()``.
    """
    adding = _adding(flow)
    found = flow.partial(flow.roots, lambda edge: edge not in adding, aside=True)
    edges = sorted(found, key=lambda edge: edge.sequence if type(edge) is Node else -1)
    labels = [("-" if _is_negative(found[edge]) else "") + name_of(edge, names) for edge in edges]
    for label, edge in zip(distinct(labels), edges, strict=True):
        yield label, [(edge, found[edge])]


def _adding(flow: Flow) -> set[Node]:
    """Return the nodes that add the terms; reductions count only if terms are added below them."""
    candidates = _connected(flow, lambda node: node.operator in _ADDS | _HANDS_ON)
    splitting: set[Node] = set()
    for node in sorted(candidates, key=lambda node: node.sequence):
        parents = [parent for parent in node.parents if parent is not None]
        if node.operator in _ADDS and len(parents) > 1 or any(parent in splitting for parent in parents):
            splitting.add(node)
    return _connected(flow, lambda node: node in splitting or node.operator in ("add", "sub", "neg"))


def _connected(flow: Flow, fits: Callable[[Node], bool]) -> set[Node]:
    """Return the nodes that satisfy ``fits`` and are connected to the loss through nodes that satisfy it."""
    found: set[Node] = set()
    stack = [root for root, _ in flow.roots]
    while stack:
        node = stack.pop()
        if type(node) is Node and node not in found and node.hooks is None and fits(node):
            found.add(node)
            stack += node.parents
    return found


def _is_negative(g: Array) -> bool:
    return is_array(g) and g.dtype.kind in FLOATING and g.size > 0 and bool((g <= 0).all()) and bool((g < 0).any())


MAX_LENGTHS = 16  # candidate batch sizes to try, those of the operators closest to the loss first


class NoExamples(ValueError):
    """No batch axis was found."""


def examples(flow: Flow, batch: Sequence[Tensor] | None) -> Iterator[tuple[str | int, list[Root]]]:
    """Yield each example's number and its part of the cotangents of the loss's unreduced terms.

    The unreduced terms are the first Tensors below the loss whose axis 0 has the batch's length and that depend on
    data, not only on parameters. The part of example ``i`` flows through rows ``i`` of these Tensors. The gradient that
    flows through none of them, such as that of a penalty on weights, is "the rest".
    """
    count = number_of_examples(flow, batch)
    readers = _readers(flow, count, batch or ())
    candidates = {edge for edge in flow.useful if type(edge) is Node and _first(edge) == count}
    stops = candidates & readers or candidates
    found = flow.partial(flow.roots, lambda edge: edge in stops or edge is flow.edge)
    rows = [(edge, g) for edge, g in found.items() if edge in stops]
    if not rows:
        raise NoExamples(f"no Tensor between the loss and the explained Tensor has {count} rows, the batch size")
    for index in range(count):
        yield index, [(edge, _only(g, index)) for edge, g in rows]
    rest = [(edge, g) for edge, g in found.items() if edge is flow.edge and edge not in stops]
    if rest:
        yield "the rest", rest


def number_of_examples(flow: Flow, batch: Sequence[Tensor] | None) -> int:
    """Return the batch size: of ``batch``, or the first axis that the loss's unreduced terms share with an input."""
    if batch is None:
        return _guessed(flow)
    counts = {x.shape[0] for x in batch if len(x.shape)}
    if len(counts) != 1:
        raise NoExamples(f"batch: first axes must be equal, got shapes {[tuple(x.shape) for x in batch]}")
    return int(counts.pop())


def _first(node: Node) -> int | None:
    return node.shape[0] if not node.plan.several and node.shape else None


def _only(g: Array, index: int) -> Array:
    row = array_module(g).zeros_like(g)
    row[index] = g[index]
    return row


def _guessed(flow: Flow) -> int:
    """Return the batch size: the first axis that the loss's unreduced terms share with an input.

    If the terms are reshaped from a Tensor that also shares its axis (tokens from sentences), that Tensor's axis
    counts.
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
        while type(unreduced) is Node and (length := _first(unreduced)) is not None and len(lengths) < MAX_LENGTHS:
            lengths.append(length)
            unreduced = unreduced.parents[0] if unreduced.operator in _RESHAPES | _PICKS else None
        for length in reversed(lengths):
            if length not in readers:
                if len(readers) == MAX_LENGTHS:
                    break
                readers[length] = _readers(flow, length, ())
            if reader in readers[length]:
                return length
        pending += [(edge, parent) for parent in edge.parents]
    raise NoExamples("no input shares its first axis with the loss's unreduced terms; pass an input as batch=")


def _readers(flow: Flow, count: int, batch: Sequence[Tensor]) -> set[Node]:
    """Return the nodes that depend on data: on ``batch``, or on an input of this length that needs no gradient."""
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


def constants(node: Node, saved: tuple[object, ...]) -> list[tuple[int, ...]]:
    """Return the shapes of a call's inputs that need no gradient, if the node or a trace knows them."""
    traced = [tuple(x.shape) for x in getattr(node.site, "inputs", ()) if not x.requires_grad]
    primitive = node.plan.primitive
    values: Any = saved[0] if primitive.variadic and saved else saved[: len(primitive.inputs)]
    if not isinstance(values, tuple):
        values = (values,)
    known = [value for value, parent in zip(values, node.parents, strict=False) if parent is None]
    # Indices and targets are often parameters of a call, not inputs.
    known += [value for value in saved[len(primitive.inputs) + 1 : len(primitive.layout)] if is_array(value)]
    return traced + [tuple(value.shape) for value in known if is_array(value)]
