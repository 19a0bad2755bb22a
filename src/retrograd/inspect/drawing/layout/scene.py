"""A picture with layout: which boxes are open, and the sizes and positions of everything."""

from __future__ import annotations

from unicodedata import east_asian_width

from ..figures import number, short_shape
from ..gradients import has_gradients, usual_norm
from ..picture import LEAVES, Picture, Vertex
from .layering import arrange
from .nesting import Level, levels_of
from .placing import HEADER, Item, Placed, Size, place

LETTER, SMALL = 7.3, 6.4  # widths of a letter in the first line and in other lines
SPARK = 56.0  # the width of the curve of a box's gradient over the steps
LONGEST = 34  # the most letters of a label
MANY = 4  # a vertex with more outputs shows no shapes on its edges


class Scene:
    """A picture with its levels, open boxes, and positions.

    Args:
        picture: the picture to lay out.
        depth: the nesting depth of open boxes: 0 folds all modules, None chooses a depth that is readable.
    """

    def __init__(self, picture: Picture, depth: int | None = None) -> None:
        self.picture = picture
        self.levels: list[Level] = levels_of(picture)
        for level in self.levels:
            leaves = {i for i, item in enumerate(level.items) if item >= 0 and picture.vertices[item].kind in LEAVES}
            arrange(level, leaves)
        self.sizes: list[Size] = [vertex_size(vertex) for vertex in picture.vertices]
        self.shapes: list[list[float]] = [[] for _ in picture.boxes]  # by box: the text widths of its results' shapes
        for level in self.levels:
            for net in level.nets:
                if net.source >= 0 > level.items[net.source]:
                    self.shapes[~level.items[net.source]].append(shape_width(picture.vertices[net.value[0]]))
        self.depth = _readable_depth(picture) if depth is None else depth
        self.opened = {box.key for box in picture.boxes if box.depth < self.depth or box.kind == "repetition"}
        self.inside = [0] * len(picture.boxes)  # the number of vertices in each box
        for vertex in picture.vertices:
            for box in picture.around(vertex.box):
                self.inside[box] += 1
        self.usual = picture.usual or usual_norm(picture)  # gradients near this norm are gray
        self.known = has_gradients(picture)
        self.placed: dict[int, Placed] = {}
        self.origin: dict[int, tuple[float, float]] = {-1: (0.0, 0.0)}
        self._place()

    def shown(self, box: int) -> bool:
        """Return whether all boxes around this box are open."""
        return box < 0 or all(outer in self.opened for outer in self.picture.around(self.picture.boxes[box].parent))

    def size_of(self, item: int) -> Size:
        """Return the current size of a vertex (by key) or a box (by ``~key``)."""
        if item >= 0:
            return self.sizes[item]
        placed = self.placed.get(~item)
        return (placed.width, placed.height) if placed else folded_size(self, ~item)

    def corner(self, level: Level, i: int) -> tuple[float, float]:
        """Return the upper left corner of an item of a level, in the whole picture."""
        x, y = self.origin[level.box]
        placed = self.placed[level.box]
        return x + placed.centers[i] - self.size_of(level.items[i])[0] / 2, y + placed.tops[i]

    def _standing(self, item: int) -> Item:
        leaf = item >= 0 and self.picture.vertices[item].kind in LEAVES
        return Item(self.size_of(item), self.placed.get(~item) if item < 0 else None, leaf)

    def _place(self) -> None:
        visible = [box.key for box in self.picture.boxes if box.key in self.opened and self.shown(box.key)]
        for key in [*reversed(visible), -1]:
            level = self.levels[key]
            items = [self._standing(item) for item in level.items]
            self.placed[key] = place(level, items, title_width(self, key))
        for key in [-1, *visible]:
            level = self.levels[key]
            for i, item in enumerate(level.items):
                if item < 0:
                    self.origin[~item] = self.corner(level, i)


