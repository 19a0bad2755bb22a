"""Group operators into boxes, one per call of a module.

Operators are in the order of their calls, which is a topological order, and a box is a contiguous part of this order.
Edges between boxes therefore form no cycle, even if a module is called several times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from .picture import LEAVES, Box, Picture


def group(picture: Picture, classes: Mapping[str, str]) -> None:
    """Put operators into a box per call of their module, and leaves into the innermost box around all their readers.

    Args:
        picture: the picture to which boxes are added; the ``path`` of a vertex says where it belongs.
        classes: the class names of modules by dotted path, if known, in addition to those of the picture.
    """
    box = -1
    path: tuple[str, ...] = ()
    outermost = _outermost(picture)
    for vertex in picture.vertices:
        if vertex.path in outermost:
            vertex.path = ()
    _join_lists(picture)
    for vertex in picture.vertices:
        if vertex.kind in LEAVES or vertex.kind == "output":
            continue
        while path != vertex.path[: len(path)]:
            box = picture.boxes[box].parent
            path = path[:-1]
        while len(path) < len(vertex.path):
            path = vertex.path[: len(path) + 1]
            depth = picture.boxes[box].depth + 1 if box >= 0 else 0
            name = ".".join(path)
            note = classes.get(name) or picture.classes.get(name, "")
            picture.boxes.append(Box(len(picture.boxes), path[-1], box, note, path, depth=depth))
            box = len(picture.boxes) - 1
        vertex.box = box
    _place_leaves(picture)
    _unbox(picture)


def _join_lists(picture: Picture) -> None:
    """Join the name of a list of modules with that of its item where other operators run between the items.

    A ``ModuleList`` is not called, so no operator has its path, and each of its items has a separate box.
    """
    own = {vertex.path for vertex in picture.vertices}
    opened: Counter[tuple[str, ...]] = Counter()
    before: tuple[str, ...] = ()
    for vertex in picture.vertices:
        if vertex.kind in LEAVES or vertex.kind == "output":
            continue
        path = vertex.path
        same = next((i for i, pair in enumerate(zip(path, before, strict=False)) if pair[0] != pair[1]), None)
        common = min(len(path), len(before)) if same is None else same
        opened.update(path[:end] for end in range(common + 1, len(path)))
        before = path
    lists = {path for path, times in opened.items() if times > 1 and path not in own}
    for vertex in picture.vertices:
        for end in range(len(vertex.path) - 1, 0, -1):
            if vertex.path[:end] in lists:
                joined = f"{vertex.path[end - 1]}.{vertex.path[end]}"
                vertex.path = (*vertex.path[: end - 1], joined, *vertex.path[end + 1 :])


def _place_leaves(picture: Picture) -> None:
    placed: set[int] = set()
    for edge in picture.edges:
        leaf, user = picture.vertices[edge.source], picture.vertices[edge.target]
        if leaf.kind in LEAVES:
            inside = leaf.kind == "parameter" or leaf.label == "input" or "." in leaf.label
            box = user.box if inside else -1  # the program's own variables are outside of the modules that they feed
            leaf.box = picture.common(leaf.box, box) if leaf.key in placed else box
            placed.add(leaf.key)


def _unbox(picture: Picture) -> None:
    """Remove boxes with a single operator."""
    content = [0] * len(picture.boxes)
    for vertex in picture.vertices:
        for key in picture.around(vertex.box):
            content[key] += 1
    kept = {-1: -1}
    boxes: list[Box] = []
    for box in picture.boxes:
        parent = kept[box.parent]
        kept[box.key] = parent
        if content[box.key] > 1:
            kept[box.key] = len(boxes)
            depth = boxes[parent].depth + 1 if parent >= 0 else 0
            boxes.append(replace(box, key=len(boxes), parent=parent, depth=depth))
    picture.boxes = boxes
    for vertex in picture.vertices:
        vertex.box = kept[vertex.box]


def _outermost(picture: Picture) -> set[tuple[str, ...]]:
    """Return the paths that are the class name of an outermost module, which needs no box.

    If two models have paths in common, every path begins with a class name, and the outermost modules need boxes.
    """
    paths = {vertex.path for vertex in picture.vertices}
    longer = {path[0] for path in paths if len(path) > 1}
    return {path for path in paths if len(path) == 1 and path[0][:1].isupper() and path[0] not in longer}


def shorten_names(picture: Picture) -> None:
    """Remove the path of the enclosing box from leaves' names; the details keep the full name."""
    for leaf in picture.vertices:
        if leaf.kind in LEAVES and leaf.label != leaf.kind:
            leaf.details.insert(0, ("name", leaf.label))
            parts = leaf.label.split(".")
            for box in picture.around(leaf.box):
                path = tuple(".".join(picture.boxes[box].path).split("."))
                inside = len(path) < len(parts) and bool(path)
                if inside and all(part.split("…")[0] == own for part, own in zip(parts, path, strict=False)):
                    leaf.label = ".".join(parts[len(path) :])
                    break
