"""The HTML of a Tensor in a notebook: dtype and shape, summary of values and gradient, and the values."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from ...core.mapping.batched import Batched
from ...core.tensor.tensor import Tensor
from ...nn.base.uninitialized import Uninitialized
from ...nn.parameter import Parameter
from ..drawing.figures import byte_text, figures, number, numbers_of, shape_text
from .heatmap import heat_map, histogram, plane

SAMPLED = 1 << 20  # the most elements in a histogram, evenly spaced
SMALL = 10  # the largest number of rows and columns shown as a table

_BOX = (
    "display:inline-block;border:1px solid rgba(128,128,128,.4);border-radius:8px;padding:8px 12px;max-width:100%;"
    "font:13px/1.5 system-ui,sans-serif;overflow-x:auto"
)


def tensor_html(x: Any) -> str:
    """Return the HTML of a Tensor."""
    kind = "Parameter" if isinstance(x, Parameter) else type(x).__name__
    if isinstance(x, Uninitialized):
        return f'<div style="{_BOX}"><b>{escape(kind)}</b> {x.dtype}, not initialized: its shape is not known yet</div>'
    facts = [shape_text(x.shape), x.dtype.name, str(x.device), byte_text(x.nbytes)]
    if x.grad_fn is not None:
        facts.append(f"result of {x.grad_fn.operator}")
    elif x.requires_grad:
        facts.append("requires grad")
    if isinstance(x.array, Batched):
        return f'<div style="{_BOX}"><pre style="margin:0">{escape(repr(x))}</pre></div>'
    head = f"<b>{escape(kind)}</b> " + " · ".join(map(escape, facts))
    parts = [f"<div>{head}</div>", _values("values", x)]
    # The .grad of a result that does not retain it would raise a warning.
    if x.is_leaf and x.requires_grad or x._grad is not None:
        none = '<div style="opacity:.75;margin-top:6px">gradient: none yet</div>'
        parts.append(none if x._grad is None else _values("gradient", x._grad))
    text = escape(np.array2string(numbers_of(x), separator=", ", threshold=1000))
    if x.array.size > 1:
        pre = '<pre style="margin:4px 0 0;max-height:320px;overflow:auto">'
        parts.append(f'<details style="margin-top:6px"><summary>elements</summary>{pre}{text}</pre></details>')
    return f'<div style="{_BOX}">{"".join(parts)}</div>'


def _values(title: str, x: Tensor) -> str:
    found = figures(x)
    alarm = f' <b style="color:#c2185b">⚠ {found.alarm}</b>' if found.alarm else ""
    array = numbers_of(x)
    pictures = ""
    if array.size > 1:
        part_of, where = plane(array)
        numbers = _table(part_of) if max(part_of.shape) <= SMALL and array.dtype.kind != "b" else ""
        map_ = numbers or (heat_map(part_of) if part_of.size else "")
        flat = array.reshape(-1)[:: max(1, array.size // SAMPLED)]
        bars = histogram(np.abs(flat) if array.dtype.kind == "c" else flat) if array.size > 8 else ""
        note = f'<div style="opacity:.75">{escape(where)}</div>' if where else ""
        row = "display:flex;flex-wrap:wrap;gap:8px 18px;align-items:flex-end;margin-top:4px"
        pictures = f'<div style="{row}"><div>{note}{map_}</div>{bars}</div>'
    text = found.extent if array.size else "no elements"
    if array.dtype.kind == "b":
        text = f"{array.size - found.zeros:,} of {array.size:,} true"
    if array.dtype.kind == "c":
        title = f"magnitudes of {title}"
    line = f'<div style="margin-top:6px"><span style="opacity:.75">{title}:</span> {text}{alarm}</div>'
    return line + pictures


def _table(values: np.ndarray) -> str:
    """Return a table of a few numbers, on the colors of the heat map."""
    finite = np.isfinite(values)
    largest = float(np.abs(values[finite]).max()) if finite.any() else 0.0
    rows = []
    for row in values:
        cells = []
        for value in row.tolist():
            share = abs(value) / largest if largest and value - value == 0 else 0.0
            color = "0,114,178" if value < 0 else "213,94,0"
            if value - value != 0:
                color, share = "204,0,153", 1.0
            style = f"background:rgba({color},{0.5 * share:.2f});padding:2px 8px;text-align:right;font-family:monospace"
            cells.append(f'<td style="{style}">{number(value) if not isinstance(value, int) else value}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f'<table style="border-collapse:separate;border-spacing:1px;margin:0">{"".join(rows)}</table>'
