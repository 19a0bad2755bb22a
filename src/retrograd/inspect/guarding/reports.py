"""The reports of ``guard``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd.arithmetic import Finding, rule_backward, shown
from ...autograd.influence import element, first_index, saved_values
from ...core.arrays import Array
from ...core.arrays.devices import array_module, backend_of, is_array
from ...core.graph.nodes import Node
from ..record import Input, Record
from .history import MOVING, Past, Watched, Way, way_back

Index = tuple[int, ...]
_DROPPING = {"where", "masked_fill", "mul", "masked_select", "getitem", "clamp", "clamp_min", "clamp_max", "nan_to_num"}
_MOST_LINKS = 6
# Harmless values for masked elements; the default is 1.
_HARMLESS = {"acosh": "2.0"} | dict.fromkeys(("acos", "asin", "atanh", "erfinv", "logit"), "0.5")
_GREW = "  its largest element at the last backward passes, and this one now:"
_GROWN_ADVICE = "the parameter grew in training: lower the learning rate, or clip gradients"


def report_forward(
    watch: Watched,
    record: Record,
    past: Past,
    places: Sequence[Array | None],
    finding: Finding,
    out: Array,
    bad: Array,
    index: Index,
) -> str:
    """Return the report of an operator whose output is not finite although its inputs were, or were infinite."""
    value = element(out, index)
    kind = "NaN" if value != value else shown(value)
    lines = [f"{record.site}: {named(record)} gave {kind}{_where(index, bad, out)}", f"    {record.code}"]
    lines.append(f"  {finding.sentence}")
    back: list[str] = []
    if finding.culprit is not None:
        lines += _inputs_at(past, places, finding)
        back = _back(watch, past, places, finding)
    advice = _GROWN_ADVICE if any(line.startswith(_GREW) for line in back) else _advice(record, finding)
    return _with_advice([*lines, *back], advice)


def _inputs_at(past: Past, places: Sequence[Array | None], finding: Finding) -> list[str]:
    """Return the input elements that the operator read."""
    lines = []
    for number, (x, place, values) in enumerate(zip(past.inputs, places, past.values(places), strict=True)):
        if not is_array(x) or place is None or values is None or not values.size:
            continue
        at = finding.place if number == finding.culprit else int(np.argmax(np.abs(values))) if len(values) > 1 else 0
        source = past.sources[number]
        name = f" ({source.name})" if source is not None and source.name else ""
        index = unravelled(int(place[at]), x.shape)
        of = f", one of {len(values)} elements that it reads there" if len(values) > 1 else ""
        lines.append(f"  input {number}{name}{_at(index)} is {shown(values[at])}{of}")
    return lines


def _back(
    watch: Watched, past: Past, places: Sequence[Array | None], finding: Finding, derivative: str = ""
) -> list[str]:
    """Return the way back from the input that caused the finding to the first operator or leaf with such a value.

    ``derivative`` is the name of an operator whose result is finite there, but whose derivative is not.
    """
    number = finding.culprit
    assert number is not None
    source, place = past.sources[number], places[number]
    if source is None or place is None or not len(place) or not is_array(past.inputs[number]):
        return []
    way = way_back(watch.history, source, past.inputs[number], int(place[finding.place]), finding.bad)
    return way_lines(watch, way, derivative)


def way_lines(watch: Watched, way: Way, derivative: str = "") -> list[str]:
    """Return the way back as text, with the cause at its end."""
    lines = []
    computed = [link for link in way.links if not link.moved]
    shown_links = (
        computed if len(computed) <= _MOST_LINKS else [*computed[: _MOST_LINKS // 2], *computed[-_MOST_LINKS // 2 :]]
    )
    for number, link in enumerate(shown_links):
        if len(computed) > _MOST_LINKS and number == _MOST_LINKS // 2:
            lines.append(f"  ... {len(computed) - _MOST_LINKS} more operators ...")
        lines.append(f"  it came from {named(link.record)} at {link.record.site}: {link.text}")
        lines.append(f"      {link.record.code}")
    lines += passed_on_lines(way)
    if way.leaf is not None:
        lines.append(f"  that is {_leaf(way.leaf, way.at)}, which held {shown(way.value)}")
        lines += _growth_lines(watch, way.leaf, way.value)
        if way.links:
            record = way.links[-1].record
            lines.append(f"cause: {_leaf(way.leaf, way.at)}, read at {record.site}")
    elif computed:
        record = computed[-1].record
        end = f"at whose result the derivative of {derivative} is not finite"
        if not derivative:
            end = f"whose inputs {'were still in range' if computed[-1].known else 'are no longer known'}"
        lines.append(f"cause: {named(record)} at {record.site}, {end}")
    elif way.links:
        record = way.links[-1].record
        lines.append(f"  it came by {named(record)} at {record.site}: {way.links[-1].text}")
        lines.append(f"      {record.code}")
        lines.append(f"cause: {named(record)} at {record.site}")
    return lines


def passed_on_lines(way: Way) -> list[str]:
    """Return the operators that moved an element unchanged, without the last one, which is printed elsewhere."""
    moved = [link.record for link in (way.links if way.leaf is not None else way.links[:-1]) if link.moved]
    places = list(dict.fromkeys(f"{named(record)} at {record.site}" for record in moved))
    return [f"  passed on by {', '.join(places[:_MOST_LINKS])}"] if places else []


def _growth_lines(watch: Watched, leaf: Input, value: Any) -> list[str]:
    """Return how the largest element of a parameter grew over the backward passes."""
    sizes = [*watch.sizes.get(leaf.leaf, []), abs(value)]
    if len(sizes) < 2 or not sizes[-1] > 10 * sizes[0]:
        return []
    text = ", ".join(f"{size:.3g}" for size in sizes[-6:])
    grew = f"{_GREW} {text}"
    return [grew]


def report_data(
    watch: Watched, record: Record, past: Past, number: int, place: int, out: Array, bad: Array, index: Index
) -> str:
    """Return the report of a NaN or infinity that no operator computed: it is in the data or in weights."""
    x, source = past.inputs[number], past.sources[number]
    assert source is not None
    way = way_back(watch.history, source, x, place, lambda values: ~np.isfinite(values))
    value = shown(element(x, unravelled(place, x.shape)))
    made = [link for link in way.links if not link.moved]
    if way.leaf is not None:
        what = f"{_leaf(way.leaf, way.at)} is {shown(way.value)}"
    elif way.links:
        origin = way.links[-1].record
        what = f"the output of {named(origin)} at {origin.site} contains {shown(way.value)}{_at(way.at)}"
    else:
        what = f"input {number}{_at(unravelled(place, x.shape))} is {value}"
    lines = [f"{record.site}: {what}, and {named(record)} computed with it", f"    {record.code}"]
    array, leaf_bad = _leaf_array(past, number, way)
    earlier = watch.sizes.get(way.leaf.leaf, []) if way.leaf is not None else []
    changed = bool(earlier) and bool(np.isfinite(earlier[-1]))
    if leaf_bad:
        since = "no operator under this guard computed them"
        if changed:
            since = "it was finite at the last backward pass and was not changed by an operator since"
        lines.append(f"  {leaf_bad} of {array.size} elements of it are not finite: {since}")
    if record.dtype is not None and not isinstance(record.dtype, tuple) and record.dtype.kind in "iu":
        lines.append(f"  {record.operator} converts it to an arbitrary integer")
    else:
        lines.append(f"  {named(record)} gave {shown(element(out, index))}{_where(index, bad, out)}")
    for link in made[:_MOST_LINKS]:
        lines.append(f"  it came by {named(link.record)} at {link.record.site}: {link.text}")
    lines += passed_on_lines(way)
    if way.leaf is not None:
        lines += _growth_lines(watch, way.leaf, way.value)
    if changed:
        return _with_advice(lines, "find the code that writes to its array between the backward pass and this line")
    if way.leaf is not None and way.leaf.requires_grad:
        return _with_advice(lines, "check its initial or loaded values before training: isfinite(x).all()")
    return _with_advice(
        lines, "check the loaded data with isfinite(x).all(); use nan_to_num or leave such examples out"
    )


def _leaf_array(past: Past, number: int, way: Way) -> tuple[Array, int]:
    array = past.inputs[number]
    if way.links or not is_array(array):
        return array, 0
    return array, int(array.size - int(array_module(array).isfinite(array).sum()))


def report_root(watch: Watched, node: Node, g: Array) -> str:
    """Return the report of an upstream gradient, passed to backward, that is not finite."""
    bad = ~array_module(g).isfinite(g)
    index = first_index(bad)
    record = watch.record_of(node)
    site = record.site if record is not None else node.site
    return (
        f"{site or 'backward'}: the gradient passed to backward for {node.operator} is "
        f"{shown(element(g, index))}{_where(index, bad, g)}\n    {site.code if site else ''}\n"
        "what helps: check the argument of backward(gradient=...)"
    )


def report_layered(
    watch: Watched, node: Node, number: int, given: Array, g: Array, incoming: Array, record: Record | None
) -> str:
    """Return the report of a derivative rule inside ``vmap`` whose result for all examples is not finite.

    ``record`` is the call for all examples, or None if ``vmap`` mapped only the backward pass.
    """
    note = " of all examples, whose number is the first index"
    shape = _shape_read(watch, node, number, record)
    if shape == g.shape == getattr(given, "shape", ()):
        return report_backward(watch, node, number, given, g, incoming, record, note)
    record = watch.record_of(node) if record is None else None
    shape = _shape_read(watch, node, number, record)
    levels = 0 if shape is None else g.ndim - len(shape)
    if levels > 0 and g.shape[levels:] == shape and getattr(given, "shape", ())[:levels] == g.shape[:levels]:
        example = first_index(~array_module(g).isfinite(g))[:levels]
        came = incoming[example] if is_array(incoming) and incoming.shape[:levels] == g.shape[:levels] else None
        note = f" in example {', '.join(map(str, example))} of vmap"
        return report_backward(watch, node, number, given[example], g[example], came, record, note)
    return report_backward(watch, node, number, given, g, incoming, None, note)


def _shape_read(watch: Watched, node: Node, number: int, record: Record | None) -> tuple[int, ...] | None:
    """Return the shape of one input of an operator, if it is still known."""
    past = None if record is None else watch.history.of(record)
    if past is None or record is None or record.operator != node.operator or number >= len(past.inputs):
        return None
    return past.inputs[number].shape if is_array(past.inputs[number]) else None


def report_backward(
    watch: Watched,
    node: Node,
    number: int,
    given: Array,
    g: Array,
    incoming: Array | None,
    record: Record | None,
    note: str = "",
) -> str:
    """Return the report of a derivative rule whose result is not finite although the upstream gradient is."""
    past = None if record is None else watch.history.of(record)
    bad = ~array_module(g).isfinite(g)
    index = first_index(bad)
    elementwise = node.plan.primitive.elementwise
    place_in = int(np.ravel_multi_index(index, g.shape)) if g.ndim else 0
    places: list[Array | None] = [None] * len(node.parents)
    came = None
    out_index: Index = ()
    if elementwise and is_array(given):
        out_index = _matching(given, g.shape, index)
        if past is not None:
            places = past.places(out_index)
        if is_array(incoming) and incoming.shape == given.shape:
            came = element(incoming, out_index)
    elif past is not None and number < len(past.inputs) and is_array(past.inputs[number]):
        places = _read_with(past, node.plan.primitive.name, number, place_in, index)
        came = element(incoming.reshape(()), ()) if is_array(incoming) and incoming.size == 1 else None
    if past is not None:
        values = past.values(places)
    else:  # values saved inside vmap belong to all examples
        values = [] if note else saved_values(node, index, g.shape)
    out = element(g, index)
    finding = rule_backward(node.operator, values, number, came, out, g.dtype)
    watch.overflows = finding.overflow
    kind = "NaN" if out != out else shown(out)
    site = record.site if record is not None else getattr(node.site, "site", node.site)
    whole = f"{site}: " if site is not None else ""
    module = f" in {record.module}" if record is not None and record.module else ""
    source = past.sources[number] if past is not None and number < len(past.sources) else None
    name = f" ({source.name})" if source is not None and source.name else ""
    lines = [
        f"{whole}the gradient of {node.operator}{module} for its input {number}{name} is {kind}"
        f"{_where(index, bad, g)}{note}",
        f"    {site.code if site is not None else ''}",
        f"  {finding.sentence}",
    ]
    if came is not None:
        lines.append(f"  the upstream gradient there is {shown(came)}")
    mask = None
    if record is not None and past is not None:
        if finding.culprit is not None and places[finding.culprit] is not None:
            lines += _inputs_at(past, places, finding)
            lines += _back(watch, past, places, finding, "" if finding.overflow else node.operator)
        mask = _mask(watch, record, out_index) if came is not None and came == 0 and elementwise else None
    if mask is not None:
        safe = _safe_call(node.operator)
        lines.append(
            f"  {named(mask)} at {mask.site} drops this element: a NaN under a mask. The upstream gradient "
            "is 0, but 0 * inf is NaN, so a mask after the operator does not help"
        )
        return _with_advice(lines, f"put a harmless value in front of the operator as well: {safe}")
    if note and record is None:
        return _with_advice(lines, "run this example without vmap to see values and cause")
    return _with_advice(lines, finding.advice)


def _read_with(past: Past, name: str, number: int, place: int, index: Index) -> list[Array | None]:
    """Return the places that an operator which is not elementwise reads: the element, or its row for norms and std."""
    places: list[Array | None] = [None] * len(past.inputs)
    x = past.inputs[number]
    places[number] = np.array([place])
    dim = past.params.get("dim")
    if name in ("norm", "std", "var"):
        whole = np.arange(x.size).reshape(x.shape)
        given = dim if isinstance(dim, (tuple, list)) else (dim,)
        dims = range(x.ndim) if dim is None else [d % x.ndim for d in given]
        places[number] = whole[tuple(slice(None) if d in dims else index[d] for d in range(x.ndim))].reshape(-1)
    return places


def _mask(watch: Watched, record: Record, index: Index) -> Record | None:
    """Return the operator that masked an element of the record's output: one whose derivative there is 0.

    The element is followed through elementwise operators, which keep its index.
    """
    for later in watch.records:
        past = watch.history.of(later) if later.index > record.index else None
        number = None if past is None else _reads(past, record)
        if past is None or number is None:
            continue
        if later.operator in _DROPPING and past.passes_nothing(number, index):
            return later
        if past.primitive is not None and past.primitive.elementwise and later.shape == record.shape:
            record = later
    return None


def _reads(past: Past, record: Record) -> int | None:
    """Return the index of the call's input that is the output of the record."""
    return next((i for i, x in enumerate(past.sources) if x is not None and x.source is record), None)


