"""Follow the steps of a Python loop without recording them: repeated calls become one loop when they end.

A compiled function is traced while it runs. Once the calls of a Python loop repeat (``call_log``), each further call is
compared with the same call of the block (``expected_calls``) and not recorded: neither instructions nor nodes of the
graph. It is not even computed if the shapes of its results are known without computing them, so that a step costs
little more than its Python code. At the first call that differs, or when anything reads an unrecorded result,
``settle`` turns the steps into one ``RolledLoop``, which computes them, and whose derivative is a loop as well. Tensors
that are still referenced then get their values and history from that loop. If no loop is possible, the calls of all
steps are recorded.
"""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import TypeAlias
from weakref import ref

import numpy as np

from ...core.arrays import Array
from ...core.arrays.dtypes import promoted
from ...core.graph.modes import modes, recording
from ...core.graph.nodes import Node
from ...core.graph.primitive import Primitive, apply
from ...core.tensor.storage import known_storage
from ...core.tensor.tensor import Tensor
from ...ops.shape.conversion import CLONE
from ...ops.shape.joining import stack
from ..program import Arguments, Keywords, Value
from ..trace.effect_tracer import Bypassed
from ..trace.traced_arrays import Traced
from ..trace.tracer import Tracer
from .body import Leaves
from .call_log import BEFORE, NUMBER, OWN, SAME, SLICE, Block, Call, CallLog, Identity, Source, Unknown
from .expected_calls import comparisons, is_predictable
from .rolled import RolledLoop

MIN_STEPS = 8  # minimum steps of a loop; fewer steps are recorded call by call
MIN_CALLS = 200  # minimum calls of a loop
MAX_FAILURES = 8  # the search ends after this many blocks that cannot become a loop
MAX_LOOPS = 2  # maximum loops with equal blocks: a repeated inner loop belongs to a larger block

Pair: TypeAlias = tuple[ref[Traced], ref[Tensor]]  # weak references to the array and the Tensor of a result

_node_of = Traced.__dict__["node"].__get__
_numbers_of = Traced.__dict__["numbers"].__get__


class FollowedTensor(Tensor):
    """A result that is not recorded. Reading its node records it, and restores the class Tensor."""

    __slots__ = ()

    def __getattr__(self, name: str) -> object:
        if name == "_node":
            self.array.tracer.settle()
            if type(self) is Tensor:
                return self._node
        raise AttributeError(f"{Tensor.__name__!r} object has no attribute {name!r}")


FollowedTensor.__name__ = FollowedTensor.__qualname__ = Tensor.__name__


