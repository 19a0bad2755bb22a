"""Layered drawing, second half: positions in pixels, and the paths of edges.

The page folds and unfolds boxes, so ``formats/place.js`` implements the same layout in JavaScript; a test compares
both results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .layering import segments
from .nesting import Level, Value

# Distances in pixels.
GAP = 40.0  # the space between two rows, for the shapes of values and for curved edges
PORT_GAP = 18.0  # the space below values that enter a box, and above values that leave the box
TRUNK = 14.0  # the space below a vertex, for the shape of its value
APART = 22.0  # the space between two items of a row
LINE = 14.0  # the width of an edge that crosses a row without ending there
SIDE = 16.0  # the left and right margin inside a box
HEADER = 28.0  # the height of a box's title
FOOTER = 8.0
STEP = 18.0  # the space between two edges that enter one vertex
SWEEPS = 10
# Weights of edges in the layout: the larger the weight, the closer to vertical the edge. Edges between operators have
# weight 1, the parts of an edge that crosses rows have STRAIGHT, and edges of leaves have LIGHT.
STRAIGHT, LIGHT = 8.0, 0.0005

Size = tuple[float, float]


@dataclass(slots=True)
class Placed:
    """A level with positions: its size; per item the center and top; per net its path, arrow heads and label.

    ``inward`` and ``outward`` are the positions where a value crosses the top and the bottom, relative to the middle.
    """

    width: float
    height: float = 0.0
    centers: list[float] = field(default_factory=list)
    tops: list[float] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    labels: list[tuple[float, float]] = field(default_factory=list)
    inward: dict[Value, float] = field(default_factory=dict)
    outward: dict[Value, float] = field(default_factory=dict)


class Item(NamedTuple):
    """An item of a level: its size, the placed content of an open box, and whether the item is a leaf."""

    size: Size
    inside: Placed | None = None
    leaf: bool = False


class Tie(NamedTuple):
    """A part of an edge: the row where it starts, the upper and the lower slot (see ``Level.rows``), and its net.

    ``start`` and ``end`` are the numbers of the two slots; ``out`` and ``into`` are offsets from their centers.
    """

    row: int
    upper: int
    lower: int
    net: int
    start: int
    end: int
    out: float
    into: float


def place(level: Level, items: Sequence[Item], least: float) -> Placed:
    """Compute the positions in a level; ``least`` is the minimum width, that of the box's title."""
    rows = level.rows
    first = [0]  # the number of each row's first slot
    for row in rows:
        first.append(first[-1] + len(row))
    number = {(r, slot): first[r] + i for r, row in enumerate(rows) for i, slot in enumerate(row)}
    half = [(items[slot].size[0] + APART if slot >= 0 else LINE) / 2 for row in rows for slot in row]
    ties = _ties(level, items, number)
    x = _settled(first, half, _links(items, ties, len(half)))
    _straighten(level, first, number, half, x)
    left = min((x[i] - half[i] for i in range(len(half))), default=0.0) + APART / 2
    width = max((x[i] + half[i] for i in range(len(half))), default=0.0) - APART / 2 - left
    full = max(width + 2 * SIDE, least) if level.box >= 0 else width
    x = [position - left + (full - width) / 2 for position in x]
    placed = Placed(full)
    for net, _ in enumerate(level.nets):
        if level.nets[net].source < 0:
            placed.inward[level.nets[net].value] = x[number[0, ~net]] - full / 2
        if level.nets[net].leaves:
            placed.outward[level.nets[net].value] = x[number[len(rows) - 1, ~net]] - full / 2
    _route(level, items, ties, x, number, placed)
    return placed


def _ties(level: Level, items: Sequence[Item], number: dict[tuple[int, int], int]) -> list[Tie]:
    ties = []
    for r, upper, lower, net in segments(level, level.rows):
        value = level.nets[net].value
        outer = items[upper].inside if upper >= 0 else None
        inner = items[lower].inside if lower >= 0 else None
        out = outer.outward[value] if outer else 0.0
        into = inner.inward[value] if inner else 0.0
        ties.append(Tie(r, upper, lower, net, number[r, upper], number[r + 1, lower], out, into))
    return ties


Links = list[list[tuple[int, float, float]]]  # per slot, for each neighbor: its number, offset and weight


