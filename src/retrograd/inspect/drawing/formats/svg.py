"""A scene as a self-contained SVG, without scripts, fonts and references to other files."""

from __future__ import annotations

import itertools
import math

from ...pages.template import clean, style
from ..figures import short_shape
from ..gradients import LOOKS, level, rules
from ..layout.nesting import Net, Value
from ..layout.placing import HEADER
from ..layout.scene import LETTER, MANY, SMALL, SPARK, Scene, box_content, box_title, columns, vertex_lines
from ..picture import LEAVES, Box, Picture

STYLE = style(__package__, "picture.css") + rules()

MARGIN = 24
MANY_READERS = 4  # the edges of a leaf with more readers are faint until it is selected
WIDEST = 7.0  # the width in pixels of the edge with the most saved bytes


def svg_of(scene: Scene) -> str:
    """Return the picture with the current state of folded boxes."""
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
    """Return a one-line summary of the graph, which counts all repetitions."""
    operators, leaves = picture.sizes
    counts = [(operators, "operator", "operators"), (leaves, "leaf", "leaves")]
    names = ", ".join(f"{n:,} {one if n == 1 else many}" for n, one, many in counts if n)
    return f"graph of {names}{'; repetitions are drawn once' * any(box.times > 1 for box in picture.boxes)}"


def drawn(scene: Scene) -> str:
    """Return the elements of the picture in their positions: boxes below edges below titles and vertices."""
    return "".join(itertools.chain(*_layers(scene, movable=False)[0]))


def drawn_for_script(scene: Scene) -> tuple[str, str]:
    """Return the elements of the open boxes, in a group for each layer, and those of all others.

    The page's script finds and moves the elements by their ids. A folded element is only text for the browser until the
    script inserts it into the picture.
    """
    shown, folded = _layers(scene, movable=True)
    groups = [f'<g id="w{i}">{"".join(layer)}</g>' for i, layer in enumerate(shown)]
    return "".join(groups), "".join(itertools.chain(*folded))


def _layers(scene: Scene, movable: bool) -> tuple[list[list[str]], list[list[str]]]:
    """Return boxes, edges, titles and vertices of the levels that are shown, and of the hidden levels."""
    shown: list[list[str]] = [[], [], [], []]
    folded: list[list[str]] = [[], [], [], []]
    most = max((vertex.kept for vertex in scene.picture.vertices), default=0)
    for nesting in [scene.levels[-1], *scene.levels[:-1]]:
        placed = scene.placed.get(nesting.box)
        if placed is None and not movable:
            continue
        boxes, edges, titles, vertices = folded if placed is None else shown
        for i, item in enumerate(nesting.items):
            at = "" if movable else ' transform="translate({:.1f} {:.1f})"'.format(*scene.corner(nesting, i))
            if item >= 0:
                vertices.append(_vertex(scene, item, f' id="v{item}"' if movable else at, not movable))
            else:
                boxes.append(_frame(scene, ~item, f' id="b{~item}"' if movable else at))
                titles.append(_title(scene, ~item, f' id="t{~item}"' if movable else at))
        lines = []
        for place, net in enumerate(nesting.nets):
            path, head, label = "", "", (0.0, 0.0)
            if placed and not movable:
                path, head, label = placed.paths[place], placed.heads[place], placed.labels[place]
            source = nesting.items[net.source] if net.source >= 0 else -1
            labeled = net.source >= 0 and (movable or source >= 0 or ~source not in scene.placed)
            name = f' id="e{nesting.box}.{place}"' if movable else ""
            shape = _shape(scene, net.value, label) if labeled else ""
            css, wide = _look(scene, net, nesting.box, most)
            lines.append(f'<g class="{css}"{name}><path d="{path}"{wide}/><path class="head" d="{head}"/>{shape}</g>')
        x, y = scene.origin.get(nesting.box, (0.0, 0.0))
        at = f' id="l{nesting.box}"' if movable else f' transform="translate({x:.1f} {y:.1f})"'
        edges.append(f"<g{at}>{''.join(lines)}</g>")
    return shown, folded


def edge_width(kept: int, most: int) -> float:
    """Return the edge width of an operator that saves ``kept`` bytes; ``most`` is the largest such number."""
    return 1.4 + (WIDEST - 1.4) * math.sqrt(kept / most) if kept else 0.0


