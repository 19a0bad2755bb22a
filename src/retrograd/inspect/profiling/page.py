"""A profile as one page: a flame graph of calls down to operators, the slowest lines, and the peak of memory.

The page loads nothing, which its security policy enforces. Text from the program is passed as JSON, and the script
inserts it as text, never as HTML.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.source_location import Site
from ..pages.template import asset, filled, json_inside
from ..record import Record
from .profiler import Profiled

_MOST_LINES = 100


def page_of(p: Profiled) -> str:
    """Return the page."""
    return filled(
        asset(__package__, "flame.html"), {"data": json_inside(data_of(p)), "script": asset(__package__, "flame.js")}
    )


PHASES = ("forward", "backward", "optimizer", "data loading", "other")


def data_of(p: Profiled) -> dict[str, Any]:
    """Return the tree of phases and calls with the figures of everything below each call, the lines, and the peak."""
    root = _node("all", "", "phase")
    root["c"] = [_node(name, "", "phase") for name in PHASES]
    phases = dict(zip(PHASES, root["c"], strict=True))
    below: dict[int, dict[object, dict[str, object]]] = {}

    def add(phase: str, levels: Sequence[tuple[object, str, str, str]], figures: Figures, operators: int) -> None:
        """Add figures to a phase and to the calls of a stack in it."""
        _add(root, figures, operators)
        node = phases[phase]
        _add(node, figures, operators)
        for key, name, detail, kind in levels:
            children = below.setdefault(id(node), {})
            if key not in children:
                children[key] = _node(name, detail, kind)
                node["c"].append(children[key])
            node = children[key]
            _add(node, figures, operators)

    for record in p.records:
        levels = _levels(p, record)
        loading = record.index in p.recorder.loaded
        kept = 0 if record.briefly else record.kept
        add("data loading" if loading else "forward", levels, (record.forward, 0.0, 0.0, kept), 1)
        if record.backward:
            add("backward", levels, (0.0, record.backward, 0.0, 0), 0)
    codes: dict[str, str] = {}
    for stack, seconds in p.outside.items():
        levels = _frames(stack)
        add(p.phase(stack), levels, (0.0, 0.0, seconds, 0), 0)
        codes.update((str(site), site.code) for site in stack)
    root["c"] = [node for node in root["c"] if node["c"]]
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


def _levels(p: Profiled, record: Record) -> list[tuple[object, str, str, str]]:
    levels = _frames(p.recorder.stacks.get(record.index, (record.site,)))
    if record.module:
        levels.append((record.module, record.module, "module", "module"))
    levels.append((("operator", record.operator), record.operator, "operator", "operator"))
    return levels


def _frames(stack: Sequence[Site]) -> list[tuple[object, str, str, str]]:
    """Return the lines of a stack, without those of Python's own start of a script."""
    shown = [site for site in stack if not site.file.startswith("<frozen ")]
    return [(site, f"{site} {site.function}", site.code, "frame") for site in shown]


def _node(name: str, detail: str, kind: str) -> dict[str, Any]:
    return {"n": name, "d": detail, "t": kind, "f": 0.0, "b": 0.0, "o": 0.0, "k": 0, "x": 0, "c": []}


Figures = tuple[float, float, float, int]  # seconds forward, backward and outside of operators; bytes kept


def _add(node: dict[str, Any], figures: Figures, operators: int) -> None:
    node["f"] += figures[0]
    node["b"] += figures[1]
    node["o"] += figures[2]
    node["k"] += figures[3]
    node["x"] += operators
