"""A profile as one page: a flame graph of calls down to operators, the slowest lines, and the peak of memory.

The page loads nothing, which its security policy enforces. Text from the program is passed as JSON, and the script
inserts it as text, never as HTML.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from ..pages.template import asset, filled, json_inside
from ..record import Record
from .profiler import Profiled

_MOST_LINES = 100


def page_of(p: Profiled) -> str:
    """Return the page."""
    return filled(_asset("flame.html"), {"data": json_inside(data_of(p)), "script": _asset("flame.js")})


def data_of(p: Profiled) -> dict[str, Any]:
    """Return the tree of calls with the figures of everything below each call, the lines, and the peak."""
    root = _node("all", "", "frame")
    below: dict[int, dict[Any, Any]] = {id(root): {}}
    for record in p.records:
        node = root
        figures = record.forward, record.backward, 0.0, 0 if record.briefly else record.kept
        _add(node, figures)
        for key, name, detail, kind in _levels(p, record):
            children = below[id(node)]
            if key not in children:
                children[key] = _node(name, detail, kind)
                below[id(children[key])] = {}
                node["c"].append(children[key])
            node = children[key]
            _add(node, figures)
    codes: dict[str, str] = {}
    for stack, seconds in p.outside.items():
        node = root
        figures = 0.0, 0.0, seconds, 0
        _add(node, figures, 0)
        for site in stack:
            children = below[id(node)]
            if site not in children:
                children[site] = _node(f"{site} {site.function}", site.code, "frame")
                below[id(children[site])] = {}
                node["c"].append(children[site])
            node = children[site]
            _add(node, figures, 0)
            codes[str(site)] = site.code
    lines = [
        [
            label,
            group[0].code if group else codes.get(label, ""),
            group.forward,
            group.backward,
            group.other,
            group.kept,
            len(group),
        ]
        for label, group in list(p.by("line").items())[:_MOST_LINES]
    ]
    peak = [[part.operator, part.site, part.kind, part.nbytes, part.pieces] for part in p.peak[:_MOST_LINES]]
    return {"tree": root, "lines": lines, "peak": peak, "most": p.most, "count": len(p.records)}


def _levels(p: Profiled, record: Record) -> list[tuple[Any, str, str, str]]:
    levels: list[tuple[Any, str, str, str]] = [
        (site, f"{site} {site.function}", site.code, "frame")
        for site in p.recorder.stacks.get(record.index, (record.site,))
    ]
    if record.module:
        levels.append((record.module, record.module, "module", "module"))
    levels.append((("operator", record.operator), record.operator, "operator", "operator"))
    return levels


def _node(name: str, detail: str, kind: str) -> dict[str, Any]:
    return {"n": name, "d": detail, "t": kind, "f": 0.0, "b": 0.0, "o": 0.0, "k": 0, "x": 0, "c": []}


def _add(node: dict[str, Any], figures: tuple[float, float, float, int], operators: int = 1) -> None:
    node["f"] += figures[0]
    node["b"] += figures[1]
    node["o"] += figures[2]
    node["k"] += figures[3]
    node["x"] += operators


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
