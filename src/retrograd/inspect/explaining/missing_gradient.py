"""Reasons why there is no gradient, from a trace or from the graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import is_differentiable
from ...core.graph.nodes import Node, edge_of, reachable
from ...core.tensor.tensor import Tensor
from ..record import Departure, Input, Record
from ..recorder import Recorder
from ..stepping.stepper import leaves_below
from .flow import Flow
from .labels import call_of, name_of

LISTED = 4

_DETACHING = ("detach", "detach_")

# Operators that copy values into a new Tensor.
_COPIES = {"tensor", "as_tensor", "asarray", "from_numpy", "Tensor"}


def reasons_of_none(
    loss: Tensor, tensor: Tensor, flow: Flow | None, recorders: Iterable[Recorder], names: dict[int, str]
) -> list[str]:
    """Return why the loss does not depend on the Tensor, as far as the graph and the traces know."""
    reasons = []
    if not is_differentiable(tensor.dtype):
        reasons.append(f"its dtype is {tensor.dtype}: only floating and complex numbers have gradients")
    elif not tensor._requires:
        made = [text for recorder in recorders if (text := _made_without_graph(recorder.source(tensor)))]
        reasons.append("it does not require grad" + (f": {made[0]}" if made else ""))
    else:
        story = [text for recorder in recorders for text in _ValueHistory(recorder, tensor, loss).text()]
        reasons += list(dict.fromkeys(story))[:LISTED]
    if flow is None:
        return [*reasons, *([] if reasons else ["the trace saw no operator between it and the loss"])]
    if loss._node is None and loss is not tensor:
        reasons.append("requires_grad was set on the loss itself: it is a leaf, without a graph")
    elif not reasons:
        reasons.append(_nearest(tensor, flow, names))
    return reasons


class _ValueHistory:
    """The calls that read a Tensor's values, and where these values left the graph, according to a trace."""

    def __init__(self, recorder: Recorder, tensor: Tensor, loss: Tensor) -> None:
        self.source = recorder.source(tensor)
        self.leaf = recorder.names.number(tensor) if tensor._node is None else 0
        self.read: list[Record | Departure] = []  # in order: the calls and departures that read its values
        ids: set[int] = set()
        for step in _in_order(recorder):
            inputs = step.inputs if isinstance(step, Record) else (step,)
            if any(id(x.source) in ids or self._is_tensor(x) for x in inputs):
                self.read.append(step)
                ids.add(id(step))
        self._read_ids = ids
        self.above = {id(step) for step in _ancestors(recorder.source(loss))}

    def _is_tensor(self, x: Input | Departure) -> bool:
        if self.leaf:
            return x.leaf == self.leaf
        return self.source is not None and x.source is self.source

    def text(self) -> list[str]:
        """Return where the path to the loss is cut; else where numbers left the graph that the loss may depend on."""
        used = {id(x.source) for step in self.read for x in (step.inputs if isinstance(step, Record) else (step,))}
        left = [one for one in self.read if isinstance(one, Departure)]
        left = [one for one in left if one.how not in _DETACHING or id(one) not in used]  # NumPy may read the rest
        numbers = {id(step) for one in left for step in _ancestors(one)}
        for path in (self.above, numbers):
            if found := [text for step in self.read if id(step) in path and (text := self._cut(step))]:
                return found
        return []

    def _cut(self, step: Record | Departure) -> str:
        if isinstance(step, Departure):
            return _of_departure(step) if step.requires_grad else ""
        inputs = step.inputs[1:] if step.operator.endswith("_") else step.inputs  # an overwritten input is not read
        lost = any(x.requires_grad and (id(x.source) in self._read_ids or self._is_tensor(x)) for x in inputs)
        return _of_call(step) if lost and not step.requires_grad else ""


def _in_order(recorder: Recorder) -> Iterator[Record | Departure]:
    departures = iter(recorder.departures)
    departure = next(departures, None)
    for record in recorder.records:
        while departure is not None and departure.order <= record.index:
            yield departure
            departure = next(departures, None)
        yield record
    if departure is not None:
        yield departure
    yield from departures


def _ancestors(source: Record | Departure | None) -> Iterator[Record | Departure]:
    seen: set[int] = set()
    pending = [source]
    while pending:
        step = pending.pop()
        if step is None or id(step) in seen:
            continue
        seen.add(id(step))
        yield step
        pending += [x.source for x in step.inputs] if isinstance(step, Record) else [step.source]


def _of_departure(step: Departure) -> str:
    if step.how in _DETACHING:
        return f"detached at {step.site}"
    by = f"by {step.how}() " if f"{step.how}(" in step.code else ""
    return f"its values left the graph {by}at {step.site}: Python and NumPy numbers have no gradient"


def _of_call(step: Record) -> str:
    dtype = step.dtype[0] if isinstance(step.dtype, tuple) else step.dtype
    if not step.grad_enabled:
        since = "" if step.no_grad is None else f" since line {step.no_grad.line}"
        return f"no_grad{since}: {step.operator} at {step.site} was not recorded"
    if dtype is not None and not is_differentiable(dtype):
        if step.operator == "cast" and dtype.kind != "b":
            return f"integer cast at {step.site}: {dtype} has no gradient"
        return f"{step.operator} at {step.site} returns {dtype}, which has no gradient"
    if step.operator in _COPIES:
        return f"{step.operator} at {step.site} copies the values into a new Tensor without a graph"
    return f"{step.operator} at {step.site} returns a Tensor without a graph"


def _made_without_graph(source: Record | Departure | None) -> str:
    """Return why the result of ``source`` requires no gradient although one of its inputs does."""
    if isinstance(source, Departure):
        return _of_departure(source) if source.requires_grad else ""
    if source is None or source.operator.endswith("_") or not any(x.requires_grad for x in source.inputs):
        return ""  # an in-place operator did not create the Tensor
    return _of_call(source)


def _nearest(tensor: Tensor, flow: Flow, names: dict[int, str]) -> str:
    """Return which input of the loss is closest to the Tensor."""
    leaves = leaves_below(flow.order) or [root for root, _ in flow.roots if isinstance(root, Tensor)]
    inside: set[object] = {*flow.order, *leaves}
    edge = edge_of(tensor)
    nearest = "not an input of the loss: the nearest input is"
    if type(edge) is Node:
        order, _ = reachable([edge])
        below = next((place for place in [*order, *leaves_below(order)] if place in inside), None)
        if below is not None:
            return f"{nearest} {name_of(below, names)}, from which {call_of(edge)} computed it"
    for leaf in leaves:
        if array_module(leaf).may_share_memory(leaf.array, tensor.array):
            return f"{nearest} {name_of(leaf, names)}, which shares its memory"
    for leaf in leaves:
        if leaf.shape == tensor.shape and bool((leaf.array == tensor.array).all()):
            return f"{nearest} {name_of(leaf, names)}, which has the same values"
    like = [leaf for leaf in leaves if leaf.shape == tensor.shape] or leaves
    listed = ", ".join(name_of(leaf, names) for leaf in like[:LISTED])
    more = f" and {len(like) - LISTED} more" if len(like) > LISTED else ""
    return f"not an input of the loss: the inputs are {listed}{more}"
