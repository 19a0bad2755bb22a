"""A picture of the graph of a ``scalar.Value``."""

from __future__ import annotations

import sys
from typing import Any

from .figures import number
from .picture import Edge, Picture, Vertex


def is_value(output: object) -> bool:
    """Return whether ``output`` is a ``scalar.Value``; False if that module was never imported."""
    module = sys.modules.get("retrograd.scalar.value")
    return module is not None and isinstance(output, module.Value)


def scalar_picture(output: Any) -> Picture:
    """Return the picture of all numbers from which a Value was computed."""
    from ...scalar.value import nodes_of

    picture = Picture()
    vertices: dict[object, Vertex] = {}
    for node in reversed(nodes_of(output)):
        kind = "input" if not node._children else "output" if node is output else "operator"
        label = f"{node.label} {node._op}".strip() or "leaf"
        note = number(node.data) + (f"\ngrad {number(node.grad)}" if node.grad else "")
        vertices[node] = vertex = picture.add(kind, label, note=note)
        vertex.details = [("data", repr(node.data)), ("grad", repr(node.grad))]
        for place, child in enumerate(node._children):
            picture.edges.append(Edge(vertices[child].key, 0, vertex.key, place))
            slope = node._slopes[place]
            vertex.details.append((f"derivative with respect to {child.label or child._op or 'leaf'}", repr(slope)))
    return picture
