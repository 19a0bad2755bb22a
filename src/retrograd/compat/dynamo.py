"""``compiler`` and ``_dynamo``: what programs ask of PyTorch's compiler."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from ..compiler import Compiled
from ..compiler import compile as compile
from ..compiler.run.compiled_function import forget
from ..compiler.trace.sizes import mark_dynamic, mark_static
from ..compiler.trace.trace_modes import set_stance
from ..core.graph.modes import modes
from ..nn.base.module import Module
from . import compiler_settings as config


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A function that no program takes in: what calls it runs eagerly. Modules and classes stay as they are.

    >>> @rg.compiler.disable
    ... def count():
    ...     calls.append(1)
    >>> calls = []
    """
    if fn is None:
        return partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, Compiled):
        return fn.function
    if isinstance(fn, (Module, type)):
        return fn

    @wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        if modes.tracer is not None:
            modes.tracer.breaks(reason or f"calls {getattr(fn, '__qualname__', fn)!s}, which is marked with disable")
        return fn(*args, **kwargs)

    return run


def allow_in_graph(fn: Any) -> Any:
    """The function itself: all functions are traced."""
    return fn


def optimize(backend: Any = "inductor", *, nopython: bool = False, disable: bool = False, dynamic: Any = None) -> Any:
    """``compile`` under the name it had first."""
    return partial(compile, backend=backend, fullgraph=nopython, disable=disable, dynamic=dynamic)


def explain(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The words of ``compile(fn).explain``; without arguments a function of them."""
    shown = (fn if isinstance(fn, Compiled) else Compiled(fn, True, None)).explain
    return shown(*args, **kwargs) if args or kwargs else shown


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
assume_constant_result = allow_in_graph
maybe_mark_dynamic = mark_dynamic


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """The names that PyTorch has for its compilers, each of which is this one."""
    return ["cudagraphs", "inductor", "openxla", "tvm"]


__all__ = [
    "allow_in_graph", "assume_constant_result", "config", "cudagraph_mark_step_begin", "disable", "explain",
    "graph_break", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "mark_dynamic",
    "mark_static", "maybe_mark_dynamic", "optimize", "reset", "set_stance",
]  # fmt: skip
