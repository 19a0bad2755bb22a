"""``compiler``, ``_dynamo``, ``_logging``: PyTorch's names around ``compile``.

Settings of PyTorch's compilers can be set without effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any

from ...compiler import Compiled
from ...compiler import compile as compile
from ...compiler.run.compiled_function import forget
from ...compiler.trace.sizes import mark_dynamic as mark_dynamic
from ...compiler.trace.sizes import mark_static as mark_static
from ...compiler.trace.trace_modes import set_stance as set_stance
from ...core.graph.modes import modes
from ...nn.base.module import Module
from .jit import unchanged as unchanged

# ``compiler`` and ``_dynamo``


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return a function that is never compiled: a compiled function that calls it runs eagerly.

    Modules and classes are returned unchanged.

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
    def run_eagerly(*args: object, **kwargs: object) -> object:
        if modes.tracer is not None:
            modes.tracer.breaks(reason or f"calls {getattr(fn, '__qualname__', fn)!s}, which is marked with disable")
        return fn(*args, **kwargs)

    return run_eagerly


def optimize(
    backend: object = "inductor", *, nopython: bool = False, disable: bool = False, dynamic: bool | None = None
) -> Any:
    """Return a decorator that compiles: ``compile`` under its former name."""
    return partial(compile, backend=backend, fullgraph=nopython, disable=disable, dynamic=dynamic)


def explain(fn: Callable[..., object], *args: object, **kwargs: object) -> object:
    """Return the text of ``compile(fn).explain``; without arguments a function that returns it."""
    shown = (fn if isinstance(fn, Compiled) else Compiled(fn, True, None)).explain
    return shown(*args, **kwargs) if args or kwargs else shown


def is_compiling() -> bool:
    """Return whether a compiled function is being traced."""
    return modes.tracer is not None


def reset() -> None:
    """Delete all compiled programs: the next calls trace again."""
    forget()


def graph_break(msg: str = "") -> None:
    """Do nothing. In PyTorch the call ends a compiled graph."""


def cudagraph_mark_step_begin() -> None:
    """Do nothing. In PyTorch the call begins a recorded step."""


def list_backends(exclude_tags: object = ()) -> list[str]:
    """Return PyTorch's names of compilers. Each of them selects the one compiler of Retrograd."""
    return ["cudagraphs", "inductor", "openxla", "tvm"]


def set_logs(*, recompiles: bool = False, recompiles_verbose: bool = False, **others: object) -> None:
    """Log to standard error why compiled functions are traced again, as ``TORCH_LOGS=recompiles`` does.

    The logger is ``retrograd.compiler``. PyTorch's other logs are accepted and write nothing; ``explain()`` of a
    compiled function shows how it was compiled.

    Args:
        recompiles: whether to log it.
        recompiles_verbose: has the same effect.
        others: names of other logs.

    >>> rg._logging.set_logs(recompiles=False)
    """
    logger = logging.getLogger("retrograd.compiler")
    enabled = recompiles or recompiles_verbose
    logger.setLevel(logging.INFO if enabled else logging.NOTSET)
    if enabled and not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)


# Settings of PyTorch's compilers. They can be set without effect.
_ON = "allow_buffer_reuse assume_static_by_default automatic_dynamic_shapes epilogue_fusion optimize_ddp"
_OFF = """
    capture_dynamic_output_shape_ops capture_scalar_outputs coordinate_descent_tuning debug force_same_precision
    freezing fx_graph_cache max_autotune max_autotune_gemm shape_padding suppress_errors verbose
"""
_SETTINGS: dict[str, object] = {
    **dict.fromkeys(_ON.split(), True),
    **dict.fromkeys(_OFF.split(), False),
    **dict.fromkeys(("accumulated_cache_size_limit", "accumulated_recompile_limit"), 256),
    **dict.fromkeys(("cache_size_limit", "recompile_limit"), 8),
    "compile_threads": 1,
    "cpp": SimpleNamespace(),
    "trace": SimpleNamespace(enabled=False),
    "triton": SimpleNamespace(cudagraphs=False),
}

_COMPILER = """
    allow_in_graph=unchanged assume_constant_result=unchanged cudagraph_mark_step_begin disable explain
    graph_break is_compiling is_dynamo_compiling=is_compiling is_exporting=is_compiling list_backends mark_dynamic
    mark_static maybe_mark_dynamic=mark_dynamic optimize reset set_stance
"""
NAMES: Mapping[str, str | Mapping[str, object]] = {
    "compiler": _COMPILER,
    "_dynamo": f"{_COMPILER} compile",
    "_logging": "set_logs",
    "settings": _SETTINGS,
}
