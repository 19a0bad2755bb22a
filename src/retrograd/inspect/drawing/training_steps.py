"""The steps of a trace: forward passes, each with its backward passes. One step is drawn, without updates of buffers.

Gradients of other steps with the same operators are shown in the same drawing, so that a page can show how gradients
change.
Updates of a module's buffers, such as the running statistics of batch norm, are folded into the module's operator.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from ..record import Departure, Record
from ..statistics import Statistics
from ..tracing import Records
from .graph_picture import norm_of

_MOST = 60  # steps whose gradients are kept


class Step(NamedTuple):
    """The forward operators of a step, and the gradients of its leaves by the leaves' numbers.

    A step that uses the records of another step has ``norms``: the norms of the operators' gradients by record index.
    """

    number: int
    records: list[Record]
    leaves: dict[int, Statistics]
    norms: dict[int, float] | None = None

    @property
    def signature(self) -> tuple[Hashable, ...]:
        """The properties that must be equal for two steps to share a drawing."""
        return tuple([(record.operator, record.module, record.shape) for record in self.records])


def steps_of(trace: Records, records: Sequence[Record]) -> list[Step]:
    """Return the steps of a trace, whose operators to draw are ``records``, in order; at least one.

    A step ends with a backward pass, if no later operator reads a result that was computed before its end.
    """
    ends = sorted({count for count, _, _ in trace._leaves})
    if not ends or not records:
        return [Step(1, list(records), {number: found for _, number, found in trace._leaves})]
    oldest: dict[int, int] = {}  # by record: the first record that this or a later record reads
    reads = 1 << 60
    for record in reversed(records):
        sources = [x.source for x in record.inputs if isinstance(x.source, Record) and x.requires_grad and not x.leaf]
        reads = min([reads, *[source.index for source in sources]])
        oldest[record.index] = reads
    steps: list[Step] = []
    part: list[Record] = []
    pending = iter([*ends, 1 << 60])
    end = next(pending)
    for record in records:
        while record.index >= end:
            if part and oldest[record.index] >= end:
                steps.append(Step(len(steps) + 1, part, {}))
                part = []
            end = next(pending)
        part.append(record)
    steps.append(Step(len(steps) + 1, part, {}))
    for count, number, found in trace._leaves:
        step = next((step for step in reversed(steps) if step.records[0].index < count), steps[0])
        step.leaves[number] = found
    return steps


def drawn_step(steps: Sequence[Step]) -> Step:
    """Return the step to draw: the last one with gradients."""
    return next((step for step in reversed(steps) if step.leaves), steps[-1])


def alike(steps: Sequence[Step], drawn: Step) -> list[Step]:
    """Return the steps with the same operators as the drawn step, at most as many as a page can show."""
    signature = drawn.signature
    found = [step for step in steps if step.signature == signature]
    every = -(-len(found) // _MOST)
    return [step for i, step in enumerate(found) if i % every == 0 or step is drawn]


def flows_of(steps: Sequence[Step], place: int) -> tuple[float | None, ...]:
    """Return the gradient norms, by step, of the record at a position in each step."""
    found = [_norm(step, step.records[place]) for step in steps]
    return () if all(x is None for x in found) else tuple(found)


def _norm(step: Step, record: Record) -> float | None:
    if step.norms is not None:
        return step.norms.get(record.index)
    return None if record.gradients is None else norm_of(record.gradients)


def leaf_flows(steps: Sequence[Step], leaf: int) -> tuple[float | None, ...]:
    """Return the gradient norms of a leaf, by step."""
    found = [step.leaves.get(leaf) for step in steps]
    return () if not any(found) else tuple([None if x is None else norm_of(x) for x in found])


def without_buffer_updates(records: Sequence[Record]) -> tuple[list[Record], dict[int, list[str]]]:
    """Return the records without updates of buffers, and the names of updated buffers by the record that shows them.

    An update of a buffer is a write by a module to a Tensor outside of the graph that no other operator reads.
    """
    readers: dict[int, list[int]] = {}
    for record in records:
        for x in record.inputs:
            source = x.source.source if isinstance(x.source, Departure) else x.source
            if isinstance(source, Record):
                readers.setdefault(source.index, []).append(record.index)
    hidden: set[int] = set()
    for record in reversed(records):
        later = readers.get(record.index, ())
        ends = record.writes is not None or bool(later)
        if record.module and not record.requires_grad and ends and all(index in hidden for index in later):
            hidden.add(record.index)
    shown = [record for record in records if record.index not in hidden]
    hosts = {record.index for record in shown if record.requires_grad}
    names: dict[int, list[str]] = {}
    for place, record in enumerate(records):
        if record.index not in hidden:
            continue
        near = sorted(records[max(0, place - 20) : place + 20], key=lambda other: abs(other.index - record.index))
        host = next((other for other in near if other.index in hosts and other.module == record.module), None)
        if host is None:
            return list(records), {}
        name = record.writes.name if record.writes is not None else ""
        if name and name not in names.setdefault(host.index, []):
            names[host.index].append(name)
    return shown, names
