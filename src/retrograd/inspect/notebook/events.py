"""The HTML of a step of a backward pass in a notebook: its formula, its rule, and the arrays as heat maps."""

from __future__ import annotations

from html import escape
from typing import Any

from ...core.arrays.devices import is_array
from ...core.tensor.tensor import Tensor
from ..drawing.figures import numbers_of
from ..stepping.events import Event, summary
from .heatmap import heat_map, plane

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
        rows.append(_row("upstream gradient" + (f" of output {i}" if len(coming) > 1 else ""), g, ""))
    rows += [_row(f"read {name}", value, "") for name, value in event.read.items()]
    for i, name in enumerate(event.inputs):
        rows.append(_row(f"gradient of {name}{event.target(i)}", event.outgoing[i], event.fate(i)))
    parts.append(f'<table style="border-collapse:collapse;margin:6px 0">{"".join(rows)}</table>')
    rule = f'<pre style="{_CODE};margin:4px 0;white-space:pre-wrap">{escape(event.rule)}</pre>'
    parts.append(f"<details><summary>the rule's source</summary>{rule}</details>")
    return f'<div style="{_BOX}">{"".join(parts)}</div>'


def _row(name: str, value: Any, fate: str) -> str:
    cell = "text-align:left;vertical-align:top;padding:2px 14px 6px 0;background:none"
    text = "no gradient" if value is None and name != "" and not name.startswith("read") else summary(value)
    array = value.array if isinstance(value, Tensor) else value
    picture = ""
    if is_array(array) and array.size > 3 and array.dtype.kind in "fiuc":
        values, part = plane(numbers_of(array))
        picture = (f"<div style='opacity:.7'>{escape(part)}</div>" if part else "") + heat_map(values)
    return f'<tr><td style="{cell}">{escape(name)}</td><td style="{cell}">{escape(text + fate)}{picture}</td></tr>'
