"""Modes of a thread: tracing, tracing paused, and the stance of compiled functions."""

from __future__ import annotations

from ...core.graph.modes import Mode, Switch, modes
from ...core.graph.observers import Observer


class tracing_with(Mode):
    """Trace the operations of this thread."""

    def __init__(self, tracer: Observer) -> None:
        super().__init__()
        self.changes = {"observers": (tracer,), "tracer": tracer}


class tracing_paused(Mode):
    """Pause the trace of this thread."""

    def __init__(self, tracer: Observer) -> None:
        super().__init__()
        self.changes = {"observers": tuple([x for x in modes.observers if x is not tracer]), "tracer": None}


class set_stance(Switch):
    """Set what compiled functions do on this thread: permanently as a function call, else until the context ends.

    Args:
        stance: ``default``; ``force_eager``, nothing is compiled or replayed; ``eager_on_recompile``, calls without a
            program run eagerly; ``fail_on_recompile``, calls without a program raise an error.
        skip_guard_eval_unsafe: accepted for compatibility with PyTorch and ignored; guards are always evaluated.

    Raises:
        RuntimeError: there is no such stance, or a function is being traced, whose replays would not set the stance.

    >>> double = rg.compile(lambda x: x * 2)
    >>> with rg.compiler.set_stance("force_eager"):
    ...     double(rg.ones(1)), double.traces
    (tensor([2.]), 0)
    """

    def __init__(self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False) -> None:
        if stance not in STANCES:
            raise RuntimeError(f"set_stance: stance must be one of {', '.join(STANCES)}, got {stance!r}")
        if modes.tracer is not None:
            raise RuntimeError("set_stance: called inside a compiled function; set the stance around the call")
        self._stance = stance
        self.changes: dict[str, object] = {"stance": stance, "observers": modes.observers}
        super().__init__()

    def _clone(self) -> Mode:
        return set_stance(self._stance)


STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")
