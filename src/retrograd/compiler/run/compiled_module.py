"""``compile``, and the module that it returns for a module: one that shares everything with it, but for its calls."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.tensor import tensor
from ...nn.base.module import Module
from .compiled_function import LIMIT, MAX_OPERATORS, Compiled

_MODES = ("default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def compiled_module(module: Module, compiled: Callable[..., Any]) -> Module:
    """A module that is the same one, attributes and all, but for its calls."""
    kind: Any = type(module)
    shared = module.__dict__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.__dict__ is not shared:  # a copy is a module of its own
            return kind.__call__(self, *args, **kwargs)
        return compiled(*args, **kwargs)

    def reduced(self: object, protocol: object) -> Any:
        return kind.__reduce_ex__(module, protocol)

    names = {"__call__": call, "__reduce_ex__": reduced, "__module__": kind.__module__, "__doc__": kind.__doc__}
    same = type(kind.__name__, (kind,), names | {"_orig_mod": module, "compiled": property(lambda self: compiled)})
    made: Any = object.__new__(same)
    object.__setattr__(made, "__dict__", shared)
    return made


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
    fallback: bool | None = None,
    limit: int = LIMIT,
    max_operators: int = MAX_OPERATORS,
) -> Any:
    """Trace a function at its first call, and replay the program that it is at the others.

    It may be a function of Tensors, a Module, or a whole training step: forward, ``backward()``, clipping, the
    optimizer's step, statistics and random numbers. Results, and everything that it changes, are the eager function's.
    What the trace assumed is guarded: shapes, dtypes, modes, hooks, the Tensors and other objects that it reads, and
    numbers, which become inputs when they vary. NumPy arrays from outside are compared in each call; those of more than
    64 KiB that a variable holds are read in each call instead. Where something differs it is traced again. What Python
    does besides (``print``, appending to a list) happens in the trace alone. Surroundings are what the code can name;
    what it reads by names made while running, from files, the environment or a clock is kept as it was.

    Args:
        model: the function or the module; left out, a decorator is returned. A module gives one that shares everything
            with it, and whose calls are compiled.
        fullgraph: what depends on the elements of Tensors is an error, also under ``retrograd run``.
        dynamic: let batch sizes and lengths vary within one program. A new size is run eagerly once, and compared with
            what the program does at others; one that comes often has a program of its own besides, in which loops are
            fused. Left out, each shape has a program of its own until there are ``limit`` of them; False, always, but
            for dims that ``compiler.mark_dynamic`` has marked.
        backend, mode, options: PyTorch's, without effect. A backend that is a function is not called, with a warning.
        disable: return the function as it is.
        fallback: run eagerly, with a warning, what depends on the elements of Tensors (``if loss > 3``); else that is
            an error. By default so only under ``retrograd run``, without ``fullgraph``.
        limit: how many programs are kept, for different shapes, modes and numbers.
        max_operators: how many operators, forward and backward, a program may have. A longer call, such as a loop of
            many steps, runs eagerly, as do all later ones, with one warning.

    Raises:
        TypeError: it cannot be called.
        RuntimeError: PyTorch has no such mode, or there are both a mode and options.

    >>> @rg.compile
    ... def square_sum(x):
    ...     return (x * x).sum()
    >>> square_sum(rg.ones(3)), square_sum(rg.full((3,), 2.0))
    (tensor(3.), tensor(12.))
    """
    if mode is not None and (mode not in _MODES or options):
        what = "there are options besides" if mode in _MODES else f"wanted one of {', '.join(_MODES)}"
        raise RuntimeError(f"compile: mode {mode!r}: {what}")
    if model is None:
        return partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, disable=disable, fallback=fallback,
            limit=limit, max_operators=max_operators,
        )  # fmt: skip
    if not callable(model):
        raise TypeError(f"compile: wanted a function or a module, got {type(model).__name__}")
    if disable or isinstance(model, Compiled):
        return model
    if callable(backend):
        warnings.warn(f"compile: the backend {backend!r} is not called: programs are Retrograd's own", stacklevel=2)
    if fallback is None:
        fallback = not (fullgraph or tensor.arrays_keep_dtype)
    if isinstance(model, type):
        raise TypeError(f"compile: wanted a function or a module, got the class {model.__name__}")
    made = Compiled(model, bool(fallback), dynamic, limit, max_operators)
    return compiled_module(model, made) if isinstance(model, Module) else made
