"""A scene as a page: the SVG, the data of all its items, and a script to pan, fold and search.

The page is one file that loads nothing: its security policy refuses every address. Text from the user's program is
escaped or passed as JSON, and the script inserts it as text, never as HTML.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from ..layout import placing
from ..layout.scene import Scene, folded_size, title_width
from ..picture import LEAVES
from .svg import STYLE, allowed, clean, drawn, summary

KINDS = {
    "input": "leaf",
    "parameter": "parameter",
    "operator": "operator",
    "view": "operator that returns a view",
    "write": "in-place write",
    "function": "custom Function",
    "output": "output",
}
_CONSTANTS = (
    "GAP", "PORT_GAP", "TRUNK", "APART", "LINE", "SIDE", "HEADER", "FOOTER", "STEP", "SWEEPS", "STRAIGHT", "LIGHT",
)  # fmt: skip


def page_of(scene: Scene, below: str = "", more: str = "") -> str:
    """Return the page, with content ``below`` the picture and its script ``more``."""
    title = summary(scene.picture)
    present = {vertex.kind for vertex in scene.picture.vertices}
    legend = "".join(_sample(kind, name) for kind, name in KINDS.items() if kind in present)
    parts = {
        "title": clean(title),
        "style": STYLE,
        "drawing": drawn(scene, movable=True),
        "legend": legend,
        "data": json_inside(data_of(scene)),
        "below": below,
        "more": more,
        "script": _asset("place.js") + _asset("page.js"),
    }
    return filled(_asset("page.html"), parts)


def filled(template: str, parts: Mapping[str, str]) -> str:
    """Return the template with each ``{{name}}`` replaced, in one pass: parts may contain such marks themselves."""
    head, *pieces = template.split("{{")
    page = [head]
    for piece in pieces:
        name, _, rest = piece.partition("}}")
        page += [parts[name], rest]
    return "".join(page)


def data_of(scene: Scene) -> dict[str, Any]:
    """Return the script's data: sizes, levels with their rows, edges, and texts."""
    picture = scene.picture
    return {
        "constants": {name: getattr(placing, name) for name in _CONSTANTS},
        "kinds": KINDS,
        "vertices": [
            {
                "kind": vertex.kind,
                "label": vertex.label,
                "box": vertex.box,
                "width": width,
                "height": height,
                "leaf": vertex.kind in LEAVES,
                "details": [[name, text] for name, text in vertex.details if text],
            }
            for vertex, (width, height) in zip(picture.vertices, scene.sizes, strict=True)
        ],
        "boxes": [
            {
                "title": box.title,
                "note": box.note,
                "path": ".".join(box.path),
                "times": box.times,
                "parent": box.parent,
                "depth": box.depth,
                "count": scene.inside[box.key],
                "least": title_width(scene, box.key),
                "width": folded_size(scene, box.key)[0],
                "height": folded_size(scene, box.key)[1],
            }
            for box in picture.boxes
        ],
        "levels": [
            {
                "box": level.box,
                "items": level.items,
                "rows": level.rows,
                "nets": [[*net.value, net.source, net.targets, int(net.leaves)] for net in level.nets],
            }
            for level in scene.levels
        ],
        "edges": sorted({(edge.source, edge.target) for edge in picture.edges}),
        "opened": sorted(scene.opened),
        "depth": scene.depth,
        "deepest": max((box.depth + 1 for box in picture.boxes if box.path), default=0),
    }


def json_inside(data: Any) -> str:
    """Return JSON that is safe inside a script element."""
    text = allowed(json.dumps(data, ensure_ascii=False, separators=(",", ":")))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _sample(kind: str, name: str) -> str:
    corner = 3 if kind in (*LEAVES, "output") else 8
    return (
        f'<li><svg class="rg" width="34" height="20" aria-hidden="true"><g class="v {kind}">'
        f'<rect x="2" y="2" width="30" height="16" rx="{corner}"/></g></svg>{clean(name)}</li>'
    )
