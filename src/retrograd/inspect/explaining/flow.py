"""What flows where: the recorded graph of a loss, kept so that it can be walked again and in part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import precision
from ...core.arrays.fp_warnings import silent
from ...core.graph.backward import Walk, as_array, fit
from ...core.graph.modes import Mode, recording
from ...core.graph.nodes import Node, leading_to, reachable, saved_by
from ...core.graph.observers import Observer
from ...core.graph.plan import pull
from ...core.tensor.tensor import Tensor

# Cotangents by the node or leaf they belong to; of a node with several outputs a list with one per output.
Cotangents = dict[Any, Any]


class Flow:
    """The graph below some roots, as seen from one of its nodes or leaves.

    It holds what the nodes saved, so that it can be walked after the program has freed the graph. Walks of it fill no
    ``.grad``; hooks of Tensors run, since they change what flows, but those of ``retain_grad`` do not.

    Attributes:
        roots: pairs of a node (or leaf) and its cotangent.
        edge: the node or leaf whose gradient is explained, or None.
        order: all nodes, latest first.
        useful: the nodes that have ``edge`` below them, and ``edge``.
    """

    def __init__(self, roots: Sequence[tuple[Any, Any]], edge: Any) -> None:
        self.roots = list(roots)
        self.edge = edge
        self.order, _ = reachable([root for root, _ in roots])
        self.useful = leading_to({edge}, self.order)
        if self.useful or any(root is edge for root, _ in roots):
            self.useful.add(edge)
        self._saved = {node: node.saved for node in self.order}

    @property
    def reached(self) -> bool:
        """Whether the roots depend on what is explained."""
        return bool(self.useful)

    @property
    def precision(self) -> float:
        """The coarsest of the precisions in which it is computed."""
        dtypes: set[Any] = set()
        for node in self.order:
            dtypes.update(node.dtype if isinstance(node.dtype, tuple) else [node.dtype])
        return max((precision(dtype) for dtype in dtypes if dtype.kind in "fcV"), default=0.0)

    def walk(self, roots: Sequence[tuple[Any, Any]], *observers: Observer) -> Any:
        """The gradient of ``edge`` as the engine's walk from these cotangents finds it, None where none arrives."""
        with self.unfreed(*observers):
            return _Quiet({self.edge}, retain_graph=True, create_graph=False).run(roots).get(self.edge)

    def partial(
        self, roots: Iterable[tuple[Any, Any]], stops: Callable[[Any], bool], aside: bool = False
    ) -> Cotangents:
        """What arrives at the nodes and leaves where ``stops`` is true, none of it by way of another of them.

        With ``aside`` also at those that do not lead to ``edge``.
        """
        cotangents: Cotangents = {}
        arrived: Cotangents = {}
        for edge, g in roots:
            target = arrived if stops(edge) or type(edge) is not Node else cotangents
            target[edge] = target[edge] + g if edge in target else g
        with self.unfreed(), recording(False), silent():
            for node in self.order:
                g = cotangents.pop(node, None)
                if g is None or not aside and node not in self.useful:
                    continue
                for index, gi in sends(node, g):
                    parent = node.parents[index]
                    if not aside and parent not in self.useful:
                        continue
                    target = arrived if type(parent) is not Node or stops(parent) else cotangents
                    if node.plan.select is not None:
                        outputs = target.setdefault(parent, [None] * len(parent.shape))
                        before = outputs[node.plan.select]
                        outputs[node.plan.select] = gi if before is None else before + gi
                    else:
                        target[parent] = target[parent] + gi if parent in target else gi
        return arrived

    @contextmanager
    def unfreed(self, *observers: Observer) -> Iterator[None]:
        """Give the nodes back what an earlier walk of the program has freed; nobody else watches what is done here."""
        freed = [node for node, saved in self._saved.items() if node.saved is None and saved is not None]
        for node in freed:
            node.saved = self._saved[node]
        try:
            with _watched_by(observers):
                yield
        finally:
            for node in freed:
                node.saved = None

    def saved(self, node: Node) -> tuple[Any, ...]:
        """What a node saved, freed or not."""
        saved = self._saved[node]
        if saved is None or isinstance(saved, tuple):
            return saved or ()
        with self.unfreed():
            return saved_by(node)


