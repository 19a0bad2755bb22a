"""Contents of ``profiler``: PyTorch's interface to ``retrograd.inspect.profile``, with tables of operators."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from ....inspect.profiling.profile_mode import profile as Profile
from ....inspect.profiling.profiler import Span

_active: list[Profile] = []  # the profiles that record now


class record_function(contextlib.ContextDecorator):
    """A context manager and decorator that names a part of the program in the tables of ``profile``."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self._began: list[list[tuple[Profile, float]]] = []

    def __enter__(self) -> record_function:
        self._began.append([(found, found.recorder.now()) for found in _active])
        return self

    def __exit__(self, *error: object) -> None:
        for found, began in self._began.pop():
            found.spans.append(Span(self.name, "module", began, found.recorder.now(), None))
            found.recorder.labels.add(len(found.spans) - 1)


class ProfilerActivity(Enum):
    """The devices that PyTorch's profiler can observe."""

    CPU = 0
    CUDA = 2
    XPU = 1


class ProfilerAction(Enum):
    """The actions of a profiler at a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, **options: object
) -> Callable[[int], ProfilerAction]:
    """Return a function from a step to a profiler's action at this step."""

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        length = wait + warmup + active
        if step < 0 or repeat and step >= repeat * length:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, **options: object
) -> Callable[[profile], None]:
    """Return a function that writes the trace of a profiler to a folder, for TensorBoard."""

    def write(profiler: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        import socket

        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' * use_gzip}"
        profiler.export_chrome_trace(os.path.join(dir_name, name))

    return write


class FunctionEvent:
    """Calls of one operator, of its derivative rules (``exp (backward)``), or of a part that ``record_function`` names.

    Attributes:
        key, name: its name.
        count: the number of calls.
        cpu_time_total, self_cpu_time_total: microseconds, with and without those of the events inside.
        cpu_memory_usage, self_cpu_memory_usage: bytes of the arrays that it allocated.
        input_shapes: the shapes of the inputs.
    """

    # Times on a GPU are not measured.
    device_time_total = self_device_time_total = cuda_time_total = self_cuda_time_total = device_time = cuda_time = 0.0
    device_memory_usage = self_device_memory_usage = cuda_memory_usage = self_cuda_memory_usage = 0

    def __init__(self, key: str, count: int, total: float, nbytes: int, shapes: list[list[int]]) -> None:
        self.key = self.name = key
        self.count = count
        self.cpu_time_total = self.self_cpu_time_total = total
        self.cpu_memory_usage = self.self_cpu_memory_usage = nbytes
        self.input_shapes = shapes

    @property
    def cpu_time(self) -> float:
        """The mean microseconds of a call."""
        return self.cpu_time_total / self.count

    def add(self, other: FunctionEvent) -> FunctionEvent:
        """Add the calls of another event to this one."""
        for name in ("count", "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def __repr__(self) -> str:
        times = f"cpu_time_total={_time(self.cpu_time_total)}, self_cpu_time_total={_time(self.self_cpu_time_total)}"
        return f"<FunctionEvent key={self.key} count={self.count} {times} input_shapes={self.input_shapes}>"


class EventList(list[FunctionEvent]):
    """Events of a profile, which print as a table."""

    @property
    def self_cpu_time_total(self) -> float:
        """The microseconds of all events."""
        return sum(event.self_cpu_time_total for event in self)

    def total_average(self) -> FunctionEvent:
        """Return the sum of all events as one event, named ``Total``."""
        total = FunctionEvent("Total", 0, 0.0, 0, [])
        for event in self:
            total.add(event)
        total.cpu_time_total = total.self_cpu_time_total
        return total

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Return one event per name, or per name and shapes of inputs."""
        groups: dict[tuple[str, str], FunctionEvent] = {}
        for event in self:
            key = event.key, str(event.input_shapes) if group_by_input_shape else ""
            if key not in groups:
                groups[key] = FunctionEvent(event.key, 0, 0.0, 0, event.input_shapes if group_by_input_shape else [])
            groups[key].add(event)
        return EventList(groups.values())

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_name_column_width: int = 55, **options: object
    ) -> str:
        """Return a table of the events.

        Args:
            sort_by: an attribute of the events, such as ``"cpu_time_total"`` or ``"count"``; the largest is first.
            row_limit: the number of rows, -1 for all.
            max_name_column_width: names are cut after this number of characters.
        """
        events = self if sort_by is None else sorted(self, key=lambda event: -getattr(event, sort_by))
        whole = self.self_cpu_time_total
        shapes, memory = any(event.input_shapes for event in self), any(event.cpu_memory_usage for event in self)
        head = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        head += ["CPU Mem", "Self CPU Mem"] * memory + ["# of Calls"] + ["Input Shapes"] * shapes
        rows = [head]
        for event in events[: None if row_limit < 0 else row_limit]:
            times = [f for t in (event.self_cpu_time_total, event.cpu_time_total) for f in (_share(t, whole), _time(t))]
            sizes = [_bytes(event.cpu_memory_usage), _bytes(event.self_cpu_memory_usage)] * memory
            cells = [event.key[:max_name_column_width], *times, _time(event.cpu_time), *sizes, str(event.count)]
            rows.append([*cells, *[str(event.input_shapes)] * shapes])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        line = "  ".join("-" * width for width in widths)
        lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([line, lines[0], line, *lines[1:], line, f"Self CPU time total: {_time(whole)}", ""])

    def __str__(self) -> str:
        return self.table()


def _time(microseconds: float) -> str:
    return _scaled(microseconds, (1e6, "s"), (1e3, "ms"), (1.0, "us"))


def _bytes(number: float) -> str:
    return _scaled(number, (2.0**30, " GB"), (2.0**20, " MB"), (2.0**10, " KB"), (1.0, " B"))


def _scaled(number: float, *units: tuple[float, str]) -> str:
    factor, unit = next((pair for pair in units if number >= pair[0]), units[-1])
    return f"{number / factor:.3f}{unit}"


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "0.00%"


class profile:
    """Measure the operators of a program: PyTorch's interface to ``retrograd.inspect.profile``, which also has lines.

    Args:
        schedule: a function from a step's number to an action; by default every step is recorded. ``step`` ends a step.
        on_trace_ready: called with this profiler after the last step of a cycle, or at the end.
        record_shapes: whether the events have the shapes of their inputs.
        profile_memory: whether the events have the bytes that they allocated.
        enabled: whether to record at all.
        activities, options: accepted; processors are the only devices whose time is measured.

    >>> import retrograd as rg
    >>> with rg.profiler.profile() as prof:
    ...     _ = rg.ones(3).exp().exp()
    >>> [(event.key, event.count) for event in prof.key_averages()]
    [('ones', 1), ('exp', 2)]
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], object] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        **options: object,
    ) -> None:
        self.schedule, self.on_trace_ready = schedule, on_trace_ready
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.step_num, self.enabled = 0, enabled
        self._profile: Profile | None = None

    @property
    def current_action(self) -> ProfilerAction:
        """What the profiler does in this step."""
        if not self.enabled:
            return ProfilerAction.NONE
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)

    def _change(self, records: bool) -> None:
        """Begin or end recording."""
        if records:
            self._profile = Profile()
            self._profile.__enter__()
            _active.append(self._profile)
        elif self._profile in _active:
            _active.remove(self._profile)
            self._profile.__exit__(None, None, None)
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)

    def start(self) -> None:
        """Begin."""
        if self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            self._change(True)

    def stop(self) -> None:
        """End, and call ``on_trace_ready`` if the last step was recorded."""
        self._change(False)

    def step(self) -> None:
        """End a step and begin the next one."""
        recorded = self.current_action
        self.step_num += 1
        records = self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if recorded is ProfilerAction.RECORD_AND_SAVE or not records:
            self._change(False)
        if records and self._profile not in _active:
            self._change(True)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def events(self) -> EventList:
        """Return the calls of the last recorded steps, in the order of their beginnings."""
        found = self._profile
        if found is None:
            return EventList()
        allocated: Counter[tuple[int, bool]] = found.recorder.live.allocated() if self.profile_memory else Counter()
        events, around = EventList(), list[tuple[float, FunctionEvent]]()
        kept = [s for i, s in enumerate(found.spans) if s.kind != "module" or i in found.recorder.labels]
        for span in sorted(kept, key=lambda span: (span.began, -span.ended)):
            backward, record = span.kind == "backward", span.record
            shapes = [list(x.shape) for x in record.inputs] if record is not None and self.record_shapes else []
            nbytes = 0 if record is None else allocated[record.index, backward]
            total = max(0.0, span.ended - span.began) * 1e6
            event = FunctionEvent(span.name + " (backward)" * backward, 1, total, nbytes, shapes)
            while around and around[-1][0] <= span.began:
                around.pop()
            if around:
                around[-1][1].self_cpu_time_total -= total
            for _, outer in around:
                outer.cpu_memory_usage += nbytes
            around.append((span.ended, event))
            events.append(event)
        return events

    @property
    def function_events(self) -> EventList:
        """The same as ``events()``."""
        return self.events()

    @property
    def self_cpu_time_total(self) -> float:
        """``events().self_cpu_time_total``."""
        return self.events().self_cpu_time_total

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Return ``events().key_averages(...)``: one event per name, or per name and shapes."""
        return self.events().key_averages(group_by_input_shape)

    def total_average(self) -> FunctionEvent:
        """Return the sum of all events as one event."""
        return self.events().total_average()

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: int) -> str:
        """Return a table of all calls; see ``EventList.table``."""
        return self.events().table(sort_by, row_limit, **options)

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace for chrome://tracing and Perfetto; a name that ends in ``.gz`` compresses it.

        Raises:
            RuntimeError: no step was recorded.
        """
        if self._profile is None:
            raise RuntimeError("export_chrome_trace: the profiler has recorded nothing")
        self._profile.to_chrome(path)
        if os.fspath(path).endswith(".gz"):
            import gzip

            with open(path, "rb") as file:
                text = file.read()
            with gzip.open(path, "wb") as packed:
                packed.write(text)

    def add_metadata(self, key: str, value: str) -> None:
        """Do nothing: traces have no metadata."""

    add_metadata_json = add_metadata

    def __str__(self) -> str:
        return str(self.events())


_EVENTS = "EventList FunctionEvent FunctionEventAvg=FunctionEvent"
NAMES: Mapping[str, str] = {
    "profiler": "ProfilerAction ProfilerActivity profile record_function schedule tensorboard_trace_handler " + _EVENTS,
    "events": _EVENTS,
}
