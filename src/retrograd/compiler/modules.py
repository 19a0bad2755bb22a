"""A compiled module: one that shares everything with the module it is made of, but for its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..nn.module import Module


def compiled_module(module: Module, compiled: Callable[..., Any]) -> Module:
    """A module that is the same one, attributes and all, but for its calls."""
    kind: Any = type(module)
    shared = module.__dict__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.__dict__ is not shared:  # a copy is a module of its own
            return kind.__call__(self, *args, **kwargs)
        return compiled(*args, **kwargs)

    def reduced(self: Any, protocol: Any) -> Any:
        return kind.__reduce_ex__(module, protocol)

    names = {"__call__": call, "__reduce_ex__": reduced, "__module__": kind.__module__, "__doc__": kind.__doc__}
    same = type(kind.__name__, (kind,), names | {"_orig_mod": module, "compiled": property(lambda self: compiled)})
    made: Any = object.__new__(same)
    object.__setattr__(made, "__dict__", shared)
    return made
