"""Observers: objects that are notified of every operator and every backward pass on a thread.

Anomaly mode, traces and the other inspection tools are observers. While no thread has an observer, each operator only
checks that one set is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import call
from typing import TYPE_CHECKING, Any

from ...core.arrays import Array
from .modes import Mode, listing, modes

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor
    from .nodes import Node
    from .plan import Inputs, Params, Recordable


class Given(tuple[Any, ...]):
    """The arguments of a call of a public operator; the last ``len(names)`` were passed by the keywords ``names``."""

    names: tuple[str, ...] = ()


class Observer:
    """Base class of observers. Each method does nothing unless a subclass overrides it.

    ``counts`` says that the observer uses only ``recorded``, so compiled functions need not fall back to eager mode.

    The arguments are the engine's own objects: observers must not write to them, and copy what they keep.
    """

    counts = False
    # Whether the observer needs only ``recorded`` and ``called`` for calls of primitives, which then run faster.
    late = False
    nested = False  # whether the class overrides ``opened`` or ``closed``
    counting = False  # whether the class overrides ``recorded``
    telling = False  # whether the class overrides ``called`` or ``told``

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.nested = cls.opened is not Observer.opened or cls.closed is not Observer.closed
        cls.counting = cls.recorded is not Observer.recorded
        cls.telling = cls.called is not Observer.called or cls.told is not Observer.told

    def calling(self, primitive: Recordable, inputs: Inputs, params: Params) -> None:
        """An operator is about to run. The calls in the forward of a custom Function are nested in its own call."""

    def answering(
        self, primitive: Recordable, inputs: Inputs, arrays: Inputs, params: Params, forward: Callable[..., object]
    ) -> Callable[..., Any]:
        """Return the function that computes the result, such as ``forward``. Not called for in-place writes."""
        return forward

    def writing(self, x: Tensor) -> None:
        """The operator that is about to run will write to this Tensor, its first input, in place."""

    def called(
        self, primitive: Recordable, inputs: Inputs, params: Params, outputs: tuple[Tensor, ...], node: Node | None
    ) -> None:
        """An operator has run; ``node`` is None if not recorded. An in-place operator returns its first input."""

    def told(self, primitive: Recordable, inputs: Inputs, params: Params, result: Tensor, node: Node | None) -> None:
        """A primitive with one output has run outside of vmap, and all observers are ``late``: replaces ``called``."""
        self.called(primitive, inputs, params, (result,), node)

    def failed(self, primitive: Recordable, inputs: Inputs, params: Params, error: BaseException) -> None:
        """An operator has raised ``error``; ``called`` does not follow."""

    def made(self, array: Array, make: Callable[[], Array]) -> None:
        """An array was created or drawn; ``make`` returns the same array again, without advancing a generator."""

    def opened(self, what: object, inputs: tuple[object, ...]) -> None:
        """A call of a module, or of the public operator named ``what``, begins; calls until ``closed`` are nested.

        The inputs of an operator are ``Given``."""

    def closed(self, what: object, inputs: tuple[object, ...], result: object) -> None:
        """The call of a module or public operator has ended; ``result`` is its result or the exception it raised."""

    def switched(self, grad_enabled: bool) -> None:
        """Recording is about to be switched on or off on this thread, by the program or by the engine."""

    def recorded(self, node: Node) -> None:
        """A node was created: by an operator, before ``called``, or by the engine for the history of a view."""

    def released(self, nodes: list[Node]) -> None:
        """A checkpoint released the saved values of these nodes; ``node.saved`` is now a ``Released`` object."""

    def departed(self, x: Tensor, how: str, result: Tensor | None) -> None:
        """The values of ``x`` leave the graph, as by ``item`` or ``detach``; ``result`` is a Tensor or None."""

    def became(self, x: Tensor, other: Tensor) -> None:
        """``x`` is about to get the array of ``other``: a view of ``x`` for ``transpose_`` and similar operators, or
        the assigned Tensor for ``x.data = other``."""

    def began(self) -> None:
        """A backward pass begins; with ``create_graph`` the observer also gets the calls of operators in rules."""

    def ended(self) -> None:
        """A backward pass has ended or raised an exception."""

    def entered(self, node: Node, g: object) -> None:
        """The cotangent ``g`` of a node (a tuple for several outputs) is complete; the node's rules run next."""

    def sent(self, node: Node, index: int, given: object, g: Array, before: object) -> None:
        """A rule returned ``given`` for the input ``index``. ``g`` is ``given`` in the input's shape and dtype. It is
        added to ``before``, the sum of earlier contributions, or None for the first."""

    def left(self, node: Node) -> None:
        """The rules of the node have run; its saved values are about to be freed."""

    def finished(self, leaf: Tensor, g: Array) -> None:
        """The gradient of a leaf is complete and its hooks have run."""

    # Training

    def stepping(self, optimizer: object) -> None:
        """An optimizer is about to update its parameters, without calling operators."""

    def stepped(self, optimizer: object) -> None:
        """An optimizer has updated its parameters, or its step raised an exception."""

    def scaling(self, x: Tensor) -> None:
        """A GradScaler is about to multiply a loss or a gradient; the product may overflow."""

    def scaled(self, result: Tensor) -> None:
        """A GradScaler has multiplied; a backward pass from this result may also overflow."""


class observing(Mode):
    """Add an observer to this thread for the duration of a block."""

    def __init__(self, observer: Observer) -> None:
        super().__init__()
        self.observer = observer

    @property
    def changes(self) -> dict[str, object]:  # type: ignore[override]
        """The thread's observers followed by this one."""
        return {"observers": (*modes.observers, self.observer)}

    def _clone(self) -> Mode:
        return observing(self.observer)


def observed_step(step: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """Run the step of the optimizer ``args[0]`` and notify this thread's observers of its start and end."""
    observers, optimizer = modes.observers, args[0]
    for observer in observers:
        observer.stepping(optimizer)
    try:
        return step(*args, **kwargs)
    finally:
        for observer in observers:
            observer.stepped(optimizer)


@contextmanager
def scaling(x: Tensor) -> Iterator[list[Tensor]]:
    """Notify this thread's observers that a GradScaler multiplies ``x``; the block appends the result to the list."""
    results: list[Tensor] = []
    for observer in modes.observers:
        observer.scaling(x)
    try:
        yield results
    finally:
        for observer in modes.observers:
            observer.scaled(results[0] if results else x)


def attach(observer: Observer) -> None:
    """Add an observer to this thread until ``detach``, where no ``with`` block can be used.

    A mode entered before ``attach`` and left after it restores its own list of observers, without this one. A mode
    entered while the observer is attached adds it again when it is left after ``detach``.
    """
    if observer not in modes.observers:
        _exchange((*modes.observers, observer))


def detach(observer: Observer) -> None:
    """Remove an observer from this thread, if it is among its observers."""
    if observer in modes.observers:
        _exchange(tuple([other for other in modes.observers if other is not observer]))


def _exchange(observers: tuple[Observer, ...]) -> None:
    # A single C call, which Ctrl-C cannot interrupt halfway.
    here, values = modes.__dict__, {"observers": observers}
    any(map(call, (partial(here.update, values), partial(listing(values), id(here)))))
