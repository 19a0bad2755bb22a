"""The graph behind a Value as indented text and as an SVG drawing."""

from html import escape
from pathlib import Path

from .value import Value, nodes_of


class Drawing(str):
    """The text of an SVG picture, which notebooks show."""

    _repr_svg_ = str.__str__

    def save(self, path: str | Path) -> None:
        Path(path).write_text(self, encoding="utf-8")


def trace_graph(root: Value, max_nodes: int = 1000) -> str:
    """A line of operator, data and grad per node, its operands indented below it; shared ones are spelt out once."""
    lines, unseen, stack = [], set(nodes_of(root, max_nodes)), [(root, "")]
    while stack:
        node, indent = stack.pop()
        again = bool(node._children) and node not in unseen
        lines.append(indent + " ".join(_caption(node)) + " (see above)" * again)
        stack += [(child, indent + "  ") for child in reversed(node._children) if not again]
        unseen.discard(node)
    return "\n".join(lines)


def draw_graph(root: Value, max_nodes: int = 300) -> Drawing:
    """A box of operator, data and grad per node, left of the boxes of its results; long edges pass between boxes."""
    nodes = nodes_of(root, max_nodes)
    users: dict[Value, list[Value]] = {node: [] for node in nodes}
    column = dict.fromkeys(nodes, 0)  # counted from root, which is at the right
    for node in nodes:
        for child in node._children:
            users[child].append(node)
            column[child] = max(column[child], column[node] + 1)
    last = max(column.values())
    place: dict[tuple[Value, int], tuple[float, float]] = {}  # of a box, and of its edges in the columns they pass
    for c in range(last + 1):
        lane = [n for n in reversed(nodes) if column[n] == c or any(column[u] < c < column[n] for u in users[n])]
        place |= {(node, c): (10 + 170 * (last - c), 64 * i - 32 * len(lane)) for i, node in enumerate(lane)}
    edges, boxes = "", ""
    for node in nodes:
        for user in users[node]:
            for c in range(column[node], column[user], -1):
                (x, y), (x2, y2) = place[node, c], place[node if c - 1 > column[user] else user, c - 1]
                edges += f'<path d="M{x} {y} h120 C{x + 145} {y} {x2 - 25} {y2} {x2} {y2}" fill="none" stroke="gray"/>'
        x, y = place[node, column[node]]
        text = "".join(f'<tspan x="{x + 8}" dy="15">{escape(part)}</tspan>' for part in _caption(node))
        boxes += f'<rect x="{x}" y="{y - 26}" width="120" height="52" fill="white" stroke="black"/>'
        boxes += f'<text y="{y - 26}">{text}</text>'
    top, bottom = min(y for _, y in place.values()) - 36, max(y for _, y in place.values()) + 36
    size = f'viewBox="0 {top} {170 * last + 140} {bottom - top}" width="{170 * last + 140}" height="{bottom - top}"'
    start = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="12">'
    return Drawing(f"{start}{edges}{boxes}</svg>")


def _caption(node: Value) -> tuple[str, str, str]:
    return f"{node.label} {node._op}".strip() or "leaf", f"data={node.data:.5g}", f"grad={node.grad:.5g}"
