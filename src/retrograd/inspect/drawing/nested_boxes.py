"""Divide long lists of operators into parts, make names unique, and compute the gradients of boxes.

A program without modules may call thousands of operators in one place. They are drawn as nested boxes of consecutive
operators, so that each level has a size that fits a screen.
"""

from __future__ import annotations

import math
from collections import Counter

from .picture import LEAVES, Box, Picture

MOST = 60  # the most operators and boxes directly in one box
SIZE = 24  # the number of vertices of a part


def divide(picture: Picture) -> None:
    """Put consecutive operators into boxes wherever more than ``MOST`` items share a box."""
    items: dict[int, list[int]] = {}  # by box: vertices by key and boxes by ``~key``, in the order of the calls
    for vertex in picture.vertices:
        if vertex.kind in LEAVES or vertex.kind == "output":
            continue
        inner = vertex.key
        for box in [*picture.around(vertex.box), -1]:
            found = items.setdefault(box, [])
            if inner not in found[-1:] and (inner >= 0 or inner not in found):
                found.append(inner)
            inner = ~box
    for parent, found in items.items():
        ends = list(range(1, len(found) + 1))  # the number of the last operator of each item
        while len(found) > MOST:
            parts = []
            for start in range(0, len(found), SIZE):
                part = found[start : start + SIZE]
                first = ends[start - 1] + 1 if start else 1
                title = f"operators {first}-{ends[start + len(part) - 1]}"
                around = Box(len(picture.boxes), title, parent, kind="part")
                picture.boxes.append(around)
                for item in part:
                    if item >= 0:
                        picture.vertices[item].box = around.key
                    else:
                        picture.boxes[~item].parent = around.key
                parts.append(~around.key)
            ends = [ends[min(start + SIZE, len(found)) - 1] for start in range(0, len(found), SIZE)]
            found = parts
    _sort_boxes(picture)
    _follow_readers(picture)


def _sort_boxes(picture: Picture) -> None:
    """Renumber the boxes, outer before inner, and compute their depths. A repetition does not increase the depth."""
    around = {key: list(picture.around(key)) for key in range(len(picture.boxes))}
    order = sorted(around, key=lambda key: len(around[key]))
    depth = {key: sum(picture.boxes[box].kind != "repetition" for box in around[key]) - 1 for key in order}
    place = {key: i for i, key in enumerate(order)} | {-1: -1}
    picture.boxes = [picture.boxes[key] for key in order]
    for key, box in zip(order, picture.boxes, strict=True):
        box.key, box.parent, box.depth = place[key], place[box.parent], depth[key]
    for vertex in picture.vertices:
        vertex.box = place[vertex.box]


def _follow_readers(picture: Picture) -> None:
    """Put parameters into the innermost part that contains all their readers."""
    around: dict[int, int] = {}
    for edge in picture.edges:
        if picture.vertices[edge.source].kind in LEAVES:
            box = picture.vertices[edge.target].box
            around[edge.source] = picture.common(around[edge.source], box) if edge.source in around else box
    for key, box in around.items():
        leaf = picture.vertices[key]
        if box >= 0 and picture.boxes[box].kind == "part" and leaf.kind == "parameter":
            leaf.box = box


def name_once(picture: Picture) -> None:
    """Number the leaves and the boxes that have the same name in the same place."""
    seen: Counter[object] = Counter()
    for vertex in picture.vertices:
        if vertex.kind in (*LEAVES, "output"):
            seen[vertex.box, vertex.label] += 1
            if seen[vertex.box, vertex.label] > 1:
                vertex.label += f" ({seen[vertex.box, vertex.label]})"
    for box in picture.boxes:
        seen[box.path] += bool(box.path)
        if seen[box.path] > 1:
            box.title += f" (call {seen[box.path]})"


def add_box_flows(picture: Picture) -> None:
    """Compute the gradient norms of boxes: of all parameters inside, or without parameters of the last operator."""
    squares: list[dict[int, float]] = [{} for _ in picture.boxes]
    last: list[tuple[float | None, ...]] = [() for _ in picture.boxes]
    for vertex in picture.vertices:
        for box in picture.around(vertex.box):
            if vertex.kind not in LEAVES and vertex.flows:
                last[box] = vertex.flows
            for step, norm in enumerate(vertex.flows if vertex.kind == "parameter" else ()):
                if norm is not None:
                    squares[box][step] = squares[box].get(step, 0.0) + norm * norm
    for around in picture.boxes:
        steps = range(max(1, len(picture.steps)))
        own = squares[around.key]
        norms = tuple([math.sqrt(own[step]) if step in own else None for step in steps])
        around.flows = norms if own else last[around.key]
