"""The HTML of traces in a notebook: tables of operators by line and of groups, and a step of a backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from ...core.arrays.devices import is_array
from ...core.tensor.tensor import Tensor
from ..drawing.figures import Figures, byte_text, number, numbers_of
from ..drawing.gradients import LOOKS, level, reference
from ..drawing.graph_picture import is_mask, norm_of
from ..record import Record
from ..stepping.events import Event, summary
from ..table import duration, output_of, percent
from ..tracing import Groups, Records
from .heatmap import heat_map, plane

MOST = 200  # operators in a table

STYLE = """
.rg-table{box-sizing:border-box;border:1px solid rgba(128,128,128,.4);border-radius:8px;padding:8px 12px;max-width:100%;
overflow:auto;max-height:560px;display:inline-block;font:13px/1.5 system-ui,sans-serif}
.rg-table table{border-collapse:collapse;margin:4px 0;font-variant-numeric:tabular-nums}
.rg-table th,.rg-table td{text-align:right;padding:1px 10px;white-space:nowrap;border:0;background:none}
.rg-table th{font-weight:600;opacity:.75}.rg-table .left{text-align:left}
.rg-table .site td{text-align:left;padding-top:7px;font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px}
.rg-table i{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:6px}
.rg-table b.alarm{color:#c2185b}.rg-table u{text-decoration:none;opacity:.7}
.rg-table .bar{display:inline-block;height:9px;background:#d55e00;vertical-align:0;margin-left:6px}
"""


def records_html(records: Records) -> str:
    """Return a table of the operators of each line: module, result, values, gradient, bytes kept and time."""
    shown = list(records)[:MOST]
    if not shown:
        return f'<div class="rg-table"><style>{STYLE}</style>{escape(str(records))}</div>'
    norms = [None if x.gradients is None else norm_of(x.gradients) for x in records if x.shape != ()]
    usual = reference(norms)
    head = _row(["operator", "module", "output", "values", "gradient", "kept", "time"], "th", 3)
    rows, place = [], None
    for record in shown:
        here = record.file, record.line, record.phase
        if here != place:
            place = here
            phase = "<u>backward of</u> " if record.phase == "backward" else ""
            line = f"{phase}{escape(str(record.site))}  <u>{escape(record.code)}</u>"
            rows.append(f'<tr class="site"><td colspan="7">{line}</td></tr>')
        rows.append(_row(_cells(record, usual), "td", 3))
    count = len(records)
    parts = [f"{count:,} operator{'s' * (count != 1)}", f"{byte_text(records.kept)} kept"]
    parts += [f"{duration(records.forward)} forward", f"{duration(records.backward)} backward"]
    more = f"<div><u>and {count - MOST:,} more operators</u></div>" if count > MOST else ""
    table = f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<div class="rg-table"><style>{STYLE}</style><div>{", ".join(parts)}</div>{table}{more}</div>'


def _cells(record: Record, usual: float) -> list[str]:
    values, alarm = "", ""
    if record.values is not None:
        found = Figures.of(record.values)
        values = found.extent if found.size == 1 else f"mean {number(found.mean)}, norm {number(found.norm)}"
        alarm = found.alarm if not is_mask(record) else ""
    gradient = ""
    if record.gradients is not None:
        norm = norm_of(record.gradients)
        color = LOOKS[level(norm, usual)].light
        gradient = f'<i style="background:{color}"></i>{number(norm)}'
    if record.error is not None:
        alarm = type(record.error).__name__
    return [
        escape(record.label),
        escape(record.module),
        escape(output_of(record)),
        (f'<b class="alarm">⚠ {escape(alarm)}</b> ' if alarm else "") + escape(values if not alarm else ""),
        gradient,
        byte_text(record.kept) if record.kept else "",
        duration(record.seconds) if record.seconds else "",
    ]


def groups_html(groups: Groups) -> str:
    """Return a table with a row and a bar per group, and a row for the time outside of operators, if any."""
    outside = groups.outside
    whole = sum(group.seconds + group.other for group in groups.values()) + outside
    rows = []
    for label, group in groups.items():
        share = (group.seconds + group.other) / whole if whole else 0.0
        bar = f'{percent(share)}<span class="bar" style="width:{90 * share:.0f}px"></span>'
        times = [duration(x) if x else "" for x in (group.forward, group.backward, group.other)]
        rows.append(_row([escape(label), *times, bar, byte_text(group.kept), str(len(group))], "td", 1))
    if outside:
        rows.append(
            _row(["<u>outside of operators</u>", "", "", duration(outside), percent(outside / whole), "", ""], "td", 1)
        )
    head = _row(["", "forward", "backward", "other", "share", "kept", "operators"], "th", 1)
    table = f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<div class="rg-table"><style>{STYLE}</style>{table if rows else "no operator ran"}</div>'


def _row(cells: Sequence[str], element: str, left: int) -> str:
    """Return a row of cells, of which the first ones are left-aligned."""
    marks = [' class="left"' if i < left else "" for i in range(len(cells))]
    parts = [f"<{element}{mark}>{cell}</{element}>" for mark, cell in zip(marks, cells, strict=True)]
    return f"<tr>{''.join(parts)}</tr>"


_BOX = (
    "display:inline-block;border:1px solid rgba(128,128,128,.4);border-radius:8px;padding:8px 12px;max-width:100%;"
    "font:13px/1.5 system-ui,sans-serif;overflow-x:auto"
)
_CODE = "font:12px/1.45 ui-monospace,Menlo,Consolas,monospace"


def event_html(event: Event) -> str:
    """Return the HTML of a step."""
    number = f" <span style='opacity:.7'>{event.index + 1} of {event.count}</span>" if event.count else ""
    module = f" in {escape(event.module)}" if event.module else ""
    parts = [f"<div><b>{escape(event.title)}</b>{module}{number}</div>"]
    if event.code:
        parts.append(f'<div style="{_CODE}">{escape(event.code)}</div>')
    if event.formula:
        style = f"{_CODE};border-left:4px solid #d55e00;padding:2px 10px;margin:6px 0"
        parts.append(f'<div style="{style}">{escape(event.formula)}</div>')
    if event.worked:
        parts.append(f'<div style="{_CODE}">{escape(event.worked)}</div>')
    rows = []
    coming = event.incoming if isinstance(event.incoming, tuple) else (event.incoming,)
    for i, g in enumerate(coming):
        rows.append(_array_row("upstream gradient" + (f" of output {i}" if len(coming) > 1 else ""), g, ""))
    rows += [_array_row(f"read {name}", value, "") for name, value in event.read.items()]
    for i, name in enumerate(event.inputs):
        rows.append(_array_row(f"gradient of {name}{event.target(i)}", event.outgoing[i], event.fate(i)))
    parts.append(f'<table style="border-collapse:collapse;margin:6px 0">{"".join(rows)}</table>')
    rule = f'<pre style="{_CODE};margin:4px 0;white-space:pre-wrap">{escape(event.rule)}</pre>'
    parts.append(f"<details><summary>the rule's source</summary>{rule}</details>")
    return f'<div style="{_BOX}">{"".join(parts)}</div>'


def _array_row(name: str, value: object, fate: str) -> str:
    cell = "text-align:left;vertical-align:top;padding:2px 14px 6px 0;background:none"
    text = "no gradient" if value is None and name != "" and not name.startswith("read") else summary(value)
    picture = ""
    array = numbers_of(value) if isinstance(value, Tensor) or is_array(value) else np.empty(0)
    if array.size > 3 and array.dtype.kind in "fcViu":
        values, part = plane(array)
        picture = (f"<div style='opacity:.7'>{escape(part)}</div>" if part else "") + heat_map(values)
    return f'<tr><td style="{cell}">{escape(name)}</td><td style="{cell}">{escape(text + fate)}{picture}</td></tr>'
