"""Observers: what is told, while it is entered on a thread, of every operator that runs there and of every walk.

Anomaly mode, traces and the rest of the glass box stand on this. While no thread has an observer, the engine asks one
empty set per operator and nothing more.
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
    from .plan import Recordable


class Given(tuple[Any, ...]):
    """What a public operator is called with, in order; the last ones by ``names``."""

    names: tuple[str, ...] = ()


class Observer:
    """Told of what happens; each method does nothing until a subclass says otherwise.

    ``counts`` says that an observer needs nothing but ``recorded``, so that compiled functions may run as such.

    What is handed over is the engine's own: it is read, never written, and copied where it is to be kept unchanged.
    """

    counts = False

    def calling(self, primitive: Recordable, inputs: tuple[object, ...], params: dict[str, object]) -> None:
        """An operator is about to run; calls of a custom Function enclose those of its forward."""

    def answering(
        self,
        primitive: Recordable,
        inputs: tuple[object, ...],
        arrays: tuple[object, ...],
        params: dict[str, object],
        forward: Callable[..., Any],
    ) -> Callable[..., Any]:
        """Return what computes the result in place of ``forward``, called like it; no write in place asks this."""
        return forward

    def writing(self, x: Tensor) -> None:
        """The operator that is about to run will write over this Tensor, its first input."""

    def called(
        self,
        primitive: Recordable,
        inputs: tuple[object, ...],
        params: dict[str, object],
        outputs: tuple[Tensor, ...],
        node: Node | None,
    ) -> None:
        """It has run; a write in place gives the Tensor it wrote, its first input. ``node`` where it was recorded."""

    def failed(
        self, primitive: Recordable, inputs: tuple[object, ...], params: dict[str, object], error: BaseException
    ) -> None:
        """It has raised, and ``called`` does not follow."""

    def opened(self, what: object, inputs: tuple[object, ...]) -> None:
        """A call of a module begins, or of a public operator, by its name; the calls until ``closed`` are its parts.

        The inputs of an operator are ``Given``."""

    def closed(self, what: object, inputs: tuple[object, ...], result: object) -> None:
        """It has ended; ``result`` is what it gave, or the exception that it raised."""

    def switched(self, grad_enabled: bool) -> None:
        """Recording is about to be switched on or off on this thread, by the program or within the engine."""

    def recorded(self, node: Node) -> None:
        """A node was made: by an operator, before ``called``; or by the engine, for the history of a view."""

    def released(self, nodes: list[Node]) -> None:
        """A checkpoint let go of what these nodes saved; ``node.saved`` stands for it."""

    def departed(self, x: Tensor, how: str, result: Tensor | None) -> None:
        """Values leave the graph, by ``item``, ``detach`` and the like; ``result`` where they are a Tensor again."""

    def began(self) -> None:
        """A backward walk begins; with ``create_graph`` its rules are calls, too."""

    def ended(self) -> None:
        """It has ended, or was left by an exception."""

    def entered(self, node: Node, g: object) -> None:
        """The walk has the whole cotangent of a node (a tuple for several outputs) and calls its rules next."""

    def sent(self, node: Node, index: int, given: object, g: Array, before: object) -> None:
        """A rule gave ``given`` for the input ``index``; ``g`` is that in the input's shape and dtype, and is added
        to ``before``, where another operator has sent something to the same place."""

    def left(self, node: Node) -> None:
        """The rules of the node have run; what it saved is about to be freed."""

    def finished(self, leaf: Tensor, g: Array) -> None:
        """The gradient of a leaf is complete, its hooks have run."""

    # Training

    def stepping(self, optimizer: object) -> None:
        """An optimizer is about to write new values to its parameters, by no operator."""

    def stepped(self, optimizer: object) -> None:
        """It has written them, or its step was left by an exception."""

    def scaling(self, x: Tensor) -> None:
        """A GradScaler is about to multiply a loss or a gradient; it expects that this may overflow."""

    def scaled(self, result: Tensor) -> None:
        """It has; the walk that begins at this result may overflow, too."""


class observing(Mode):
    """Let an observer watch this thread."""

    def __init__(self, observer: Observer) -> None:
        super().__init__()
        self.observer = observer

    @property
    def changes(self) -> dict[str, object]:  # type: ignore[override]
        """The observers of the thread, with this one after the others."""
        return {"observers": (*modes.observers, self.observer)}

    def _clone(self) -> Mode:
        return observing(self.observer)


def observed_step(step: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """Run the step of an optimizer, its first argument, and tell this thread's observers when it begins and ends."""
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
    """Tell this thread's observers that a GradScaler multiplies ``x``; the block puts the result into the list."""
    results: list[Tensor] = []
    for observer in modes.observers:
        observer.scaling(x)
    try:
        yield results
    finally:
        for observer in modes.observers:
            observer.scaled(results[0] if results else x)


def attach(observer: Observer) -> None:
    """Let an observer watch this thread until ``detach``, for what begins and ends in no block of the program's.

    A block that was entered before and is left afterwards restores the observers that it found, this one not among
    them; one that is entered while it watches brings it back after ``detach``.
    """
    if observer not in modes.observers:
        _exchange((*modes.observers, observer))


def detach(observer: Observer) -> None:
    """Take an observer out, wherever it stands among those of this thread; nothing where it is none of them."""
    if observer in modes.observers:
        _exchange(tuple([other for other in modes.observers if other is not observer]))


def _exchange(observers: tuple[Observer, ...]) -> None:
    # In one call into C, which Ctrl-C cannot divide.
    here, values = modes.__dict__, {"observers": observers}
    any(map(call, (partial(here.update, values), partial(listing(values), id(here)))))
