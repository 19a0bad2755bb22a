"""Free saved values to meet a memory budget and recompute them on demand: dynamic tensor rematerialization.

The ``Pool`` counts the memory that nodes hold, frees the cheapest, and recomputes its Values.

The heuristic is *h_DTR^eq* of Kirisame et al., "Dynamic Tensor Rematerialization", ICLR 2021: free the memory with the
smallest ``cost / (bytes * age)`` first. The cost is the time of the calls that computed the memory's Values and the
freed Values next to them. Which memory must stay does not depend on time: see ``Reserve``.

A long recomputation is planned in segments, so that a chain of calls is repeated only a few times under a small budget.
If the results of all repeated calls fit into the room, all are kept. Otherwise half of the room has the results of the
last calls, which a backward pass reads first. The other half has what segments start from: the values that later calls
read, at evenly spaced calls where these values are smallest. The backward pass then recomputes one segment at a time,
and a segment that does not fit is divided again (Chen et al. 2016; Griewank and Walther 2000).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from math import inf
from threading import RLock
from time import perf_counter
from typing import Any, Protocol
from weakref import WeakKeyDictionary, ref

from ..core.arrays import Array
from ..core.arrays.fp_warnings import silent
from ..core.graph.nodes import Node
from ..core.graph.primitive import Primitive
from ..core.tensor.storage import Storage
from ..core.tensor.tensor import Tensor
from .recipes import Call, Group, Memory, Record, Source, Value, owner_of
from .reserve import Reserve

MIN_CALLS = 16  # calls from which a recomputation is planned


class Budget(Protocol):
    """A limit in bytes, and the statistics of its recomputations."""

    limit: int
    peak: int
    recomputations: int
    seconds: float


class Pool:
    """The memory that the nodes of recorded graphs hold."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.budgets: tuple[Budget, ...] = ()
        self.memories: dict[int, Memory] = {}  # by the identity of the array that owns it
        self.movable: set[Memory] = set()  # memory that can be freed
        self.visited: Record | None = None  # the record of the node whose rules are running
        self.in_use: set[Memory] = set()  # the memory of that record
        self.passed: Node | None = None  # the last node whose rules have run
        self.entries: WeakKeyDictionary[Node, tuple[tuple[Value, ...], Record | None]] = WeakKeyDictionary()
        self.reserve = Reserve()  # the part of the movable memory that must stay
        self.starts: set[Memory] = set()  # memory from which a segment of a long recomputation starts
        self.bytes = 0
        self.movable_bytes = 0  # the bytes of movable memory
        self.clock = 0
        self.quickest: dict[Any, float] = {}

    @property
    def budget(self) -> int:
        """Return the smallest of the budgets in force."""
        return min([budget.limit for budget in self.budgets])

    @property
    def limit(self) -> float:
        """Return the budget, or the smallest feasible one if the budget is too small."""
        return max(self.budget, self.reserve.least)

    @property
    def fixed(self) -> int:
        """Return the number of bytes that cannot be freed."""
        return self.bytes - self.movable_bytes

    @property
    def scarce(self) -> bool:
        """Return whether memory was ever short, so that the reserve must be tracked."""
        return self.reserve.limit < inf

    def timed(self, primitive: Primitive, shape: tuple[int, ...], seconds: float) -> float:
        """Return the minimum time of such a call so far; the first one may include compilation."""
        key = primitive, shape
        least = self.quickest[key] = min(seconds, self.quickest.get(key, seconds))
        return least

    # What is counted

    def memory_of(self, array: Array) -> Memory:
        """Return the Memory of an array."""
        while (owner := owner_of(array)) is not None:
            array = owner
        memory = self.memories.get(id(array))
        if memory is None:
            memory = self.memories[id(array)] = Memory(array, partial(_died, ref(self), id(array)))
        return memory

    def recount(self, memory: Memory) -> None:
        counted = bool(memory.values) or memory.locks > 0 or memory.fixed
        if memory.fixed and memory.holder is not None:
            counted = False
        if counted is not memory.counted:
            memory.counted = counted
            self.bytes += memory.bytes if counted else -memory.bytes
        movable = bool(memory.values) and not memory.fixed
        if movable is not memory.movable:
            memory.movable = movable
            self.movable_bytes += memory.bytes if movable else -memory.bytes
            (self.movable.add if movable else self.movable.remove)(memory)

    def fix(self, array: Array, tensor: Tensor | None = None) -> None:
        """Mark the memory as never freed; it counts only while no Tensor of the user uses it."""
        memory = self.memory_of(array)
        if tensor is not None and (not memory.fixed or memory.holder is None):
            self.hold(memory, tensor, id(memory.owner()))
        memory.fixed = True
        self.recount(memory)

    def hold(self, memory: Memory, tensor: Tensor, key: int) -> None:
        storage = tensor._storage
        memory.holder = ref(tensor, partial(_released, ref(self), key, None if storage is None else ref(storage)))

    def settle(self, value: Value, array: Array) -> None:
        """Register a value that a node holds."""
        memory = self.memory_of(array)
        memory.used = self.clock
        if value.first is None:
            value.first = memory
        if value.memory is not memory:
            value.appear(memory, array)
            memory.values.append(ref(value))
        self.recount(memory)

    def observe(self) -> None:
        """Update the peak of each budget, between two operators."""
        for budget in self.budgets:
            budget.peak = max(budget.peak, self.bytes)

    def forget(self, node: Node) -> None:
        """Drop the entry of a node that the backward pass has visited, if that freed its saved values."""
        entry = self.entries.get(node)
        if entry is None:
            return
        record = entry[1]
        if record is not None and record.alive:
            return
        del self.entries[node]
        if record is not None:
            for _, _, value in record.places:
                self._settle_or_vanish(value)

    def _settle_or_vanish(self, value: Value) -> None:
        memory = value.memory
        if memory is not None and not any(value.live_slots()):
            value.vanish()
            memory.values = [reference for reference in memory.values if reference() not in (value, None)]
            self.recount(memory)

    # Freeing

    def called(self) -> None:
        """Make room after an operator has been recorded."""
        if self.bytes > self.limit < self.reserve.limit:
            self._begin()
        if self.scarce:
            self.reserve.hold(self.limit, self.fixed, set() if self.visited is None else self.visited.memories)
            self.need_room()
        self.observe()

    def entered(self, node: Node) -> None:
        """Note that the backward pass calls the rules of a node, whose saved values are in use."""
        self.forget_last_visited()
        record = self.visited = self.entries.get(node, ((), None))[1]
        if record is not None:
            self.in_use = {value.memory for _, _, value in record.places if value.memory is not None}
            if self.scarce:
                self.reserve.enter(record, self.limit, self.fixed)

    def forget_last_visited(self) -> None:
        """Forget the node visited last; unless the graph is retained, its saved values are freed by now."""
        node, self.passed, self.visited, self.in_use = self.passed, None, None, set()
        if node is not None:
            self.forget(node)

    def make_room(self, more: int = 0) -> bool:
        """Free memory until ``more`` bytes fit in the budget; return whether they do."""
        if self.bytes + more <= self.limit:
            return True
        if self.limit < self.reserve.limit:
            self._begin()
        limit = self.limit
        staying = self.reserve.staying(self.budget)
        free = [x for x in self.movable if not x.locks and x not in self.in_use and x not in staying]
        self.starts &= self.movable
        others = [memory for memory in free if memory not in self.starts]
        if self.bytes + more - sum([memory.bytes for memory in others]) <= limit:
            free = others
        heap = [(self.score(memory), index, memory) for index, memory in enumerate(free)]
        heapify(heap)
        surplus = len(heap) >> 5  # free several at a time, to amortize the cost of scoring all of them
        while heap and (self.bytes + more > limit or surplus > 0):
            if self.bytes + more <= limit:
                surplus -= 1
            _, index, memory = heappop(heap)
            score = self.score(memory)  # the score may have grown, since neighbours were freed in this loop
            if heap and score > heap[0][0]:
                heappush(heap, (score, index, memory))
            else:
                self.free(memory)
        return self.bytes + more <= limit

    def need_room(self, more: int = 0) -> None:
        """Make room for ``more`` bytes; if the budget is too small for that, record the smallest that works."""
        if not self.make_room(more) and self.reserve.kept <= self.budget:
            self.reserve.kept = inf
        if not self.make_room(more):
            self.reserve.bare = max(self.reserve.bare, self.bytes + more)

    def _begin(self) -> None:
        """Start tracking the reserve, since memory has become short."""
        reserve = self.reserve = Reserve(self.limit)
        for _, record in list(self.entries.values()):
            if record is not None and record.alive:
                if any(value.memory is None for _, _, value in record.places):
                    reserve.kept = inf  # it was freed earlier, under a larger budget
                reserve.judge(record, self.limit)

    def score(self, memory: Memory) -> float:
        """Return the cost of freeing the memory; the memory with the smallest score is freed first."""
        seconds = 0.0
        groups: set[Group] = set()
        for reference in memory.values:
            value = reference()
            if value is not None:
                seconds += value.call.seconds
                groups.update(value.neighbours())
        for group in groups:
            seconds += group.seconds
        return seconds / (max(memory.bytes, 1) * (self.clock - memory.used + 1))

    def free(self, memory: Memory) -> None:
        values, memory.values = memory.values, []
        for reference in values:
            value = reference()
            if value is not None:
                for record, place, part in value.live_slots():
                    record.put(place, part, None)
                value.vanish()
        self.recount(memory)

    # Recomputing

    def restore(self, record: Record) -> None:
        """Recompute the values that a node saved, and restore them in every record that misses them."""
        self.forget_last_visited()
        if self.scarce:
            self.reserve.enter(record, self.limit, self.fixed)
        wanted = [value for _, _, value in record.places]
        if not self._restored(wanted, False):
            # The available values take too much room. Recomputing from the reserve only is guaranteed to fit.
            for memory in self.movable - self.reserve.staying(self.budget):
                self.free(memory)
            self._restored(wanted, True)

    def _restored(self, wanted: list[Value], at_any_size: bool) -> bool:
        """Find the calls that are needed and repeat them in their old order; return False if memory does not suffice.

        Each result is held until the last call that reads it. Memory that no call needs is freed.
        """
        held: dict[Value, tuple[Any, Memory]] = {}
        calls: dict[Call, None] = {}
        uses: Counter[Value] = Counter(wanted)
        pending = list(wanted)

        def hold_result(value: Value, array: Array) -> None:
            memory = self.memory_of(array)
            memory.locks += 1
            memory.used = self.clock
            held[value] = array, memory
            self.recount(memory)

        def release_result(value: Value) -> None:
            memory = held.pop(value)[1]
            memory.locks -= 1
            self.recount(memory)

        try:
            while pending:
                value = pending.pop()
                if value in held or value.call in calls:
                    continue
                array = value.get() if value.memory is not None or not at_any_size else None
                if array is not None:
                    hold_result(value, array)
                    self._fill(value, array)
                    continue
                calls[value.call] = None
                for x in value.call.reads:
                    uses[x] += 1
                    pending.append(x)
            order = sorted(calls, key=lambda call: call.number)
            segments = None if at_any_size else self._segments(order)
            kept = None if segments is None else segments.kept.union(wanted)
            for call in order:
                self.clock += 1
                if at_any_size:
                    self.need_room(call.bytes)
                elif not self.make_room(call.bytes):
                    return False
                arrays: tuple[Any, ...] = tuple(
                    [held[x][0] if type(x) is Value else x.array if type(x) is Source else x for x in call.inputs]
                )
                began = perf_counter()
                with silent():
                    results = call.run(arrays)
                seconds = perf_counter() - began
                del arrays
                for reference in call.values:
                    made = reference()
                    if made is not None and made not in held:
                        array = results[made.index]
                        if kept is None or made in kept:
                            self._fill(made, array)
                            if segments is not None and made in segments.starts and made.memory is not None:
                                self.starts.add(made.memory)
                        if uses[made]:
                            hold_result(made, array)
                del results
                array = None
                for x in call.reads:
                    uses[x] -= 1
                    if not uses[x]:
                        release_result(x)
                if at_any_size:
                    self.need_room()
                elif not self.make_room():
                    return False
                self.observe()
                for budget in self.budgets:
                    budget.recomputations += 1
                    budget.seconds += seconds
            return True
        finally:
            for value in list(held):
                release_result(value)

    def _segments(self, order: Sequence[Call]) -> Segments | None:
        """Return what to keep of a recomputation whose results do not all fit; None if they do."""
        if len(order) < MIN_CALLS:
            return None
        staying = self.reserve.staying(self.budget) | self.in_use | self.starts
        free = sum([memory.bytes for memory in self.movable if not memory.locks and memory not in staying])
        room = self.limit - self.bytes + free - 2 * max([call.bytes for call in order])
        return segments_of(order, room)

    def _fill(self, value: Value, array: Array) -> None:
        """Restore a value in every record that misses it."""
        missing = [(record, place, part) for record, place, part in value.live_slots() if record.lacks(place, part)]
        for record, place, part in missing:
            record.put(place, part, array)
        if missing:
            self.settle(value, array)


