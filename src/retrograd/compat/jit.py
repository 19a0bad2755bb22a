"""``jit``: marks for PyTorch's compiler of Python. They change nothing: functions and modules run as they are."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar
from typing import Final as Final

from ..nn.base.module import Module

Marked = TypeVar("Marked")
ScriptModule = Module


def script(obj: Marked, *args: Any, **kwargs: Any) -> Marked:
    """The function, class or module itself.

    >>> import retrograd as rg
    >>> @rg.jit.script
    ... def double(x):
    ...     return 2 * x
    >>> double(rg.ones(1))
    tensor([2.])
    """
    return obj


def trace(func: Marked, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Marked:
    """The function or module itself, once it ran on the example."""
    if example_inputs is not None and callable(func):
        from ..core.graph.modes import no_grad

        with no_grad():
            func(*example_inputs) if builtins.isinstance(example_inputs, (tuple, list)) else func(example_inputs)
    return func


def ignore(fn: Any = None, **kwargs: Any) -> Any:
    """The function itself."""
    return fn if callable(fn) else lambda function: function


unused = export = script_method = _overload = _overload_method = ignore


def is_scripting() -> bool:
    """Whether PyTorch's compiler reads this: never."""
    return False


is_tracing = is_scripting


def annotate(the_type: Any, the_value: Marked) -> Marked:
    """The value itself."""
    return the_value


def Attribute(value: Marked, type: Any) -> Marked:
    """The value itself."""
    return value


def interface(obj: Marked) -> Marked:
    """The class itself."""
    return obj


def freeze(mod: Marked, *args: Any, **kwargs: Any) -> Marked:
    """The module itself."""
    return mod


optimize_for_inference = freeze


def optimized_execution(should_optimize: bool) -> Any:
    """A context manager that changes nothing."""
    return nullcontext()


fuser = optimized_execution


def save(m: Module, f: Any, **kwargs: Any) -> None:
    """Not to be had: a module is Python code here.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("jit.save: modules are Python code here; save module.state_dict() with retrograd.save")


def load(f: Any, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """Not to be had: a file of compiled code cannot be run.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("jit.load: PyTorch's compiled modules cannot be run; load a state dict with retrograd.load")


script_if_tracing = ignore
ScriptFunction = Callable


class TracerWarning(Warning):
    """What PyTorch's tracer warns of."""


def trace_module(mod: Marked, inputs: Any, *args: Any, **kwargs: Any) -> Marked:
    """The module itself."""
    return mod


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's."""
    return builtins.isinstance(obj, getattr(target_type, "__origin__", target_type))


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of the call, for ``wait``: it has already been made."""
    return func(*args, **kwargs)


def wait(future: Any) -> Any:
    """What ``fork`` gave."""
    return future