def _matching(given: Array, shape: tuple[int, ...], index: Index) -> Index:
    """Return the index of the first bad element of a rule's result that is summed into ``index`` of the gradient."""
    bad = ~array_module(given).isfinite(given)
    for found in np.argwhere(backend_of(bad).to_numpy(bad)):
        own = found[len(found) - len(shape) :]
        if all(length == 1 or a == b for a, b, length in zip(own, index, shape, strict=True)):
            return tuple(map(int, found))
    return tuple([0] * (given.ndim - len(index))) + tuple(index)


def unravelled(place: int, shape: tuple[int, ...]) -> Index:
    """Return the index of an element from its flat place."""
    return tuple(map(int, np.unravel_index(place, shape))) if shape else ()


def named(record: Record) -> str:
    """Return an operator with its call and module."""
    call = f" (of {record.call})" if record.call.strip("_") not in (record.operator, record.operator.strip("_")) else ""
    return f"{record.operator}{call}" + (f" in {record.module}" if record.module else "")


def _at(index: Index) -> str:
    return f" at {index}" if index else ""


def _where(index: Index, bad: Array, out: Array) -> str:
    """Return the index of the first bad element, and how many elements are NaN, inf or -inf, as text."""
    if bad.size <= 1:
        return ""
    value = element(out, index)
    alike = int((bad & (out != out if value != value else out == value)).sum())
    others = int(bad.sum()) - alike
    more = f" ({others} more {'is' if others == 1 else 'are'} not finite)" if others else ""
    return f"{_at(index)}, {alike} of {bad.size} elements{more}"


