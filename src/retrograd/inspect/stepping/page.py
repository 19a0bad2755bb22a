"""A backward pass as one page: a picture of the graph, and a slider that shows values and rule at each step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from ...core.graph.nodes import Node
from ...core.tensor.tensor import Tensor
from ..drawing.formats.page import json_inside, page_of
from ..drawing.grouping import group, shorten_names
from ..drawing.layout.scene import Scene
from ..drawing.picture import LEAVES
from ..drawing.recorded import picture_of
from .events import Event, summary


def walk_page(outputs: Sequence[Tensor], order: Sequence[Node], events: Sequence[Event], names: dict[int, str]) -> str:
    """Return the page of a backward pass from the outputs through the nodes of ``order``, latest first."""
    labels = ["loss"] if len(outputs) == 1 else [f"output {index}" for index in range(len(outputs))]
    picture = picture_of(dict(zip(labels, outputs, strict=True)), names)
    group(picture, {})
    shorten_names(picture)
    drawn = [vertex.key for vertex in picture.vertices if vertex.kind not in LEAVES and vertex.kind != "output"]
    nodes = [node for node in reversed(order) if node.plan.select is None]
    place = dict(zip(nodes, drawn, strict=True))
    rules: dict[str, int] = {}
    steps = [_step(event, place[event._node], rules) for event in events]
    walk = json_inside({"steps": steps, "rules": list(rules)})
    return page_of(Scene(picture), _asset("walk.html"), f"const WALK = {walk};\n{_asset('walk.js')}")


def _step(event: Event, vertex: int, rules: dict[str, int]) -> dict[str, Any]:
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
        "came": [[name, _text(g)] for name, g in zip(outputs, coming, strict=True)],
        "read": [[name, summary(value)] for name, value in event.read.items()],
        "went": [
            [f"{name}{event.target(index)}", f"{_text(g)}{event.fate(index)}", g is not None]
            for index, (name, g) in enumerate(pairs)
        ],
    }


def _text(g: Tensor | None) -> str:
    return "no gradient" if g is None else summary(g)


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
