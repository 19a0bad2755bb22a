"""What can be said of a gradient after ``backward()`` has freed the graph: what a trace saw of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...core.graph.nodes import Node, edge_of, leading_to
from ...core.tensor.tensor import Tensor
from ..record import Record
from ..recorder import Recorder
from .absence import reasons_of_none
from .explanation import Explanation, Grouping
from .labels import call_of

_TOLD = 4  # places at which a gradient ends
_FREED = "backward() has freed what its rules read; call explain before it, or backward(retain_graph=True)"


class Afterwards(Explanation):
    """The explanation of a gradient whose graph was freed: the gradient itself, and where it became zero or was lost.

    Its parts and paths are gone, since they need the derivative rules. ``total`` is what ``.grad`` holds, to which
    other walks may have added.
    """

    _gradient = ".grad after backward()"

    def __init__(
        self,
        loss: Tensor,
        tensor: Tensor,
        index: Any,
        order: list[Node],
        traces: Iterable[Recorder],
        names: dict[int, str],
    ) -> None:
        traces = list(traces)
        super().__init__(loss, tensor, index, None, None, names, told=False)
        edge = edge_of(tensor)
        useful = leading_to({edge}, order) | {edge}
        reached = len(useful) > 1 or edge_of(loss) is edge
        grad: Any = tensor.grad if reached and (tensor._node is None or tensor.retains_grad) else None
        self.total = None if grad is None else grad.array
        if not reached:
            self.reasons = reasons_of_none(loss, tensor, None, traces, names)
            return
        self.reasons = [f"told from the trace and .grad alone: {_FREED}"]
        if grad is None:
            made = f"; {call_of(tensor._node)} made it, and retain_grad() was not called" if tensor._node else ""
            self.reasons = [f"its .grad is None{made}", *self.reasons]
        elif not (self.total if index is None else self.total[index]).any():
            self.reasons = [*_ends(order, useful, edge, traces), *self.reasons]

    def by(self, what: Grouping) -> dict[Any, Any]:
        raise RuntimeError(f"explain: the parts of the gradient are gone: {_FREED}")

    def _parts_told(self) -> list[str]:
        return []


def _ends(order: Sequence[Node], useful: set[Any], edge: Any, traces: Sequence[Recorder]) -> list[str]:
    """The operators at which a gradient came in and nothing but zeros went on to what leads to the edge."""
    found = []
    for node in order:
        record = _record_of(node, traces)
        if node not in useful or record is None or not _is_alive(record):
            continue
        below = [_record_of(parent, traces) for parent in node.parents if parent in useful and parent is not edge]
        if any(x is None or _is_alive(x) for x in below):
            continue
        values = record.values
        gave = ""
        if values is not None and values.size:
            gave = f"; it gave {values.size:,} numbers from {values.minimum:.4g} to {values.maximum:.4g}"
        found.append(f"it is zero: {call_of(node)} got a gradient and handed on nothing but zeros towards it{gave}")
    return found[:_TOLD] or ["it is zero"]


def _record_of(node: Any, traces: Sequence[Recorder]) -> Record | None:
    if not isinstance(node, Node):
        return None
    return next((record for trace in traces if (record := trace.record_of(node)) is not None), None)


def _is_alive(record: Record) -> bool:
    return record.gradients is not None and record.gradients.zeros < 1