def _links(items: Sequence[Item], ties: list[Tie], slots: int) -> Links:
    links: Links = [[] for _ in range(slots)]
    for tie in ties:
        of_leaf = tie.upper >= 0 and items[tie.upper].leaf
        pull = STRAIGHT if tie.upper < 0 and tie.lower < 0 else LIGHT if of_leaf else 1.0
        links[tie.end].append((tie.start, tie.out - tie.into, LIGHT * LIGHT if of_leaf else pull))
        links[tie.start].append((tie.end, tie.into - tie.out, pull))
    return links


def _settled(first: list[int], half: list[float], links: Links) -> list[float]:
    """Return the centers: the least-squares distances to neighbors per row, in the row's order and without overlap.

    After subtracting the widths of the items before it from each center, the constraint is that the numbers do not
    decrease. This is isotonic regression, solved by pooling adjacent violators: first down and up with only the
    previous row, then with both neighboring rows.
    """
    x = [0.0] * len(half)
    count = len(first) - 1
    for r in range(count):
        at = -sum(half[first[r] : first[r + 1]])
        for i in range(first[r], first[r + 1]):
            x[i] = at + half[i]
            at += 2 * half[i]
    for sweep in range(SWEEPS):
        downward = sweep % 2 == 0
        for r in range(count) if downward else range(count - 1, -1, -1):
            low, high = first[r], first[r + 1]
            pools: list[tuple[float, float, int]] = []  # weighted sum, weight, and number of slots
            offset = 0.0
            for i in range(low, high):
                if i > low:
                    offset += half[i - 1] + half[i]
                total = weight = 0.0
                for neighbor, shift, pull in links[i]:
                    if sweep >= 2 or (neighbor < low) == downward:
                        total += pull * (x[neighbor] + shift)
                        weight += pull
                if weight == 0:
                    total, weight = 0.01 * x[i], 0.01
                pool = (total - weight * offset, weight, 1)
                while pools and pools[-1][0] * pool[1] >= pool[0] * pools[-1][1]:
                    before = pools.pop()
                    pool = (before[0] + pool[0], before[1] + pool[1], before[2] + pool[2])
                pools.append(pool)
            i, offset = low, 0.0
            for total, weight, many in pools:
                for _ in range(many):
                    if i > low:
                        offset += half[i - 1] + half[i]
                    x[i] = total / weight + offset
                    i += 1
    return x


def _straighten(
    level: Level, first: list[int], number: dict[tuple[int, int], int], half: list[float], x: list[float]
) -> None:
    """Make the passing part of each net one vertical line if its neighbors leave room for it."""
    passing: list[list[int]] = [[] for _ in level.nets]
    for r, row in enumerate(level.rows):
        for slot in row:
            if slot < 0:
                passing[~slot].append(r)
    for net, crossed in enumerate(passing):
        low, high, total = float("-inf"), float("inf"), 0.0
        for r in crossed:
            i = number[r, ~net]
            if i > first[r]:
                low = max(low, x[i - 1] + half[i - 1] + half[i])
            if i + 1 < first[r + 1]:
                high = min(high, x[i + 1] - half[i + 1] - half[i])
            total += x[i]
        if len(crossed) > 1 and low <= high:
            line = min(max(total / len(crossed), low), high)
            for r in crossed:
                x[number[r, ~net]] = line


