"""The explanation of a gradient whose graph ``backward()`` has freed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...core.graph.nodes import Node, edge_of, leading_to
from ...core.tensor.tensor import Tensor
from ..record import Record
from ..recorder import Recorder
from .explanation import SHOWN, Explanation, Grouping, Parts
from .labels import call_of
from .missing_gradient import reasons_of_none

MAX_REASONS = 4  # the most operators listed as places where a gradient became zero
_FREED = "backward() has freed the graph; call explain before backward(), or use backward(retain_graph=True)"


class FreedGraphExplanation(Explanation):
    """The explanation of a gradient whose graph was freed: the gradient, and where it became zero or was lost.

    There are no parts as arrays and no paths, since computing them needs the saved values; the text has the norms that
    a trace recorded. ``total`` is ``.grad``, which may include gradients of other backward passes.
    """

    _gradient = ".grad after backward()"

    def __init__(
        self,
        loss: Tensor,
        tensor: Tensor,
        index: tuple[int, ...] | None,
        order: list[Node],
        traces: Iterable[Recorder],
        names: dict[int, str],
    ) -> None:
        traces = list(traces)
        self._lines: list[str] = []
        super().__init__(loss, tensor, index, None, None, names, compute=False)
        edge = edge_of(tensor)
        useful = leading_to({edge}, order) | {edge}
        reached = len(useful) > 1 or edge_of(loss) is edge
        grad = tensor.grad if reached and (tensor._node is None or tensor.retains_grad) else None
        self.total = None if grad is None else grad.array
        if not reached:
            self.reasons = reasons_of_none(loss, tensor, None, traces, names)
            return
        self._lines = _uses(order, edge, traces)
        known = "the trace and .grad" if traces else "the graph and .grad"
        self.reasons = [f"only {known} are known: {_FREED}"]
        if grad is None:
            made = f"; {call_of(tensor._node)} computed it, and retain_grad() was not called" if tensor._node else ""
            self.reasons = [f"its .grad is None{made}", *self.reasons]
        elif not (self.total if index is None else self.total[index]).any():
            self.reasons = [*_ends(order, useful, edge, traces), *self.reasons]

    def by(self, what: Grouping) -> Parts:
        raise RuntimeError(f"explain: the parts of the gradient are not known: {_FREED}")

    def _part_lines(self) -> list[str]:
        return self._lines


def _uses(order: Sequence[Node], edge: object, traces: Sequence[Recorder]) -> list[str]:
    """Return the operators that read the Tensor, with the norms of the gradients that they sent if a trace has them."""
    readers = [node for node in order if any(parent is edge for parent in node.parents)]
    if not readers:
        return []
    norms: dict[int, float] = {}
    for trace in traces:
        leaf = trace.names.number(edge)
        norms |= {sequence: norm for number, sequence, norm in trace.uses if number == leaf}
    labels = [
        f"norm {norms[node.sequence]:.4g} from {call_of(node)}" if node.sequence in norms else call_of(node)
        for node in sorted(readers, key=lambda node: -norms.get(node.sequence, 0.0))
    ]
    more = f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else ""
    return [f"  by use: {', '.join(labels[:SHOWN])}{more}"]


def _ends(order: Sequence[Node], useful: set[object], edge: object, traces: Sequence[Recorder]) -> list[str]:
    """Return the operators that received a gradient and sent only zeros towards the edge."""
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
            gave = f"; it returned {values.size:,} numbers from {values.minimum:.4g} to {values.maximum:.4g}"
        found.append(f"it is zero: {call_of(node)} received a gradient and passed on only zeros{gave}")
    return found[:MAX_REASONS] or ["it is zero"]


def _record_of(node: object, traces: Sequence[Recorder]) -> Record | None:
    if not isinstance(node, Node):
        return None
    return next((record for trace in traces if (record := trace.record_of(node)) is not None), None)


def _is_alive(record: Record) -> bool:
    return record.gradients is not None and record.gradients.zeros < 1
