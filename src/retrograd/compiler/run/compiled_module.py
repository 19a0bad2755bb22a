"""``compile``, and the module that ``compile`` returns for a module."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.tensor import tensor
from ...nn.base.module import Module
from .compiled_function import LIMIT, MAX_OPERATORS, Compiled

_MODES = ("default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def compiled_module(module: Module, compiled: Callable[..., object]) -> Module:
    """Return a module that shares the ``__dict__`` of ``module`` and whose calls are ``compiled``."""
    kind: Any = type(module)
    shared = module.__dict__

    def call(self: Any, *args: Any, **kwargs: object) -> Any:
        if self.__dict__ is not shared:  # a copy is a separate, plain module
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
    model: object = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: object = None,
    mode: str | None = None,
    options: object = None,
    disable: bool = False,
    fallback: bool | None = None,
    limit: int = LIMIT,
    max_operators: int = MAX_OPERATORS,
) -> Any:
    """Trace a function at its first call, and replay the traced program at later calls.

    The function may work on Tensors, be a Module, or be a whole training step: forward, ``backward()``, clipping, the
    optimizer's step, statistics and random numbers. Results and side effects on Tensors equal those of the eager call.
    Guards compare what the trace assumed: shapes, dtypes, modes, hooks, the identity of Tensors and other objects, and
    the values of numbers, which become inputs when they vary. NumPy arrays from outside are compared in each call; an
    array of more than 64 KiB in a variable is read in each call instead. A call that fails all guards is traced again.
    Other Python side effects (``print``, appending to a list) happen only in the trace. Objects that the code reads
    by names computed at run time, from files, the environment or a clock are not compared: their values are those of
    the trace.

    Args:
        model: the function or the module; without it a decorator is returned. For a module the result is a module that
            shares everything with it, and whose calls are compiled.
        fullgraph: raise an error if the function depends on the elements of Tensors, even under ``retrograd run``.
        dynamic: let batch sizes and lengths vary within one program. A new size runs eagerly once, and its trace is
            compared with those of other sizes; a frequent size also gets a program of its own, with fused loops. By
            default each shape has its own program until there are ``limit`` programs. With False, each shape always
            has its own program, except for dims that ``compiler.mark_dynamic`` has marked.
        backend, mode, options: accepted for compatibility with PyTorch, without effect. A backend that is a function
            is not called, with a warning.
        disable: return the function unchanged.
        fallback: if the function depends on the elements of Tensors (``if loss > 3``), run it eagerly with a warning
            instead of raising an error. The default is True only under ``retrograd run`` without ``fullgraph``.
        limit: the largest number of programs, for different shapes, modes and numbers.
        max_operators: the largest number of operators, forward and backward, in a program. The equal steps of a loop
            count once, if they can be rolled. A longer call runs eagerly, as do all later calls, with one warning.

    Raises:
        TypeError: the argument is not callable.
        RuntimeError: PyTorch has no such mode, or both a mode and options are given.

    >>> @rg.compile
    ... def square_sum(x):
    ...     return (x * x).sum()
    >>> square_sum(rg.ones(3)), square_sum(rg.full((3,), 2.0))
    (tensor(3.), tensor(12.))
    """
    if mode is not None and (mode not in _MODES or options):
        what = "pass either mode or options, not both" if mode in _MODES else f"must be one of {', '.join(_MODES)}"
        raise RuntimeError(f"compile: mode {mode!r}: {what}")
    if model is None:
        return partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, disable=disable, fallback=fallback,
            limit=limit, max_operators=max_operators,
        )  # fmt: skip
    if not callable(model):
        raise TypeError(f"compile: model must be a function or a module, got {type(model).__name__}")
    if disable or isinstance(model, Compiled):
        return model
    if callable(backend):
        warnings.warn(f"compile: ignoring the backend {backend!r}: programs are compiled by Retrograd", stacklevel=2)
    if fallback is None:
        fallback = not (fullgraph or tensor.arrays_keep_dtype)
    if isinstance(model, type):
        raise TypeError(f"compile: model must be a function or a module, got the class {model.__name__}")
    made = Compiled(model, bool(fallback), dynamic, limit, max_operators)
    return compiled_module(model, made) if isinstance(model, Module) else made