def sends(node: Node, g: Any) -> Iterator[tuple[int, Any]]:
    """Pairs of an input's index and the cotangent that the node's rules give it for ``g``, of the input's shape."""
    plan, saved = node.plan, saved_by(node)
    if plan.several and type(g) is list:
        if plan.primitive.fills:
            xp = array_module(next(x for x in g if x is not None))
            zeros = zip(g, node.shape, node.dtype, strict=True)
            g = [xp.zeros(shape, dtype) if x is None else x for x, shape, dtype in zeros]
        g = tuple(g)
    if node.hooks is not None:
        g = _QUIET._run_hooks(node.hooks, g, node)
    together: Any = None
    if plan.joint is not None:
        together = plan.joint(g, saved, tuple([parent is not None for parent in node.parents]))
    for index, rule, place in plan.rules:
        gi = together[index] if rule is None else pull(rule, place, g, saved)
        parent = node.parents[index]
        if gi is None or parent is None:
            continue
        if plan.select is None:
            gi = as_array(fit(as_array(gi), parent if type(parent) is Node else parent.array, node))
        yield index, gi


class _watched_by(Mode):
    """Let these observers watch this thread, and no others."""

    def __init__(self, observers: tuple[Observer, ...]) -> None:
        super().__init__()
        self.changes = {"observers": observers}


class _Quiet(Walk):
    """A walk that keeps nothing for ``retain_grad``."""

    def _run_hooks(self, hooks: dict[int, Callable[[Tensor], Tensor | None]], g: Any, place: Any) -> Any:
        return super()._run_hooks({key: hook for key, hook in hooks.items() if key >= 0}, g, place)


_QUIET = _Quiet(None, retain_graph=True, create_graph=False)


class Watched(Observer):
    """What a walk to a node or leaf does on its way.

    Attributes:
        uses: per node that reads it, what that sends to it.
        deaths: the nodes at which something comes in and nothing but zeros goes out, with what comes in.
        faint: the nodes at which next to nothing goes out: less than rounding makes of what comes in.
        cancelled: pairs of a node for whose output gradients add up to zero, and the nodes that send them.
    """

    def __init__(self, edge: Any) -> None:
        self.edge = edge
        self.uses: dict[Node, Any] = {}
        self.deaths: list[tuple[Node, Any]] = []
        self.faint: list[Node] = []
        self.cancelled: list[tuple[Node, list[Node]]] = []
        self._senders: dict[Any, list[Node]] = {}  # per node still to come, those that have sent it something
        self._comes: Any = None
        self._goes = 0.0

    def entered(self, node: Node, g: Any) -> None:
        self._comes = g if _largest(g) else None
        self._goes = 0.0
        senders = self._senders.pop(node, [])
        if self._comes is None and len(senders) > 1:
            self.cancelled.append((node, senders))

    def sent(self, node: Node, index: int, given: object, g: Any, before: object) -> None:
        largest = _largest(g)
        self._goes = max(self._goes, largest)
        if largest and node.parents[index] is not self.edge:
            self._senders.setdefault(node.parents[index], []).append(node)
        if node.parents[index] is self.edge:
            copy = as_array(g).copy()
            self.uses[node] = self.uses[node] + copy if node in self.uses else copy

    def left(self, node: Node) -> None:
        g, self._comes = self._comes, None
        if g is None:
            return
        if self._goes == 0:
            self.deaths.append((node, tuple(map(_copy, g)) if isinstance(g, tuple) else _copy(g)))
        elif not isinstance(g, tuple) and self._goes < 32 * precision(g.dtype) * _largest(g):
            self.faint.append(node)


def _copy(g: Any) -> Any:
    return None if g is None else as_array(g).copy()


def _largest(g: Any) -> float:
    """The largest magnitude; not a number counts as one."""
    if isinstance(g, (tuple, list)):
        return max((_largest(x) for x in g if x is not None), default=0.0)
    largest = float(abs(g).max()) if g.size else 0.0
    return largest if largest == largest else 1.0
