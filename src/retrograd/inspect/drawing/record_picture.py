"""A picture of a trace: all operators of the forward pass, including those without a recorded graph.

Operators that ran during a backward pass are drawn if forward operators read their results, as for a gradient penalty.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Container, Sequence
from itertools import takewhile
from operator import attrgetter

from ..record import Departure, Input, Record
from ..tracing import Records
from .figures import byte_text, number, shape_text, short_shape
from .graph_picture import add_record_details, kind_of
from .picture import Edge, Picture, Vertex
from .training_steps import Step, alike, drawn_step, flows_of, leaf_flows, steps_of, without_buffer_updates


def forward_records(trace: Records) -> list[Record]:
    """Return the records to draw: of the forward pass, and of backward passes whose results are read later."""
    gradients = _read_later(trace)
    return [
        record for record in trace if not record.within and (record.phase == "forward" or record.index in gradients)
    ]


def traced_picture(trace: Records, call: str, given: Sequence[Step] = ()) -> Picture:
    """Return the picture of a trace's forward operators; differentiable results that nothing reads are its outputs.

    Args:
        trace: the records.
        call: the function that the user called, for errors.
        given: the steps, of which the last is drawn; by default those of the trace.

    Raises:
        RuntimeError: nothing ran under the trace.
    """
    records = forward_records(trace)
    if not records:
        raise RuntimeError(f"{call}: the trace is empty: no operator ran inside `with inspect.trace() as t:`")
    steps = given or steps_of(trace, records)
    drawn = steps[-1] if given else drawn_step(steps)
    same = [step for step in steps if step.signature == drawn.signature] if given else alike(steps, drawn)
    records, updates = without_buffer_updates(drawn.records)
    place_of = {record.index: place for place, record in enumerate(drawn.records)}
    began = drawn.records[0].index
    picture = Picture(
        steps=[f"step {step.number}" + ("" if given else f" of {len(steps)}") for step in same], step=same.index(drawn)
    )
    vertices: dict[int, Vertex] = {}
    whole: dict[int, Vertex] = {}  # Tensors written through a view, after the write
    leaves: dict[int, Vertex] = {}
    functions = {record.within for record in trace}
    unread = dict.fromkeys(record.index for record in records)

    def connect(x: Input, key: int, target: Vertex, place: int, taken: dict[int, int]) -> None:
        source = _read_from(x)
        if source is not None and source.index in vertices:
            written = whole.get(source.index)
            giver = vertices[source.index] if written is None or tuple(x.shape) not in written.shapes else written
            picture.edges.append(Edge(giver.key, _output(giver, x, taken), target.key, place))
            unread.pop(source.index, None)
        elif key in leaves:
            picture.edges.append(Edge(leaves[key].key, 0, target.key, place))

    for record in records:
        # A bare array has no number, so each use is a separate leaf.
        keys = [x.leaf or -1 - i - 1000 * record.index for i, x in enumerate(record.inputs)]
        base = record.writes if record.writes is not None and record.writes is not record.inputs[0] else None
        read = [*zip(record.inputs, keys, strict=True), *([(base, base.leaf)] if base is not None else [])]
        for x, key in read:
            earlier = _read_from(x)
            outside = earlier is None or earlier.index < began
            if outside and _is_leaf(x) and key not in leaves:
                leaves[key] = leaf = _leaf(picture, x, earlier)
                _add_gradients(leaf, x, leaf_flows(same, x.leaf), picture.step)
        vertex = _operator(picture, record, record.operator in functions)
        vertex.flows = flows_of(same, place_of[record.index])
        if record.index in updates:
            vertex.details.append(("updates", ", ".join(updates[record.index])))
        taken: dict[int, int] = {}
        for place, (x, key) in enumerate(zip(record.inputs, keys, strict=True)):
            connect(x, key, vertex, place, taken)
        vertices[record.index] = vertex
        if base is not None:
            changed = picture.add("write", "overwrite", shapes=(tuple(base.shape),), path=vertex.path)
            changed.details = [pair for pair in vertex.details if pair[0] in ("line", "module")]
            connect(base, base.leaf, changed, 0, {})
            picture.edges.append(Edge(vertex.key, 0, changed.key, 1))
            whole[record.index] = changed
    ends = [record for record in records if record.index in unread and record.requires_grad]
    ends = [record for record in ends if not _left_behind(record, records, unread)]
    for i, record in enumerate(ends):
        name = "output" if len(ends) == 1 else f"output {i}"
        giver = whole.get(record.index, vertices[record.index])
        values = dict(giver.details).get("values", "")
        note = values if giver.shapes == ((),) else ", ".join(map(short_shape, giver.shapes))
        vertex = picture.add("output", name, note=note, shapes=giver.shapes, alarm=giver.alarm)
        vertex.details = [pair for pair in giver.details if pair[0] in ("shape", "dtype", "values")]
        picture.edges.append(Edge(giver.key, 0, vertex.key, 0))
    return picture


def _read_later(trace: Records) -> set[int]:
    """Return the indices of records in backward passes on whose results operators outside of backward passes depend."""
    pending = [x.source for record in trace if record.phase == "forward" for x in record.inputs]
    found: set[int] = set()
    while pending:
        record = _source(pending.pop())
        if record is not None and record.phase != "forward" and record.index not in found:
            found.add(record.index)
            pending += [x.source for x in record.inputs]
    return found


def _left_behind(end: Record, records: list[Record], unread: Container[int]) -> bool:
    """Return whether an unread result belongs to a nested module whose last result is read: it was not returned.

    (Attention computes keys that it does not need, and deep models have many such results.)
    """
    if "." not in end.module:
        return False
    after = records[bisect_right(records, end.index, key=attrgetter("index")) :]
    rest = list(takewhile(lambda record: f"{record.module}.".startswith(f"{end.module}."), after))
    return bool(rest) and rest[-1].index not in unread


def _source(source: Record | Departure | None) -> Record | None:
    """Return the record that computed an input, also if the value left the graph in between."""
    while isinstance(source, Departure):
        source = source.source
    return source


def _read_from(x: Input) -> Record | None:
    """Return the record whose result an input is; None for a parameter, also one that was initialized in place."""
    source = _source(x.source)
    initialized = source is not None and source.writes is not None and x.leaf and x.requires_grad
    return None if initialized else source


def _is_leaf(x: Input) -> bool:
    """Return whether an input gets a vertex: it has a name or a shape; numbers in the program have neither."""
    return x.requires_grad or bool(x.shape)


def _output(giver: Vertex, x: Input, taken: dict[int, int]) -> int:
    """Return which of several outputs is read. Records do not contain this, so take the next output of that shape."""
    first = taken.get(giver.key, 0)
    for output in range(first, len(giver.shapes)):
        if giver.shapes[output] == tuple(x.shape):
            taken[giver.key] = output + 1
            return output
    return 0


def _leaf(picture: Picture, x: Input, earlier: Record | None) -> Vertex:
    kind = "parameter" if x.requires_grad and (x.leaf or earlier is None) else "input"
    name = x.name or (f"{earlier.operator} of an earlier step" if earlier is not None else kind)
    vertex = picture.add(kind, name, note=short_shape(x.shape), shapes=(tuple(x.shape),))
    vertex.details = [("shape", shape_text(x.shape)), ("dtype", x.dtype.name)]
    return vertex


def _add_gradients(leaf: Vertex, x: Input, flows: tuple[float | None, ...], step: int) -> None:
    """Add to a leaf the gradients with which the backward passes reached it."""
    leaf.flows = flows
    norm = flows[step] if flows else None
    if norm is None:
        none = "no backward pass has reached it" if x.requires_grad else "it does not require grad"
        leaf.details.append(("gradient", f"none: {none}"))
        return
    leaf.details.append(("gradient", f"norm {number(norm)}"))
    if math.isfinite(norm):
        leaf.norms = (norm,)
    else:
        leaf.alarm = "gradient NaN or infinite"


def _operator(picture: Picture, record: Record, custom: bool) -> Vertex:
    several = bool(record.shape) and isinstance(record.shape[0], tuple)
    shapes = tuple(map(tuple, record.shape)) if several else (tuple(record.shape),)
    kind = "function" if custom else "write" if record.writes is not None else kind_of(record.operator)
    vertex = picture.add(kind, record.label, shapes=shapes)
    dtypes = record.dtype if isinstance(record.dtype, tuple) else (record.dtype,)
    vertex.details = [("shape", ", ".join(map(shape_text, shapes))), ("dtype", ", ".join(sorted({*map(str, dtypes)})))]
    add_record_details(vertex, record)
    picture.classes = record.classes or picture.classes
    if record.kept:
        vertex.details.append(("kept", byte_text(record.kept)))
    if not record.requires_grad:
        vertex.details.append(("gradient", "none: not recorded for differentiation"))
    return vertex
