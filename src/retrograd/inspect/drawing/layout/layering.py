"""Layered drawing, first half: assign items to rows, and order the items of each row.

Sugiyama, Tagawa and Toda, Methods for visual understanding of hierarchical system structures, 1981: items are assigned
to rows so that all edges point down; an edge over several rows occupies a slot in each; and sweeps reorder the rows,
moving each item to the mean position of its neighbors in the previous row, as long as the number of crossings falls.
Edges of one value share a path, so a weight with a thousand readers is one line with a thousand ends.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator

from .nesting import Level

# The number of sweeps, which is lower for drawings too large to read.
SWEEPS, PLACES = 12, 200_000


def arrange(level: Level, leaves: set[int]) -> None:
    """Fill ``level.rows``; ``leaves`` are the indices of items to place as low as possible."""
    row = _rows_of(level, leaves)
    last = max(row, default=0) + level.leaves
    rows: list[list[int]] = [[] for _ in range(last + 1)]
    given: dict[int, list[int]] = {}
    for number, net in enumerate(level.nets):
        given.setdefault(net.source, []).append(number)

    def lay(source: int) -> None:
        for number in given.get(source, ()):
            net = level.nets[number]
            lowest = last if net.leaves else max(row[target] for target in net.targets) - 1
            for r in range(row[source] + 1 if source >= 0 else 0, lowest + 1):
                rows[r].append(~number)

    lay(-1)
    for item in sorted(range(len(row)), key=row.__getitem__):
        rows[row[item]].append(item)
        lay(item)
    level.rows = _in_order(rows, level)


def segments(level: Level, rows: list[list[int]]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the part of each edge between two rows: the upper row, the upper slot, the lower slot, and the net."""
    row = {item: r for r, slots in enumerate(rows) for item in slots if item >= 0}
    last = len(rows) - 1
    for number, net in enumerate(level.nets):
        first = row[net.source] if net.source >= 0 else 0
        lowest = last if net.leaves else max(row[target] for target in net.targets) - 1
        for r in range(first, lowest):
            yield r, net.source if r == first and net.source >= 0 else ~number, ~number, number
        for target in net.targets:
            r = row[target] - 1
            yield r, net.source if r == first and net.source >= 0 else ~number, target, number


def _rows_of(level: Level, leaves: set[int]) -> list[int]:
    """Return the row of each item: below everything it reads; leaves directly above their first reader."""
    count = len(level.items)
    reads: list[list[int]] = [[] for _ in range(count)]
    gives: list[list[int]] = [[] for _ in range(count)]
    for net in level.nets:
        for target in net.targets:
            reads[target].append(net.source)
            if net.source >= 0:
                gives[net.source].append(target)
    row = [int(level.enters)] * count
    waiting = [sum(source >= 0 for source in sources) for sources in reads]
    order = [item for item in range(count) if not waiting[item]]
    for item in order:
        for target in gives[item]:
            row[target] = max(row[target], row[item] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                order.append(target)
    if len(order) != count:
        raise RuntimeError("the items of a level form a cycle")
    for item in reversed(order):
        if gives[item] and (item in leaves or len(reads[item]) <= len(gives[item])):
            row[item] = min(row[target] for target in gives[item]) - 1
    return row


def _in_order(rows: list[list[int]], level: Level) -> list[list[int]]:
    """Return the rows with their slots reordered for few crossings."""
    numbers: dict[tuple[int, int], int] = {}
    slots: list[int] = []
    numbered = []
    for r, row in enumerate(rows):
        numbered.append(list(range(len(slots), len(slots) + len(row))))
        numbers |= {(r, slot): len(slots) + i for i, slot in enumerate(row)}
        slots += row
    up: list[list[int]] = [[] for _ in slots]
    down: list[list[int]] = [[] for _ in slots]
    for r, upper, lower, _ in segments(level, rows):
        a, b = numbers[r, upper], numbers[r + 1, lower]
        down[a].append(b)
        up[b].append(a)
    best, fewest = numbered, _crossings(numbered, down)
    current = [list(row) for row in numbered]
    for sweep in range(max(2, min(SWEEPS, PLACES // max(1, len(slots))))):
        if not fewest:
            break
        downward = sweep % 2 == 0
        neighbors = up if downward else down
        steps = range(1, len(rows)) if downward else range(len(rows) - 2, -1, -1)
        for r in steps:
            place = {slot: i for i, slot in enumerate(current[r - 1 if downward else r + 1])}
            key = {
                slot: sum(place[n] for n in near) / len(near) if (near := neighbors[slot]) else -1.0
                for slot in current[r]
            }
            current[r] = _sorted_around(current[r], key)
        crossings = _crossings(current, down)
        if crossings < fewest:
            best, fewest = [list(row) for row in current], crossings
    return [[slots[number] for number in row] for row in best]


def _sorted_around(row: list[int], key: dict[int, float]) -> list[int]:
    """Sort the row by key; slots with a negative key keep their position."""
    moving = iter(sorted((slot for slot in row if key[slot] >= 0), key=key.__getitem__))
    return [slot if key[slot] < 0 else next(moving) for slot in row]


def _crossings(rows: list[list[int]], down: list[list[int]]) -> int:
    """Return the number of pairs of segments that cross."""
    total = 0
    for upper, lower in zip(rows, rows[1:], strict=False):
        place = {slot: i for i, slot in enumerate(lower)}
        seen: list[int] = []
        for slot in upper:
            ends = sorted(place[target] for target in down[slot])
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total
