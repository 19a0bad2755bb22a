"""Decide where to cut the tape of a memory budget: after calls at which few bytes are alive, learned from past calls.

A segment holds the values of earlier segments that its calls read. In a loop, a cut between two iterations holds little
more than the state; a cut within an iteration holds intermediate values as well. How many bytes are alive at a place is
known only later, when the values have been read. But a loop repeats its body: a place is identified by the last calls
before the place (the *trail*), and the tape is cut after a trail at which few bytes were alive earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...core.graph.nodes import Node
from ...core.graph.plan import Plan
from .recipes import Call, Value, is_value, producer

TRAIL = 8  # the calls on which a trail depends
SHIFT, MASK = 6, (1 << 6 * TRAIL) - 1
SLACK = 1.1  # the bytes alive at a good place, as a multiple of the fewest
LATEST = 2  # a segment may be this many times as long as intended, to end at a good place


def followed(trail: int, plan: Plan) -> int:
    """Return the trail after one more call."""
    return (trail << SHIFT ^ id(plan) >> 4) & MASK


class Cuts:
    """The trails at which to cut."""

    def __init__(self) -> None:
        self.good: set[int] = set()
        self.seen = 0  # the number of cuts
        self.missed = 0  # the number of cuts for which no good place was found
        self.due = False  # whether to learn from the calls before the next cut

    def at(self, trail: int, length: float) -> bool:
        """Return whether to cut after the call with this trail, in a segment of ``length`` times the intended bytes."""
        if self.good and trail not in self.good:
            if length < LATEST:
                return False
            self.good = set()  # none of the learned trails occurs any more
            self.missed += 1
            self.due = self.missed & self.missed - 1 == 0
        self.seen += 1
        self.due = self.due or self.seen > 2 and self.seen & self.seen - 1 == 0
        return True

    def has_choice(self, calls: int) -> bool:
        """Return whether a segment of this many calls offers several places: it must be longer than a trail."""
        self.due = calls >= TRAIL
        return self.due

    def learn(self, calls: Sequence[tuple[Call, Node]]) -> None:
        """Find the places at which the fewest bytes were alive, among those that occur repeatedly."""
        self.due = False
        last: dict[Value, int] = {}
        for number, (call, _) in enumerate(calls):
            for x in call.inputs:
                if is_value(x):
                    last[x] = number
        changes = [0] * (len(calls) + 1)
        numbers = {call: number for number, (call, _) in enumerate(calls)}
        for value, end in last.items():
            call = producer(value)
            start = numbers.get(call, 0)
            size = _bytes_of(call, value, calls[start][1]) if call in numbers else 0
            changes[start] += size
            changes[end] -= size
        trail, alive = 0, 0
        found: dict[int, list[int]] = {}
        for number, (_, node) in enumerate(calls[: len(calls) * 3 // 4]):  # the last values may still be read
            trail = followed(trail, node.plan)
            alive += changes[number]
            if number >= TRAIL:
                found.setdefault(trail, []).append(alive)
        costs = {trail: sum(sizes) / len(sizes) for trail, sizes in found.items() if len(sizes) > 1}
        least = min(costs.values(), default=0)
        self.good = {trail for trail, cost in costs.items() if cost <= SLACK * least}


def _bytes_of(call: Call, value: Value, node: Node) -> int:
    shape, dtype = node.shape, node.dtype
    if type(value) is tuple:
        shape, dtype = shape[value[1]], dtype[value[1]]
    return prod(shape) * dtype.itemsize
