"""The observer behind every trace: it creates the records."""

from __future__ import annotations

import linecache
import math
import sys
import threading
from collections.abc import Sequence
from time import perf_counter
from typing import Any
from weakref import ref

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import array_module, is_array
from ..core.graph.backward import as_array
from ..core.graph.modes import Mode, modes
from ..core.graph.nodes import Node
from ..core.graph.observers import Observer
from ..core.graph.plan import Inputs, Params, Recordable
from ..core.mapping.batched import Batched
from ..core.source_location import Site, user_frame, user_site
from ..core.tensor.tensor import Tensor, is_dense
from ..ops.indexing.indexing import Index
from ..ops.nn.losses.classes import Classes
from .memory import SavedMemory
from .names import Names
from .record import Departure, Input, Record
from .statistics import Statistics, sample, statistics


class _Own(threading.local):
    """The time that observers of this thread have spent, which is not charged to any operator."""

    seconds = 0.0


own = _Own()


def is_layered(values: Sequence[object]) -> bool:
    """Return whether a call belongs to one layer of ``vmap``. The calls of the layer below are observed as well."""
    return Batched in [type(x.array if isinstance(x, Tensor) and x.is_dense else x) for x in values]


class Running:
    """An active operator or rule of a node; ``inner`` is the time that it spent in other operators and rules."""

    __slots__ = ("began", "inner", "record")

    def __init__(self, record: Record | None) -> None:
        self.record = record
        self.inner = 0.0
        self.began = 0.0


