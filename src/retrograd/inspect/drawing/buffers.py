"""Fold the updates of a module's buffers, such as the running statistics of batch norm, into the module's operator."""

from __future__ import annotations

from collections.abc import Sequence

from ..record import Departure, Record


def without_buffer_updates(records: Sequence[Record]) -> tuple[list[Record], dict[int, list[str]]]:
    """Return the records without updates of buffers, and the names of the buffers by the record that stands for them.

    An update writes to a Tensor outside of the graph, in a module, and no other operator of the step reads it.
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
