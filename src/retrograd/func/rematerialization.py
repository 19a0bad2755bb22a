"""What a graph has saved, let go of and computed again: dynamic tensor rematerialization.

The ``Pool`` counts the memory that nodes hold, lets go of the Values of the memory it can do best without, and brings
them back.

Memory is let go of by the heuristic *h_DTR^eq* of Kirisame et al., "Dynamic Tensor Rematerialization", ICLR 2021: the
least of ``cost / (bytes * age)`` goes first, where the cost is the time of the calls that gave the memory's Values and
of those neighbours of theirs that are not there either. What has to stay is no matter of time: see ``Reserve``.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from heapq import heapify, heappop, heappush
from math import inf
from threading import RLock
from time import perf_counter
from typing import Any, Protocol
from weakref import WeakKeyDictionary, ref

from ..core.arrays.fp_warnings import silent
from ..core.graph.nodes import Node
from ..core.graph.primitive import Primitive
from ..core.tensor.storage import Storage
from ..core.tensor.tensor import Tensor
from .recipes import Call, Group, Memory, Record, Source, Value, owner_of
from .reserve import Reserve


class Budget(Protocol):
    """A limit in bytes, and what it cost to keep it so far."""

    limit: int
    peak: int
    recomputations: int
    seconds: float


class Pool:
    """The memory that the nodes of some graphs hold."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.budgets: tuple[Budget, ...] = ()
        self.memories: dict[int, Memory] = {}  # by the identity of the array that owns it
        self.movable: set[Memory] = set()  # what can be let go of
        self.walked: Record | None = None  # of the node whose rules are running
        self.in_use: set[Memory] = set()  # what that holds
        self.passed: Node | None = None  # the last one whose rules have run
        self.entries: WeakKeyDictionary[Node, tuple[tuple[Value, ...], Record | None]] = WeakKeyDictionary()
        self.reserve = Reserve()  # of what is movable, what has to stay
        self.bytes = 0
        self.loose = 0  # of these, what is movable
        self.clock = 0
        self.quickest: dict[Any, float] = {}

    @property
    def budget(self) -> int:
        """The smallest of the budgets in force."""
        return min([budget.limit for budget in self.budgets])

    @property
    def limit(self) -> float:
        """The budget, or the least one once that could not be kept."""
        return max(self.budget, self.reserve.least)

    @property
    def fixed(self) -> int:
        """The bytes that cannot be let go of."""
        return self.bytes - self.loose

    @property
    def scarce(self) -> bool:
        """Whether there was once no room for everything: then it matters what has to stay."""
        return self.reserve.limit < inf

    def timed(self, primitive: Primitive, shape: Any, seconds: float) -> float:
        """The least that such a call ever took: the first may have compiled something."""
        key = primitive, shape
        least = self.quickest[key] = min(seconds, self.quickest.get(key, seconds))
        return least

    # What is counted

    def memory_of(self, array: Any) -> Memory:
        """The memory that the array is in."""
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
            self.loose += memory.bytes if movable else -memory.bytes
            (self.movable.add if movable else self.movable.remove)(memory)

    def fix(self, array: Any, tensor: Tensor | None = None) -> None:
        """The memory stays; it counts when no Tensor of the user's lives in it."""
        memory = self.memory_of(array)
        if tensor is not None and (not memory.fixed or memory.holder is None):
            self.hold(memory, tensor, id(memory.owner()))
        memory.fixed = True
        self.recount(memory)

    def hold(self, memory: Memory, tensor: Tensor, key: int) -> None:
        storage = tensor._storage
        memory.holder = ref(tensor, partial(_released, ref(self), key, None if storage is None else ref(storage)))

    def settle(self, value: Value, array: Any) -> None:
        """A node holds the value."""
        memory = self.memory_of(array)
        memory.used = self.clock
        if value.first is None:
            value.first = memory
        if value.memory is not memory:
            value.appear(memory, array)
            memory.values.append(ref(value))
        self.recount(memory)

    def observe(self) -> None:
        """Take down how much is held between two operators."""
        for budget in self.budgets:
            budget.peak = max(budget.peak, self.bytes)

    def forget(self, node: Node) -> None:
        """A walk has passed the node: where it freed what that saved, nothing new is computed from it."""
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

    # Letting go

    def called(self) -> None:
        """An operator has been recorded: make room before the next."""
        if self.bytes > self.limit < self.reserve.limit:
            self._begin()
        if self.scarce:
            self.reserve.hold(self.limit, self.fixed, set() if self.walked is None else self.walked.memories)
            self.need_room()
        self.observe()

    def entered(self, node: Node) -> None:
        """A walk calls the rules of a node, which holds what it saved."""
        self.let_pass()
        record = self.walked = self.entries.get(node, ((), None))[1]
        if record is not None:
            self.in_use = {value.memory for _, _, value in record.places if value.memory is not None}
            if self.scarce:
                self.reserve.enter(record, self.limit, self.fixed)

    def let_pass(self) -> None:
        """What the last node saved is freed by now, if it ever is."""
        node, self.passed, self.walked, self.in_use = self.passed, None, None, set()
        if node is not None:
            self.forget(node)

    def make_room(self, more: int = 0) -> bool:
        """Let go of memory until what is held, and so much more, keeps the budget; whether it then does."""
        if self.bytes + more <= self.limit:
            return True
        if self.limit < self.reserve.limit:
            self._begin()
        limit = self.limit
        staying = self.reserve.staying(self.budget)
        heap = [
            (self.score(memory), index, memory)
            for index, memory in enumerate(self.movable)
            if not memory.locks and memory not in self.in_use and memory not in staying
        ]
        heapify(heap)
        surplus = len(heap) >> 5  # a look at all of them is paid for by several at a time
        while heap and (self.bytes + more > limit or surplus > 0):
            if self.bytes + more <= limit:
                surplus -= 1
            _, index, memory = heappop(heap)
            score = self.score(memory)  # those that went before may have been its neighbours
            if heap and score > heap[0][0]:
                heappush(heap, (score, index, memory))
            else:
                self.let_go(memory)
        return self.bytes + more <= limit

    def need_room(self, more: int = 0) -> None:
        """Make room where nothing else can be done: a budget that is too small is raised to the least that will do."""
        if not self.make_room(more) and self.reserve.kept <= self.budget:
            self.reserve.kept = inf
        if not self.make_room(more):
            self.reserve.bare = max(self.reserve.bare, self.bytes + more)

    def _begin(self) -> None:
        """There is no room for everything: from now on it matters what has to stay."""
        reserve = self.reserve = Reserve(self.limit)
        for _, record in list(self.entries.values()):
            if record is not None and record.alive:
                if any(value.memory is None for _, _, value in record.places):
                    reserve.kept = inf  # it went before, in a larger budget
                reserve.judge(record, self.limit)

    def score(self, memory: Memory) -> float:
        """What it costs to do without the memory: the least goes first."""
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

    def let_go(self, memory: Memory) -> None:
        values, memory.values = memory.values, []
        for reference in values:
            value = reference()
            if value is not None:
                for record, place, part in value.live_slots():
                    record.put(place, part, None)
                value.vanish()
        self.recount(memory)

    # Bringing back

    def restore(self, record: Record) -> None:
        """Compute again, from what is there, what a node saved, and put it wherever it is missing."""
        self.let_pass()
        if self.scarce:
            self.reserve.enter(record, self.limit, self.fixed)
        wanted = [value for _, _, value in record.places]
        if not self._restored(wanted, False):
            # What is there is in the way: from what has to stay alone it can be done.
            for memory in self.movable - self.reserve.staying(self.budget):
                self.let_go(memory)
            self._restored(wanted, True)

    def _restored(self, wanted: list[Value], at_any_size: bool) -> bool:
        """The calls that are needed are found first and made in their old order, each result kept until the last of
        them has read it; what they do not need makes room. False where that is not enough.
        """
        held: dict[Value, tuple[Any, Memory]] = {}
        calls: dict[Call, None] = {}
        uses: Counter[Value] = Counter(wanted)
        pending = list(wanted)

        def keep(value: Value, array: Any) -> None:
            memory = self.memory_of(array)
            memory.locks += 1
            memory.used = self.clock
            held[value] = array, memory
            self.recount(memory)

        def drop(value: Value) -> None:
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
                    keep(value, array)
                    self._fill(value, array)
                    continue
                calls[value.call] = None
                for x in value.call.reads:
                    uses[x] += 1
                    pending.append(x)
            for call in sorted(calls, key=lambda call: call.number):
                self.clock += 1
                if at_any_size:
                    self.need_room(call.bytes)
                elif not self.make_room(call.bytes):
                    return False
                arrays = tuple(
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
                        self._fill(made, array)
                        if uses[made]:
                            keep(made, array)
                del results
                array = None
                for x in call.reads:
                    uses[x] -= 1
                    if not uses[x]:
                        drop(x)
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
                drop(value)

    def _fill(self, value: Value, array: Any) -> None:
        """Put a value wherever it is missing."""
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


def _released(pool: ref[Pool], key: int, storage: ref[Storage] | None, holder: Any) -> None:
    """A Tensor that lived in fixed memory is no more: another may still, else the memory is the graph's alone."""
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
