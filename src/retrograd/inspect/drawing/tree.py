"""A recorded graph as an indented tree for the terminal, from the output down to the leaves."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

from ...ops.table.documentation import like
from .draw import draw, picture_for
from .figures import shape_text
from .layout.scene import columns
from .picture import LEAVES, Picture, Vertex

# The largest number of lines in a repeated block.
LONGEST = 80

# A branch of more results than this is printed separately, so that long chains are not indented at each step.
LONG = 3

# Numbers in a line: of a shared result, and of a module in a path (``layers.3.norm``, ``3.weight``, ``3``).
_NUMBER = re.compile(r"#\d+|(?<=[A-Za-z_]\.)\d+(?![\w(])|(?<= )\d+(?=\.[A-Za-z_])|(?<=\)  )\d+(?=  |$)")


@like(draw, raises="TypeError, RuntimeError")
def tree(output: object, *, params: object = None, width: int | None = None) -> None:
    """Print how a result was computed: one line per operator, with its shape and the leaves that it reads.

    The operators whose results an operator reads are printed below it: a single one without indentation, several as
    branches, in the order of the inputs. "→ #3" refers to the result printed further down as "#3", which is read more
    than once or is a long branch. Leaves follow "←", where "↓" stands for a result printed below. For a trace, results
    that lead to no output are printed last. Repeated lines, such as those of equal blocks, are counted.

    Args:
        params: names of leaves: a Module, a mapping, or pairs as from ``named_parameters()``.
        width: the width of the lines, by default the terminal's.

    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> y = x.exp()
    >>> rg.inspect.tree((y * y.sin()).sum(), params={"x": x})
    output () 7.721
    sum ()
    mul (2,)
    ├─ → #1
    └─ sin (2,)
       → #1
    #1 exp (2,)  ← x (2,)
    """
    picture = picture_for(output, params, "tree")
    print(tree_text(picture, width or shutil.get_terminal_size((120, 24)).columns))


def tree_text(picture: Picture, width: int = 120) -> str:
    """Return the tree of a picture without folded repetitions, with lines cut to ``width`` columns."""
    reads: list[list[int]] = [[] for _ in picture.vertices]
    inputs: list[list[Vertex]] = [[] for _ in picture.vertices]
    count = [0] * len(picture.vertices)
    for edge in sorted(picture.edges, key=lambda edge: (edge.target, edge.input)):
        source = picture.vertices[edge.source]
        inputs[edge.target].append(source)
        if source.kind not in LEAVES:
            reads[edge.target].append(edge.source)
            count[edge.source] += 1
    live = _live(picture, reads)
    below, size = _dominated(picture, reads, live)
    numbers: dict[int, int] = {}

    def number(key: int) -> str:
        return f"#{numbers.setdefault(key, len(numbers) + 1)}"

    lines: list[str] = []
    # Still to print: a vertex or a reference to one, with the prefixes of its line and of the lines below.
    ends = [key for key in below[-1] if picture.vertices[key].kind == "output"] or below[-1][:1]
    top = {*ends, *[key for key in below[-1] if count[key] and key in live]}
    stack = [(key, False, "" if key in top else "also ran: ", "") for key in reversed(below[-1])]
    apart = {key for key in range(len(count)) if count[key] > 1}  # printed separately, with a number
    while stack:
        key, reference, first, rest = stack.pop()
        if reference:
            lines.append(f"{first}→ {number(key)}")
            continue
        own = number(key) + " " if key in apart else ""
        lines.append(first + own + _line(picture.vertices[key], inputs[key]))
        children = sorted(below[key], key=lambda child: (size[child], child))
        if len(reads[key]) > 1 and children and children[-1] not in apart and size[children[-1]] > LONG:
            apart.add(children[-1])  # the longest branch is not indented
        stack += [(child, False, rest, rest) for child in reversed(children) if child in apart]
        read = [(child, child in apart) for child in reads[key]]
        if len(read) == 1:
            stack.append((*read[0], rest, rest))
            continue
        for place, (child, refers) in reversed(list(enumerate(read))):
            last = place == len(read) - 1
            stack.append((child, refers, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  ")))
    return "\n".join(_cut(line, width) for line in _counted(lines))


def _live(picture: Picture, reads: list[list[int]]) -> set[int]:
    """Return the vertices on which outputs depend; all vertices if there is no output."""
    found = {vertex.key for vertex in picture.vertices if vertex.kind == "output"}
    if not found:
        return set(range(len(picture.vertices)))
    for vertex in reversed(picture.vertices):
        if vertex.key in found:
            found.update(reads[vertex.key])
    return found


def _dominated(picture: Picture, reads: list[list[int]], live: set[int]) -> tuple[dict[int, list[int]], list[int]]:
    """Return the immediate dominator tree, as children by vertex, and the number of vertices below each vertex.

    A shared result is printed below the last operator that all its paths to the outputs have in common, so the tree of
    a chain of residual blocks is no deeper than one block.
    """
    total = len(picture.vertices)
    above = [-1] * total
    depth = [0] * (total + 1)  # depth[-1] belongs to the root above the outputs
    met = [False] * total
    below: dict[int, list[int]] = {-1: []}
    order = [vertex.key for vertex in reversed(picture.vertices) if vertex.kind not in LEAVES]
    for key in order:
        below[key] = []
        below[above[key]].append(key)
        depth[key] = depth[above[key]] + 1
        for source in reads[key]:
            if source in live and key not in live:
                continue
            a, b = key, above[source] if met[source] else key
            met[source] = True
            while a != b:
                if depth[a] >= depth[b]:
                    a = above[a]
                else:
                    b = above[b]
            above[source] = a
    below[-1].sort(key=lambda key: (key, 0) if picture.vertices[key].kind == "output" else (total, -key))
    size = [1] * total
    for key in reversed(order):
        if above[key] >= 0:
            size[above[key]] += size[key]
    return below, size


def _line(vertex: Vertex, inputs: list[Vertex]) -> str:
    details = dict(vertex.details)
    parts = [_vertex_text(vertex)]
    is_leaf = [x.kind in LEAVES for x in inputs]
    if any(is_leaf):
        # Results that come before the leaves need no arrow.
        start = is_leaf.index(True)
        start = 0 if not all(is_leaf[start:]) else start
        leaf_texts = [
            _vertex_text(x) + _alarm(x) if leaf else "↓"
            for x, leaf in zip(inputs[start:], is_leaf[start:], strict=True)
        ]
        parts.append("← " + ", ".join(leaf_texts))
    parts += [text for name in ("module", "line") if (text := details.get(name))]
    return "  ".join(parts) + _alarm(vertex)


def _vertex_text(vertex: Vertex) -> str:
    """Return a vertex with its shapes, and its value if that is a single number."""
    number = (
        vertex.note.replace("\n", " ") if not vertex.shapes or vertex.kind == "output" and () in vertex.shapes else ""
    )
    return " ".join(filter(None, (vertex.label, ", ".join(map(shape_text, vertex.shapes)), number)))


def _alarm(vertex: Vertex) -> str:
    return f" ⚠ {vertex.alarm}" if vertex.alarm else ""


def _counted(lines: list[str]) -> Iterator[str]:
    """Yield the lines with repeated blocks replaced by a count.

    The numbers of modules and results in a block may differ from those in the previous block by a constant."""
    patterns = [_NUMBER.sub("#", line) for line in lines]
    numbers = [[(x[0] == "#", int(x.lstrip("#"))) for x in _NUMBER.findall(line)] for line in lines]
    i = 0
    while i < len(lines):
        for period in range(1, LONGEST + 1):
            times, steps = 1, None
            while (found := _steps(patterns, numbers, i + times * period, period)) is not None:
                if steps not in (None, found):
                    break
                times, steps = times + 1, found
            if times >= 3 and (times - 1) * period >= 6:
                yield from lines[i : i + period]
                what = "this line" if period == 1 else f"these {period} lines"
                last = i + (times - 1) * period
                yield f"⋮ {what}, {times - 1:,} more times{_module_of(lines[i : i + period], lines[last:])}"
                i = last + period
                break
        else:
            yield lines[i]
            i += 1


def _steps(
    patterns: list[str], numbers: list[list[tuple[bool, int]]], start: int, period: int
) -> tuple[set[int], set[int]] | None:
    """Return by how much the numbers of results and of modules grew since the previous block; None if blocks differ.

    Numbers may also be constant: those of results that all blocks read, and of enclosing modules.
    """
    pieces = slice(start - period, start), slice(start, start + period)
    if patterns[pieces[0]] != patterns[pieces[1]]:
        return None
    steps: tuple[set[int], set[int]] = set(), set()
    for before, after in zip(numbers[pieces[0]], numbers[pieces[1]], strict=True):
        for (result, a), (_, b) in zip(before, after, strict=True):
            if a != b:
                steps[result].add(b - a)
    return steps if max(map(len, steps)) <= 1 else None


def _module_of(first: list[str], last: list[str]) -> str:
    """Return the module at which a repetition ends."""
    for a, b in zip(first, last, strict=False):
        for x, y in zip(_NUMBER.finditer(a), _NUMBER.finditer(b), strict=False):
            if x[0] != y[0] and y[0][0] != "#":
                return f", to {b[b.rindex(' ', 0, y.start()) + 1 : y.end()]}"
    return ""


def _cut(line: str, width: int) -> str:
    """Cut a line to ``width`` columns; control characters become question marks."""
    line = "".join(letter if letter.isprintable() else "?" for letter in line)
    if columns(line) <= width:
        return line
    while columns(line) > width - 1:
        line = line[:-1]
    return line + "…"
