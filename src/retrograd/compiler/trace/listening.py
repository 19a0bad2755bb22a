"""When a tracer listens, and when it does not; and what compiled functions do."""

from __future__ import annotations

from typing import Any

from ...core.graph.modes import Mode, Switch, modes
from ...core.graph.observers import Observer


class tracing_with(Mode):
    """Let a tracer write down what happens on this thread."""

    def __init__(self, tracer: Observer) -> None:
        super().__init__()
        self.changes = {"observers": (tracer,), "tracer": tracer}


class without(Mode):
    """Let a trace pass over what is done inside."""

    def __init__(self, tracer: Observer) -> None:
        super().__init__()
        self.changes = {"observers": tuple([x for x in modes.observers if x is not tracer]), "tracer": None}


class set_stance(Switch):
    """What compiled functions do on this thread: at once when called as a function, else until the end of a context.

    Args:
        stance: ``default``; ``force_eager``, nothing is compiled or replayed; ``eager_on_recompile``, calls for which
            there is no program run eagerly; ``fail_on_recompile``, these are an error.
        skip_guard_eval_unsafe: taken for PyTorch's sake; guards are always asked.

    Raises:
        RuntimeError: there is no such stance, or a function is being traced, which its programs would not repeat.

    >>> double = rg.compile(lambda x: x * 2)
    >>> with rg.compiler.set_stance("force_eager"):
    ...     double(rg.ones(1)), double.traces
    (tensor([2.]), 0)
    """

    def __init__(self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False) -> None:
        if stance not in STANCES:
            raise RuntimeError(f"set_stance: wanted one of {', '.join(STANCES)}, got {stance!r}")
        if modes.tracer is not None:
            raise RuntimeError("set_stance inside a compiled function: set it around the call")
        self._stance = stance
        self.changes: dict[str, Any] = {"stance": stance, "observers": modes.observers}
        super().__init__()

    def _clone(self) -> Mode:
        return set_stance(self._stance)


STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")
