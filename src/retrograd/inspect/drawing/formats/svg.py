"""A scene as a self-contained SVG: no script, no font, no reference."""

from __future__ import annotations

import re
from html import escape
from importlib.resources import files

from ..figures import short_shape
from ..layout.nesting import Value
from ..layout.scene import LETTER, MANY, Scene, box_title, columns, vertex_lines
from ..picture import LEAVES, Picture

STYLE = " ".join(files(__package__).joinpath("picture.css").read_text(encoding="utf-8").partition("*/")[2].split())

MARGIN = 24
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def allowed(text: str) -> str:
    """Return a text without the characters that XML or UTF-8 cannot represent."""
    return _NOT_XML.sub("\ufffd", text)


def clean(text: str) -> str:
    """Return a text escaped for elements and attributes."""
    return escape(allowed(text))


def svg_of(scene: Scene) -> str:
    """Return the picture as it is folded now."""
    root = scene.placed[-1]
    width, height = root.width + 2 * MARGIN, root.height + 2 * MARGIN
    area = f"{-MARGIN} {-MARGIN} {width:.0f} {height:.0f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rg" viewBox="{area}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{clean(summary(scene.picture))}"><style>{STYLE}</style>'
        f'<rect class="paper" x="{-MARGIN}" y="{-MARGIN}" width="{width:.0f}" height="{height:.0f}"/>'
        f"{drawn(scene)}</svg>\n"
    )


def summary(picture: Picture) -> str:
    """Return a one-line summary of the picture."""
    leaves = sum(vertex.kind in LEAVES for vertex in picture.vertices)
    outputs = sum(vertex.kind == "output" for vertex in picture.vertices)
    counts = [(len(picture.vertices) - leaves - outputs, "operator"), (leaves, "leaf"), (len(picture.boxes), "box")]
    plural = {"operator": "operators", "leaf": "leaves", "box": "boxes"}
    return "graph of " + ", ".join(f"{n:,} {word if n == 1 else plural[word]}" for n, word in counts if n)


def drawn(scene: Scene, movable: bool = False) -> str:
    """Return all elements of the picture: boxes below edges below titles and vertices.

    ``movable`` elements are for the page: all of them, folded or not, with ids by which the script finds and moves
    them. Otherwise, elements are in their positions and have no ids.
    """
    boxes, edges, vertices, titles = [], [], [], []
    for level in [scene.levels[-1], *scene.levels[:-1]]:
        placed = scene.placed.get(level.box)
        if placed is None and not movable:
            continue
        for i, item in enumerate(level.items):
            at = "" if movable else ' transform="translate({:.1f} {:.1f})"'.format(*scene.corner(level, i))
            if item >= 0:
                vertices.append(_vertex(scene, item, f' id="v{item}"' if movable else at, not movable))
            else:
                boxes.append(_frame(scene, ~item, f' id="b{~item}"' if movable else at))
                titles.append(_title(scene, ~item, f' id="t{~item}"' if movable else at))
        lines = []
        for number, net in enumerate(level.nets):
            path, head, label = "", "", (0.0, 0.0)
            if placed and not movable:
                path, head, label = placed.paths[number], placed.heads[number], placed.labels[number]
            source = level.items[net.source] if net.source >= 0 else -1
            labelled = net.source >= 0 and (movable or source >= 0 or ~source not in scene.placed)
            name = f' id="e{level.box}.{number}"' if movable else ""
            shape = _shape(scene, net.value, label) if labelled else ""
            lines.append(
                f'<g class="{_edge_class(scene, net.value)}"{name}><path d="{path}"/><path class="head" d="{head}"/>'
                f"{shape}</g>"
            )
        x, y = scene.origin.get(level.box, (0.0, 0.0))
        at = f' id="l{level.box}"' if movable else f' transform="translate({x:.1f} {y:.1f})"'
        edges.append(f"<g{at}>{''.join(lines)}</g>")
    return "".join([*boxes, *edges, *titles, *vertices])


def _edge_class(scene: Scene, value: Value) -> str:
    return "e of-parameter" if scene.picture.vertices[value[0]].kind == "parameter" else "e"


def _shape(scene: Scene, value: Value, at: tuple[float, float]) -> str:
    """Return the shape on the edges of a value, below its vertex."""
    vertex = scene.picture.vertices[value[0]]
    if vertex.kind in LEAVES or not value[1] < len(vertex.shapes) <= MANY:
        return ""
    return f'<text x="{at[0]:.1f}" y="{at[1] + 12:.1f}">{clean(short_shape(vertex.shapes[value[1]]))}</text>'


def _vertex(scene: Scene, key: int, at: str, titled: bool) -> str:
    vertex = scene.picture.vertices[key]
    width, height = scene.sizes[key]
    corner = 3 if vertex.kind in (*LEAVES, "output") else 12
    lines = vertex_lines(vertex)
    classes = ["", *[' class="note"'] * (len(lines) - 1)]
    if vertex.alarm:
        classes[-1] = ' class="alarm"'
    text = "".join(
        f'<text{css} x="{width / 2:.1f}" y="{17 + 14 * i}">{clean(line)}</text>'
        for i, (line, css) in enumerate(zip(lines, classes, strict=True))
    )
    tooltip = [vertex.label, *(f"{name}: {text}" for name, text in vertex.details)]
    title = f"<title>{clean(chr(10).join(tooltip))}</title>" if titled else ""
    rectangle = f'<rect width="{width:.1f}" height="{height:.0f}" rx="{corner}"/>'
    return f'<g class="v {vertex.kind}"{at}>{title}{rectangle}{text}</g>'


def _frame(scene: Scene, key: int, at: str) -> str:
    """Return a box's rectangle, which is below the edges; a repetition has several, one behind the other."""
    width, height = scene.size_of(~key)
    size = f'width="{width:.1f}" height="{height:.1f}" rx="6"'
    copies = (2, 1, 0) if scene.picture.boxes[key].times > 1 else ()
    stack = "".join(f'<rect class="stack" x="{3 * i}" y="{3 * i}" {size}/>' for i in copies)
    return f'<g class="b {_state(scene, key)}"{at}>{stack}<rect class="frame" {size}/></g>'


def _title(scene: Scene, key: int, at: str) -> str:
    """Return a box's title, which is above the edges."""
    title, note = box_title(scene, key)
    start = 24 + LETTER * columns(title) + 8 * bool(title)
    sign = "−" if key in scene.placed else "+"
    return (
        f'<g class="b {_state(scene, key)}"{at}>'
        f'<rect class="tab" x="2" y="2" width="{start + 6.6 * columns(note) + 6:.1f}" height="22" rx="5"/>'
        f'<text class="sign" x="9" y="18">{sign}</text><text x="24" y="18">{clean(title)}</text>'
        f'<text class="note" x="{start:.1f}" y="18">{clean(note)}</text>'
        f'<text class="note inside" x="24" y="36">{scene.inside[key]} inside</text></g>'
    )


def _state(scene: Scene, key: int) -> str:
    return "opened" if key in scene.placed else "folded"
