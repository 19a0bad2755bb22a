"""A scene as a page: the SVG, the data of all its items, and a script to pan, fold and search.

The page is one file that loads nothing: its security policy refuses every address. Text from the user's program is
escaped or passed as JSON, and the script inserts it as text, never as HTML.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...pages.template import asset, clean, filled, json_inside
from ..gradients import LOOKS, STEPS, variables
from ..gradients import legend as gradient_legend
from ..layout import placing
from ..layout.scene import Scene, folded_size, title_width
from ..picture import LEAVES
from .svg import STYLE, drawn_for_script, edge_width, summary

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


def page_of(scene: Scene, above: str = "", below: str = "", more: str = "", title: str = "") -> str:
    """Return the page, with content ``above`` and ``below`` the picture and its script ``more``."""
    title = title or summary(scene.picture)
    present = {vertex.kind for vertex in scene.picture.vertices}
    legend = "".join(_sample(kind, name) for kind, name in KINDS.items() if kind in present)
    shown, later = drawn_for_script(scene)
    parts = {
        "title": clean(title),
        "style": STYLE + variables(),
        "drawing": shown,
        "later": later,
        "legend": legend,
        "data": json_inside(data_of(scene)),
        "gradients": gradient_legend(scene.usual, any(v.kept for v in scene.picture.vertices)) if scene.known else "",
        "above": above,
        "below": below,
        "more": more,
        "script": asset(__package__, "place.js") + asset(__package__, "page.js"),
    }
    return filled(asset(__package__, "page.html"), parts)


def data_of(scene: Scene) -> dict[str, Any]:
    """Return the script's data: sizes, levels with their rows, edges, and texts."""
    picture = scene.picture
    most = max((vertex.kept for vertex in picture.vertices), default=0)
    return {
        "scale": {"usual": scene.usual, "steps": STEPS, "known": scene.known},
        "widths": {name: look.width for name, look in LOOKS.items()},
        "steps": picture.steps,
        "step": picture.step,
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
                "flows": _plain(vertex.flows),
                **({"ends": _plain(vertex.ends), "repeated": picture.repetition(vertex)} if vertex.ends else {}),
                "names": vertex.full_names,
                "kept": vertex.kept,
                "wide": round(edge_width(vertex.kept, most), 1),
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
                "kind": box.kind,
                "flows": _plain(box.flows),
                **({"runs": _plain(box.runs)} if box.recurrent else {}),
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
        "deepest": max((box.depth + 1 for box in picture.boxes if box.kind != "repetition"), default=0),
    }


def _plain(flows: Sequence[float | None]) -> list[float | str | None]:
    """Return norms with the digits that the page shows, and infinities as text, which JSON requires."""
    return [None if norm is None else float(f"{norm:.4g}") if math.isfinite(norm) else "not finite" for norm in flows]


def _sample(kind: str, name: str) -> str:
    corner = 3 if kind in (*LEAVES, "output") else 8
    return (
        f'<li><svg class="rg" width="34" height="20" aria-hidden="true"><g class="v {kind}">'
        f'<rect x="2" y="2" width="30" height="16" rx="{corner}"/></g></svg>{clean(name)}</li>'
    )
