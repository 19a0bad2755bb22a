"""Export a profile to other viewers' formats."""

from __future__ import annotations

import json
import os
from typing import Any

from ...core.source_location import Site
from ..record import Record
from .profiler import Profiled, Span

_THREADS = {"forward": 1, "module": 1, "backward": 2, "optimizer": 3, "data loading": 4}
_NAMES = {1: "forward", 2: "backward", 3: "optimizer", 4: "data loading"}


def chrome(p: Profiled) -> str:
    """Return the Trace Event Format: complete events in microseconds, a thread for each phase, counters of memory, and
    a flow from each operator to its derivative rule."""
    loads = [Span("data loading", "data loading", began, ended, None) for began, ended in p.recorder.outside.loads]
    loaded = p.recorder.loaded
    inside = [
        span._replace(kind="data loading") if span.record is not None and span.record.index in loaded else span
        for span in p.spans
    ]
    spans = sorted([*inside, *loads], key=lambda span: (span.began, -span.ended))
    start = spans[0].began if spans else 0.0
    pid = os.getpid()

    def meta(what: str, tid: int, **args: object) -> dict[str, object]:
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}

    events = [meta("process_name", 0, name="retrograd")]
    for tid in sorted({_THREADS[span.kind] for span in spans}):
        events += [meta("thread_name", tid, name=_NAMES[tid]), meta("thread_sort_index", tid, sort_index=tid)]
    differentiated = {id(span.record) for span in spans if span.kind == "backward"}
    for span in spans:
        began, ended = (span.began - start) * 1e6, (max(span.began, span.ended) - start) * 1e6
        place = {"ts": began, "pid": pid, "tid": _THREADS[span.kind]}
        name = span.name if span.kind != "backward" else f"{span.name} (backward)"
        event: dict[str, object] = {"ph": "X", "name": name, "cat": span.kind, "dur": ended - began, **place}
        events.append(event)
        if span.record is None:
            continue
        event["args"] = _details(span.record)
        if id(span.record) in differentiated:
            ends = {"ph": "f", "bp": "e"} if span.kind == "backward" else {"ph": "s"}
            events.append({**ends, "id": span.record.index, "name": "gradient", "cat": "gradient", **place})
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
    frames: list[dict[str, object]] = []
    numbers: dict[Any, int] = {}

    def number(key: object, frame: dict[str, object]) -> int:
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
