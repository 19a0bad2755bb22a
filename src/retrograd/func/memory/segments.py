"""Free saved values to meet a memory budget, in segments of the program, and recompute one segment at a time.

The recorded calls form a *tape*, cut into segments. A segment holds the values that its nodes saved, and its
*externals*: the values of earlier segments that its calls read. When memory is short, the oldest segments are released:
the saved arrays of their nodes are freed, and the externals stay. The backward pass restores a released segment by
repeating its calls in their original order, from the externals. The saved arrays then stay until the backward pass has
left the segment, so each call is repeated once if the segment fits into memory.

Segments are small when they are recorded, and end where few bytes are alive (``cuts.py``). Two adjacent released
segments are merged to free the externals between them, those with the largest externals first. A segment must fit into
the memory that is left when it is restored: the budget minus the externals of the segments before it (*level* 1). If
even then the externals take too much memory, segments are merged to larger ones that do not fit themselves, but whose
parts fit (level 2), and so on: each call is repeated once per level, as in Griewank and Walther, "Revolve", 2000. A
segment that does not fit is restored as a tape of smaller segments, by the same rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import count
from math import prod
from threading import RLock
from time import perf_counter
from typing import Any
from weakref import ref

from numpy import ndarray

from ...core.arrays import Array
from ...core.arrays.devices import is_array
from ...core.arrays.fp_warnings import silent
from ...core.graph.nodes import NOTHING, Node
from ...core.graph.plan import Plan
from ...core.tensor.storage import Storage, Token, storage_of
from ...core.tensor.tensor import Tensor
from .cuts import MASK, SHIFT, Cuts
from .halving import External, Halved, View, halve_node, halved_external
from .ledger import Budget, Ledger, Memory
from .recipes import Call, Recreatable, Source, Value, is_value, must_run, producer, recreated, saved_places

LESSONS = 8  # the number of latest segments from which the places of the next cuts are learned
PARTS = 16  # the number of segments into which a budget's worth of memory is cut when it is recorded
MOST_LEVELS = 20

_NO_PARAMS: dict[str, object] = {}

# A call, its node, whether the call is repeated, its values that later steps read, and its inputs that none reads.
_Step = tuple[Call, Node, bool, tuple[Value, ...], tuple[Value, ...]]
_Values = dict[Value, tuple[Array, object]]  # the arrays of values, with their Storages, so that writes go to copies


class Segment:
    """A part of the tape: its nodes, and the values of earlier segments that their calls read."""

    __slots__ = (
        "__weakref__", "bytes", "closed", "externals", "gain", "halved", "nodes", "number", "outside", "pool",
        "released", "size", "unsaved",
    )  # fmt: skip

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.nodes: list[ref[Node]] = []
        self.externals: dict[Value, External] = {}
        self.unsaved: set[int] = set()  # the keys of externals' memory that no node of the segment has saved
        self.bytes = 0  # bytes that its nodes saved, without the externals, whether freed or not
        self.closed = False
        self.released = False
        self.halved = False
        self.outside: int | None = None  # the result of ``external_bytes``, until an external is added
        self.number = next(pool.numbers)  # a new number whenever the segment is merged with the next one
        self.gain: tuple[int, int] | None = None  # the next segment's number, and the bytes that a merge with it frees
        # The sizes vary, so that a loop is cut at different places of its body, from which ``Cuts`` learns the best.
        self.size = pool.limit / PARTS * (0.75 + 0.618034 * self.number % 0.5)

    def calls(self) -> list[tuple[Call, Node]]:
        """Return the calls of the segment, with their nodes."""
        return [(node.recipe, node) for reference in self.nodes if (node := reference()) is not None]

    def external_bytes(self) -> int:
        """Return the number of bytes of the externals."""
        found = self.outside
        if found is None:
            memories = {memory.key: memory.bytes for _, _, memory in self.externals.values() if not memory.fixed}
            found = self.outside = sum(memories.values())
        return found

    def restore(self, target: Call) -> None:
        """Recompute what the node of ``target`` saved, with the rest of the segment."""
        self.pool.restore(target, self)

    def replace(self, old: Node, new: Node) -> None:
        """Move the call of a node to another node."""
        self.nodes = [ref(new) if reference() is old else reference for reference in self.nodes]

    def take(self, value: Value, x: Tensor) -> None:
        """Hold the value of a Tensor, which a call of the segment reads, unless the segment computes it."""
        if value not in self.externals:
            self.hold(value, x.array, storage_of(x))

    def hold(self, value: Value, array: Array, storage: object) -> None:
        """Hold a value that a call of the segment reads, unless the segment computes it."""
        if producer(value).segment is not self and value not in self.externals:
            memory = self.pool.memory_of(array)
            self.pool.hold(memory)
            self.unsaved.add(memory.key)
            self.externals[value] = array, storage, memory
            self.outside = None


class Pool(Ledger):
    """The tape, and the memory that it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = RLock()
        self.budgets: tuple[Budget, ...] = ()
        self.observed = 0  # the maximum of ``bytes`` since these budgets apply
        self.budget = 0  # the smallest limit of these budgets
        self.wanted = 0  # ``budget``, or the smallest feasible number of bytes if ``budget`` is too small
        self.limit = 0  # the bytes not to exceed: ``wanted``, or more if the pass needs more
        self.tape: list[ref[Segment]] = []
        self.numbers = count()
        self.renumbered = count(-1, -1)
        self.cuts = Cuts()
        self.trail = 0  # identifies the latest calls, see ``followed``
        self.places: dict[Plan, tuple[int, ...]] = {}
        self.repeated: dict[Plan, bool] = {}  # whether a call must run to restore what its node saved
        self.made: dict[int, tuple[ref[Array], Recreatable, int | None]] = {}  # by id of the array, with a checksum
        self.visited: Call | None = None  # the call of the node whose rules are running
        self.target: Call | None = None  # the call of the node that is being restored
        self.parent: Segment | None = None  # the segment whose calls are being repeated

    def enforce(self, budgets: tuple[Budget, ...], least: int = 0) -> None:
        """Use these budgets; if they are too small, use ``least`` bytes."""
        self.budgets = budgets
        self.observed = 0
        self.budget = min([budget.limit for budget in budgets])
        self.wanted = self.limit = max(self.budget, least)

    def observe(self) -> None:
        """Update the peak of each budget, between two operators."""
        self.observed = self.bytes
        for budget in self.budgets:
            if self.bytes > budget.peak:
                budget.peak = self.bytes

    # The tape

    def segment(self) -> Segment:
        """Return the segment to which the next recorded call belongs."""
        last = self.tape[-1]() if self.tape else None
        if last is None or last.closed or last.bytes >= last.size and self.cuts.at(self.trail, last.bytes / last.size):
            if self.cuts.due and last is not None and self.cuts.has_choice(len(last.nodes)):
                self.cuts.learn([call for each in self.live()[-LESSONS:] for call in each.calls()])
            last = Segment(self)
            self.tape.append(ref(last))
        return last

    def append(self, call: Call, node: Node, segment: Segment) -> None:
        """Add a call at the end of a segment, and count what its node saved."""
        call.segment = segment
        node.recipe = call
        segment.nodes.append(ref(node))
        plan = node.plan
        self.trail = (self.trail << SHIFT ^ id(plan) >> 4) & MASK  # ``followed``, without a call
        places = self.places.get(plan)
        if places is None:
            places = self.places[plan] = saved_places(plan)
        if call.made:
            made = [place for place, name in plan.kept_params if type(call.params.get(name)) is Recreatable]
            places = (*places, *made)
        if places and type(node.saved) is tuple:
            self.count_saved(call, node.saved, places, segment)

    def count_saved(self, call: Call, saved: Sequence[object], places: Sequence[int], segment: Segment) -> None:
        """Count the arrays at these places of a node's saved values."""
        held: list[Memory] = []
        for place in places:
            value = saved[place]
            for array in value if type(value) is tuple else (value,):
                if type(array) is ndarray or is_array(array):
                    memory = self.memory_of(array)
                    held.append(memory)
                    if self.hold(memory):
                        segment.bytes += memory.bytes
                    elif memory.key in segment.unsaved:
                        segment.unsaved.remove(memory.key)
        call.held = tuple(held)

    def halve(self, segment: Segment) -> None:
        """Keep what the nodes of a segment saved, and its externals, in bfloat16."""
        segment.closed = segment.halved = True
        for call, node in segment.calls():
            skipped = not call.held or call is self.visited or call is self.target or type(node.saved) is not tuple
            if not skipped and (saved := halve_node(self, node, partial(self.restored, call))):
                self.recount(call, saved, range(len(saved)))
                for budget in self.budgets:
                    budget.halved += 1
        for value, external in segment.externals.items():
            segment.externals[value] = halved_external(self, external, segment.unsaved)
        segment.outside = segment.gain = None

    def restored(self, call: Call, node: Node) -> None:
        """Count the saved values of a node that were halved before."""
        with self.lock:
            self.recount(call, node.saved, saved_places(node.plan))
            if self.bytes > self.limit:
                self.make_room()

    def recount(self, call: Call, saved: Sequence[object], places: Sequence[int]) -> None:
        """Count the arrays at these places instead of what a call's node held; the segment's size is the same."""
        self.uncount(call)
        segment = call.segment
        if isinstance(segment, Segment):
            before = segment.bytes
            self.count_saved(call, saved, places, segment)
            segment.bytes = before

    def live(self) -> list[Segment]:
        """Return the segments whose nodes are alive."""
        segments = [segment for reference in self.tape if (segment := reference()) is not None]
        if len(segments) < len(self.tape):
            self.tape = [ref(segment) for segment in segments]
        return segments

    def release(self, segment: Segment) -> None:
        """Free what the nodes of a segment saved."""
        segment.closed = segment.released = True
        segment.gain = None
        for reference in segment.nodes:
            node = reference()
            call = None if node is None else node.recipe
            if node is None or call is None or not call.held:
                continue
            if call is not self.visited and call is not self.target and type(node.saved) in (tuple, Halved):
                call.strip(node)
            elif node.saved is not None:
                continue
            self.uncount(call)

    def uncount(self, call: Call) -> None:
        """Record that the call's node no longer holds memory."""
        for memory in call.held:
            self.drop(memory)
        call.held = NOTHING

    def finish(self, segment: Segment) -> bool:
        """If a backward pass has freed all saved values of a segment, remove its recipes and return True.

        Recipes refer to parameters. As long as they do, an in-place update of a parameter makes a copy.
        """
        calls: list[Call] = []
        for reference in segment.nodes:
            node = reference()
            if node is not None:
                call, saved = node.recipe, node.saved
                if saved is call or saved is not None and call.held:  # a backward pass may still read it
                    return False
                calls.append(call)
        for call in calls:
            if call.held:
                self.uncount(call)
            call.handles, call.params, call.segment = NOTHING, _NO_PARAMS, None
        for _, _, memory in segment.externals.values():
            self.drop(memory)
        segment.externals, segment.nodes, segment.closed, segment.outside = {}, [], True, 0
        return True

    def merge(self, one: Segment, two: Segment) -> None:
        """Append a segment to the one before it, and free the externals between them."""
        for call, _ in two.calls():
            call.segment = one
        one.nodes += two.nodes
        one.bytes += two.bytes
        one.released = one.released and two.released
        one.halved = one.halved and two.halved
        for value, external in two.externals.items():
            if producer(value).segment is one or value in one.externals:
                self.drop(external[2])
                if external[2].key not in two.unsaved:
                    one.bytes += external[2].bytes
            else:
                one.externals[value] = external
        one.unsaved |= two.unsaved
        one.outside = one.gain = None
        one.number = next(self.renumbered)
        two.nodes, two.externals, two.unsaved = [], {}, set()
        self.tape = [reference for reference in self.tape if reference() is not two]

    # Making room

    def make_room(self, first: Segment | None = None, last: Segment | None = None) -> None:
        """Free memory until the limit is met. Calls are being added to the tape's segments ``first`` to ``last``."""
        segments = self.live()
        start = 0 if first is None else segments.index(first)
        end = len(segments) if last is None else segments.index(last) + 1
        if self.fixed > self.budget:
            # The backward pass will raise an error at its end. The smallest possible limit would repeat each call
            # hundreds of times, so use a larger limit.
            self.limit = max(self.limit, 2 * self.fixed)
        limit = self.limit
        goal = limit - limit // 32  # a margin, so that this search runs rarely
        for segment in reversed(segments[end:]):  # the backward pass has left all of these except ``parent``
            if self.bytes <= goal:
                return
            if segment is self.parent:
                continue
            if not self.finish(segment) and not segment.released:
                self.release(segment)
        if self.bytes <= goal:
            return
        if any(budget.saved_dtype is not None for budget in self.budgets):
            for segment in segments[: end - 1]:
                if not segment.released and not segment.halved:
                    self.halve(segment)
                    if self.bytes <= goal:
                        return
        before = self.fixed + sum([segment.external_bytes() for segment in segments[:start]])
        plan = _Plan(self, segments[start:end], limit, before)
        victims = [segment for segment in segments[: end - 1] if not segment.released]
        victims.reverse()
        if len(victims) > 1:
            plan.join(limit // 8)
            victims = [segment for segment in victims if segment.nodes]
        level = 1
        while self.bytes > goal:
            if plan.crowded and plan.merge(level, 1):
                continue
            if victims:
                self.release(victims.pop())
                continue
            if plan.merge(level, 1) or level == 1 and plan.merge(level, 0):
                continue
            if self.bytes <= limit:
                return
            level += 1
            if level > MOST_LEVELS:
                break
        if self.bytes > limit:
            self.collapse(segments[:end])
        if self.bytes > limit and last is None:
            self.need(self.bytes, self.visited, self.target)

    def collapse(self, segments: list[Segment]) -> None:
        """Free as much as possible: merge all segments into one, whose only inputs are sources."""
        for segment in segments:
            self.release(segment)
        for segment in segments[1:]:
            self.merge(segments[0], segment)

    def need(self, bytes: int, *calls: Call | None) -> None:
        """Raise the limit to ``bytes``, or to the memory that a visit of one of these calls' nodes needs, if larger."""
        for call in calls:
            held = NOTHING if call is None else call.held
            fitting = sum({memory.key: memory.bytes for memory in held if not memory.fixed}.values())
            bytes = max(bytes, self.most_fixed + fitting)
        self.wanted = max(self.wanted, bytes)
        self.limit = max(self.limit, self.wanted)

    # Recomputing

    def restore(self, target: Call, parent: Segment) -> None:
        """Recompute the segment of a call, in smaller segments if it does not fit."""
        with self.lock, silent():
            segments = self.live()
            for segment in segments[segments.index(parent) + 1 :]:
                self.finish(segment)
            self.target, self.parent = target, parent
            try:
                self.replay(parent)
                if self.bytes > self.limit:
                    self.make_room()
            finally:
                self.target = self.parent = None
            self.observe()

    def replay(self, parent: Segment) -> None:
        """Repeat the calls of a segment, and replace it on the tape by new segments."""
        began = perf_counter()
        steps = self.needed(parent)
        whole = self.bytes + parent.bytes <= self.limit
        values: _Values = {}
        for value, (array, storage, memory) in parent.externals.items():
            values[value] = array.restored() if isinstance(array, View) else array, storage
            self.drop(memory)
        parent.externals, parent.outside = {}, 0
        done: list[bool] = []  # for each step that is done, whether its call was repeated
        try:
            self.repeat_all(parent, steps, values, whole, done)
        finally:
            if len(done) == len(steps):
                parent.nodes = []
                self.tape = [reference for reference in self.tape if reference() is not parent]
            else:
                self.resume(parent, steps[len(done) :], values)
            for budget in self.budgets:
                budget.recomputations += sum(done)
                budget.seconds += perf_counter() - began

    def repeat_all(
        self, parent: Segment, steps: Sequence[_Step], values: _Values, whole: bool, done: list[bool]
    ) -> None:
        """Repeat a segment's calls into new segments before it: into one segment if the ``whole`` segment fits."""
        collapsed = False
        first = child = self.insert_before(parent)
        repeat = self.repeat
        for call, node, runs, read, unread in steps:
            if not whole and child.bytes >= child.size:
                child = self.insert_before(parent)
            repeat(call, node, runs, read, child, values, not collapsed or call is self.target)
            done.append(runs)
            for x in unread:
                values.pop(x, None)
            if self.bytes > self.limit:
                self.make_room(first, child)
                if not child.nodes:  # all nodes were merged into other segments
                    assert isinstance(call.segment, Segment)
                    collapsed = True
                    first = child = call.segment

    def repeat(
        self, call: Call, node: Node, runs: bool, read: tuple[Value, ...], child: Segment, values: _Values, fills: bool
    ) -> None:
        """Repeat one call if ``runs`` is True, and restore its node's saved values if ``fills`` is True."""
        arrays: list[Any] = []
        storages: list[object] = []
        for x in call.inputs:
            kind, storage = type(x), None
            if kind is Call or kind is tuple:
                array, storage = values[x]
                if (x if kind is Call else x[0]).segment is not child:
                    child.hold(x, array, storage)
            elif kind is Source:
                array, storage = x
            else:
                array = recreated(x)
            arrays.append(array)
            storages.append(storage)
        # Recreated parameters are kept for the run, and for the values that the node saves.
        kept = list(map(recreated, call.params.values())) if call.made else None
        outs: list[Array] = []
        residuals: Sequence[Array] = NOTHING
        fills = fills and node.saved is call
        if runs:
            given, outs, residuals = call.run(tuple(arrays))
            for _ in outs:
                storage = Token()
                if call.version > 0:
                    storage = Storage()
                    storage.version = call.version
                storages.append(storage)
            for value in read:
                place = (0 if isinstance(value, Call) else value[1]) - len(outs)
                values[value] = outs[place], storages[place]
        elif fills:
            given = call.promoted(tuple(arrays))
        if fills:
            call.fill(node, given, outs, residuals, storages)
            self.append(call, node, child)
        else:
            call.segment = child
            child.nodes.append(ref(node))
        del kept

    def needed(self, segment: Segment) -> list[_Step]:
        """Return the steps that restore a segment, in the order of its calls."""
        steps: list[_Step] = []
        later: set[Value] = set()  # the values that later steps read
        repeated = self.repeated
        for reference in reversed(segment.nodes):
            node = reference()
            if node is None:
                continue
            call, saved, plan = node.recipe, node.saved, node.plan
            wanted = runs = saved is call or saved is not None and bool(call.held)
            if wanted:
                if plan not in repeated:
                    repeated[plan] = must_run(plan)
                runs = repeated[plan]
            read: tuple[Value, ...] = NOTHING
            if call in later:
                read = (call,)
            elif call.count:
                read = tuple([value for value in call.outputs if value in later])
            if read:
                runs = True
            elif not wanted:
                call.segment = None
                continue
            unread: tuple[Value, ...] = NOTHING
            for x in call.inputs:
                kind = type(x)
                if (kind is Call or kind is tuple) and x not in later:
                    later.add(x)
                    unread = *unread, x
            steps.append((call, node, runs, read, unread))
        steps.reverse()
        return steps

    def insert_before(self, parent: Segment) -> Segment:
        child = Segment(self)
        child.closed = True
        place = next(index for index, reference in enumerate(self.tape) if reference() is parent)
        self.tape.insert(place, ref(child))
        return child

    def resume(self, parent: Segment, steps: Sequence[_Step], values: _Values) -> None:
        """After an exception, keep the calls that were not repeated in their segment."""
        parent.number = next(self.renumbered)
        parent.nodes = [ref(node) for _, node, *_ in steps]
        for call, *_ in steps:
            for x in call.inputs:
                if is_value(x) and x in values:
                    parent.hold(x, *values[x])


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
        return 2 * sum(self.externals) > self.room

    def _gain(self, index: int) -> int:
        """Return the number of bytes that a merge with the next segment frees; -1 if they cannot be merged."""
        one, two = self.segments[index], self.segments[index + 1]
        if one.released is not two.released or not two.closed:
            return -1
        if one.gain is not None and one.gain[0] == two.number:
            return one.gain[1]
        between = Counter([memory for value, (_, _, memory) in two.externals.items() if producer(value).segment is one])
        gain = sum([memory.bytes for memory, count in between.items() if memory.holders == count and not memory.fixed])
        if one.released:
            one.gain = two.number, gain
        return gain

    def merge(self, level: int, least: int) -> bool:
        """Merge two adjacent released segments so that the result needs at most ``level``; return False if none do.

        On level 1, merge the two segments whose merge frees most memory, at least ``least`` bytes. On higher levels,
        merge those whose merged size is smallest compared with the available memory.
        """
        segments, room, best, place = self.segments, self.room, 0.0, -1
        count = len(segments)
        mean = max(1, sum(self.externals) // max(1, count - 1))
        for index in range(count - 1):
            room -= self.externals[index]
            if not segments[index].released or not segments[index + 1].released:
                continue
            gain = self.gains[index]
            if gain < 0:
                gain = self.gains[index] = self._gain(index)
            size = segments[index].bytes + segments[index + 1].bytes
            if gain < least or size > _capacity(room, mean, level):
                continue
            value = gain + 1 if level == 1 else room / max(size, 1)
            if value > best:
                best, place = value, index
        if place < 0:
            return False
        self._merge(place)
        return True

    def join(self, most: int) -> None:
        """Merge adjacent unreleased segments, to at most ``most`` bytes, if this frees much memory for their size."""
        place = 0
        while place < len(self.segments) - 2:  # calls are still added to the last segment
            size = self.segments[place].bytes + self.segments[place + 1].bytes
            if not self.segments[place].released and 8 * self.gains[place] > size and size <= most:
                self._merge(place)
            else:
                place += 1

    def _merge(self, place: int) -> None:
        segments = self.segments
        self.pool.merge(segments[place], segments[place + 1])
        del segments[place + 1], self.gains[place], self.externals[place + 1]
        self.externals[place] = segments[place].external_bytes()
        for index in (place - 1, place):
            if 0 <= index < len(self.gains):
                self.gains[index] = self._gain(index)


def _capacity(room: int, boundary: int, level: int) -> float:
    """Return the bytes of a segment that can be restored in ``room`` with ``level`` repetitions of each call."""
    if room <= 0:
        return 0
    steps = room / boundary  # the capacity is about binomial(steps + level - 1, level) boundaries
    return 0.95 * boundary * prod([(steps + earlier) / (earlier + 1) for earlier in range(level)])