class Recorder(Observer):
    """Records calls.

    The recorder refers to no Tensor and no node: it uses sequence numbers and weak references.
    """

    accounts = True  # whether the observer accounts for saved memory

    def __init__(self, keep: str | None = None) -> None:
        linecache.checkcache()  # the program may have edited and reloaded a module since its lines were last read
        self.keep = keep
        self.records: list[Record] = []
        self.count = 0  # the number of all records, including deleted ones
        self.departures: list[Departure] = []
        self.leaves: list[tuple[int, int, Statistics]] = []  # number of earlier records, number of a leaf, its gradient
        self.uses: list[tuple[int, int, float]] = []  # a leaf, the node that sent it a gradient, and its norm
        self.names = Names()
        self.kept = SavedMemory()
        self._of_node: dict[int, Record] = {}
        self._of_tensor: dict[int, tuple[ref[Tensor], Record | Departure]] = {}
        self._of_array: dict[int, tuple[ref[object], Record]] = {}  # integers and masks, which operators read as arrays
        self._running: list[Running] = []
        self._scopes: list[tuple[Any, int, float]] = []  # operators: name, number of records at the start, time
        self._walks: list[int] = []  # the number of active calls at the start of each nested backward pass
        self._steps = 0  # steps of all backward passes
        self._count = 0  # the number of records at the start of the outermost backward pass
        self._passed = 0  # the number of records at the end of the last backward pass
        self.clock = 0.0  # the end of the last public operator
        self._left: Node | None = None
        self._device: Any = None  # the array module of a device other than the CPU, if one was seen
        self._no_grad: Site | None = None

    # Look-up

    def source(self, x: Tensor) -> Record | Departure | None:
        """Return the source of a Tensor if the trace saw it."""
        node: Any = x._node if x._requires else None
        if isinstance(node, Tensor):  # x represents the leaf ``node``, on a layer of vmap or inside a rule
            return self.source(node)
        record = None if node is None else self._of_node.get(node.sequence)
        if record is None:
            found = self._of_tensor.get(id(x))
            if found is not None and found[0]() is x:
                return found[1]
        return record

    def record_of(self, node: Node) -> Record | None:
        """Return the record of a node; for a node that selects one of several outputs, the record of the operator."""
        record = self._of_node.get(node.sequence)
        if record is None and node.plan.select is not None and isinstance(node.parents[0], Node):
            return self._of_node.get(node.parents[0].sequence)
        return record

    # Calls

    def calling(self, primitive: Recordable, inputs: Inputs, params: Params) -> None:
        start = perf_counter()
        record = None if is_layered(inputs) else self._new_record(primitive.name, inputs)
        if record is not None and params:
            record.inputs += tuple([x for value in params.values() for x in self._indices(value)])
        running = Running(record)
        self._running.append(running)
        self._begin(running, start)

    def called(
        self, primitive: Recordable, inputs: Inputs, params: Params, outputs: tuple[Tensor, ...], node: Node | None
    ) -> None:
        if outputs and type(outputs[0].array) is not np.ndarray:
            self._device = array_module(outputs[0].array)
            self._wait()
        start = perf_counter()
        record, seconds = self._end(start)
        if record is not None:
            record.forward = seconds
            self._complete(record, inputs, outputs, node)
            self.ran(record, primitive, inputs, params, outputs)
        own.seconds += perf_counter() - start

    def ran(
        self, record: Record, primitive: Recordable | None, inputs: Inputs, params: Params, outputs: tuple[Tensor, ...]
    ) -> None:
        """Hook for subclasses: a record is complete. ``primitive`` is None for a public operator that called none."""

    def record_statistics(self, record: Record, array: Array, gradient: bool) -> None:
        """Record statistics of an operator's output or its gradient."""
        if gradient:
            record.gradients = statistics(array)
        else:
            record.values = statistics(array)
        record.samples[gradient] = sample(array)
        if self.keep is not None and gradient:
            record.gradient = array.copy()
        elif self.keep is not None:
            record.value = array.copy()

    def failed(self, primitive: Recordable, inputs: Inputs, params: Params, error: BaseException) -> None:
        start = perf_counter()
        record, seconds = self._end(start)
        if record is not None:
            record.forward = seconds
            record.error = error.with_traceback(None)
        own.seconds += perf_counter() - start

    def opened(self, what: object, inputs: tuple[object, ...]) -> None:
        start = perf_counter()
        if isinstance(what, str):
            self._scopes.append((what, len(self.records), self._clock(start)))
        else:
            self.names.enter(what)
            own.seconds += perf_counter() - start

    def closed(self, what: object, inputs: tuple[object, ...], result: object) -> None:
        start = perf_counter()
        if not isinstance(what, str):
            self.names.leave(what)
        elif self._scopes:  # empty if the operator started before the trace was entered
            name, count, began = self._scopes.pop()
            self.clock = start - own.seconds
            self._add_bypassing(name, inputs, result, count, self.clock - began)
        own.seconds += perf_counter() - start

    def _add_bypassing(self, name: str, inputs: tuple[object, ...], result: object, count: int, seconds: float) -> None:
        """Record a public operator that has ended, if it computed a result, or failed, without a primitive."""
        parts = self.records[count:]
        if isinstance(result, BaseException):
            if self._scopes or parts and parts[-1].error is not None:
                return  # the error is recorded at a primitive inside, or at the enclosing operator
            outputs: tuple[Tensor, ...] = ()
        else:
            values = result if isinstance(result, (tuple, list)) else (result,)
            given = {id(x) for x in inputs}
            if is_layered(values):
                return
            outputs = tuple([x for x in values if is_dense(x) and id(x) not in given])
            outputs = tuple([x for x in outputs if self.source(x) is None])
            if not outputs:
                return
        record = self._new_record(name, inputs, name)
        if isinstance(result, BaseException):
            record.error = result.with_traceback(None)
        record.creates = not any(isinstance(x, Tensor) for x in inputs)
        record.forward = seconds - sum([part.forward for part in parts])
        self._complete(record, inputs, outputs, None)
        self.ran(record, None, inputs, {}, outputs)
        if self._running:
            self._running[-1].inner += record.forward

    def _new_record(self, operator: str, inputs: tuple[object, ...], call: str = "") -> Record:
        call = self._scopes[0][0] if self._scopes else call or operator
        phase = "backward" if self._walks else "forward"
        record = Record(self.count, operator, call, user_site(3), self.names.path, phase)
        record.classes = self.names.classes
        found: list[Input] = []
        for value in inputs:
            if isinstance(value, Tensor) and value.is_dense:
                found.append(self.input_of(value))
            else:
                found += self._inputs(value)
        record.inputs = tuple(found)
        if not modes.grad_enabled:
            record.grad_enabled = False
            record.no_grad = self._no_grad
        if self._running:
            around = self._running[-1].record
            record.within = None if around is None or around.phase != record.phase else around.operator
        self.records.append(record)
        self.count += 1
        return record

    def _inputs(self, value: object) -> list[Input]:
        if isinstance(value, (list, tuple)):
            return [self.input_of(x) for x in value if is_dense(x)]
        if is_array(value):
            return [Input(None, "", value.shape, value.dtype, False)]
        return [Input(None, repr(value), (), None, False)] if isinstance(value, (int, float, complex)) else []

    def _indices(self, value: object) -> list[Input]:
        """Return the integers and masks among an operator's parameters, which are data like its inputs."""
        if isinstance(value, Index):
            value = value.key if value.along is None else value.key[value.along]
        elif isinstance(value, Classes):
            value = value.index
        if isinstance(value, tuple):
            return [x for part in value for x in self._indices(part)]
        array = value.array if is_dense(value) else value
        if not is_array(array) or isinstance(array, Batched) or array.dtype.kind not in "iub":
            return []
        found = self._of_array.get(id(array))
        source = found[1] if found is not None and found[0]() is array else None
        name = "" if self._computed(source) else self.names.of(array)
        return [Input(source, name, array.shape, array.dtype, False, self.names.number(array))]

    def input_of(self, x: Tensor) -> Input:
        source = self.source(x)
        name = "" if self._computed(source) and not (x._requires and x._node is None) else self.names.of(x)
        leaf = self.names.number(x if x._requires else x.array) if x._node is None else 0
        return Input(source, name, x.array.shape, x.array.dtype, x._requires, leaf)

    def _computed(self, source: Record | Departure | None) -> bool:
        """Return whether a value is the result of an operator of this step. Results of earlier steps have names."""
        return isinstance(source, Record) and not source.creates and source.index >= self._passed

    def _complete(
        self, record: Record, inputs: tuple[object, ...], outputs: tuple[Tensor, ...], node: Node | None
    ) -> None:
        for output in outputs:
            if inputs and inputs[0] is output:
                base = output._base
                record.writes = record.inputs[0] if base is None else self.input_of(base)
                if base is not None:  # the base was written as well
                    self._of_tensor[id(base)] = ref(base), record
            self._of_tensor[id(output)] = ref(output), record
            if type(output.array) is np.ndarray and output.array.dtype.kind in "iub":
                self._of_array[id(output.array)] = ref(output.array), record
        if not outputs:
            return
        array = outputs[0].array
        if isinstance(array, Batched):
            return
        if len(outputs) == 1:
            record.shape, record.dtype = array.shape, array.dtype
        else:
            record.shape = tuple([output.array.shape for output in outputs])
            record.dtype = tuple([output.array.dtype for output in outputs])
        self.record_statistics(record, array, False)
        if node is not None:
            record.requires_grad = True
            record.sequence = node.sequence
            self._of_node[node.sequence] = record
            for output in outputs:
                if output._requires and isinstance(output._node, Node):
                    self._of_node[output._node.sequence] = record
            if self.accounts:
                record.kept = self.kept.add(node)

    def recorded(self, node: Node) -> None:
        running = self._running[-1] if self._running else None
        node.site = user_site(2) if running is None or running.record is None else running.record

    def released(self, nodes: list[Node]) -> None:
        if not self.accounts:
            return
        for node in nodes:
            self.kept.release(node.sequence)
        for node in reversed(nodes):
            record = self._of_node.get(node.sequence)
            if record is not None and record.sequence == node.sequence:
                record.kept = self.kept.add(node)

    def departed(self, x: Tensor, how: str, result: Tensor | None) -> None:
        start = perf_counter()
        departure = Departure(how, user_site(2), self.names.path, self.input_of(x), self.count)
        self.departures.append(departure)
        if result is not None:
            self._of_tensor[id(result)] = ref(result), departure
        own.seconds += perf_counter() - start

    def became(self, x: Tensor, other: Tensor) -> None:
        source = self.source(other)
        if source is not None:
            self._of_tensor[id(x)] = ref(x), source
        else:
            self._of_tensor.pop(id(x), None)

    def begin_under(self, no_grad: Site | None) -> None:
        """Record the line that switched recording off before this record began."""
        self._no_grad = no_grad

    def switched(self, grad_enabled: bool) -> None:
        frame = sys._getframe(1)
        modes_file = Mode.__enter__.__code__.co_filename
        while frame.f_back is not None and frame.f_code.co_filename == modes_file:
            frame = frame.f_back
        if user_frame(frame) is not frame:
            return  # the engine switched recording, not the program
        if grad_enabled:
            self._no_grad = None
        elif modes.grad_enabled:
            self._no_grad = user_site(2)

    # Backward passes

    def began(self) -> None:
        if not self._walks:
            self._count = self.count
        self._walks.append(len(self._running))

    def ended(self) -> None:
        start = perf_counter()
        if self._walks:
            del self._running[self._walks.pop() :]
            if not self._walks:
                self._passed = self.count
        self._release_left()
        if self.accounts and not self._walks and self.count > self._count:
            for record in self.records[self._count - self.count :]:
                record.briefly = record.sequence is not None and not self.kept.holds(record.sequence)
        own.seconds += perf_counter() - start

    def entered(self, node: Node, g: object) -> None:
        start = perf_counter()
        self._release_left()
        record = self.record_of(node)
        running = Running(record)
        self._running.append(running)
        if record is not None and node.sequence == record.sequence:
            record.walked = self._steps
            record.passes += 1
            self._steps += 1
            array = getattr(g, "array", g)
            if isinstance(g, (tuple, list)):  # zeros represent the gradients of outputs that nothing reads
                found = [as_array(x) for x in g if x is not None]
                array = next((x for x in found if x.any()), found[0] if found else None)
            if array is not None and not isinstance(array, Batched):
                self.record_statistics(record, as_array(array), True)
        self._begin(running, start)

    def left(self, node: Node) -> None:
        if self._device is not None:
            self._wait()
        start = perf_counter()
        record, seconds = self._end(start)
        if record is not None:
            record.backward += seconds
        self._left = node
        own.seconds += perf_counter() - start

    def sent(self, node: Node, index: int, given: object, g: object, before: object) -> None:
        leaf = node.parents[index]
        if not isinstance(leaf, Tensor):
            return
        start = perf_counter()
        array = getattr(g, "array", g)
        if not isinstance(array, Batched):
            self.record_use(leaf, node, as_array(array))
        own.seconds += perf_counter() - start

    def record_use(self, leaf: Tensor, node: Node, gradient: object) -> None:
        """Record the gradient that one operator sent to a leaf."""
        found = statistics(gradient)
        self.uses.append((self.names.number(leaf), node.sequence, found.norm if found.finite else math.inf))

    def finished(self, leaf: Tensor, g: object) -> None:
        start = perf_counter()
        array = getattr(g, "array", g)
        if not isinstance(array, Batched):
            self.record_leaf(leaf, as_array(array))
        own.seconds += perf_counter() - start

    def record_leaf(self, leaf: Tensor, gradient: object) -> None:
        """Record statistics of the gradient with which a backward pass reached a leaf."""
        self.leaves.append((self.count, self.names.number(leaf), statistics(gradient)))

    def _release_left(self) -> None:
        """Release the memory of the node whose rules ran last, if the backward pass has freed its saved values."""
        if self._left is not None and self._left.saved is None:
            self.kept.release(self._left.sequence)
        self._left = None

    # Time

    def _wait(self) -> None:
        """Synchronize with a GPU, so that the measured time includes its work."""
        cuda = getattr(self._device, "cuda", None)
        if cuda is not None:
            cuda.Device().synchronize()

    def _begin(self, running: Running, start: float) -> None:
        running.began = self._clock(start)

    def _clock(self, start: float) -> float:
        """Add the time since ``start`` to the time spent in observers; return the current time without that time."""
        now = perf_counter()
        own.seconds += now - start
        return now - own.seconds

    def _end(self, now: float) -> tuple[Record | None, float]:
        """End the innermost active call; return its record and its seconds without inner calls."""
        if not self._running:  # the call started before the trace was entered
            return None, 0.0
        running = self._running.pop()
        seconds = now - own.seconds - running.began
        if self._running:
            self._running[-1].inner += seconds
        return running.record, seconds - running.inner
