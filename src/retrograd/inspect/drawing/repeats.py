"""Fold repetitions: the layers of a transformer, the steps of a recurrent network.

Among the operators and boxes inside one box, in the order of their calls, a repetition is a run of equal pieces: the
same operators on the same shapes, connected in the same way, where each piece reads results of the previous piece or
values that all pieces read. Only the first piece is shown, with the number of pieces.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from typing import NamedTuple

import numpy as np

from .figures import number as text
from .picture import LEAVES, Box, Edge, Picture, Vertex

# The minimum number of vertices to hide.
WORTHWHILE = 6
_COMPARISONS = 10_000_000  # of pairs of items, in a search for repetitions: periods are shorter in longer lists


class Item(NamedTuple):
    """A box (else -1) or a single vertex, with the keys of all its operators in order."""

    box: int
    operators: list[int]


class Run(NamedTuple):
    """``times`` pieces of ``period`` items each, starting at item ``start``."""

    start: int
    period: int
    times: int


def fold_repeats(picture: Picture) -> Picture:
    """Return the picture with only the first piece of each repetition, in a box that has the number of pieces."""
    folding = _Folding(picture)
    pending = [(-1, folding.items(-1))]
    while pending:
        parent, items = pending.pop()
        run = folding.best(items)
        if run is None:
            pending += [(item.box, folding.items(item.box)) for item in items if item.box >= 0]
            continue
        end = run.start + run.period
        first = items[run.start : end]
        box = folding.fold(parent, items, run)
        # The first piece, and the items before and after all pieces, may contain repetitions as well.
        inner = folding.items(first[0].box) if box == first[0].box else first
        pending += [
            (box, inner),
            (parent, items[: run.start]),
            (parent, items[run.start + run.period * run.times :]),
        ]
    return folding.result()


class _Folding:
    def __init__(self, picture: Picture) -> None:
        self.vertices, self.boxes = picture.vertices, picture.boxes
        self.picture = picture
        self.inputs: list[list[Edge]] = [[] for _ in self.vertices]
        self.readers: list[set[int]] = [set() for _ in self.vertices]
        for edge in picture.edges:
            self.inputs[edge.target].append(edge)
            self.readers[edge.source].add(edge.target)
        self.stands_for: dict[int, int] = {}  # by hidden vertex: the vertex shown in its place
        self.dropped: set[int] = set()  # indices of edges from one piece to the next, and inside of hidden pieces
        self.members: dict[int, list[Item]] = self._members()

    def _members(self) -> dict[int, list[Item]]:
        members: dict[int, list[Item]] = {key: [] for key in range(-1, len(self.boxes))}
        own: dict[int, list[int]] = {key: [] for key in range(-1, len(self.boxes))}
        for vertex in self.vertices:
            if vertex.kind in LEAVES or vertex.kind == "output":
                continue
            members[vertex.box].append(Item(-1, [vertex.key]))
            for box in self.picture.around(vertex.box):
                if not own[box]:
                    members[self.boxes[box].parent].append(Item(box, own[box]))
                own[box].append(vertex.key)
        for items in members.values():
            items.sort(key=lambda item: item.operators[0])
        return members

    def items(self, box: int) -> list[Item]:
        return self.members[box]

    def best(self, items: list[Item]) -> Run | None:
        """Return the repetition that hides the most vertices."""
        if sum(len(item.operators) for item in items) < WORTHWHILE:
            return None
        numbers: dict[Hashable, int] = {}
        letters = np.array([numbers.setdefault(self._signature(item), len(numbers)) for item in items])
        sizes = np.cumsum([0, *[len(item.operators) for item in items]])
        found = []
        for period in range(1, min(len(items) // 2, _COMPARISONS // len(items)) + 1):
            for start, length in _equal_stretches(letters, period):
                times = length // period + 1
                found.append((int(sizes[start + period * (times - 1)] - sizes[start]), -period, start, length))
        found.sort(reverse=True)
        for _, negative, start, length in found[:64]:
            run = self._verified(items, start, -negative, length)
            if run is not None:
                return run
        return None

    def _verified(self, items: list[Item], start: int, period: int, length: int) -> Run | None:
        """Return the run, in a stretch of equal signatures, whose pieces pass the fewest values to the next piece.

        Return None if folding the run hides too few vertices.
        """
        times = length // period + 1
        slack = length % period
        choices = []
        for count in (times, times - 1):
            if count < 2:
                continue
            room = slack + (times - count) * period
            for offset in range(min(room, 2 * period, 64) + 1):
                run = Run(start + offset, period, count)
                choices.append((self._count_connections(items, run) - (count == times) * 0.5, offset, run))
        for _, _, run in sorted(choices)[:8]:
            hidden = self._pieces(items, run)[1:]
            leaves = {e.source for piece in hidden for key in piece for e in self.inputs[key]}
            own = sum(self.vertices[key].kind in LEAVES for key in leaves)
            if sum(map(len, hidden)) + own >= WORTHWHILE and self._is_repetition(items, run):
                return run
        return None

    def _pieces(self, items: list[Item], run: Run) -> list[list[int]]:
        first = run.start
        return [
            [key for item in items[first + i * run.period : first + (i + 1) * run.period] for key in item.operators]
            for i in range(run.times)
        ]

    def _count_connections(self, items: list[Item], run: Run) -> int:
        """Return the number of values of the first piece that the second piece reads."""
        pieces = self._pieces(items, Run(run.start, run.period, 2))
        first = set(pieces[0])
        return len({(e.source, e.output) for key in pieces[1] for e in self.inputs[key] if e.source in first})

    def _signature(self, item: Item) -> Hashable:
        rank = {key: i for i, key in enumerate(item.operators)}
        leaves: dict[int, int] = {}
        parts: list[Hashable] = []
        for key in item.operators:
            vertex = self.vertices[key]
            joined: list[Hashable] = []
            for edge in self.inputs[key]:
                source = self.vertices[edge.source]
                if edge.source in rank:
                    joined.append((edge.input, edge.output, rank[edge.source]))
                elif source.kind == "parameter":
                    number = leaves.setdefault(edge.source, len(leaves))
                    joined.append((edge.input, source.kind, source.shapes, number))
                else:  # the first piece may read an initial state instead
                    joined.append(edge.input)
            parts.append((vertex.label, vertex.kind, vertex.shapes, self._inside(vertex, item.box), tuple(joined)))
        return tuple(parts)

    def _inside(self, vertex: Vertex, box: int) -> Hashable:
        around = []
        for inner in self.picture.around(vertex.box):
            if inner == box:
                break
            around.append((self.boxes[inner].title, self.boxes[inner].note))
        return tuple(around)

    def _is_repetition(self, items: list[Item], run: Run) -> bool:
        pieces = self._pieces(items, run)
        place = {key: (i, rank) for i, piece in enumerate(pieces) for rank, key in enumerate(piece)}

        def links(i: int) -> Iterator[Hashable]:
            for key in pieces[i]:
                for edge in self.inputs[key]:
                    if edge.source in place:
                        piece, rank = place[edge.source]
                        yield "piece", i - piece, rank, edge.output
                    elif self._is_own(edge.source, place, i):
                        yield "own", 0, 0, 0
                    else:
                        yield "all", edge.source, 0, edge.output

        second = list(links(1))
        first_agrees = all(
            a == b or (b[0] == "piece" and b[1] == 1 and a[0] != "piece")  # type: ignore[index]
            for a, b in zip(links(0), second, strict=True)
        )
        return first_agrees and all(list(links(i)) == second for i in range(2, run.times))

    def _is_own(self, key: int, place: dict[int, tuple[int, int]], piece: int) -> bool:
        """Return whether a leaf is read in only one piece."""
        if self.vertices[key].kind not in LEAVES:
            return False
        return all(place.get(reader, (-1, 0))[0] == piece for reader in self.readers[key])

    def fold(self, parent: int, items: list[Item], run: Run) -> int:
        """Replace all pieces by the first piece, and return its box."""
        pieces = self._pieces(items, run)
        place = {key: i for i, piece in enumerate(pieces) for key in piece}
        hidden: dict[int, list[int]] = {}
        for piece in pieces[1:]:
            for shown, key in zip(pieces[0], piece, strict=True):
                hidden.setdefault(shown, []).append(key)
                for a, b in zip(self.inputs[shown], self.inputs[key], strict=True):
                    leaves = self.vertices[b.source].kind in LEAVES and self.vertices[a.source].kind in LEAVES
                    if leaves and a.source != b.source and b.source not in hidden.get(a.source, ()):
                        hidden.setdefault(a.source, []).append(b.source)
        own = {e.source for key in pieces[0] for e in self.inputs[key] if self.vertices[e.source].kind == "parameter"}
        later = {e.source for key in pieces[1] for e in self.inputs[key]}
        recurrent = bool(own) and own <= later
        runs = tuple([self._flow(piece) for piece in pieces])
        for shown, keys in hidden.items():
            self.stands_for |= dict.fromkeys(keys, shown)
            _add_hidden_details(self.vertices[shown], [self.vertices[key] for key in keys])
        for number, edge in enumerate(self.picture.edges):
            pair = place.get(edge.source), place.get(edge.target)
            if None not in pair and pair != (0, 0):  # including vertices inside of hidden pieces
                self.dropped.add(number)
        first = items[run.start]
        if run.period == 1 and first.box >= 0:
            box = self.boxes[first.box]
            last = self.boxes[items[run.start + run.times - 1].box]
            box.title, box.times, box.recurrent = _spanning(box.title, last.title), run.times, recurrent
            box.runs = runs
            return box.key
        depth = self.boxes[parent].depth if parent >= 0 else -1
        box = Box(
            len(self.boxes), "", parent, times=run.times, depth=depth, recurrent=recurrent, kind="repetition", runs=runs
        )
        self.boxes.append(box)
        self.members[box.key] = []
        around = items[run.start : run.start + run.period]
        for item in around:
            if item.box >= 0:
                self.boxes[item.box].parent = box.key
            else:
                self.vertices[item.operators[0]].box = box.key
        inside = {key for item in around for key in item.operators}
        for key in hidden:
            vertex = self.vertices[key]
            if vertex.kind in LEAVES and vertex.box == parent and self.readers[key] <= inside:
                vertex.box = box.key
        return box.key

    def _flow(self, piece: list[int]) -> float | None:
        """Return the norm of the gradient of the last operator of a piece."""
        return next((v.flows[-1] for key in reversed(piece) if (v := self.vertices[key]).flows), None)

    def result(self) -> Picture:
        """Return the picture of the visible items, renumbered."""
        shown = [vertex for vertex in self.vertices if vertex.key not in self.stands_for]
        needed = {box for vertex in shown for box in self.picture.around(vertex.box)}
        boxes = sorted((self.boxes[key] for key in needed), key=lambda box: len(list(self.picture.around(box.key))))
        box_number = {box.key: i for i, box in enumerate(boxes)} | {-1: -1}
        number = {vertex.key: i for i, vertex in enumerate(shown)}

        def shown_key(key: int) -> int:
            while key in self.stands_for:
                key = self.stands_for[key]
            return number[key]

        edges = {
            Edge(shown_key(edge.source), edge.output, shown_key(edge.target), edge.input): None
            for i, edge in enumerate(self.picture.edges)
            if i not in self.dropped
        }
        for box in boxes:
            box.key, box.parent = box_number[box.key], box_number[box.parent]
        for vertex in shown:
            vertex.key, vertex.box = number[vertex.key], box_number[vertex.box]
        old = self.picture
        return Picture(shown, list(edges), boxes, old.steps, old.step, old.usual, unfolded=old.sizes)


def _equal_stretches(letters: np.ndarray, period: int) -> Iterator[tuple[int, int]]:
    """Yield start and length of each stretch, at least a period long, where letters equal those one period later."""
    equal = np.concatenate(([0], letters[period:] == letters[:-period], [0])).astype(np.int8)
    edges = np.flatnonzero(np.diff(equal))
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if end - start >= period:
            yield start, end - start


def _spanning(first: str, last: str) -> str:
    """Combine two dotted names that differ in one part.

    >>> _spanning("blocks.0.weight", "blocks.3.weight")
    'blocks.0…3.weight'
    """
    pairs = list(zip(first.split("."), last.split("."), strict=False))
    if first.count(".") != last.count(".") or sum(a != b for a, b in pairs) != 1:
        return first if first == last else f"{first} … {last}"
    return ".".join(a if a == b else f"{a}…{b}" for a, b in pairs)


def _few(texts: list[str]) -> list[str]:
    return texts if len(texts) <= 9 else [*texts[:4], "…", *texts[-4:]]


def _farthest(norms: tuple[float | None, ...]) -> float | None:
    """Return the norm that differs most from the last norm, which is the nearest to the loss, by ratio."""
    known = [norm for norm in norms if norm is not None]
    if not known or 0.0 in known or math.inf in known or not known[-1]:
        return None if not known else math.inf if math.inf in known else 0.0
    return max(known, key=lambda norm: abs(math.log(norm / known[-1])))


def _add_hidden_details(shown: Vertex, hidden: list[Vertex]) -> None:
    """Add to a vertex the details of the vertices that it represents."""
    shown.norms += tuple(norm for vertex in hidden for norm in vertex.norms)
    shown.kept += sum(vertex.kept for vertex in hidden)
    if shown.flows and shown.kind not in LEAVES:
        latest = [text(vertex.flows[-1] or 0.0) for vertex in (shown, *hidden) if vertex.flows]
        shown.details.append((f"gradient norm, {len(latest)} repetitions", ", ".join(_few(latest))))
    if shown.kind not in LEAVES:
        shown.ends = hidden[-1].ends or hidden[-1].flows
    # The color is that of the repetition whose gradient differs most from the last one's, so that vanishing is visible.
    together = [vertex.flows for vertex in (shown, *hidden) if len(vertex.flows) == len(shown.flows)]
    shown.flows = tuple(_farthest(norms) for norms in zip(*together, strict=True))
    if shown.kind == "parameter":
        names = [vertex.label for vertex in (shown, *hidden)]
        shown.names = tuple(names)
        gradients = [dict(vertex.details).get("gradient", "") for vertex in (shown, *hidden)]
        shown.details = [(name, text) for name, text in shown.details if name != "gradient"]
        shown.details += [(f"gradient of {name}", text) for name, text in zip(names, gradients, strict=True)]
        shown.label = _spanning(names[0], names[-1])
    alarmed = [(vertex, i) for i, vertex in enumerate((shown, *hidden), 1) if vertex.alarm]
    if alarmed and not shown.alarm:
        vertex, i = alarmed[0]
        shown.alarm = f"{vertex.alarm} (no. {i})"