def _route(
    level: Level,
    items: Sequence[Item],
    ties: list[Tie],
    x: list[float],
    number: dict[tuple[int, int], int],
    placed: Placed,
) -> None:
    """Fill in heights, and draw each edge as a curve in the gap between its rows and vertical elsewhere."""
    enter, leave = _entries(level, items, ties, x), _exits(level, items)
    ends = []
    swing = [0.0] * len(level.rows)
    for i, tie in enumerate(ties):
        x1 = x[tie.start] + (leave[tie.net] if tie.upper >= 0 and not items[tie.upper].inside else tie.out)
        x2 = x[tie.end] + (enter[i] if tie.lower >= 0 and not items[tie.lower].inside else tie.into)
        ends.append((x1, x2))
        swing[tie.row] = max(swing[tie.row], abs(x2 - x1))
    tops, bottoms = _stacked(level, items, x, number, swing, placed)
    paths: list[list[str]] = [[] for _ in level.nets]
    heads: list[list[str]] = [[] for _ in level.nets]
    placed.labels = [(0.0, 0.0)] * len(level.nets)
    for tie, (x1, x2) in zip(ties, ends, strict=True):
        r, upper, lower, net = tie[:4]
        y1, turn = bottoms[r], bottoms[r]
        if upper >= 0:
            y1 = placed.tops[upper] + items[upper].size[1]
            placed.labels[net] = (x1, y1)
            turn += 0 if items[upper].inside else TRUNK
        elif r == 0 and level.nets[net].source < 0:
            y1 = tops[r]
        y2 = placed.tops[lower] if lower >= 0 else bottoms[r + 1]
        if lower >= 0 and not items[lower].inside:
            heads[net].append(f"M{x2 - 3.5:.1f} {y2 - 6:.1f}h7l-3.5 6z")
            y2 -= 5
        landing = min(tops[r + 1], y2)
        middle = (turn + landing) / 2
        curve = f"C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {landing:.1f}"
        paths[net].append(f"M{x1:.1f} {y1:.1f}V{turn:.1f}{curve}V{y2:.1f}")
    placed.paths = ["".join(pieces) for pieces in paths]
    placed.heads = ["".join(pieces) for pieces in heads]


def _entries(level: Level, items: Sequence[Item], ties: list[Tie], x: list[float]) -> list[float]:
    """Return where each edge enters the vertex below: ordered by its origin, with operators' results in the middle."""
    arriving: dict[int, list[tuple[float, int]]] = {}
    for i, tie in enumerate(ties):
        if tie.lower >= 0:
            arriving.setdefault(tie.lower, []).append((x[tie.start], i))
    enter = [0.0] * len(ties)
    for item, arrivals in arriving.items():
        arrivals.sort()
        central = []
        for i, (_, which) in enumerate(arrivals):
            if not level.nets[ties[which].net].leaf:
                central.append(i)
        middle = (central[0] + central[-1]) / 2 if central else (len(arrivals) - 1) / 2
        reach = max(middle, len(arrivals) - 1 - middle)
        step = min(STEP, (items[item].size[0] / 2 - 8) / reach) if reach else 0.0
        for i, (_, which) in enumerate(arrivals):
            enter[which] = (i - middle) * step
    return enter


def _exits(level: Level, items: Sequence[Item]) -> list[float]:
    """Return where each net leaves the vertex above: the values of a vertex side by side."""
    given: dict[int, list[int]] = {}
    for net in sorted(range(len(level.nets)), key=lambda net: level.nets[net].value):
        given.setdefault(level.nets[net].source, []).append(net)
    leave = [0.0] * len(level.nets)
    for source, nets in given.items():
        step = (items[source].size[0] - 16) / len(nets) if source >= 0 else 0.0
        for i, net in enumerate(nets):
            leave[net] = (i - (len(nets) - 1) / 2) * step
    return leave


def _stacked(
    level: Level,
    items: Sequence[Item],
    x: list[float],
    number: dict[tuple[int, int], int],
    swing: list[float],
    placed: Placed,
) -> tuple[list[float], list[float]]:
    """Return the rows' tops and bottoms, stacked; gaps are higher if lines in them go far sideways."""
    placed.centers, placed.tops = [0.0] * len(items), [0.0] * len(items)
    tops, bottoms = [], []
    enters, leaves, last = level.enters, level.leaves, len(level.rows) - 1
    y = 0.0
    for r, row in enumerate(level.rows):
        entrance, exit_next = enters and r == 0, leaves and r == last - 1
        height = max((items[slot].size[1] for slot in row if slot >= 0), default=0.0)
        if level.box >= 0 and r == 0:
            y, height = (0.0, HEADER) if entrance else (HEADER + 6, height)
        tops.append(y)
        bottoms.append(y + height)
        for slot in row:
            if slot >= 0:
                placed.centers[slot] = x[number[r, slot]]
                placed.tops[slot] = y + (height - items[slot].size[1]) * (1.0 if items[slot].leaf else 0.5)
        y += height
        if r < last:
            gap = PORT_GAP if entrance else PORT_GAP + TRUNK if exit_next else GAP
            y += gap + min(0.08 * swing[r], 60.0)
    placed.height = y + (FOOTER if level.box >= 0 and not leaves else 0.0)
    return tops, bottoms
