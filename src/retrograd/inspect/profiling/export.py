"""Export a profile to other viewers' formats."""

from __future__ import annotations

import json
import os
from typing import Any

from ...core.source_location import Site
from ..record import Record
from .profiler import Profiled


def chrome(p: Profiled) -> str:
    """Return the Trace Event Format: complete events in microseconds on one thread, and counters of memory."""
    spans = sorted(p.spans, key=lambda span: (span.began, -span.ended))
    start = spans[0].began if spans else 0.0
    pid = os.getpid()
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "retrograd"}},
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": 0, "args": {"name": "operators"}},
    ]
    for span in spans:
        event: dict[str, Any] = {
            "ph": "X",
            "name": span.name if span.kind != "backward" else f"{span.name} (backward)",
            "cat": span.kind,
            "ts": (span.began - start) * 1e6,
            "dur": max(0.0, span.ended - span.began) * 1e6,
            "pid": pid,
            "tid": 0,
        }
        if span.record is not None:
            event["args"] = _details(span.record)
        events.append(event)
    for clock, total in p.recorder.live.samples:
        when = max(0.0, clock - start) * 1e6
        events.append({"ph": "C", "name": "memory", "ts": when, "pid": pid, "tid": 0, "args": {"bytes": total}})
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, allow_nan=False)


def _details(record: Record) -> dict[str, Any]:
    return {
        "line": str(record.site),
        "code": record.code,
        "module": record.module,
        "output": f"{record.dtype}{record.shape}",
        "kept": record.kept,
    }


def speedscope(p: Profiled) -> str:
    """Return speedscope's file format: one profile of seconds, forward and backward, and one of saved bytes."""
    frames: list[dict[str, Any]] = []
    numbers: dict[Any, int] = {}

    def number(key: Any, frame: dict[str, Any]) -> int:
        if key not in numbers:
            numbers[key] = len(frames)
            frames.append(frame)
        return numbers[key]

    seconds: list[tuple[list[int], float]] = []
    kept: list[tuple[list[int], float]] = []
    for record in p.records:
        stack = [number(site, _frame(site)) for site in p.recorder.stacks.get(record.index, (record.site,))]
        for phase, spent in (("forward", record.forward), ("backward", record.backward)):
            if spent > 0:
                name = record.operator if phase == "forward" else f"{record.operator} (backward)"
                seconds.append(([*stack, number((name, record.module), _operator(name, record))], spent))
        if record.kept and not record.briefly:
            kept.append(
                ([*stack, number((record.operator, record.module), _operator(record.operator, record))], record.kept)
            )
    for lines, spent in p.outside.items():
        if lines:
            stack = [number(site, _frame(site)) for site in lines]
            seconds.append(([*stack, number("outside", {"name": "outside of operators"})], spent))
    profiles = [_sampled("time", "seconds", seconds), _sampled("bytes saved for backward", "bytes", kept)]
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "name": "retrograd",
            "activeProfileIndex": 0,
            "exporter": "retrograd",
            "shared": {"frames": frames},
            "profiles": profiles,
        },
        allow_nan=False,
    )


def _frame(site: Site) -> dict[str, Any]:
    return {"name": f"{site.function} ({site})", "file": site.file, "line": site.line}


def _operator(name: str, record: Record) -> dict[str, Any]:
    return {"name": f"{name} in {record.module}" if record.module else name}


def _sampled(name: str, unit: str, weighted: list[tuple[list[int], float]]) -> dict[str, Any]:
    return {
        "type": "sampled",
        "name": name,
        "unit": unit,
        "startValue": 0,
        "endValue": sum(weight for _, weight in weighted),
        "samples": [stack for stack, _ in weighted],
        "weights": [weight for _, weight in weighted],
    }
