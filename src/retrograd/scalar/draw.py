"""The graph of a Value as indented text and as a picture."""

import re
from collections.abc import Iterable
from html import escape
from pathlib import Path

from .value import Value, nodes_of

# Fill and line colors of a box by the kind of its node: dark text on light boxes is readable on any background.
_COLORS = {
    "leaf": ("#dbeafe", "#2563eb"),
    "parameter": ("#fef3c7", "#b45309"),
    "operator": ("#f3f4f6", "#6b7280"),
    "output": ("#dcfce7", "#15803d"),
}
_EDGE = "#808080"
_HEIGHT, _GAP = 52, 60  # the height of a box, and the gap between two columns of boxes
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Drawing(str):
    """An SVG picture as text, displayed by notebooks; ``source`` is the same graph in Graphviz's language, DOT."""

    source: str

    def __new__(cls, svg: str, source: str = "") -> "Drawing":
        drawing = super().__new__(cls, svg)
        drawing.source = source
        return drawing

    def _repr_svg_(self) -> str:
        return str(self)

    def save(self, path: str | Path) -> None:
        """Write the SVG picture to a file."""
        Path(path).write_text(self, encoding="utf-8")

    def render(self, filename: str | Path, format: str | None = None, view: bool = False) -> str:
        """Write the graph to a file and return its path, as Graphviz's ``render`` does.

        Args:
            filename: the path; the format is appended as its suffix if missing.
            format: "svg" or "dot"; by default that of the suffix, or "svg".
            view: open the file in a browser.

        Raises:
            ValueError: another format.
        """
        path = Path(filename)
        kind = format or path.suffix.lower()[1:] or "svg"
        if kind not in ("svg", "dot", "gv"):
            raise ValueError(
                f"render: format must be 'svg' or 'dot', got {kind!r}; `dot -T{kind}` converts a .dot file"
            )
        if path.suffix.lower() != f".{kind}":
            path = path.with_name(f"{path.name}.{kind}")
        path.write_text(self if kind == "svg" else self.source, encoding="utf-8")
        if view:
            import webbrowser

            webbrowser.open(path.resolve().as_uri())
        return str(path)


def trace_graph(root: Value, max_nodes: int = 1000) -> str:
    """Return one line of operator, data and grad per node, and its operands below, indented.

    The operands of a node that is used several times are printed only at its first line.

    Args:
        root: the result whose graph is traced.
        max_nodes: the largest number of nodes; larger graphs raise ValueError.

    >>> a = Value(2.0, label="a")
    >>> print(trace_graph(a * a))
    * data=4 grad=0
      a data=2 grad=0
      a data=2 grad=0
    """
    lines, unseen, stack = [], set(nodes_of(root, max_nodes)), [(root, "")]
    while stack:
        node, indent = stack.pop()
        again = bool(node._children) and node not in unseen
        lines.append(indent + " ".join(_caption(node)) + " (see above)" * again)
        stack += [(child, indent + "  ") for child in reversed(node._children) if not again]
        unseen.discard(node)
    return "\n".join(lines)


def draw_graph(root: Value, max_nodes: int = 300, *, parameters: Iterable[Value] = ()) -> Drawing:
    """Draw a box of label, operator, data and grad per node, with arrows to the boxes of its results on the right.

    The color of a box distinguishes leaves, parameters, operators and the output. Weights and biases of neurons are
    recognized as parameters; pass others as ``parameters``. Raises ValueError for more than max_nodes nodes.

    Args:
        root: the result whose graph is drawn.
        max_nodes: the largest number of boxes.
        parameters: Values to draw as parameters, for example ``model.parameters()``.

    >>> a = Value(2.0, label="a")
    >>> drawing = draw_graph(a * a)
    >>> drawing.count("<rect class='leaf'")  # a is used twice: one box, two arrows
    1
    """
    nodes = nodes_of(root, max_nodes)
    kinds = _kinds(root, nodes, parameters)
    captions = {node: _caption(node) for node in nodes}
    width = max(80, *(16 + 7.3 * len(line) for caption in captions.values() for line in caption))
    column, lanes = _layout(nodes)
    last = len(lanes) - 1
    place = {
        (node, c): (round((width + _GAP) * (last - c), 1), round(64 * (i - (len(lane) - 1) / 2), 1))
        for c, lane in enumerate(lanes)
        for i, node in enumerate(lane)
    }

    edges, boxes = "", ""
    for user in nodes:
        count = len(user._children)
        for k, child in enumerate(sorted(user._children, key=lambda child: place[child, column[user] + 1][1])):
            port = (k - (count - 1) / 2) * min(6, 36 / count)  # the arrows' ends are spaced so that none cross
            for c in range(column[child], column[user], -1):
                (x, y), target = place[child, c], user if c - 1 == column[user] else child
                (x2, y2) = place[target, c - 1]
                if target is user:
                    x2, y2 = x2 - 7, y2 + port
                    edges += f"<path d='M{x2:g} {y2 - 3.5:g} l7 3.5 l-7 3.5 z' fill='{_EDGE}'/>"
                curve = f"M{x:g} {y:g} h{width:g} C{x + width + 30:g} {y:g} {x2 - 30:g} {y2:g} {x2:g} {y2:g}"
                edges += f"<path d='{curve}' fill='none' stroke='{_EDGE}'/>"
    for node in nodes:
        x, y = place[node, column[node]]
        boxes += _box(kinds[node], x, y - _HEIGHT / 2, width, _HEIGHT, captions[node])

    top, bottom = min(y for _, y in place.values()) - 36, max(y for _, y in place.values()) + 36
    for i, kind in enumerate(kind for kind in _COLORS if kind in kinds.values()):
        boxes += _box(f"{kind} legend", 90 * i, bottom, 82, 20, (kind,))
    area = f"{max((width + _GAP) * last + width, 4 * 90) + 20:g} {bottom - top + 30:g}"
    size = "width='{}' height='{}'".format(*area.split())
    start = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='-10 {top:g} {area}' {size}"
    return Drawing(f"{start} font-family='monospace' font-size='12'>{edges}{boxes}</svg>", _dot_source(nodes, kinds))


