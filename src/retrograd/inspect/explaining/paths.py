"""The paths along which a gradient flows, those with the largest share first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

from ...core.arrays.devices import array_module
from ...core.arrays.fp_warnings import silent
from ...core.graph.modes import recording
from ...core.graph.nodes import Node
from ...func.forward import jvp_through
from .flow import Flow, sends
from .labels import call_of, distinct

FOUND, TRIED = 10, 3000  # so many paths are looked for, in so many steps
ENDS = 4  # so many operators of a path are told at either end


class Path(NamedTuple):
    """One way from the loss to a Tensor: one operator after the other, each read by the one before.

    Attributes:
        nodes: the operators, the loss's first.
        value: what flows along this path: of the explained element, or of all along the direction of the gradient.
        share: its part of all that flows, without signs, from 0 to 1.
        calls: the operators with their lines; where several on the way to the loss have one text, with a number, in the
            order in which they ran: ``mul at rnn.py:8 (3)``.
    """

    nodes: tuple[Node, ...]
    value: Any
    share: float
    calls: tuple[str, ...]

    def __str__(self) -> str:
        return self.told(ENDS)

    def told(self, ends: int) -> str:
        """The text with so many operators at either end."""
        calls = list(self.calls)
        if len(calls) > 2 * ends + 1:
            calls[ends:-ends] = [f"{len(calls) - 2 * ends} more"]
        return f"{self.value:+.4g} ({self.share:.1%}) by {' <- '.join(calls) if calls else 'itself'}"


def told_apart(paths: Sequence[Path]) -> list[str]:
    """The texts of paths, each long enough that no two are alike."""
    ends = ENDS
    while len({path.told(ends).partition(" by ")[2] for path in paths}) < len(paths) and ends < 1000:
        ends *= 2
    return [path.told(ends) for path in paths]


def largest_paths(flow: Flow, total: Any, index: Any) -> list[Path]:
    """The paths with the largest share in an element of the gradient, or in the gradient along its own direction.

    A path that is followed from the loss down to some operator is worth what flows through it: its cotangent there
    times the derivative of that operator's output in the direction of the element. The worthiest is followed first.
    """
    direction = _direction(total, index)
    if direction is None:
        return []
    with flow.unfreed():
        tangents = _tangents(flow, direction)
        with recording(False), silent():
            return _search(flow, direction, tangents)


def flows_along(flow: Flow, total: Any, index: Any, parts: Sequence[Sequence[tuple[Any, Any]]]) -> list[float] | None:
    """What flows through each part, in the element or along the gradient; a part is pairs of an edge and a cotangent.

    One forward walk finds how everything changes along the direction. None where it cannot pass some operator.
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
    """The real part of a cotangent times a tangent; of several outputs the sum."""
    if t is None:
        return 0.0
    if isinstance(t, tuple):
        return math.fsum(_flowing(edge, x, y) for x, y in zip(g, t, strict=True) if x is not None)
    return float(_product(g, t).real)


def _direction(total: Any, index: Any) -> Any:
    """What the gradient is looked at along: one element, or the gradient itself."""
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


def _tangents(flow: Flow, direction: Any) -> dict[Any, Any]:
    """How each node's output changes along the direction; nothing where forward mode cannot pass some operator."""
    try:
        return jvp_through([root for root, _ in flow.roots], {flow.edge: direction})
    except (RuntimeError, NotImplementedError):
        return {}


def _search(flow: Flow, direction: Any, tangents: dict[Any, Any]) -> list[Path]:
    number = count()
    heap: list[Any] = []

    def push(edge: Any, g: Any, output: int | None, chain: Any) -> None:
        t = direction if edge is flow.edge else tangents.get(edge)
        if isinstance(t, tuple):
            t = t[output] if output is not None else None
        value: Any = _product(g, t) if t is not None else float(abs(g).sum())
        if value != 0:
            heappush(heap, (-abs(value), next(number), value, edge, g, output, chain))

    for root, g in flow.roots:
        if root in flow.useful:
            push(root, g, None, None)
    found: list[tuple[Any, Any]] = []
    for _ in range(TRIED):
        if not heap or len(found) == FOUND:
            break
        _, _, value, edge, g, output, chain = heappop(heap)
        if edge is flow.edge:
            found.append((chain, value))
            continue
        if output is not None:
            g = [g if place == output else None for place in range(len(edge.shape))]
        sent: dict[Any, Any] = {}
        for index, gi in sends(edge, g):
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
        told = tuple(calls.get(node, call_of(node)) for node in nodes if node.plan.select is None)
        paths.append(Path(nodes, value, float(abs(value) / everything), told))
    return paths


def _product(g: Any, t: Any) -> Any:
    value = (g * t).sum(dtype=g.dtype if g.dtype.kind == "c" else "f8")
    return value.item() if value.dtype.kind != "c" or value.imag else value.real.item()


def _unchained(chain: Any) -> tuple[Node, ...]:
    nodes = []
    while chain is not None:
        node, chain = chain
        nodes.append(node)
    return tuple(reversed(nodes))