class Follower:
    """Finds and follows the loops of one trace."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._log = CallLog()
        self._length = 0  # length of the program after the last call
        self._failures = 0
        self._loops: dict[object, int] = {}  # the number of loops, by the calls of a block
        self._steps: _Steps | None = None

    def note(
        self,
        primitive: Primitive,
        inputs: Sequence[object],
        params: dict[str, object],
        outputs: Sequence[Tensor],
        before: int,
        site: object,
    ) -> None:
        """Log a call that the program has recorded. ``before`` is the length of the program before the call."""
        if self._failures >= MAX_FAILURES:
            return
        if before != self._length:
            self._log.clear()
        self._length = len(self._tracer.program.instructions)
        try:
            if modes.level is not None or modes.inference or self._tracer.checkpoint_runs is not None:
                raise Unknown
            self._log.add(primitive, inputs, params, outputs, self._tracer, site)
        except Unknown:
            self._log.clear()
            return
        block = self._log.block()
        if block is None:
            return
        key = tuple(sorted([call.code for call in block.calls]))
        if self._loops.setdefault(key, 0) < MAX_LOOPS:
            self._loops[key] += 1
            self._steps = _Steps(self._tracer, block, self._log)
            self._tracer.follow = self._steps.comparisons[0]

    def interrupt(self) -> None:
        """End the loop that is being followed, and forget the calls before, as their inputs are about to change."""
        self.settle()
        self._log.clear()

    def settle(self) -> None:
        """End the loop that is being followed, and record it."""
        steps, self._tracer.follow = self._steps, None
        if steps is None:
            return
        self._steps = None
        if not steps.record():
            self._failures += 1
        self._log.clear()
        self._length = len(self._tracer.program.instructions)

    def numbers_of(self, x: Traced) -> Array:
        """Return the array of a result, for ``computed`` of the tracer."""
        steps = self._steps
        found: Array = _numbers_of(x) if steps is None else steps.numbers_of(x)
        return found


class _Steps:
    """The steps of a loop that is being followed."""

    def __init__(self, tracer: Tracer, block: Block, log: CallLog) -> None:
        self.tracer, self._block, self._unbound = tracer, block, log.unbound
        self._results = [result for call in block.calls for result in call.results]
        self.lazy = is_predictable(block)  # whether no step is computed before the loop is recorded
        # Indices of the calls whose inputs are not promoted.
        self._unchanged: set[int] = set()
        self._count = 0  # number of complete steps
        self.own: list[Traced | None] = [None] * block.count  # the results of this step
        self.before: list[Traced | None] = [None] * block.count
        self._starts: dict[int, Tensor] = {}  # values of the step before the first step, if the loop reads them
        self.same: list[tuple[Tensor, Array] | None] = [None] * block.counts[SAME]
        self.slices: list[list[Tensor]] = [[] for _ in range(block.counts[SLICE])]
        self.numbers: list[list[float]] = [[] for _ in range(block.counts[NUMBER])]
        self.rows: dict[int, list[int]] = {at: [] for at, call in enumerate(block.calls) if call.row}
        self.made: list[Pair] = []  # results of this step and of the previous step
        self._recent: dict[tuple[int, int], Pair] = {}  # results of the previous step that are still referenced
        self._left: dict[tuple[int, int], Pair] = {}  # results of earlier steps that are still referenced
        self._earlier = len(block.recorded)  # number of steps that were recorded call by call and belong to the loop
        # Values of the step that precedes these earlier steps.
        self._first: dict[int, Tensor] = {}
        self._nodes: list[Node] = []  # nodes that the earlier steps read
        self._changed = False  # whether an input of the earlier steps has changed since they ran
        self._results_before: list[ref[Tensor]] = []  # results of the earlier steps
        for number, calls in enumerate(block.recorded):
            self._take(calls, number == 0)
        self.comparisons = comparisons(self, block, FollowedTensor)

    def _take(self, calls: Sequence[Call], is_first: bool) -> None:
        """Store the inputs of a step that has been recorded."""
        for at, (call, sources) in enumerate(zip(calls, self._block.sources, strict=True)):
            for x, read, source in zip(call.inputs, call.reads, sources, strict=True):
                if isinstance(x, Tensor):
                    self._changed = self._changed or not isinstance(read, tuple) or not self._is(x, read)
                    if x._node is not None:
                        self._nodes.append(x._node)
                    if source.kind == SAME:
                        self.same[source.index] = x, x.array
                    elif source.kind == SLICE:
                        self.slices[source.index].append(x)
                    elif source.kind == BEFORE and is_first and not (source.detached and source.index in self._first):
                        self._first[source.index] = x
                elif source.kind == NUMBER and isinstance(x, (int, float)):
                    self.numbers[source.index].append(x)
            if at in self.rows:
                self.rows[at].append(_row(call.params))
            self._results_before += call.made
            self._nodes += [x._node for made in call.made if (x := made()) is not None and x._node is not None]
            call.inputs = call.made = ()

    def computed(self, at: int, inputs: Arguments, params: Keywords) -> list[Array] | None:
        """Return the arrays of a call's results; None if the call fails, or if shapes or dtypes are not as expected."""
        call, tracer = self._block.calls[at], self.tracer
        primitive = call.primitive
        arrays = tuple([x.array.numbers if isinstance(x, Tensor) else x for x in inputs])
        tracer._busy += 1
        try:
            taken = arrays
            if primitive.promote is not None and at not in self._unchanged:
                taken = promoted(primitive.name, primitive.promote, tuple(inputs), arrays)
                if all(map(operator.is_, taken, arrays)):
                    self._unchanged.add(at)  # later steps have the same dtypes, so that they need no promotion either
            out = primitive.forward(*taken, **params)
        except Exception:
            return None  # the call will be recorded and raise the error
        finally:
            tracer._busy -= 1
        if primitive.residuals:
            out = out[0]
        found: list[Array] = []
        for array, (value, _) in zip((out,) if primitive.outputs == 1 else out, call.results, strict=True):
            if type(array) is not np.ndarray:
                array = np.asarray(array)
            if array.shape != value.shape or array.dtype != value.dtype:
                return None
            found.append(array)
        return found

    def starts_with(self, x: Tensor, source: Source) -> bool:
        """Return whether a Tensor is the value before the first step, and store the Tensor."""
        value, edge = self._results[source.index]
        if self._count or not self._is(x, (value, None if source.detached else edge)):
            return False
        if not source.detached or source.index not in self._starts:
            self._starts[source.index] = x
        return True

    def is_same(self, x: Tensor, source: Source) -> bool:
        if not isinstance(source.known, tuple) or not self._is(x, source.known):
            return False
        if self.same[source.index] is None:
            self.same[source.index] = x, x.array
        return True

    def _is(self, x: Tensor, known: Identity) -> bool:
        """Return whether a Tensor has the recorded node and, if it requires grad, the recorded place in the graph."""
        node = _recorded_node(x.array)
        if node is None or node is not known[0] or x._requires is (known[1] is None):
            return False
        return not x._requires or (-id(x) if x._node is None else x._node.sequence) == known[1]

    def is_slice(self, array: object, source: Source) -> bool:
        node = _recorded_node(array)
        return node is not None and (node.shape, node.dtype, node.strides) == source.known

    def end_step(self) -> None:
        """Forget the results of earlier steps, unless another object refers to them."""
        count = self._block.count
        self.before[:], self.own[:] = self.own, [None] * count
        self._left.update({place: pair for place, pair in self._recent.items() if pair[0]() is not None})
        self._recent = {}
        if self._count:
            self._recent = {
                (self._count - 1, k): pair for k, pair in enumerate(self.made[:count]) if pair[0]() is not None
            }
            del self.made[:count]
        self._count += 1

    # Recording

    def record(self) -> bool:
        """Record the steps: as a loop, and the last step call by call. Return whether there is a loop."""
        tracer = self.tracer
        self.own.clear()
        self.before.clear()
        self.comparisons.clear()  # the functions refer to ``self``
        self._left |= self._recent
        busy, tracer._busy = tracer._busy, 0
        self._left = {place: pair for place, pair in self._left.items() if pair[0]() is not None}
        last = self.made[: self._block.count] if self._count else []
        living = {k for k, pair in enumerate(last) if pair[0]() is not None}
        steps = self._count if living <= self._starts.keys() else self._count - 1
        calls, made = steps * len(self._block.calls), None
        try:
            with recording(any(call.grad for call in self._block.calls)):
                if steps >= MIN_STEPS and calls >= MIN_CALLS and 2 * len(self._left) <= calls:
                    made = self._loop(steps)
                if made is None:
                    self._record_calls(0, dict(self._starts))
                else:
                    if steps == self._count:
                        made = {k: self._adopt(last[k], x) if k in living else x for k, x in made.items()}
                        if len(living) > 1:
                            self._bypass([made[k] for k in living])
                    self._record_calls(steps, made)
        except Exception as error:
            if self.lazy and not tracer.broken:  # an eager call would raise the error in the step that fails
                raise Bypassed from error
            raise
        finally:
            tracer._busy = busy
        return made is not None

    def _record_calls(self, first: int, before: dict[int, Tensor]) -> None:
        """Record the calls of the steps from ``first`` on."""

        def adopted(step: int, k: int, x: Tensor) -> Tensor:
            pair = self._pair(step, k)
            return x if pair is None else self._adopt(pair, x)

        self._run(first, before, adopted)

    def numbers_of(self, traced: Traced) -> Array:
        """Compute all steps, and return the array of a result."""
        found: list[Array] = []

        def sought(step: int, k: int, x: Tensor) -> Tensor:
            pair = self._pair(step, k)
            if pair is not None and pair[0]() is traced:
                found.append(_real(x))
            return x

        self._run(0, dict(self._starts), sought)
        return found[0]

    def _run(self, first: int, before: dict[int, Tensor], take: Callable[[int, int, Tensor], Tensor]) -> None:
        """Run the calls of the steps from ``first`` on. ``take`` returns the Tensor that later calls read."""
        # The number of results of the last step, which is incomplete.
        results = len(self.made) - (self._block.count if self._count else 0)
        last = bisect_left(self._block.first, results)  # the first call missing in the incomplete step
        for step in range(first, self._count + (last > 0)):
            now: dict[int, Tensor] = {}
            for at, start in enumerate(self._block.first):
                if step == self._count and at == last:
                    break
                for k, x in enumerate(self._again(step, at, now, before), start):
                    now[k] = take(step, k, x)
            before = now

    def _pair(self, step: int, k: int) -> Pair | None:
        """Return weak references to a result of a step, if the result may still be referenced."""
        base = max(self._count - 1, 0)
        return self.made[(step - base) * self._block.count + k] if step >= base else self._left.get((step, k))

    def _again(self, step: int, at: int, now: dict[int, Tensor], before: dict[int, Tensor]) -> tuple[Tensor, ...]:
        """Record a call of a step that was followed."""
        call = self._block.calls[at]
        inputs = [self._input(source, step, now, before) for source in self._block.sources[at]]
        params = dict(call.params)
        if call.row:
            params["index"] = (self.rows[at][self._earlier + step], Ellipsis)
        with recording(call.grad):
            found = apply(call.primitive, tuple(inputs), params)
        return found if isinstance(found, tuple) else (found,)

    def _input(self, source: Source, step: int, now: dict[int, Tensor], before: dict[int, Tensor]) -> object:
        kind = source.kind
        if kind in (OWN, BEFORE):
            x = (now if kind == OWN else before)[source.index]
            return x.detach() if source.detached else x
        if kind == SAME:
            known = self.same[source.index]
            return None if known is None else known[0]
        if kind == SLICE:
            return self.slices[source.index][self._earlier + step]
        return self.numbers[source.index][self._earlier + step] if kind == NUMBER else source.known

    def _adopt(self, pair: Pair, new: Tensor) -> Tensor:
        """Give a Tensor of the program the value and history of a Tensor that was recorded."""
        traced, x = pair[0](), pair[1]()
        if traced is None:
            return new
        if x is not None and x.array is not traced:
            x = None
        result = new
        if x is None or x._storage is not None and new._storage not in (None, x._storage):
            new = apply(CLONE, (new,), {})  # other references to the memory do not use the storage of ``new``
        elif x._storage is None and new._storage is not None:
            x._storage = new._storage
            shared = known_storage(new)
            if shared is not None and shared.members is not None:
                shared.members.append(ref(x))
        array = new.array
        if type(array) is Traced:
            traced.node, traced.numbers, traced.form = array.node, array.numbers, None
            self.tracer.traced_objects.append(ref(traced))
        else:  # the trace is broken
            traced.node, traced.numbers, traced.form = self.tracer._value(array), array, None
        if x is None:
            return result
        if type(x) is FollowedTensor:
            object.__setattr__(x, "__class__", Tensor)
            if x._requires:  # otherwise x was detached in place
                x._requires, x._node = new._requires, new._node
        return x if new is result and x._requires is new._requires else result

    def _loop(self, steps: int) -> dict[int, Tensor] | None:
        """Record a loop of ``steps`` steps. Return the values of the loop's last step that the step after it reads."""
        block, tracer = self._block, self.tracer
        carried = sorted(self._starts)
        starts, begin = self._starts, self._earlier
        if (
            begin
            and not self._changed
            and all(node.hooks is None and node.plan.node_hooks is None for node in self._nodes)
        ):
            starts, begin = self._first, 0
        end = self._earlier + steps
        kept = sorted({k for step, k in self._left if step < steps})
        same = [known[0] for known in self.same if known is not None]
        if len(same) != len(self.same) or carried != sorted(starts):
            return None
        if not carried and not kept:  # nothing reads these steps
            return {}
        columns: list[object] = [self._stacked(column[begin:end]) for column in self.slices]
        dtypes = {
            source.index: source.known
            for sources in block.sources
            for source in sources
            if source.kind == NUMBER and isinstance(source.known, np.dtype)
        }
        columns += [np.array(column[begin:end], dtypes[k]) for k, column in enumerate(self.numbers)]
        rows = list(self.rows)
        columns += [_rows_of(same[block.sources[at][0].index], self.rows[at][begin:end]) for at in rows]
        slices = len(self.slices)

        def step(carry: Leaves, x: Leaves, constants: Leaves) -> tuple[Sequence[object], Sequence[object]]:
            before = dict(zip(carried, carry, strict=True))
            now: dict[int, Tensor] = {}

            def read(source: Source) -> object:
                if source.kind in (OWN, BEFORE):
                    value = (now if source.kind == OWN else before)[source.index]
                    return value.detach() if source.detached else value
                if source.kind == SAME:
                    return constants[source.index]
                if source.kind == SLICE:
                    return x[source.index]
                return x[slices + source.index] if source.kind == NUMBER else source.known

            for at, (call, sources, first) in enumerate(zip(block.calls, block.sources, block.first, strict=True)):
                if call.row:
                    now[first] = x[slices + len(dtypes) + rows.index(at)]
                    if not call.grad:
                        now[first] = now[first].detach()
                    continue
                with recording(call.grad and modes.grad_enabled):
                    found = apply(call.primitive, tuple([read(source) for source in sources]), dict(call.params))
                for k, value in enumerate(found if isinstance(found, tuple) else (found,), first):
                    now[k] = value
            return [now[k] for k in carried], [now[k] for k in kept]

        given = [starts[k] for k in carried]
        examples = [_real(x) for x in given], [np.asarray(_real(x)[0]) for x in columns], [_real(x) for x in same]
        mark = len(tracer.program.instructions)
        loop = RolledLoop.make(tracer, step, examples, False)
        if loop is None or loop.take_found():
            return None
        tracer.has_followed = True
        last, results = loop(end - begin, given, columns, same)
        for instruction in tracer.program.instructions[mark:]:
            instruction.site = block.calls[-1].site
        for (number, k), pair in sorted(self._left.items(), key=lambda item: item[0]):
            if number < steps:
                row = self._earlier - begin + number
                x = self._view(number, k)
                if x is None:
                    x = apply(CLONE, (results[kept.index(k)][row],), {})
                self._bypass([self._adopt(pair, x)])
        if begin == 0:
            self._bypass([x for made in self._results_before if (x := made()) is not None])
        return dict(zip(carried, last, strict=True))

    def _bypass(self, results: Sequence[Tensor]) -> None:
        """Record results on which later steps or other results depend, although the graph does not contain this
        dependency."""
        self.tracer.bypassed |= {x._node for x in results if x._node is not None}

    def _view(self, step: int, k: int) -> Tensor | None:
        """Recreate a result that is a view of a Tensor that is still referenced; None if it is not."""
        at = bisect_right(self._block.first, k) - 1
        if not all(self._block.calls[at].shares):
            return None
        source = self._block.sources[at][0]
        before: dict[int, Tensor] = {}
        if source.kind in (OWN, BEFORE):
            pair = self._left.get((step - (source.kind == BEFORE), source.index))
            base = None if pair is None else pair[1]()
            if base is None or type(base) is FollowedTensor:
                return None
            before = {source.index: base}
        return self._again(step, at, before, before)[k - self._block.first[at]]

    def _stacked(self, column: list[Tensor]) -> object:
        """Return the slices of all steps as one Tensor."""
        found = [self._unbound.get(x.array.node) for x in column]
        if found[0] is not None and all(x is not None and x[0] is found[0][0] for x in found):
            source = found[0][0]
            if source._requires is column[0]._requires:
                return _rows_of(source, [x[1] for x in found if x is not None])
        return stack(column)


def _rows_of(x: Tensor, rows: list[int]) -> Tensor:
    """Return ``x[rows]``, as a view if the rows are equally spaced."""
    distance = rows[1] - rows[0]
    length = len(x.array)
    rows = [row % length for row in rows]
    if distance and all(b - a == distance for a, b in zip(rows, rows[1:])):
        stop = rows[-1] + distance
        return x[rows[0] : None if stop < 0 else stop : distance]
    return x[rows]


def _row(params: dict[str, object]) -> int:
    """Return ``i`` of ``x[i]``."""
    index = params["index"]
    assert isinstance(index, tuple) and isinstance(index[0], int)
    return index[0]


def _recorded_node(array: object) -> Value | None:
    """Return the value of a Traced array; None if it is not recorded."""
    if type(array) is not Traced:
        return None
    try:
        found: Value = _node_of(array)
    except AttributeError:
        return None
    return found


def _real(x: object) -> Array:
    array = x.array if isinstance(x, Tensor) else x
    return np.asarray(array.numbers if type(array) is Traced else array)
