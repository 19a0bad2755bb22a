"""The smallest memory budget that can be kept, and what has to stay in it: a matter of sizes alone, not of time.

A node keeps what it saved if that could not be computed again within the budget from what has to stay already and
nothing else. So each other node can be served at any time, if all but this ``Reserve`` is let go of before, and a
budget can be kept in which there is room for the reserve. Where there is not, because much of it is never used, every
node must do with what it takes to be computed again from nothing.

What a node needs is known for all budgets from the one in force upward, since what stays in a larger budget stays in a
smaller one, too. So a step in too small a budget finds the least that is large enough, and in each one it is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from math import inf
from weakref import ref

from .recipes import Call, Memory, Record, Value, append

State = frozenset[tuple[int, int]]


class Reserve:
    """What has to stay in budgets from ``limit`` upward: infinite, until some memory has to be let go of."""

    def __init__(self, limit: float = inf) -> None:
        self.limit = limit
        self.kept: float = 0  # the least budget with room for what has to stay
        self.bare: float = 0  # that in which every node that was walked could be computed again from nothing
        self.count = 0
        self.records: list[ref[Record]] = []  # that have to stay in some of the budgets
        self.peaks: dict[frozenset[Memory], dict[State | None, int]] = {}

    @property
    def least(self) -> float:
        """The smallest budget that can be kept."""
        return min(self.kept, self.bare)

    def staying(self, budget: float) -> set[Memory]:
        """The memory that has to stay; none where there is no room for all of it."""
        return set() if self.kept > budget else self._needed(budget)

    def judge(self, record: Record, budget: float) -> None:
        """Find the need of the next record: the least budget, from this one upward, in which it need not stay."""
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
        """Between two operators there must be room for what has to stay, for these bytes, and for memory in use."""
        self.bare = max(self.bare, fixed + _size(used))
        if self.kept < inf:
            for low, high, staying in reversed(list(self._ranges(budget))):
                bytes = max(low, fixed + _size(staying | used))
                if bytes < high:
                    self.kept = bytes if bytes > budget else self.kept
                    break

    def enter(self, record: Record, budget: float, fixed: int) -> None:
        """A walk comes to the node. What stays beside it may be more, or other memory, than when it was judged."""
        self.bare = max(self.bare, fixed + record.bare)
        if fixed > record.fixed or record.beside != self._beside(record):
            need = self._need(record, budget, fixed)
            if need > record.need:
                self.kept = max(self.kept, need)

    def peak(self, record: Record, staying: set[Memory]) -> int:
        """The most bytes, beside what stays, that it takes to compute what a node saved from what stays alone.

        Before the last call of all that are needed, its inputs have to be held in place of its outputs: so one goes
        back, call by call, until nothing is needed. Mostly little is needed, as before a layer its input; the rest of
        the way is then the same for all that is computed from it, and its peak is known.
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
        """The budgets from this one upward, the largest first: from one to below another, and what stays in them."""
        least = max(budget, self.kept)
        high = inf
        for low in sorted({record.need for record in self._alive() if record.need > least}, reverse=True):
            yield low, high, self._needed(low)
            high = low
        yield least, high, self._needed(least)

    def _needed(self, budget: float) -> set[Memory]:
        return {memory for record in self._alive() if record.need > budget for memory in record.memories}

    def _beside(self, record: Record) -> int:
        """A fingerprint of the others that have to stay."""
        return hash(tuple([other.number for other in self._alive() if other is not record]))

    def _alive(self) -> Iterator[Record]:
        for reference in self.records:
            record = reference()
            if record is not None and record.alive:
                yield record


def _size(memories: set[Memory]) -> int:
    return sum([memory.bytes for memory in memories])


class _Front:
    """The values that are needed, beside memory that stays, at some call."""

    def __init__(self, staying: set[Memory]) -> None:
        self.staying = staying
        self.calls: dict[Call, dict[int, Value]] = {}  # that give them
        self.latest: list[tuple[int, Call]] = []  # a heap
        self.homes: dict[Value, int] = {}  # how many of them are in the memory of each
        self.bytes = 0

    def there(self, value: Value) -> bool:
        memory = value.memory
        return value.first in self.staying or memory is not None and memory.fixed

    def need(self, value: Value) -> None:
        call = value.call
        if self.there(value):
            return
        outputs = self.calls.get(call)
        if outputs is None:
            outputs = self.calls[call] = {}
            heappush(self.latest, (-call.number, call))
        elif value.index in outputs:
            return
        outputs[value.index] = value
        home = value.home
        if home.bytes and not self.there(home):
            count = self.homes[home] = self.homes.get(home, 0) + 1
            if count == 1:
                self.bytes += home.bytes

    def back(self) -> Call:
        """Go back before the latest call: its inputs are needed in place of its outputs."""
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
        """What is needed, where it is little."""
        if len(self.calls) > 4:
            return None
        return frozenset([(call.number, index) for call, outputs in self.calls.items() for index in outputs])
