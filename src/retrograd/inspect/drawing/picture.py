"""A picture of a graph as plain data: vertices, edges, and boxes around them.

A picture refers to no Tensor, node or array, so it keeps no memory of the program alive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

# Leaves are placed next to their readers; they have no position in the order of calls.
LEAVES = ("input", "parameter")


@dataclass(slots=True)
class Vertex:
    """A leaf, a recorded operator or an output.

    Args:
        key: its index in ``Picture.vertices``, where sources come before targets.
        kind: ``"input"``, ``"parameter"``, ``"operator"``, ``"view"``, ``"write"``, ``"function"`` or ``"output"``.
        label: the first line of its text; ``note`` is the second line, and ``alarm`` reports NaN and infinities.
        norms: the norms of its gradient; several numbers for a vertex that represents several vertices.
        shapes: the shapes of its outputs, or of an output itself; plain numbers have none.
        names: the full names of a parameter, and of the parameters that it represents.
        flows: by step, the norm of the gradient with respect to its (first) output; None where it is not known.
        ends: for a vertex in a repetition, the flows of the last vertex that it represents; otherwise empty.
        kept: the bytes that the operator saves for the backward pass.
        path: the modules around it, outermost first.
        box: the key of the box around it; -1 for none.
        details: the text shown when pointing at it.
    """

    key: int
    kind: str
    label: str
    note: str = ""
    alarm: str = ""
    norms: tuple[float, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    names: tuple[str, ...] = ()
    flows: tuple[float | None, ...] = ()
    ends: tuple[float | None, ...] = ()
    kept: int = 0
    path: tuple[str, ...] = ()
    box: int = -1
    details: list[tuple[str, str]] = field(default_factory=list)

    @property
    def full_names(self) -> tuple[str, ...]:
        """The names of a parameter, and of the parameters that it represents, with the paths of their modules."""
        return self.names or (dict(self.details).get("name", self.label),)


class Edge(NamedTuple):
    """An edge: input number ``input`` of vertex ``target`` reads output number ``output`` of vertex ``source``."""

    source: int
    output: int
    target: int
    input: int


@dataclass(slots=True)
class Box:
    """A call of a module (``kind`` is ``"module"``), a block that is repeated ``times`` times and shown once
    (``"repetition"``), or a ``"part"`` of a long list of operators.

    A box comes after its ``parent``, the box around it. ``path`` is the path of a module, otherwise empty.
    ``recurrent`` says whether the repetitions share their parameters. ``flows`` has, by step, the norm of the gradient
    of all parameters inside, or of the results if there are no parameters; ``runs`` has this norm for each repetition
    at the last step.
    """

    key: int
    title: str
    parent: int = -1
    note: str = ""
    path: tuple[str, ...] = ()
    times: int = 1
    depth: int = 0
    recurrent: bool = False
    kind: str = "module"
    flows: tuple[float | None, ...] = ()
    runs: tuple[float | None, ...] = ()

    @property
    def curve(self) -> tuple[float | None, ...]:
        """The norms of the curve in the box's title: over the steps, or over the repetitions if there is one step."""
        return self.flows if len(self.flows) > 2 else self.runs


@dataclass(slots=True)
class Picture:
    """Vertices in topological order, their edges, and boxes, outer before inner.

    ``steps`` are the titles of the steps for which gradients are known, and ``step`` is the index of the one shown.
    Gradients near the norm ``usual`` are gray. ``classes`` are the class names of modules by path. ``unfolded`` has the
    ``sizes`` of the picture before repetitions were folded.
    """

    vertices: list[Vertex] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    step: int = 0
    usual: float = 0.0
    classes: Mapping[str, str] = field(default_factory=dict)
    unfolded: tuple[int, int] | None = None

    @property
    def sizes(self) -> tuple[int, int]:
        """The numbers of operators and leaves of the graph."""
        leaves = sum(vertex.kind in LEAVES for vertex in self.vertices)
        outputs = sum(vertex.kind == "output" for vertex in self.vertices)
        return self.unfolded or (len(self.vertices) - leaves - outputs, leaves)

    def flow(self, item: Vertex | Box) -> float | None:
        """Return the norm of a vertex's or box's gradient at the step shown, None if it is not known."""
        return item.flows[self.step] if self.step < len(item.flows) else None

    def flow_in(self, vertex: Vertex, box: int) -> float | None:
        """Return the gradient norm for a vertex's edges in a box; outside of its repetition, that of the last piece."""
        flows = vertex.ends if vertex.ends and self.repetition(vertex) not in self.around(box) else vertex.flows
        return flows[self.step] if self.step < len(flows) else None

    def repetition(self, vertex: Vertex) -> int:
        """Return the outermost repetition around a vertex, -1 for none."""
        return next((box for box in reversed([*self.around(vertex.box)]) if self.boxes[box].times > 1), -1)

    def add(self, kind: str, label: str, **rest: object) -> Vertex:
        """Append a vertex, and return it."""
        vertex = Vertex(len(self.vertices), kind, label, **rest)  # type: ignore[arg-type]
        self.vertices.append(vertex)
        return vertex

    def around(self, box: int) -> Iterator[int]:
        """Yield the box and the boxes around it, inner before outer."""
        while box >= 0:
            yield box
            box = self.boxes[box].parent

    def common(self, a: int, b: int) -> int:
        """Return the innermost box around two boxes, -1 for none."""
        outer = set(self.around(a))
        return next((box for box in self.around(b) if box in outer), -1)
