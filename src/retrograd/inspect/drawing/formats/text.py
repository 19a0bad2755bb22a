"""A scene as text for other programs: Graphviz's DOT and Mermaid."""

from __future__ import annotations

from collections.abc import Iterator

from ..figures import short_shape
from ..layout.scene import Scene, vertex_lines
from ..picture import LEAVES

# Fill and line colors of a vertex by kind, as in the light SVG.
COLORS = {
    "operator": ("#f3f4f6", "#8b949e"),
    "view": ("#ffffff", "#8b949e"),
    "write": ("#fdeee3", "#d55e00"),
    "function": ("#fbeef6", "#b0578d"),
    "input": ("#e3f2fc", "#2f83b8"),
    "parameter": ("#fdf3d8", "#b98200"),
    "output": ("#dff3ec", "#00805d"),
}
FOLDED = ("#eef2f7", "#7d8b99")


def dot_of(scene: Scene) -> str:
    """Return the graph in Graphviz's language: boxes are clusters, folded boxes are nodes.

    >>> x = rg.ones(2, requires_grad=True)
    >>> print(rg.inspect.draw(x.exp().sum()).to_dot().splitlines()[0])
    digraph {
    """
    lines = ["  rankdir=TB", '  node [shape=box style="rounded,filled" fontname=monospace fontsize=11]']
    lines.append('  edge [fontname=monospace fontsize=9 color="#6e7781"]')

    def add(name: str, label: str, colors: tuple[str, str], indent: str, extra: str = "") -> None:
        fill, line = colors
        lines.append(f'{indent}{name} [label="{_quoted(label)}" fillcolor="{fill}" color="{line}"{extra}]')

    def inside(box: int, indent: str) -> None:
        for item in scene.levels[box].items:
            if item >= 0:
                vertex = scene.picture.vertices[item]
                corners = ' style="filled"' if vertex.kind in (*LEAVES, "output") else ""
                corners = ' style="rounded,filled,dashed"' if vertex.kind == "view" else corners
                add(f"v{item}", "\n".join(vertex_lines(vertex)), COLORS[vertex.kind], indent, corners)
            elif ~item in scene.placed:
                lines.append(f'{indent}subgraph cluster{~item} {{ label="{_quoted(_title(scene, ~item))}"')
                inside(~item, indent + "  ")
                lines.append(indent + "}")
            else:
                add(f"b{~item}", _title(scene, ~item), FOLDED, indent)

    inside(-1, "  ")
    lines += [f'  {a} -> {b} [label="{_quoted(text)}"]' for a, b, text in _edges(scene)]
    return "\n".join(["digraph {", *lines, "}\n"])


def mermaid_of(scene: Scene) -> str:
    """Return the graph as a Mermaid flowchart, which many wikis and README files render.

    >>> x = rg.ones(2, requires_grad=True)
    >>> print(rg.inspect.draw(x.exp().sum()).to_mermaid().splitlines()[0])
    flowchart TD
    """
    lines = ["flowchart TD"]

    def inside(box: int, indent: str) -> None:
        for item in scene.levels[box].items:
            if item >= 0:
                vertex = scene.picture.vertices[item]
                left, right = ("[", "]") if vertex.kind in (*LEAVES, "output") else ("([", "])")
                label = "<br/>".join(map(_entities, vertex_lines(vertex)))
                lines.append(f'{indent}v{item}{left}"{label}"{right}:::{vertex.kind}')
            elif ~item in scene.placed:
                lines.append(f'{indent}subgraph b{~item}["{_entities(_title(scene, ~item))}"]')
                inside(~item, indent + "  ")
                lines.append(indent + "end")
            else:
                lines.append(f'{indent}b{~item}["{_entities(_title(scene, ~item))}"]:::folded')

    inside(-1, "  ")
    for a, b, text in _edges(scene):
        lines.append(f'  {a} -->|"{_entities(text)}"| {b}' if text else f"  {a} --> {b}")
    for kind, (fill, line) in {**COLORS, "folded": FOLDED}.items():
        dashed = ",stroke-dasharray:4 3" if kind == "view" else ""
        lines.append(f"  classDef {kind} fill:{fill},stroke:{line},color:#1b1f24{dashed}")
    return "\n".join(lines) + "\n"


def _title(scene: Scene, key: int) -> str:
    box = scene.picture.boxes[key]
    return " ".join([part for part in (box.title, box.note) if part] + [f"× {box.times}"] * (box.times > 1))


def _edges(scene: Scene) -> Iterator[tuple[str, str, str]]:
    """Yield the edges between visible vertices and folded boxes, each once, with the shape of the value."""
    seen = set()
    for edge in scene.picture.edges:
        vertex = scene.picture.vertices[edge.source]
        a, b = _shown(scene, edge.source), _shown(scene, edge.target)
        known = edge.output < len(vertex.shapes) and vertex.kind not in LEAVES
        text = short_shape(vertex.shapes[edge.output]) if known else ""
        if a != b and (a, b, edge.source, edge.output) not in seen:
            seen.add((a, b, edge.source, edge.output))
            yield a, b, text


def _shown(scene: Scene, key: int) -> str:
    folded = [box for box in scene.picture.around(scene.picture.vertices[key].box) if box not in scene.placed]
    return f"b{folded[-1]}" if folded else f"v{key}"


def _quoted(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return "\\n".join(" ".join(line.split()) for line in text.split("\n"))


def _entities(text: str) -> str:
    """Return the characters that Mermaid or HTML interpret as numeric entities."""
    return "".join(c if c.isalnum() or c in " ._,×…-+=()" else f"#{ord(c)};" for c in " ".join(text.split()))