def _died(pool: ref[Pool], key: int, _: object) -> None:
    here = pool()
    memory = None if here is None else here.memories.pop(key, None)
    if here is not None and memory is not None:
        memory.values, memory.locks, memory.fixed = [], 0, False
        here.recount(memory)


def _released(pool: ref[Pool], key: int, storage: ref[Storage] | None, holder: object) -> None:
    """Handle the death of a Tensor that used fixed memory: find another such Tensor, else count the memory."""
    here = pool()
    memory = None if here is None else here.memories.get(key)
    if here is None or memory is None or memory.holder is not holder:
        return
    memory.holder = None
    shared = None if storage is None else storage()
    for member in (shared.members if shared is not None else None) or ():
        tensor = member()
        if tensor is not None:
            here.hold(memory, tensor, key)
            break
    here.recount(memory)


# Segments of a long recomputation


@dataclass(slots=True)
class Segments:
    """The values of a recomputation that are kept, and those among them from which segments start."""

    kept: set[Value] = field(default_factory=set)
    starts: set[Value] = field(default_factory=set)


def segments_of(order: Sequence[Call], room: float) -> Segments | None:
    """Return what to keep, within ``room`` bytes, of calls that are repeated in this order; None if all fits."""
    made: list[list[Value]] = []  # by call, the results that nodes miss
    at: dict[Value, int] = {}
    for number, call in enumerate(order):
        values = [value for reference in call.values if (value := reference()) is not None]
        at.update(dict.fromkeys(values, number))
        made.append([value for value in values if any(value.live_slots())])
    sizes = {value.home: value.home.bytes for values in made for value in values}
    if sum(sizes.values()) <= room:
        return None
    plan = Segments()
    last, used = len(order), 0
    while last and used <= room / 2:
        last -= 1
        plan.kept.update(made[last])
        used += sum([sizes[value.home] for value in made[last]])
    fronts = _fronts(order[:last], order[last:], at, {value for values in made for value in values})
    sized = [sum({value.home: value.home.bytes for value in front}.values()) for front in fronts if front]
    if not sized:
        return plan
    count = max(0, int((room / 2) // max(min(sized), 1)))
    spacing = last / (count + 1)
    for number in range(1, count + 1 if spacing >= 2 else 0):
        near = range(int((number - 0.5) * spacing), min(last, int((number + 0.5) * spacing) + 1))
        usable = [place for place in near if fronts[place]]
        if usable and used <= room:
            middle = number * spacing
            best = min(usable, key=lambda place: (_size(fronts[place]), abs(place - middle)))
            plan.starts.update(fronts[best])
            used += _size(fronts[best])
    plan.kept |= plan.starts
    return plan


def _size(front: frozenset[Value]) -> int:
    return sum({value.home: value.home.bytes for value in front}.values())


def _fronts(
    order: Sequence[Call], rest: Sequence[Call], at: dict[Value, int], missed: set[Value]
) -> list[frozenset[Value]]:
    """Return, for each call, the repeated values that later calls read; empty if some of them cannot be kept."""
    until: dict[Value, int] = {}
    for number, call in enumerate((*order, *rest)):
        for value in call.reads:
            until[value] = number
    ending: dict[int, list[Value]] = {}
    for value, number in until.items():
        if value in at:
            ending.setdefault(number, []).append(value)
    now: set[Value] = set()
    fronts: list[frozenset[Value]] = []
    made: dict[int, list[Value]] = {}
    for value, number in at.items():
        made.setdefault(number, []).append(value)
    for number in range(len(order)):
        now.difference_update(ending.get(number, ()))
        now.update(value for value in made.get(number, ()) if until.get(value, -1) > number)
        fronts.append(frozenset(now) if len(now) <= 8 and now <= missed else frozenset())
    return fronts