def _look(scene: Scene, net: Net, box: int, most: int) -> tuple[str, str]:
    """Return the CSS class and style of the edges of a net in a box; ``most`` is as in ``edge_width``."""
    vertex = scene.picture.vertices[net.value[0]]
    name = level(scene.picture.flow_in(vertex, box), scene.usual) if scene.known else "even"
    wide = max(edge_width(vertex.kept, most), LOOKS[name].width)
    many = " many" if vertex.kind in LEAVES and len(net.targets) > MANY_READERS else ""
    return f"e{many} g-{name}", f' style="stroke-width:{wide:.1f}"' if vertex.kept else ""


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
    """Return a box's rectangle, which is drawn below the edges. A repetition has several rectangles, one behind the
    other, and if it is recurrent an arc back to its beginning."""
    width, height = scene.size_of(~key)
    box = scene.picture.boxes[key]
    size = f'width="{width:.1f}" height="{height:.1f}" rx="6"'
    copies = (2, 1, 0) if box.times > 1 and not box.recurrent else ()
    stack = "".join(f'<rect class="stack" x="{3 * i}" y="{3 * i}" {size}/>' for i in copies)
    arc = f'<path class="arc" d="{arc_path(width, height)}"/>' if box.recurrent else ""
    return f'<g class="b {_state(scene, key)}"{at}>{stack}{arc}<rect class="frame" {size}/></g>'


def arc_path(width: float, height: float) -> str:
    """Return the line from the end of a recurrent block back to its beginning, with its arrow head."""
    return (
        f"M{width:.1f} {height - 12:.1f}h7q7 0 7 -7V19q0 -7 -7 -7h-5"
        f"M{width + 6:.1f} 8l-5 4l5 4"
    )  # fmt: skip


def _title(scene: Scene, key: int, at: str) -> str:
    """Return a box's title, above the edges and on a band over the whole width, so that no edge crosses it."""
    title, note = box_title(scene, key)
    box = scene.picture.boxes[key]
    start = 24 + LETTER * columns(title) + 8 * bool(title)
    sign = "−" if key in scene.placed else "+"
    norm = scene.picture.flow(box)
    spark = f'<g class="spark" transform="translate({start + SMALL * columns(note) + 10:.1f} 5)">{_spark(box)}</g>'
    name = f"g-{level(norm, scene.usual)}" if scene.known else ""
    return (
        f'<g class="b {_state(scene, key)}"{at}>'
        f'<rect class="tab" x="1" y="1" width="{scene.size_of(~key)[0] - 2:.1f}" height="{HEADER - 4:.0f}" rx="5"/>'
        f'<g class="bar {name}"><path d="M1.5 6V{HEADER - 6:.0f}"/></g>'
        f'<text class="sign" x="9" y="18">{sign}</text><text class="name" x="24" y="18">{clean(title)}</text>'
        f'<text class="note" x="{start:.1f}" y="18">{clean(note)}</text>{spark if box.curve[2:] else ""}'
        f'<text class="note inside" x="24" y="38">{box_content(scene, key)}</text></g>'
    )


def _spark(box: Box) -> str:
    """Return the curve of a box's gradient on a logarithmic scale."""
    finite = [norm for norm in box.curve if norm is not None and norm < math.inf]
    known = [math.log10(norm) for norm in finite if norm]
    if len(finite) < 2:
        return ""
    low, high = min(known, default=0.0), max(known, default=0.0)
    low, high = (low, high) if high - low > 0.5 else ((low + high) / 2 - 0.25, (low + high) / 2 + 0.25)
    low = min(low, high - 1.0) if len(known) < len(finite) else low
    heights = (high - (math.log10(norm) if norm else low) for norm in finite)
    points = [
        f"{SPARK * i / (len(box.curve) - 1):.1f} {1 + 14 * next(heights) / (high - low):.1f}"
        for i, norm in enumerate(box.curve)
        if norm is not None and norm < math.inf
    ]
    what = "repetitions, the last one nearest to the loss" if box.runs else "steps"
    return f'<title>gradient norm over the {what}</title><path d="M{"L".join(points)}"/>'


def _state(scene: Scene, key: int) -> str:
    return "opened" if key in scene.placed else "folded"
