"""``compiler`` and ``_dynamo``: what programs ask of PyTorch's compiler, and marks that change nothing."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from ..compiler import compile as compile
from ..compiler.compiled import forget
from ..compiler.sizes import mark_dynamic, mark_static
from ..core.modes import modes

config = SimpleNamespace(suppress_errors=False, cache_size_limit=8, verbose=False)


def disable(fn: Any = None, recursive: bool = True, **options: Any) -> Any:
    """The function itself."""
    return fn if callable(fn) else lambda function: function


allow_in_graph = disable


def is_compiling() -> bool:
    """Whether a compiled function is being traced."""
    return modes.tracer is not None


def reset() -> None:
    """Forget what was compiled: the next calls trace again."""
    forget()


def graph_break(msg: str = "") -> None:
    """Where compiled code would end."""


def cudagraph_mark_step_begin() -> None:
    """Where a recorded step would begin."""


is_dynamo_compiling = is_exporting = is_compiling
assume_constant_result = disable
maybe_mark_dynamic = mark_dynamic


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """The compilers that PyTorch would have: none."""
    return []


def set_stance(stance: str = "default", **options: Any) -> Any:
    """How PyTorch's compiler is to behave; a context manager that changes nothing."""
    return nullcontext()


__all__ = [
    "allow_in_graph", "assume_constant_result", "config", "cudagraph_mark_step_begin", "disable", "graph_break",
    "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "mark_dynamic", "mark_static",
    "maybe_mark_dynamic", "reset", "set_stance",
]  # fmt: skip