def _dot_source(nodes: list[Value], kinds: dict[Value, str]) -> str:
    lines = ["rankdir=LR", "node [shape=box style=filled fontname=monospace]", f'edge [color="{_EDGE}"]']
    for node in nodes:
        fill, line = _COLORS[kinds[node]]
        caption = (part.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for part in _caption(node))
        label = "\\n".join(caption)
        lines.append(f'n{node._birth} [label="{label}" fillcolor="{fill}" color="{line}"]')
        lines += [f"n{child._birth} -> n{node._birth}" for child in node._children]
    return "\n".join(["digraph {", *lines, "}\n"])


def _kinds(root: Value, nodes: list[Value], parameters: Iterable[Value]) -> dict[Value, str]:
    given = set(parameters)
    for node in nodes:
        if node._op == "dot":  # its operands are weights, inputs, bias
            given |= {*node._children[: len(node._children) // 2], node._children[-1]}
    kinds = {node: "operator" if node._children else "parameter" if node in given else "leaf" for node in nodes}
    return kinds | ({root: "output"} if root._children else {})


def _layout(nodes: list[Value]) -> tuple[dict[Value, int], list[list[Value]]]:
    """Return the column of every node, counted from the root, and per column its nodes and the nodes whose edges pass.

    The nodes of a column have the order of the nodes that use them in the previous column, so that few edges cross.
    """
    users: dict[Value, list[Value]] = {node: [] for node in nodes}
    column = dict.fromkeys(nodes, 0)
    for node in nodes:
        for child in node._children:
            users[child].append(node)
            column[child] = max(column[child], column[node] + 1)
    lanes = [[nodes[0]]]
    for c in range(1, max(column.values()) + 1):
        position = {node: i for i, node in enumerate(lanes[-1])}
        leads_to = {
            node: [position[user if column[user] == c - 1 else node] for user in users[node] if column[user] < c]
            for node in reversed(nodes)
            if column[node] >= c
        }
        lane = [node for node in leads_to if leads_to[node]]
        lanes.append(sorted(lane, key=lambda node: sum(leads_to[node]) / len(leads_to[node])))
    return column, lanes


def _box(kind: str, x: float, y: float, width: float, height: float, lines: tuple[str, ...]) -> str:
    fill, line = _COLORS[kind.split()[0]]
    corner = 10 if kind == "operator" else 3
    spans = "".join(
        f"<tspan x='{x + 8:g}' dy='15'{' font-weight=' + repr('bold') if i == 0 else ''}>"
        f"{escape(_NOT_XML.sub(chr(0xFFFD), part))}</tspan>"
        for i, part in enumerate(lines)
    )
    rectangle = f"<rect class='{kind}' x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' rx='{corner}'"
    return f"{rectangle} fill='{fill}' stroke='{line}'/><text y='{y:g}' fill='#111827'>{spans}</text>"


def _caption(node: Value) -> tuple[str, str, str]:
    return f"{node.label} {node._op}".strip() or "leaf", f"data={node.data:.5g}", f"grad={node.grad:.5g}"


def _repr_svg_(value: Value) -> str | None:
    """Return the drawing of a Value for notebooks, unless it is too large."""
    try:
        return draw_graph(value)
    except ValueError:
        return None


Value._repr_svg_ = _repr_svg_  # type: ignore[attr-defined]
