"""Find the smallest feasible memory budget, and the memory that must stay allocated within a budget.

The result depends on sizes only, not on time. A node's saved values stay if they could not be recomputed within the
budget from the values that already stay; these form the ``Reserve``. The values of any other node can be recomputed
after everything except the reserve is freed, so a budget that has room for the reserve is feasible. If the reserve is
too large, every node must be recomputed from the leaves.

Values that stay in a larger budget also stay in a smaller one. The need of each node is therefore computed for all
budgets from the current one upward, so that a step whose budget is too small finds the smallest budget that works.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from math import inf
from weakref import ref

from .recipes import Call, Memory, Record, Value, append

State = frozenset[tuple[int, int]]


class Reserve:
    """The memory that must stay, for budgets from ``limit`` upward; ``limit`` is infinite until memory is short."""

    def __init__(self, limit: float = inf) -> None:
        self.limit = limit
        self.kept: float = 0  # the smallest budget with room for everything that must stay
        self.bare: float = 0  # the smallest budget in which every visited node can be recomputed from the leaves
        self.count = 0
        self.records: list[ref[Record]] = []  # records that must stay in some budget
        self.peaks: dict[frozenset[Memory], dict[State | None, int]] = {}

    @property
    def least(self) -> float:
        """Return the smallest feasible budget."""
        return min(self.kept, self.bare)

    def staying(self, budget: float) -> set[Memory]:
        """Return the memory that must stay; nothing if the budget has no room for all of it."""
        return set() if self.kept > budget else self._needed(budget)

    def judge(self, record: Record, budget: float) -> None:
        """Compute the need of the next record: the smallest budget, from this one upward, in which it may be freed."""
        self.limit = budget
        self.count += 1
        record.number = self.count
        firsts = [value.first for _, _, value in record.places]
        record.memories = {memory for memory in firsts if memory is not None and not memory.fixed}
        record.bare = self.peak(record, set())
        record.beside = self._beside(record)
        record.need = self._need(record, budget, record.fixed)
        if record.need > budget:
            append(self.records, ref(record), lambda reference: reference() is not None)
            self.hold(budget, record.fixed, set())

    def hold(self, budget: float, fixed: int, used: set[Memory]) -> None:
        """Require room, between two operators, for the memory that stays, ``fixed`` bytes, and the memory in use."""
        self.bare = max(self.bare, fixed + _size(used))
        if self.kept < inf:
            for low, high, staying in reversed(list(self._ranges(budget))):
                bytes = max(low, fixed + _size(staying | used))
                if bytes < high:
                    self.kept = bytes if bytes > budget else self.kept
                    break

    def enter(self, record: Record, budget: float, fixed: int) -> None:
        """Update the need when a backward pass visits the node: the memory that stays may have changed since."""
        self.bare = max(self.bare, fixed + record.bare)
        if fixed > record.fixed or record.beside != self._beside(record):
            need = self._need(record, budget, fixed)
            if need > record.need:
                self.kept = max(self.kept, need)

    def peak(self, record: Record, staying: set[Memory]) -> int:
        """Return the peak memory, besides what stays, of recomputing a node's saved values from what stays.

        Go back from the latest call: before a call, its inputs are needed instead of its outputs. Often few values are
        needed, such as the input of a layer. The rest of the way is then shared by everything computed from them, so
        its peak is cached by that state.
        """
        known = self.peaks.setdefault(frozenset(staying), {})
        front = _Front(staying)
        for _, _, value in record.places:
            front.need(value)
        way: list[tuple[State | None, int]] = []
        peak = 0
        while front.calls:
            state = front.state()
            if state in known:
                peak = known[state]
                break
            call = front.back()
            way.append((state, front.bytes + call.bytes))
        for state, bytes in reversed(way):
            peak = max(peak, bytes)
            if state is not None:
                known[state] = peak
        return peak

    def _need(self, record: Record, budget: float, fixed: int) -> float:
        if self.kept < inf:
            for low, high, staying in self._ranges(budget):
                bytes = fixed + _size(staying) + self.peak(record, staying)
                if bytes > low:
                    return min(bytes, high)
        return 0

    def _ranges(self, budget: float) -> Iterator[tuple[float, float, set[Memory]]]:
        """Yield ranges of budgets from this one upward, the largest first, with the memory that stays in each."""
        least = max(budget, self.kept)
        high = inf
        for low in sorted({record.need for record in self._alive() if record.need > least}, reverse=True):
            yield low, high, self._needed(low)
            high = low
        yield least, high, self._needed(least)

    def _needed(self, budget: float) -> set[Memory]:
        return {memory for record in self._alive() if record.need > budget for memory in record.memories}

    def _beside(self, record: Record) -> int:
        """Return a hash of the other records that must stay."""
        return hash(tuple([other.number for other in self._alive() if other is not record]))

    def _alive(self) -> Iterator[Record]:
        for reference in self.records:
            record = reference()
            if record is not None and record.alive:
                yield record


def _size(memories: set[Memory]) -> int:
    return sum([memory.bytes for memory in memories])


class _Front:
    """The values that are needed before some call, besides the memory that stays."""

    def __init__(self, staying: set[Memory]) -> None:
        self.staying = staying
        self.calls: dict[Call, dict[int, Value]] = {}  # the calls that compute these values
        self.latest: list[tuple[int, Call]] = []  # a heap, latest call first
        self.homes: dict[Value, int] = {}  # the number of needed values in each piece of memory
        self.bytes = 0

    def is_available(self, value: Value) -> bool:
        memory = value.memory
        return value.first in self.staying or memory is not None and memory.fixed

    def need(self, value: Value) -> None:
        call = value.call
        if self.is_available(value):
            return
        outputs = self.calls.get(call)
        if outputs is None:
            outputs = self.calls[call] = {}
            heappush(self.latest, (-call.number, call))
        elif value.index in outputs:
            return
        outputs[value.index] = value
        home = value.home
        if home.bytes and not self.is_available(home):
            count = self.homes[home] = self.homes.get(home, 0) + 1
            if count == 1:
                self.bytes += home.bytes

    def back(self) -> Call:
        """Go back before the latest call: replace its outputs by its inputs."""
        _, call = heappop(self.latest)
        for value in self.calls.pop(call).values():
            home = value.home
            if home in self.homes:
                self.homes[home] -= 1
                if not self.homes[home]:
                    del self.homes[home]
                    self.bytes -= home.bytes
        for value in call.reads:
            self.need(value)
        return call

    def state(self) -> State | None:
        """Return a key for the needed values, or None if more than four calls are needed."""
        if len(self.calls) > 4:
            return None
        return frozenset([(call.number, index) for call, outputs in self.calls.items() for index in outputs])
