"""A picture of a recorded graph, from the leaves to the outputs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

from ...core.arrays.devices import is_array
from ...core.graph.nodes import Node, reachable
from ...core.tensor.tensor import Tensor, is_dense
from ...nn.parameter import Parameter
from ..names import variable_name
from ..record import Record
from ..statistics import Statistics
from .figures import Figures, byte_text, figures, shape_text, short_shape
from .picture import Edge, Picture, Vertex

# In-place operators, by their names in the graph.
_WRITES = {"copy_", "overwrite", "setitem", "index_put"}

# Operators that write a number of the program's choice.
_MASKS = {"masked_fill", "where", "fill", "full", "setitem", "index_put", "index_fill", "masked_scatter"}


def named_outputs(outputs: object, call: str) -> dict[str, Tensor]:
    """Return the Tensors of a result by their names: keys, or numbers.

    Raises:
        TypeError: the result contains something other than Tensors, sequences and mappings of them.
        RuntimeError: a Tensor has no graph.
    """
    found: dict[str, Tensor] = {}
    pending: list[tuple[str, object]] = [("output", outputs)]
    while pending:
        name, value = pending.pop()
        if is_dense(value):
            found[name] = value
        elif isinstance(value, Mapping):
            pending += [(str(key), value[key]) for key in reversed(list(value))]
        elif isinstance(value, (list, tuple)):
            fields = getattr(value, "_fields", None) or [
                f"output {i}" if name == "output" else f"{name}[{i}]" for i in range(len(value))
            ]
            pending += [(str(field), value[i]) for i, field in reversed(list(enumerate(fields)))]
        else:
            raise TypeError(
                f"{call}: expected a Tensor computed from Tensors that require grad, a sequence or mapping of "
                f"such Tensors, or a trace; got {type(value).__name__}"
            )
    if not found:
        raise TypeError(f"{call}: expected at least one Tensor, got an empty {type(outputs).__name__}")
    recorded = {name: x for name, x in found.items() if x.grad_fn is not None}
    if not recorded:
        name, x = next(iter(found.items()))
        raise RuntimeError(f"{call}: {_no_graph(x)}")
    return recorded


def _no_graph(x: Tensor) -> str:
    what = f"this Tensor of shape {shape_text(x.shape)} and dtype {x.dtype.name}"
    if x.requires_grad:
        return f"{what} is a leaf, which has no graph; pass a result that was computed from it"
    return (
        f"{what} has no graph: it does not require grad; compute it from Tensors that require grad, outside no_grad() "
        "and without detach()"
    )


def parameter_names(params: Any, call: str) -> dict[int, str]:
    """Return names by the id of a Tensor, from a module, a mapping, pairs as from ``named_parameters()``, or None."""
    if params is None:
        return {}
    if hasattr(params, "named_parameters"):
        params = [*params.named_parameters(), *params.named_buffers()]
    elif isinstance(params, Mapping):
        params = params.items()
    try:
        pairs = [(str(name), value) for name, value in params]
    except (TypeError, ValueError):
        pairs = [("", None)]
    if not all(isinstance(value, Tensor) for _, value in pairs):
        raise TypeError(
            f"{call}: params must be a Module, a mapping from names to Tensors, or pairs as from named_parameters(); "
            f"got {type(params).__name__}"
        )
    return {id(value): name for name, value in reversed(pairs)}


def picture_of(outputs: Mapping[str, Tensor], names: Mapping[int, str]) -> Picture:
    """Return the picture of all operators that led to the outputs, with what traces know about them.

    Args:
        outputs: the Tensors at the end of the graph, by name.
        names: names of leaves, by id; other leaves have those of traces or of the caller's variables.
    """
    order, _ = reachable([x.grad_fn for x in outputs.values()])
    picture = Picture()
    vertices: dict[Any, Vertex] = {}
    for node in reversed(order):
        if node.plan.select is not None:
            continue
        for parent in node.parents:
            if parent is not None and type(parent) is not Node and parent not in vertices:
                said = _traced_name(node, parent) or variable_name(sys._getframe(1), parent)
                vertices[parent] = _leaf(picture, parent, names.get(id(parent), ""), said)
        vertices[node] = vertex = _operator(picture, node)
        for index, parent in enumerate(node.parents):
            if parent is not None:
                _connect(picture, vertices, parent, vertex, index)
    for name, x in outputs.items():
        vertex = picture.add(
            "output", name, note=short_shape(x.shape), shapes=(tuple(x.shape),), details=_tensor_details(x)
        )
        found = figures(x)
        vertex.alarm = found.alarm
        if found.size == 1:
            vertex.note = found.extent
        _connect(picture, vertices, x.grad_fn, vertex, 0)
    return picture


def _connect(picture: Picture, vertices: dict[Any, Vertex], parent: object, vertex: Vertex, index: int) -> None:
    output = 0
    if type(parent) is Node and parent.plan.select is not None:
        output, parent = parent.plan.select, parent.parents[0]
    picture.edges.append(Edge(vertices[parent].key, output, vertex.key, index))


def _traced_name(node: Node, leaf: Tensor) -> str:
    """Return the name that a trace has for a leaf which the operator reads, found by its position among the leaves."""
    given = [x for x in getattr(node.site, "inputs", ()) if x.source is None and x.requires_grad]
    leaves = [parent for parent in node.parents if parent is not None and type(parent) is not Node]
    if len(given) != len(leaves):
        return ""
    return given[[id(x) for x in leaves].index(id(leaf))].name


def _leaf(picture: Picture, x: Tensor, name: str, variable: str) -> Vertex:
    kind = "parameter" if name or isinstance(x, Parameter) else "input"
    vertex = picture.add(kind, name or variable or kind, note=short_shape(x.shape), shapes=(tuple(x.shape),))
    vertex.details = _tensor_details(x)
    alarms = [figures(x).alarm]
    if x._grad is not None:
        found = figures(x._grad)
        alarms.append(found.alarm and f"grad {found.alarm}")
        if found.size > found.nans + found.infinities:
            vertex.norms = (found.norm,)
        vertex.flows = (found.norm if not (found.nans or found.infinities) else inf,)
    vertex.alarm = "; ".join(filter(None, alarms))
    return vertex


def _tensor_details(x: Tensor) -> list[tuple[str, str]]:
    device = "" if x.device.type == "cpu" else f" on {x.device}"
    details = [("shape", shape_text(x.shape)), ("dtype", f"{x.dtype.name}{device}"), ("values", str(figures(x)))]
    if x._grad is not None:
        details.append(("gradient", str(figures(x._grad))))
    elif x.is_leaf:
        details.append(("gradient", "none: no backward pass has reached it"))
    return details


def kind_of(operator: str) -> str:
    """Return the kind of an operator, from its name."""
    return "write" if operator in _WRITES or operator.endswith("_") else "view" if operator == "view" else "operator"


def _operator(picture: Picture, node: Node) -> Vertex:
    primitive = node.plan.primitive
    several = node.plan.several
    outputs = tuple(node.shape) if several else (node.shape,)
    dtypes = sorted({str(dtype) for dtype in node.dtype if dtype is not None}) if several else [str(node.dtype)]
    kind = kind_of(node.operator)
    if "ctx" in primitive.position:
        kind = "function"
    elif getattr(primitive, "view", False):
        kind = "view"
    label = node.operator
    if getattr(node.site, "writes", None) is not None and node.site.sequence == node.sequence:
        kind, label = "write", node.site.label
    vertex = picture.add(kind, label, shapes=tuple(map(tuple, outputs)))
    vertex.details = [
        ("shape", ", ".join(map(shape_text, outputs))),
        ("dtype", ", ".join(dtypes)),
        ("saved", _saved(node)),
    ]
    if node.site is not None:
        add_record_details(vertex, node.site)
        picture.classes = getattr(node.site, "classes", None) or picture.classes
    vertex.details.append(("recorded", f"number {node.sequence}"))
    return vertex


def add_record_details(vertex: Vertex, site: Any) -> None:
    """Add to a vertex the data of its operator from a trace's record, or only the line."""
    code = f"  {site.code}" if site.code else ""
    vertex.details.append(("line", f"{Path(site.file).name}:{site.line}{code}"))
    if site.module:
        vertex.path = tuple(site.module.split("."))
        vertex.details.append(("module", site.module))
    alarms = []
    for name, word in (("values", ""), ("gradients", "gradient ")):
        found = getattr(site, name, None)
        if found is not None:
            summary = Figures.of(found)
            vertex.details.append((word.strip() or "values", str(summary)))
            masked = name == "values" and is_mask(site)
            alarms += [word + summary.alarm] if summary.alarm and not masked else []
    vertex.alarm = "; ".join(alarms)
    found = getattr(site, "gradients", None)
    vertex.flows = () if found is None else (norm_of(found),)
    vertex.kept = getattr(site, "kept", 0)
    if getattr(site, "seconds", 0):
        forward, backward = f"{site.forward * 1e3:.3g} ms", f"{site.backward * 1e3:.3g} ms"
        vertex.details.append(("time", f"{forward} forward" + (f", {backward} backward" if site.backward else "")))


