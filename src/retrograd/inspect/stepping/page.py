"""A backward pass as one page: a picture of the graph, and a slider that shows values and rule at each step."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...core.arrays.devices import is_array
from ...core.graph.nodes import Node
from ...core.tensor.tensor import Tensor
from ..drawing.draw import prepared
from ..drawing.figures import figures, number, numbers_of
from ..drawing.formats.page import page_of
from ..drawing.graph_picture import picture_of
from ..drawing.grouping import group
from ..drawing.layout.scene import Scene
from ..drawing.picture import LEAVES
from ..notebook.heatmap import blocks, plane
from ..pages.template import asset, json_inside
from .events import Event, summary

CELLS, FEW_CELLS, MANY = (12, 32), (6, 12), 300  # rows and columns of a heat map; fewer with many steps
_SHADES = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmno"  # from the most negative to the most positive value
_MIDDLE = 20


def walk_page(outputs: Sequence[Tensor], order: Sequence[Node], events: Sequence[Event], names: dict[int, str]) -> str:
    """Return the page of a backward pass from the outputs through the nodes of ``order``, latest first."""
    labels = ["loss"] if len(outputs) == 1 else [f"output {index}" for index in range(len(outputs))]
    picture = picture_of(dict(zip(labels, outputs, strict=True)), names)
    group(picture, {})
    drawn = [vertex.key for vertex in picture.vertices if vertex.kind not in LEAVES and vertex.kind != "output"]
    nodes = [node for node in reversed(order) if node.plan.select is None]
    place = dict(zip(nodes, drawn, strict=True))
    for event in events:
        picture.vertices[place[event._node]].flows = (_norm_of(event),)
    rules: dict[str, int] = {}
    cells = CELLS if len(events) <= MANY else FEW_CELLS
    steps = [_step(event, place[event._node], rules, cells) for event in events]
    walk = json_inside({"steps": steps, "rules": list(rules)})
    more = f"const WALK = {walk};\n{asset(__package__, 'walk.js')}"
    return page_of(Scene(prepared(picture, repeats=False)), below=asset(__package__, "walk.html"), more=more)


def _step(event: Event, vertex: int, rules: dict[str, int], cells: tuple[int, int]) -> dict[str, object]:
    coming = event.incoming if isinstance(event.incoming, tuple) else (event.incoming,)
    one = "upstream gradient"
    outputs = [one] if len(coming) == 1 else [f"{one} of output {index}" for index in range(len(coming))]
    pairs = zip(event.inputs, event.outgoing, strict=True)
    return {
        "vertex": vertex,
        "title": event.title,
        "module": event.module or "",
        "code": event.code or "",
        "rule": rules.setdefault(event.rule, len(rules)),
        "formula": event.formula,
        "worked": event.worked,
        "came": [[name, _text(g), True, _map(g, cells)] for name, g in zip(outputs, coming, strict=True)],
        "read": [[name, summary(value), True, _map(value, cells)] for name, value in event.read.items()],
        "went": [
            [f"{name}{event.target(index)}", f"{_text(g)}{event.fate(index)}", g is not None, _map(g, cells)]
            for index, (name, g) in enumerate(pairs)
        ],
    }


def _norm_of(event: Event) -> float:
    """Return the norm of the upstream gradient."""
    coming = event.incoming if isinstance(event.incoming, tuple) else (event.incoming,)
    found = [figures(g) for g in coming if g is not None]
    return math.inf if any(x.nans or x.infinities for x in found) else math.hypot(*[x.norm for x in found])


def _text(g: Tensor | None) -> str:
    return "no gradient" if g is None else summary(g)


def _map(value: object, cells: tuple[int, int]) -> list[object] | None:
    """Return a heat map: its index in the array, rows, columns, the largest magnitude, and a letter per cell."""
    array = numbers_of(value) if isinstance(value, Tensor) or is_array(value) else np.empty(0)
    if array.dtype.kind not in "fcViu" or array.size < 4:
        return None
    values, part = plane(array)
    grid = blocks(values.astype(np.float64), *cells)
    finite = np.isfinite(grid)
    largest = float(np.abs(grid[finite]).max()) if finite.any() else 0.0
    scaled = np.where(finite, grid, 0.0) / (largest or 1.0)
    shades = np.rint(_MIDDLE * (1 + np.sign(scaled) * np.sqrt(np.abs(scaled)))).astype(int)
    letters = [_SHADES[shade] if known else "z" for shade, known in zip(shades.flat, finite.flat, strict=True)]
    return [part, *grid.shape, number(largest), "".join(letters)]