def _leaf(leaf: Input, index: Index) -> str:
    made = leaf.source if isinstance(leaf.source, Record) and not leaf.requires_grad else None
    kind = f"{'parameter' if leaf.requires_grad else 'input'} {leaf.name}"
    what = kind if leaf.name else f"an input of {leaf.dtype}{tuple(leaf.shape)}"
    return f"{what}{_at(index)}" + (f" (made at {made.site})" if made is not None else "")


def _advice(record: Record, finding: Finding) -> str:
    if "where(" in record.code and finding.advice and record.operator not in MOVING:
        return (
            "a where() after the operator drops the value, but not the NaN in its gradient: put a harmless value in "
            f"front, {_safe_call(record.operator)}"
        )
    return finding.advice


def _safe_call(operator: str) -> str:
    """Return code that calls an operator between two masks: the inner one replaces values with infinite derivatives."""
    if operator == "div":
        return "where(mask, x / where(mask, y, 1.0), 0.0)"
    if operator == "pow":
        return "where(mask, where(mask, x, 1.0) ** p, 0.0)"
    return f"where(mask, {operator}(where(mask, x, {_HARMLESS.get(operator, '1.0')})), 0.0)"


def _with_advice(lines: list[str], advice: str) -> str:
    if advice:
        lines.append(f"what helps: {advice}")
    return "\n".join([line for line in lines if line.strip()])
