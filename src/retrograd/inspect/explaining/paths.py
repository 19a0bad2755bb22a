"""The paths along which a gradient flows, largest share first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple, TypeAlias

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.fp_warnings import silent
from ...core.graph.modes import recording
from ...core.graph.nodes import Node
from ...func.forward import jvp_through
from .flow import Flow, Root, sends
from .labels import call_of, distinct

MAX_PATHS, MAX_STEPS = 10, 3000  # the most paths to find, and the most steps of the search
END_CALLS = 4  # operators printed at each end of a long path

Chain: TypeAlias = "tuple[Node, Chain | None]"  # the operators of a path, last one first


class Path(NamedTuple):
    """One path from the loss to a Tensor: a sequence of operators, each of which reads the result of the next one.

    Attributes:
        nodes: the operators, starting at the loss.
        value: the part of the gradient that flows along this path: of the explained element, or of the whole gradient
            projected onto its own direction.
        share: the absolute value's share of the total over all paths, from 0 to 1.
        calls: the operators with their lines; operators with the same text are numbered in the order in which they ran:
            ``mul at rnn.py:8 (3)``.
    """

    nodes: tuple[Node, ...]
    value: complex
    share: float
    calls: tuple[str, ...]

    def __str__(self) -> str:
        return self.text(END_CALLS)

    def text(self, ends: int) -> str:
        """Return the path as text, with at most ``ends`` operators printed at each end."""
        calls = list(self.calls)
        if len(calls) > 2 * ends + 1:
            calls[ends:-ends] = [f"{len(calls) - 2 * ends} more"]
        return f"{self.value:+.4g} ({self.share:.1%}) by {' <- '.join(calls) if calls else 'itself'}"


def distinct_texts(paths: Sequence[Path]) -> list[str]:
    """Return the paths as texts, each long enough that no two are equal."""
    ends = END_CALLS
    while len({path.text(ends).partition(" by ")[2] for path in paths}) < len(paths) and ends < 1000:
        ends *= 2
    return [path.text(ends) for path in paths]


def largest_paths(flow: Flow, total: Array, index: tuple[int, ...] | None) -> list[Path]:
    """Return the paths with the largest share of a gradient's element, or of the gradient along its own direction.

    The search starts at the loss and extends the partial path with the largest value first. The value of a partial path
    is the part that flows through its last operator: the cotangent at this operator times the derivative of the
    operator's output in the direction of the element.
    """
    direction = _direction(total, index)
    if direction is None:
        return []
    with flow.unfreed():
        tangents = _tangents(flow, direction)
        with recording(False), silent():
            return _search(flow, direction, tangents)


def flows_along(
    flow: Flow, total: Array, index: tuple[int, ...] | None, parts: Sequence[Sequence[Root]]
) -> list[float] | None:
    """Return how much of the element, or of the gradient's own direction, flows through each part.

    A part is a list of pairs of an edge and its cotangent. One forward-mode pass gives all values. The result is None
    if forward mode does not support one of the operators.
    """
    direction = _direction(total, index)
    if direction is None:
        return None
    with flow.unfreed():
        tangents = _tangents(flow, direction)
    if not tangents:
        return None
    with silent():
        return [math.fsum(_flowing(edge, g, direction if edge is flow.edge else tangents.get(edge))
                          for edge, g in part) for part in parts]  # fmt: skip


def _flowing(edge: Any, g: Any, t: Any) -> float:
    """Return the real part of a cotangent times a tangent, summed over several outputs."""
    if t is None:
        return 0.0
    if isinstance(t, tuple):
        return math.fsum(_flowing(edge, x, y) for x, y in zip(g, t, strict=True) if x is not None)
    return float(_product(g, t).real)


def _direction(total: Array, index: tuple[int, ...] | None) -> Array | None:
    """Return the unit vector of one element, or the normalized gradient itself; None if the gradient is 0 or NaN."""
    xp = array_module(total)
    if index is not None:
        direction = xp.zeros(total.shape, total.dtype)
        direction[index] = 1
        return direction
    largest = float(abs(total).max()) if total.size else 0.0
    if largest == 0.0 or largest != largest:
        return None
    scaled = total / largest
    return (scaled / xp.sqrt((abs(scaled) ** 2).sum())).conj().astype(total.dtype)


def _tangents(flow: Flow, direction: Array) -> dict[Any, Any]:
    """Return each node's output tangent along the direction; empty if forward mode does not support an operator."""
    try:
        return jvp_through([root for root, _ in flow.roots], {flow.edge: direction})
    except (RuntimeError, NotImplementedError):
        return {}


def _search(flow: Flow, direction: Array, tangents: dict[Any, Any]) -> list[Path]:
    number = count()
    heap: list[Any] = []

    def push(edge: object, g: Array, output: int | None, chain: Chain | None) -> None:
        t = direction if edge is flow.edge else tangents.get(edge)
        if isinstance(t, tuple):
            t = t[output] if output is not None else None
        value: Any = _product(g, t) if t is not None else float(abs(g).sum())
        if value != 0:
            heappush(heap, (-abs(value), next(number), value, edge, g, output, chain))

    for root, g in flow.roots:
        if root in flow.useful:
            push(root, g, None, None)
    found: list[tuple[Chain, complex]] = []
    for _ in range(MAX_STEPS):
        if not heap or len(found) == MAX_PATHS:
            break
        _, _, value, edge, g, output, chain = heappop(heap)
        if edge is flow.edge:
            found.append((chain, value))
            continue
        given = g if output is None else [g if place == output else None for place in range(len(edge.shape))]
        sent: dict[object, Array] = {}
        for index, gi in sends(edge, given):
            parent = edge.parents[index]
            if parent in flow.useful:
                sent[parent] = sent[parent] + gi if parent in sent else gi
        for parent, gi in sent.items():
            push(parent, gi, edge.plan.select, (edge, chain))
    everything = sum(abs(value) for _, value in found) + sum(-entry[0] for entry in heap)
    found.sort(key=lambda pair: -abs(pair[1]))
    ran = sorted((x for x in flow.useful if type(x) is Node and x.plan.select is None), key=lambda node: node.sequence)
    calls = dict(zip(ran, distinct(map(call_of, ran)), strict=True))
    paths = []
    for chain, value in found:
        nodes = _unchained(chain)
        labels = tuple(calls.get(node, call_of(node)) for node in nodes if node.plan.select is None)
        paths.append(Path(nodes, value, float(abs(value) / everything), labels))
    return paths


def _product(g: Array, t: Array) -> complex:
    value = (g * t).sum(dtype=g.dtype if g.dtype.kind == "c" else "f8")
    return value.item() if value.dtype.kind != "c" or value.imag else value.real.item()


def _unchained(chain: Chain | None) -> tuple[Node, ...]:
    nodes = []
    while chain is not None:
        node, chain = chain
        nodes.append(node)
    return tuple(reversed(nodes))