def norm_of(found: Statistics) -> float:
    """Return the norm, infinite if an element is NaN or infinite."""
    return found.norm if found.finite else inf


def is_mask(record: object, depth: int = 8) -> bool:
    """Return whether the -inf in a record's result was written on purpose, as in a mask of attention scores."""
    found = record.values if isinstance(record, Record) else None
    if not isinstance(record, Record) or found is None or found.nans or not found.infinities or found.maximum == inf:
        return False
    if record.operator.rstrip("_") in _MASKS or record.creates:
        return True
    sources = [x.source for x in record.inputs]
    return depth > 0 and any(is_mask(source, depth - 1) for source in sources)


def _saved(node: Node) -> str:
    """Return what the node saved, by the names that its rules use."""
    if node.saved is None:
        return "freed by a backward pass"
    if not isinstance(node.saved, tuple):
        return "freed, to be recomputed"
    parts = []
    total = 0
    for name, value in zip(node.plan.primitive.layout, node.saved, strict=False):
        arrays = [x for x in (value if isinstance(value, tuple) else (value,)) if is_array(x)]
        if arrays:
            total += sum(x.nbytes for x in arrays)
            parts.append(f"{name} {' '.join(shape_text(x.shape) for x in arrays)}")
        elif value is not None:
            text = repr(value)
            parts.append(f"{name}={text}" if len(text) <= 40 else name)
    size = f" ({byte_text(total)})" if total else ""
    return (", ".join(parts) or "nothing") + size
