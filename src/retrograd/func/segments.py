"""Free what a graph saves to meet a memory budget, in segments of the program, and recompute a whole segment at once.

The recorded calls form a *tape*, cut into segments. A segment holds, besides what its nodes save, its *externals*: the
values of earlier segments that its calls read. When memory is short, the oldest segments are released: their nodes drop
the arrays they saved, and the externals stay. The backward pass restores a released segment by repeating its calls in
their old order, from the externals. Every saved array is then kept until the backward pass has left the segment, so
that each call is repeated once, if the segment fits.

Segments are small when they are recorded. Two adjacent released segments are merged to free the externals between them,
where these take most memory first. A segment must fit into the room that its restoration will find: the budget without
the externals of the segments before it (*level* 1). If even then the externals take too much, segments are merged to a
size of which the parts fit (level 2), and so on: repeated once per level, as in Griewank and Walther, "Revolve", 2000.
A segment that does not fit is restored as a tape of smaller segments, by the same rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import factorial
from threading import RLock
from time import perf_counter
from typing import Any, Protocol
from weakref import ref

from numpy import ndarray

from ..core.arrays import Array
from ..core.arrays.fp_warnings import silent
from ..core.graph.nodes import Node
from ..core.tensor.storage import Storage
from ..core.tensor.tensor import Tensor
from .recipes import Call, Source, is_value, must_run, owner_of, producer, saved_arrays

PARTS = 16  # the number of segments into which a budget's worth of memory is cut when it is recorded
MOST_LEVELS = 6


class Budget(Protocol):
    """A limit in bytes, and the statistics of its recomputations."""

    limit: int
    peak: int
    recomputations: int
    seconds: float


class Memory(ref[Any]):
    """A piece of memory: a weak reference to the array that owns it, and how many nodes and segments hold it.

    ``fixed`` memory is never freed; it counts only while no Tensor of the user (``user``) uses it.
    """

    __slots__ = ("bytes", "fixed", "holders", "key", "user")

    bytes: int
    fixed: bool
    holders: int
    key: int
    user: ref[Tensor] | None

    @property
    def counted(self) -> bool:
        """Return whether the memory counts towards the budget."""
        return self.user is None if self.fixed else self.holders > 0


class Segment:
    """A part of the tape: its nodes, and the values of earlier segments that their calls read."""

    __slots__ = ("__weakref__", "bytes", "closed", "externals", "nodes", "pool", "released")

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.nodes: list[ref[Node]] = []
        self.externals: dict[Any, tuple[Array, Storage | None, Memory]] = {}
        self.bytes = 0  # that its nodes hold, besides the externals, unless they are freed
        self.closed = False
        self.released = False

    def calls(self) -> list[tuple[Call, Node]]:
        """Return the calls of the segment, with their nodes."""
        return [(node.recipe, node) for reference in self.nodes if (node := reference()) is not None]

    def external_bytes(self) -> int:
        """Return the number of bytes of the externals."""
        return sum({memory.key: memory.bytes for _, _, memory in self.externals.values() if not memory.fixed}.values())

    def take(self, value: Any, array: Array, storage: Storage | None) -> None:
        """Hold a value that a call of the segment reads, unless the segment computes it."""
        if producer(value).segment is not self and value not in self.externals:
            memory = self.pool.memory_of(array)
            self.pool.hold(memory)
            self.externals[value] = array, storage, memory


class Pool:
    """The tape, and the memory that it holds."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.budgets: tuple[Budget, ...] = ()
        self.memories: dict[int, Memory] = {}  # by the identity of the array that owns it
        self.tape: list[ref[Segment]] = []
        self.bytes = 0
        self.fixed = 0  # of these bytes, those that cannot be freed
        self.most_fixed = 0  # their maximum since the last backward pass
        self.least = 0  # a budget in which the program can run up to here, if the budget is too small
        self.visited: Call | None = None  # of the node whose rules are running
        self.target: Call | None = None  # of the node that is being restored

    @property
    def budget(self) -> int:
        """Return the smallest of the budgets in force."""
        return min([budget.limit for budget in self.budgets])

    @property
    def limit(self) -> int:
        """Return the budget, or the smallest feasible one if the budget is too small."""
        return max(self.budget, self.least)

    # What is counted

    def memory_of(self, array: Array) -> Memory:
        """Return the Memory of an array."""
        while type(array) is ndarray and type(array.base) is ndarray:
            array = array.base
        if type(array) is not ndarray or array.base is not None:
            while (owner := owner_of(array)) is not None:
                array = owner
        key = id(array)
        memory = self.memories.get(key)
        if memory is None:
            memory = self.memories[key] = Memory(array, partial(_died, ref(self), key))
            memory.bytes, memory.key, memory.holders = array.nbytes, key, 0
            memory.fixed, memory.user = False, None
        return memory

    def hold(self, memory: Memory) -> bool:
        """Count one more holder; return whether it is the first."""
        memory.holders += 1
        if memory.holders > 1 or memory.fixed:
            return False
        self.bytes += memory.bytes
        return True

    def drop(self, memory: Memory) -> None:
        """Count one holder less."""
        memory.holders -= 1
        if not memory.holders and not memory.fixed and self.memories.get(memory.key) is memory:
            self.bytes -= memory.bytes

    def fix(self, array: Array, tensor: Tensor | None = None) -> None:
        """Mark the memory as never freed; it counts only while no Tensor of the user uses it."""
        memory = self.memory_of(array)
        if memory.fixed and (tensor is None or memory.user is not None):
            return
        self.count(memory, -1)
        if tensor is not None:
            self.use(memory, tensor)
        memory.fixed = True
        self.count(memory, 1)

    def count(self, memory: Memory, sign: int) -> None:
        """Add the memory to what is counted, or subtract it."""
        if memory.counted:
            self.bytes += sign * memory.bytes
            if memory.fixed:
                self.fixed += sign * memory.bytes
                self.most_fixed = max(self.most_fixed, self.fixed)

    def use(self, memory: Memory, tensor: Tensor) -> None:
        storage = tensor._storage
        memory.user = ref(tensor, partial(_released, ref(self), memory.key, None if storage is None else ref(storage)))

    def observe(self) -> None:
        """Update the peak of each budget, between two operators."""
        for budget in self.budgets:
            budget.peak = max(budget.peak, self.bytes)

    # The tape

    def segment(self) -> Segment:
        """Return the segment to which the next recorded call belongs."""
        last = self.tape[-1]() if self.tape else None
        if last is None or last.closed or last.bytes * PARTS >= self.limit:
            last = Segment(self)
            self.tape.append(ref(last))
        return last

    def append(self, call: Call, node: Node, segment: Segment) -> None:
        """Add a call at the end of a segment, and count what its node saved."""
        call.segment = segment
        node.recipe = call
        segment.nodes.append(ref(node))
        self.settle(call, node, segment)

    def settle(self, call: Call, node: Node, segment: Segment) -> None:
        """Count what a node saved."""
        if type(node.saved) is tuple and node.saved:
            held = [self.memory_of(array) for array in saved_arrays(call, node)]
            for memory in held:
                if self.hold(memory):
                    segment.bytes += memory.bytes
            call.held = tuple(held)

    def live(self) -> list[Segment]:
        """Return the segments whose nodes are alive."""
        segments = [segment for reference in self.tape if (segment := reference()) is not None]
        if len(segments) < len(self.tape):
            self.tape = [ref(segment) for segment in segments]
        return segments

    def release(self, segment: Segment) -> None:
        """Free what the nodes of a segment saved."""
        segment.closed = segment.released = True
        for call, node in segment.calls():
            if call.held and call is not self.visited and call is not self.target and is_tuple_of(call, node):
                call.strip(node)
            elif node.saved is not None:
                continue
            self.uncount(call)

    def uncount(self, call: Call) -> None:
        """Note that the call's node holds nothing more."""
        for memory in call.held:
            self.drop(memory)
        call.held = ()

    def finish(self, segment: Segment) -> bool:
        """Drop the recipes of a segment if a backward pass has freed all that its nodes saved; return whether it has.

        Recipes refer to parameters, which would be copied when they are updated in place.
        """
        calls = segment.calls()
        if any(is_pending(call, node) for call, node in calls):
            return False
        for call, _ in calls:
            self.uncount(call)
            call.inputs, call.params, call.segment = (), {}, None
        for _, _, memory in segment.externals.values():
            self.drop(memory)
        segment.externals, segment.nodes, segment.closed = {}, [], True
        return True

    def merge(self, one: Segment, two: Segment) -> None:
        """Append a segment to the one before it, and free the externals between them."""
        for call, _ in two.calls():
            call.segment = one
        one.nodes += two.nodes
        one.bytes += two.bytes
        one.released = one.released and two.released
        for value, external in two.externals.items():
            if producer(value).segment is one or value in one.externals:
                self.drop(external[2])
            else:
                one.externals[value] = external
        two.nodes, two.externals = [], {}
        self.tape = [reference for reference in self.tape if reference() is not two]

    # Making room

    def make_room(self, first: Segment | None = None, last: Segment | None = None) -> None:
        """Free memory until the budget is kept. ``first`` to ``last`` is the part of the tape that is growing."""
        segments = self.live()
        start = 0 if first is None else segments.index(first)
        end = len(segments) if last is None else segments.index(last) + 1
        limit = self.limit
        goal = limit - limit // 32  # so that this search is made rarely
        for segment in reversed(segments[end:]):  # the backward pass has left these
            if self.bytes <= goal:
                return
            if not self.finish(segment) and not segment.released:
                self.release(segment)
        if self.bytes <= goal:
            return
        before = self.fixed + sum([segment.external_bytes() for segment in segments[:start]])
        plan = _Plan(self, segments[start:end], limit, before)
        victims = [segment for segment in segments[: end - 1] if not segment.released]
        victims.reverse()
        level = 1
        while self.bytes > goal:
            if plan.crowded and plan.merge(level, 1):
                continue
            if victims:
                self.release(victims.pop())
                continue
            if plan.merge(level, 1) or plan.merge(level, 0):
                continue
            if self.bytes <= limit:
                return
            level += 1
            if level > MOST_LEVELS:
                break
        if self.bytes > limit:
            self.collapse(segments[:end])
        if self.bytes > limit and last is None:
            self.least = max(self.bytes, self.needed(self.visited), self.needed(self.target))

    def collapse(self, segments: list[Segment]) -> None:
        """Free all that can be freed: a single segment is left, which starts from nothing but sources."""
        for segment in segments:
            self.release(segment)
        for segment in segments[1:]:
            self.merge(segments[0], segment)

    def enter(self, node: Node) -> None:
        """Note that the backward pass calls the rules of a node."""
        call = self.visited = getattr(node, "recipe", None)
        if self.bytes > self.budget:
            self.least = max(self.least, self.needed(call))

    def needed(self, call: Call | None) -> int:
        """Return a budget in which the node of a call can be visited."""
        held = () if call is None else call.held
        return self.most_fixed + sum({memory.key: memory.bytes for memory in held if not memory.fixed}.values())

    # Recomputing

    def restore(self, target: Call) -> None:
        """Recompute the segment of a call, in smaller segments if it does not fit."""
        with self.lock, silent():
            segments = self.live()
            parent = target.segment
            assert parent is not None
            for segment in segments[segments.index(parent) + 1 :]:
                self.finish(segment)
            self.target = target
            try:
                self.replay(parent)
                if self.bytes > self.limit:
                    self.make_room()
            finally:
                self.target = None
            self.observe()

    def replay(self, parent: Segment) -> None:
        """Repeat the calls of a segment, which is replaced by new ones on the tape."""
        began, count = perf_counter(), 0
        steps, last = _needed(parent)
        values: dict[Any, tuple[Array, Storage | None]] = {}
        for value, (array, storage, memory) in parent.externals.items():
            values[value] = array, storage
            self.drop(memory)
        parent.externals = {}
        first: Segment | None = None
        child: Segment | None = None
        done = 0
        try:
            for number, (call, node, runs) in enumerate(steps):
                if child is None or child.bytes * PARTS >= self.limit:
                    child = self.insert_before(parent)
                    first = child if first is None else first
                arrays: list[Any] = []
                storages: list[Storage | None] = []
                for x in call.inputs:
                    storage = None
                    if is_value(x):
                        array, storage = values[x]
                        child.take(x, array, storage)
                    elif type(x) is Source:
                        array, storage = x
                    else:
                        array = x
                    arrays.append(array)
                    storages.append(storage)
                given, outs, residuals = tuple(arrays), [], ()
                if runs:
                    given, outs, residuals = call.run(given)
                    count += 1
                    call.arrays = tuple([ref(out) for out in outs])
                    for value, out in zip(call.outputs, outs, strict=True):
                        storage = Storage()
                        storage.version = call.version
                        storages.append(storage)
                        if value in last:
                            values[value] = out, storage
                call.segment = child
                child.nodes.append(ref(node))
                if node.saved is call:
                    if not runs:
                        given = call.promoted(given)
                    call.fill(node, given, outs, residuals, storages)
                    self.settle(call, node, child)
                del arrays, given, outs, residuals, storages
                array = out = None
                done = number + 1
                for x in call.inputs:
                    if is_value(x) and last[x] == number:
                        values.pop(x, None)
                if self.bytes > self.limit:
                    self.make_room(first, child)
                    child = call.segment
                    if first is not None and not first.nodes:
                        first = child  # all was merged
        finally:
            if done == len(steps):
                parent.nodes = []
                self.tape = [reference for reference in self.tape if reference() is not parent]
            else:
                self.resume(parent, steps[done:], values)
            for budget in self.budgets:
                budget.recomputations += count
                budget.seconds += perf_counter() - began

    def insert_before(self, parent: Segment) -> Segment:
        child = Segment(self)
        child.closed = True
        place = next(index for index, reference in enumerate(self.tape) if reference() is parent)
        self.tape.insert(place, ref(child))
        return child

    def resume(
        self, parent: Segment, steps: Sequence[tuple[Call, Node, bool]], values: dict[Any, tuple[Array, Storage | None]]
    ) -> None:
        """Leave the calls that an exception has prevented in their segment."""
        parent.nodes = [ref(node) for _, node, _ in steps]
        for call, _, _ in steps:
            for x in call.inputs:
                if is_value(x) and x in values:
                    parent.take(x, *values[x])


