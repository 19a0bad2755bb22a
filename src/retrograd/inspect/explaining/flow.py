"""The recorded graph of a loss, and backward passes over all or part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import precision
from ...core.arrays.fp_warnings import silent
from ...core.graph.backward import Walk, as_array
from ...core.graph.fitting import fit
from ...core.graph.modes import Mode, recording
from ...core.graph.nodes import Node, leading_to, reachable, saved_by
from ...core.graph.observers import Observer
from ...core.graph.plan import pull
from ...core.tensor.tensor import Tensor
from ...func.function_graph import Edge

# Cotangents by node or leaf; for a node with several outputs, a list with one per output.
Cotangents: TypeAlias = dict[Any, Any]

Root: TypeAlias = tuple[Edge, Array]  # a node or leaf, and its cotangent


class Flow:
    """The graph below some roots, as seen from one of its nodes or leaves.

    ``Flow`` keeps what the nodes saved, so that backward passes work after the program has freed the graph. These
    passes fill no ``.grad``; hooks of Tensors run, since they change gradients, but ``retain_grad`` has no effect.

    Attributes:
        roots: pairs of a node (or leaf) and its cotangent.
        edge: the node or leaf whose gradient is explained, or None.
        order: all nodes, latest first.
        useful: ``edge`` and the nodes between the roots and ``edge``.
    """

    def __init__(self, roots: Sequence[Root], edge: Edge) -> None:
        self.roots = list(roots)
        self.edge = edge
        self.order, _ = reachable([root for root, _ in roots])
        self.useful = leading_to({edge}, self.order)
        if self.useful or any(root is edge for root, _ in roots):
            self.useful.add(edge)
        self._saved = {node: node.saved for node in self.order}

    @property
    def reached(self) -> bool:
        """Whether the roots depend on ``edge``."""
        return bool(self.useful)

    @property
    def precision(self) -> float:
        """The largest machine epsilon among the dtypes of the graph."""
        dtypes: set[Any] = set()
        for node in self.order:
            dtypes.update(node.dtype if isinstance(node.dtype, tuple) else [node.dtype])
        return max((precision(dtype) for dtype in dtypes if dtype.kind in "fcV"), default=0.0)

    def walk(self, roots: Sequence[Root], *observers: Observer) -> Array | None:
        """Return the gradient of ``edge`` for these cotangents, None if none arrives."""
        with self.unfreed(*observers):
            return _WalkWithoutRetainGrad({self.edge}, retain_graph=True, create_graph=False).run(roots).get(self.edge)

    def partial(self, roots: Iterable[Root], stops: Callable[[Any], bool], aside: bool = False) -> Cotangents:
        """Return the cotangents that first arrive at nodes and leaves where ``stops`` is true.

        ``aside`` includes nodes and leaves that do not lead to ``edge``.
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
        """Restore what a backward pass of the program has freed, and silence all other observers."""
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
        """Return what a node saved, freed or not."""
        saved = self._saved[node]
        if saved is None or isinstance(saved, tuple):
            return saved or ()
        with self.unfreed():
            return saved_by(node)


def sends(node: Node, g: object) -> Iterator[tuple[int, Array]]:
    """Yield an index and a cotangent, of the input's shape, for each input, as the rules give it for ``g``."""
    plan, saved = node.plan, saved_by(node)
    if plan.several and type(g) is list:
        if plan.primitive.fills:
            xp = array_module(next(x for x in g if x is not None))
            zeros = zip(g, node.shape, node.dtype, strict=True)
            g = [xp.zeros(shape, dtype) if x is None else x for x, shape, dtype in zeros]
        g = tuple(g)
    if node.hooks is not None:
        g = _WITHOUT_RETAIN_GRAD._run_hooks(node.hooks, g, node)
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
    """Replace this thread's observers with the given observers."""

    def __init__(self, observers: tuple[Observer, ...]) -> None:
        super().__init__()
        self.changes = {"observers": observers}


class _WalkWithoutRetainGrad(Walk):
    """A backward pass in which ``retain_grad`` has no effect."""

    def _run_hooks(self, hooks: dict[int, Callable[[Tensor], Tensor | None]], g: object, place: object) -> Any:
        return super()._run_hooks({key: hook for key, hook in hooks.items() if key >= 0}, g, place)


_WITHOUT_RETAIN_GRAD = _WalkWithoutRetainGrad(None, retain_graph=True, create_graph=False)


class PathObserver(Observer):
    """Record how a backward pass reaches a node or leaf.

    Attributes:
        uses: by node that reads the node or leaf, the cotangent that the node sends.
        ends: pairs of a node that receives a cotangent and sends only zeros, and that cotangent.
        faint: the nodes that send cotangents smaller than the rounding error of the cotangents that they receive.
        cancelled: pairs of a node whose incoming cotangents sum to zero, and the nodes that sent them.
    """

    def __init__(self, edge: object) -> None:
        self.edge = edge
        self.uses: dict[Node, Array] = {}
        self.ends: list[tuple[Node, Any]] = []
        self.faint: list[Node] = []
        self.cancelled: list[tuple[Node, list[Node]]] = []
        self._senders: dict[object, list[Node]] = {}  # by node not yet visited: the nodes that sent it a cotangent
        self._comes: Any = None
        self._goes = 0.0

    def entered(self, node: Node, g: object) -> None:
        self._comes = g if _largest(g) else None
        self._goes = 0.0
        senders = self._senders.pop(node, [])
        if self._comes is None and len(senders) > 1:
            self.cancelled.append((node, senders))

    def sent(self, node: Node, index: int, given: object, g: Array, before: object) -> None:
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
            self.ends.append((node, tuple(map(_copy, g)) if isinstance(g, tuple) else _copy(g)))
        elif not isinstance(g, tuple) and self._goes < 32 * precision(g.dtype) * _largest(g):
            self.faint.append(node)


def _copy(g: Array | None) -> Array | None:
    return None if g is None else as_array(g).copy()


def _largest(g: Any) -> float:
    """Return the largest magnitude; NaN counts as 1."""
    if isinstance(g, (tuple, list)):
        return max((_largest(x) for x in g if x is not None), default=0.0)
    largest = float(abs(g).max()) if g.size else 0.0
    return largest if largest == largest else 1.0