def _readable_depth(picture: Picture, most: int = 24) -> int:
    """Return the largest depth at which at most ``most`` vertices and folded boxes are visible; but 1 instead of 0, if
    depth 1 shows at most five times ``most``."""
    deepest = max((box.depth + 1 for box in picture.boxes if box.kind != "repetition"), default=0)
    seen = [0] * (deepest + 1)  # visible items by nesting depth
    folded = [0] * (deepest + 1)
    for vertex in picture.vertices:
        seen[picture.boxes[vertex.box].depth + 1 if vertex.box >= 0 else 0] += 1
    for box in picture.boxes:
        if box.kind != "repetition":
            folded[box.depth] += 1
    total = seen[0]
    for depth in range(1, deepest + 1):
        total += seen[depth]
        if total + folded[depth] > (most if depth > 1 else 5 * most):
            return depth - 1
    return deepest


def columns(text: str) -> int:
    """Return the width of a text in letters: some East Asian letters count as two."""
    return len(text) + sum(east_asian_width(letter) in "WF" for letter in text)


def shortened(text: str, most: int = LONGEST) -> str:
    """Return a text, without its middle if it is too long."""
    text = " ".join(text.split())
    while columns(text) > most:
        cut = max(1, (columns(text) - most + 1) // 2)
        middle = len(text) // 2
        text = text[: middle - cut] + "…" + text[middle + cut :]
    return text


def vertex_lines(vertex: Vertex) -> list[str]:
    """Return the lines of a vertex."""
    lines = [vertex.label, *vertex.note.split("\n")]
    if vertex.norms:
        low, high = number(min(vertex.norms)), number(max(vertex.norms))
        lines.append(f"grad norm {low}" + (f"…{high}" if high != low else ""))
    if vertex.alarm:
        lines.append(f"⚠ {vertex.alarm}")
    return [shortened(line) for line in lines if line]


def vertex_size(vertex: Vertex) -> Size:
    """Return the size of a vertex: its text, and room for the shapes on the edges below."""
    first, *rest = [columns(line) for line in vertex_lines(vertex)]
    width = max(LETTER * first, *(SMALL * line for line in rest), 24.0)
    if len(vertex.shapes) <= MANY and vertex.kind not in LEAVES:
        width = max(width, shape_width(vertex) * len(vertex.shapes))
    elif len(vertex.shapes) > MANY:
        width = max(width, min(8.0 * len(vertex.shapes), 400.0))
    return round(width + 20, 1), 26.0 + 14 * len(rest)


def shape_width(vertex: Vertex) -> float:
    """Return the width of the text of a shape on the edges of a vertex."""
    return max((columns(short_shape(shape)) for shape in vertex.shapes), default=0) * SMALL + 6


def box_title(scene: Scene, key: int) -> tuple[str, str]:
    """Return the title of a box and the note after it."""
    box = scene.picture.boxes[key]
    times = f"× {box.times}" if box.times > 1 else ""
    return shortened(box.title), "  ".join(part for part in (shortened(box.note), times) if part)


def title_width(scene: Scene, key: int) -> float:
    """Return the width of an open box's title line."""
    if key < 0:
        return 0.0
    title, note = box_title(scene, key)
    spark = SPARK + 12 if scene.picture.boxes[key].curve[2:] else 0.0
    return 48 + LETTER * columns(title) + SMALL * columns(note) + spark


def folded_size(scene: Scene, key: int) -> Size:
    """Return the size of a folded box: a line for its name and one for its content, and the shapes on edges below."""
    shapes = scene.shapes[key]
    below = min(max(shapes, default=0.0) * len(shapes) + 16, 640.0)
    return max(title_width(scene, key), SMALL * columns(box_content(scene, key)) + 36, below, 100.0), HEADER + 20.0


def box_content(scene: Scene, key: int) -> str:
    """Return the second line of a folded box: the number of vertices inside, and the norm of the box's gradient."""
    norm = scene.picture.flow(scene.picture.boxes[key])
    return f"{scene.inside[key]} inside" + ("" if norm is None else f", gradient {norm:.3g}")
