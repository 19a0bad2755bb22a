"""The observer behind ``profile``: when operators and their rules ran, where they were called, and what was alive."""

from __future__ import annotations

import math
import sys
from time import perf_counter
from typing import Any, NamedTuple

from ...core.arrays import Array
from ...core.graph.nodes import Node
from ...core.graph.plan import Inputs, Params, Recordable
from ...core.source_location import Site, stack_of, user_frame
from ...core.tensor.tensor import Tensor, is_dense
from ..memory import owner_of
from ..record import Record
from ..recorder import Recorder, is_layered, own
from ..tracing import Records
from .live_arrays import LiveArrays, Part
from .outside_time import OutsideTime, Stack, is_loading


class Span(NamedTuple):
    """An interval on a clock that excludes the observers' time: an operator (``record``), its rules in a backward pass,
    a module or a step of an optimizer (``name``)."""

    name: str
    kind: str
    began: float
    ended: float
    record: Record | None


class Profiler(Recorder):
    """Records times and memory, but no statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.base = 0  # the id of the frame that entered the profile
        self.spans: list[Span] = []
        self.labels: set[int] = set()  # positions in ``spans`` of parts that the program has named
        self.stacks: dict[int, tuple[Site, ...]] = {}
        self.live = LiveArrays()
        self.outside = OutsideTime()
        self.loaded: set[int] = set()  # indices of operators that a data loader called
        self.optimizing: set[Stack] = set()  # the lines that called an optimizer's step
        self._began_step = 0.0
        self._entered: list[tuple[str, float]] = []
        self._leaves: set[int] = set()
        self._top: tuple[tuple[int, int], Stack] = (0, 0), ()  # the frame that called the outermost operator

    def now(self) -> float:
        """The time in seconds on a clock that excludes the time of observers."""
        return perf_counter() - own.seconds

    def _stack(self) -> Stack:
        frame = user_frame(sys._getframe(1))
        key = id(frame), -1 if frame is None else frame.f_lasti
        if self.outside.busy and key == self._top[0]:  # the frame still runs, so its id is unique
            return self._top[1]
        stack = () if frame is None else stack_of(frame, self.base)
        if not self.outside.busy:
            self._top = key, stack
        return stack

    def _busy(self) -> None:
        start = perf_counter()
        self.outside.enter(start - own.seconds, self._stack)
        own.seconds += perf_counter() - start

    def _idle(self) -> None:
        self.outside.leave(self.now())

    def record_statistics(self, record: Record, array: Array, gradient: bool) -> None:
        pass

    def record_leaf(self, leaf: Tensor, gradient: object) -> None:
        pass

    def record_use(self, leaf: Tensor, node: Node, gradient: object) -> None:
        pass

    def _new_record(self, operator: str, inputs: tuple[object, ...], call: str = "") -> Record:
        record = super()._new_record(operator, inputs, call)
        self.stacks[record.index] = self._stack()
        if is_loading(sys._getframe(1)):
            self.loaded.add(record.index)
            self.outside.loading.add(self.outside.caller)
        for x in inputs:
            if is_dense(x) and self.source(x) is None and not is_layered((x,)):
                self._leaves.add(id(owner_of(x.array)))
        return record

    def calling(self, primitive: Recordable, inputs: Inputs, params: Params) -> None:
        self._busy()
        super().calling(primitive, inputs, params)

    def called(
        self, primitive: Recordable, inputs: Inputs, params: Params, outputs: tuple[Tensor, ...], node: Node | None
    ) -> None:
        super().called(primitive, inputs, params, outputs, node)
        self._idle()

    def failed(self, primitive: Recordable, inputs: Inputs, params: Params, error: BaseException) -> None:
        super().failed(primitive, inputs, params, error)
        self._idle()

    def began(self) -> None:
        self._busy()
        super().began()

    def ended(self) -> None:
        super().ended()
        self._idle()

    def stepping(self, optimizer: object) -> None:
        self._busy()
        self._began_step = self.now()
        self.optimizing.add(self.outside.caller)

    def stepped(self, optimizer: object) -> None:
        if self._began_step:
            self.spans.append(Span(f"{type(optimizer).__name__}.step", "optimizer", self._began_step, self.now(), None))
            self._began_step = 0.0
        self._idle()

    def _end(self, now: float) -> tuple[Record | None, float]:
        began = self._running[-1].began if self._running else 0.0
        record, seconds = super()._end(now)
        if record is not None:
            self.outside.charged += seconds
            self.spans.append(Span(record.operator, "forward", began, now - own.seconds, record))
        return record, seconds

    def ran(
        self, record: Record, primitive: Recordable | None, inputs: Inputs, params: Params, outputs: tuple[Tensor, ...]
    ) -> None:
        clock = self.spans[-1].ended if self.spans else 0.0
        if primitive is None:
            clock = self.clock
            self.outside.charged += record.forward
            self.spans.append(Span(record.operator, "forward", clock - record.forward, clock, record))
        for output in outputs:
            if is_layered((output,)):
                continue
            if id(owner_of(output.array)) not in self._leaves:
                self.live.add(output.array, record, "output", clock)
        if record.sequence is not None:
            for owner in self.kept.pieces_of(record.sequence):
                if id(owner) not in self._leaves:
                    self.live.add(owner, record, "saved for backward", clock, kept=True)

    def sent(self, node: Node, index: int, given: object, g: Any, before: object) -> None:
        start = perf_counter()
        record = self.record_of(node)
        if record is not None and not is_layered((getattr(g, "array", g),)):
            self.live.add(getattr(g, "array", g), record, "gradient", start - own.seconds)
        own.seconds += perf_counter() - start

    def left(self, node: Node) -> None:
        count = len(self.spans)
        super().left(node)
        if len(self.spans) > count:
            self.spans[-1] = self.spans[-1]._replace(kind="backward")

    def opened(self, what: object, inputs: tuple[object, ...]) -> None:
        if isinstance(what, str):
            self._busy()
        super().opened(what, inputs)
        if not isinstance(what, str):
            self._entered.append((self.names.path, self.now()))

    def closed(self, what: object, inputs: tuple[object, ...], result: object) -> None:
        super().closed(what, inputs, result)
        if not isinstance(what, str) and self._entered:
            name, began = self._entered.pop()
            self.spans.append(Span(name, "module", began, self.now(), None))
        if isinstance(what, str):
            self._idle()


class Profiled(Records):
    """The measurements: records of operators, the time outside of operators, and memory."""

    def __init__(self, recorder: Profiler) -> None:
        super().__init__(recorder.records, recorder.departures)
        self.recorder = recorder

    @property
    def outside(self) -> dict[Stack, float]:
        """The seconds in which no operator ran, by the stack of lines."""
        self.recorder.outside.finish()
        return self.recorder.outside.seconds

    @property
    def other(self) -> float:
        """The seconds in which no operator and no derivative rule ran."""
        return math.fsum(self.outside.values())

    @property
    def wall(self) -> float:
        """All seconds from start to end, without the time of the measurement itself."""
        return self.seconds + self.other

    def phase(self, stack: Stack) -> str:
        """Return the name of the activity outside of operators at a stack of lines, such as data loading."""
        if stack in self.recorder.optimizing:
            return "optimizer"
        return "data loading" if stack in self.recorder.outside.loading else "other"

    @property
    def spans(self) -> list[Span]:
        """Intervals of operators, their rules, modules and steps of optimizers, in the order in which they ended."""
        return self.recorder.spans

    @property
    def most(self) -> int:
        """The peak of the bytes in arrays of operators."""
        return self.recorder.live.most

    @property
    def peak(self) -> list[Part]:
        """The arrays at the peak by line, operator and kind, the largest part first."""
        return self.recorder.live.peak()
