"""When a tracer listens, and when it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.modes import Mode, modes

if TYPE_CHECKING:
    from .tracer import Tracer


class tracing_with(Mode):
    """Let a tracer write down what happens on this thread."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self.changes = {"observers": (tracer,), "tracer": tracer}


class without(Mode):
    """Let a trace pass over what is done inside."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self.changes = {"observers": tuple([x for x in modes.observers if x is not tracer]), "tracer": None}
