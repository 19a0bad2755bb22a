"""The stepper: a recorded backward pass, and a position in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.arrays import Array
from ...core.errors import describe
from ...core.graph.backward import Walk, accumulate, as_array, conjugate, root_cotangents
from ...core.graph.nodes import Node, edge_of, reachable
from ...core.graph.observers import Observer, observing
from ...core.mapping.batched import Batched
from ...core.tensor.tensor import Tensor, new_tensor
from ...ops.table.documentation import like
from ..names import leaf_names
from ..pages.template import framed
from ..tracing import recorders
from .events import Event

if TYPE_CHECKING:
    from ...nn import Module


def step(
    loss: Tensor | Sequence[Tensor],
    gradient: Tensor | Sequence[Tensor | None] | None = None,
    *,
    inputs: Sequence[Tensor] | None = None,
    params: Module | None = None,
    fill: bool = True,
) -> Stepper:
    """Step through the backward pass of ``loss`` one operator at a time, forward and back in time.

    The backward pass is that of ``loss.backward(gradient)``, and its end adds gradients to ``.grad`` as well. Hooks and
    the rules of custom Functions run once, when the pass is recorded. The graph is kept.

    Args:
        loss: the Tensor to differentiate, or several, as for ``autograd.backward``.
        gradient: the upstream gradient, of the loss's shape; optional for a loss with one element.
        inputs: as for ``backward``: only these Tensors get a gradient.
        params: a module whose parameter names are shown.
        fill: add to ``.grad`` at the end, as ``backward`` does.

    Returns:
        A ``Stepper`` positioned before the first operator.

    Raises:
        TypeError: the loss is not a Tensor.
        RuntimeError: the loss needs no gradient, or an earlier backward pass freed its graph.

    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> stepper = rg.inspect.step((x * x).sum())
    >>> [event.operator for event in stepper]
    ['sum', 'mul']
    >>> x.grad
    tensor([2., 4.])
    """
    outputs = [loss] if isinstance(loss, Tensor) else list(loss) if isinstance(loss, (list, tuple)) else [loss]
    for output in outputs:
        if not isinstance(output, Tensor):
            raise TypeError(f"step: loss must be a Tensor, not {type(output).__name__}")
        refuse_batched("step", output)
        if not output._requires:
            raise RuntimeError(f"step: {describe(output)} has no graph, since it does not require grad")
    gradients = list(gradient) if isinstance(gradient, (list, tuple)) else [gradient]
    return Stepper(outputs, gradients, inputs, params, fill)  # type: ignore[arg-type]


class Stepper:
    """A recorded backward pass and a position in it; returned by ``step``.

    Iteration yields the remaining events. ``next``, ``back``, ``to``, ``until`` and ``watch`` move to an event and
    return it, or move to the end (``back``: to the beginning) and return None. Reaching the end fills ``.grad``, once.

    Attributes:
        events: all events, in the order of the backward pass.
        fills: whether reaching the end fills ``.grad``.
    """

    def __init__(
        self,
        outputs: Sequence[Tensor],
        gradients: Sequence[Tensor | None],
        inputs: Sequence[Tensor] | None,
        params: Module | None,
        fill: bool = True,
    ) -> None:
        roots = root_cotangents("step", outputs, gradients)
        order = check_graph("step", [edge for edge, _ in roots])
        names = leaf_names(leaves_below(order), [recorder.names for recorder in recorders], params)
        self._outputs = list(outputs)
        self._order = order
        self._inputs = inputs
        self._walk = _DeferredWalk(None if inputs is None else {edge_of(x) for x in inputs})
        self._record = _EventRecorder(names)
        self._record.begin(roots)
        self._error: Exception | None = None
        try:
            with observing(self._record):
                self._walk.run(roots)
        except Exception as error:
            self._error = error
        self.events: list[Event] = self._record.events
        for event in self.events:
            event.count = len(self.events)
        self._place = 0  # 0 before the first event, len(events) + 1 at the end
        self.fills = fill
        self._filled = not fill

    def __repr__(self) -> str:
        where = "at the beginning" if self._place == 0 else "at the end" if self.event is None else repr(self.event)
        return f"<stepper of {len(self.events)} events, {where}>"

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        while (event := self.next()) is not None:
            yield event

    @property
    def event(self) -> Event | None:
        """The current event; None before the first event and at the end."""
        return self.events[self._place - 1] if 0 < self._place <= len(self.events) else None

    @property
    def at_end(self) -> bool:
        """Whether the backward pass has ended."""
        return self._place > len(self.events)

    def next(self) -> Event | None:
        """Move to the next operator of the backward pass.

        Raises:
            Exception: the error of a rule or a hook that ended the backward pass.
        """
        if self._place >= len(self.events):
            if self._error is not None:
                raise self._error
            self._fill()
        self._place = min(self._place + 1, len(self.events) + 1)
        return self.event

    def back(self) -> Event | None:
        """Move to the previous operator; gradients already added to ``.grad`` stay there."""
        self._place = max(self._place - 1, 0)
        return self.event

    def until(self, predicate: Callable[[Event], object]) -> Event | None:
        """Move to the next event for which ``predicate(event)`` is true.

        Args:
            predicate: such as ``lambda event: event.nans``, ``event.norm > 10`` or ``event.reaches(model.weight)``.

        >>> x = rg.tensor([0.0, 1.0], requires_grad=True)
        >>> print(rg.inspect.step((x.sqrt() * 0).sum()).until(lambda event: event.nans).operator)
        sqrt
        """
        if not callable(predicate):
            raise TypeError(f"until: predicate must be a function of an event, got {type(predicate).__name__}")
        while (event := self.next()) is not None:
            if predicate(event):
                return event
        return None

    def to(
        self, *, line: int | str | None = None, module: str | None = None, operator: str | None = None
    ) -> Event | None:
        """Move to the next event that satisfies all conditions.

        Args:
            line: a line's number, or ``"file.py:31"``.
            module: a module's path; submodules also match.
            operator: an operator's name, or under a trace the name of the public operator (``pow`` for ``x**2``).

        Raises:
            TypeError: no condition is given.
        """
        return self.until(fitting(line=line, module=module, operator=operator))

    def watch(self, tensor: Tensor) -> Event | None:
        """Move to the next event that sends a gradient to the tensor.

        Args:
            tensor: a leaf or an intermediate Tensor.
        """
        _check_tensor("watch", tensor)
        return self.until(lambda event: event.reaches(tensor))

    def grad(self, tensor: Tensor) -> Tensor | None:
        """Return the gradient that has reached a Tensor so far, None if there is none yet.

        Args:
            tensor: a parameter, another leaf, or an intermediate Tensor.

        >>> x = rg.tensor(3.0, requires_grad=True)
        >>> stepper = rg.inspect.step(x * x)
        >>> stepper.grad(x), stepper.next().operator, stepper.grad(x)
        (None, 'mul', tensor(6.))
        """
        _check_tensor("grad", tensor)
        g = self._record.gradient(edge_of(tensor), self._place - 1)
        return None if g is None else conjugate(new_tensor(as_array(g).copy()))

    def leaves(self) -> list[tuple[str, Tensor]]:
        """Return the leaves that the backward pass reaches, with their names if known, in the order of the pass."""
        return [(self._record.names.get(id(leaf), describe(leaf)), leaf) for leaf in leaves_below(self._order)]

    def to_html(self) -> str:
        """Return the backward pass as one page: a picture of the graph with a slider, and values and rule at each step.

        The page loads nothing, and works with mouse, touch and keyboard.

        Raises:
            RuntimeError: the loss is a leaf, so there is nothing to draw.

        >>> x = rg.ones(2, requires_grad=True)
        >>> rg.inspect.step((x * 2).sum()).to_html()[:15]
        '<!doctype html>'
        """
        if not self._order:
            raise RuntimeError("step: the loss is a leaf, so there is no graph to draw")
        from .page import walk_page

        return walk_page(self._outputs, self._order, self.events, self._record.names)

    @like(to_html, raises="RuntimeError")
    def save(self, path: str | Path) -> None:
        """Write the page of ``to_html`` to a file.

        Args:
            path: ends in ``.html``.

        Raises:
            ValueError: another suffix.
        """
        if Path(path).suffix.lower() != ".html":
            raise ValueError(f"save: path must end in .html, got {str(path)!r}")
        Path(path).write_text(self.to_html(), encoding="utf-8")

    def _repr_html_(self) -> str:
        return framed(self.to_html(), "A backward pass", 640)

    def _fill(self) -> None:
        """Add the gradients to ``.grad`` and run the hooks of ``retain_grad``, as a backward pass does."""
        if self._filled:
            return
        self._filled = True
        for hook, g in self._walk.retained:
            hook(conjugate(new_tensor(as_array(g))))
        if self._inputs is None:
            for leaf, g in self._walk.found.items():
                accumulate(leaf, g, True, False)
            return
        for x in dict.fromkeys(self._inputs):
            found = self._walk.found.get(edge_of(x))
            if found is not None and not x.retains_grad:
                accumulate(x, found, True, False)


def fitting(
    *, line: int | str | None = None, module: str | None = None, operator: str | None = None
) -> Callable[[Event], bool]:
    """Return the predicate of ``Stepper.to``."""
    if line is None and module is None and operator is None:
        raise TypeError("to: pass at least one of line=, module= and operator=")

    def fits(event: Event) -> bool:
        if operator is not None and operator not in (event.operator, event.call):
            return False
        if line is not None and line != (event.line if isinstance(line, int) else event.place) and line != event.file:
            return False
        inside = event.module or ""
        return module is None or inside == module or inside.startswith(module + ".")

    return fits


def refuse_batched(caller: str, tensor: Tensor) -> None:
    """Raise an error for a Tensor inside vmap, whose graph is that of all examples."""
    if isinstance(tensor.array, Batched):
        raise RuntimeError(
            f"{caller}: a Tensor inside vmap stands for all examples; call {caller} on the result of vmap"
        )


def check_graph(caller: str, edges: Sequence[object]) -> list[Node]:
    """Return all nodes below the edges, latest first; raise an error if one was freed."""
    order, _ = reachable(edges)
    freed = next((node for node in order if node.saved is None), None)
    if freed is not None:
        raise RuntimeError(
            f"{caller}: the graph was freed by an earlier backward, at {freed.operator}; call {caller} before it, or "
            "backward(retain_graph=True)"
        )
    return order


def leaves_below(order: Sequence[Node]) -> list[Tensor]:
    """Return the leaves that the nodes read, in the order of a backward pass."""
    return list({parent: None for node in order for parent in node.parents if isinstance(parent, Tensor)})


class _DeferredWalk(Walk):
    """A backward pass that stores gradients, also those for ``retain_grad``, until they are delivered."""

    def __init__(self, wanted: set[object] | None) -> None:
        super().__init__(wanted, retain_graph=True, create_graph=False)
        self.retained: list[tuple[Callable[[Tensor], object], Array]] = []

    def _finish(self, leaf: Tensor, g: Array, unshared: bool) -> None:
        wanted = self.wanted
        self.wanted = {leaf} if wanted is None else wanted
        try:
            super()._finish(leaf, g, False)
        finally:
            self.wanted = wanted

    def _run_hooks(self, hooks: dict[int, Callable[[Tensor], Tensor | None]], g: Array, place: object) -> Array:
        g = super()._run_hooks({key: hook for key, hook in hooks.items() if key >= 0}, g, place)
        self.retained += [(hook, g) for key, hook in hooks.items() if key < 0]
        return g


class _EventRecorder(Observer):
    """Record a backward pass as events with copies of all gradients."""

    def __init__(self, names: dict[int, str]) -> None:
        self.names = names
        self.events: list[Event] = []
        self._event: Event | None = None
        self._copies: dict[object, tuple[object, Any]] = {}  # per place reached once so far: the cotangent and its copy
        # By node or leaf, what reached it and when: (index of the event, cotangent, whether it replaces earlier ones).
        self._arrivals: dict[object, list[tuple[int, Any, bool]]] = {}

    def begin(self, roots: Sequence[tuple[object, Array]]) -> None:
        for edge, g in roots:
            self._arrive(-1, edge, g.copy(), False)

    def entered(self, node: Node, g: object) -> None:
        sent, copy = self._copies.pop(node, (None, None))
        kept = copy if sent is g else _copied(g)
        self._arrive(len(self.events) - 1, node, kept, True)
        if node.plan.select is None:
            self._event = Event(len(self.events), node, kept, self.names)

    def sent(self, node: Node, index: int, given: object, g: Array, before: object) -> None:
        event = self._event
        if node.plan.select is not None or event is None:
            return
        parent, kept = node.parents[index], _copied(g)
        if before is None:
            self._copies[parent] = g, kept
        else:
            self._copies.pop(parent, None)
        self._arrive(event.index, parent, kept, False)
        event.sent(index, given, conjugate(new_tensor(kept)), before is not None)

    def left(self, node: Node) -> None:
        if self._event is not None and node.plan.select is None:
            self.events.append(self._event)
            self._event = None

    def finished(self, leaf: Tensor, g: Array) -> None:
        self._copies.pop(leaf, None)
        self._arrive(len(self.events) - 1, leaf, _copied(g), True)

    def _arrive(self, when: int, edge: object, g: Array, whole: bool) -> None:
        self._arrivals.setdefault(edge, []).append((when, g, whole))

    def gradient(self, edge: object, now: int) -> Any:
        """Return the sum of the cotangents that have reached a node or leaf by event ``now``, None before the first."""
        total: Any = None
        for when, g, whole in self._arrivals.get(edge, ()):
            if when > now:
                break
            total = g if whole or total is None else total + g
        return total


def _check_tensor(caller: str, x: object) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{caller}: expected a Tensor, got {type(x).__name__}")


def _copied(g: object) -> Any:
    if isinstance(g, tuple):
        return tuple([None if x is None else as_array(x).copy() for x in g])
    return as_array(g).copy()