def is_tuple_of(call: Call, node: Node) -> bool:
    """Return whether the node holds what the call saved."""
    return type(node.saved) is tuple and node.plan.primitive is call.primitive


def is_pending(call: Call, node: Node) -> bool:
    """Return whether a backward pass may still read what the node saved."""
    return node.saved is call or node.saved is not None and bool(call.held)


def _needed(segment: Segment) -> tuple[list[tuple[Call, Node, bool]], dict[Any, int]]:
    """Return the calls to go through, with whether to repeat each, and the last reader of each value."""
    steps: list[tuple[Call, Node, bool]] = []
    last: dict[Any, int] = {}
    for call, node in reversed(segment.calls()):
        wanted = is_pending(call, node)
        runs = any(value in last for value in call.outputs) or wanted and must_run(call, node)
        if not runs and not wanted:
            call.segment = None
            continue
        for x in call.inputs:
            if is_value(x):
                last.setdefault(x, len(steps))
        steps.append((call, node, runs))
    steps.reverse()
    return steps, {value: len(steps) - 1 - number for value, number in last.items()}


class _Plan:
    """The merges that are possible in the growing part of the tape."""

    def __init__(self, pool: Pool, segments: list[Segment], limit: int, before: int) -> None:
        self.pool = pool
        self.segments = segments
        self.externals = [segment.external_bytes() for segment in segments]
        self.room = limit - before
        self.gains = [self._gain(index) for index in range(len(segments) - 1)]

    @property
    def crowded(self) -> bool:
        """Return whether the externals take more than half of the room."""
        return 2 * sum(self.externals) > self.room

    def _gain(self, index: int) -> int:
        """Return the number of bytes that a merge with the next segment frees; -1 if it is not possible."""
        one, two = self.segments[index], self.segments[index + 1]
        if not one.released or not two.released:
            return -1
        return sum([
            memory.bytes
            for value, (_, _, memory) in two.externals.items()
            if producer(value).segment is one and memory.holders == 1 and not memory.fixed
        ])  # fmt: skip

    def merge(self, level: int, least: int) -> bool:
        """Merge the two segments that free most memory, at least ``least`` bytes; return False if there are none."""
        segments, room, best, place = self.segments, self.room, least - 1, -1
        count = len(segments)
        mean = max(1, sum(self.externals) // max(1, count - 1))
        for index in range(count - 1):
            room -= self.externals[index]
            gain = self.gains[index]
            if segments[index + 1].released and gain < 0 and segments[index].released:
                gain = self.gains[index] = self._gain(index)
            if gain > best and segments[index].bytes + segments[index + 1].bytes <= _capacity(room, mean, level):
                best, place = gain, index
        if place < 0:
            return False
        self.pool.merge(segments[place], segments[place + 1])
        del segments[place + 1], self.gains[place], self.externals[place + 1]
        self.externals[place] = segments[place].external_bytes()
        for index in (place - 1, place):
            if 0 <= index < len(self.gains):
                self.gains[index] = self._gain(index)
        return True


def _capacity(room: int, boundary: int, level: int) -> float:
    """Return the bytes of a segment that can be restored in ``room`` with ``level`` repetitions of each call."""
    return 0.95 * room * (room / boundary) ** (level - 1) / factorial(level) if room > 0 else 0


def _died(pool: ref[Pool], key: int, memory: Memory) -> None:
    here = pool()
    if here is not None and here.memories.get(key) is memory:
        del here.memories[key]
        here.count(memory, -1)


def _released(pool: ref[Pool], key: int, storage: ref[Storage] | None, user: object) -> None:
    """Handle the death of a Tensor that used fixed memory: find another such Tensor, else count the memory."""
    here = pool()
    memory = None if here is None else here.memories.get(key)
    if here is None or memory is None or memory.user is not user:
        return
    memory.user = None
    shared = None if storage is None else storage()
    for member in (shared.members if shared is not None else None) or ():
        tensor = member()
        if tensor is not None:
            here.use(memory, tensor)
            return
    here.count(memory, 1)
