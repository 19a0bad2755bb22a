"""``autograd.Variable``: PyTorch's Tensors with gradients before they were one with Tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..autograd.context import Context
from ..autograd.function import Function
from ..core.tensor.tensor import Tensor


class _VariableType(type):
    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor)

    def __call__(cls, data: Any = None, requires_grad: bool = False, volatile: bool = False) -> Any:
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable: data has to be a Tensor, but got {type(data).__name__}")
        result = data.detach()
        result.requires_grad = bool(requires_grad) and not volatile
        return result


class Variable(metaclass=_VariableType):
    """``Variable(x)`` is a Tensor on x's memory without x's history, and every Tensor is a Variable.

    >>> import retrograd as rg
    >>> x = rg.autograd.Variable(rg.ones(2), requires_grad=True)
    >>> x, isinstance(x, rg.autograd.Variable)
    (tensor([1., 1.], requires_grad=True), True)
    """


class InplaceFunction(Function):
    """A Function that may write its input, with ``mark_dirty``."""


class NestedIOFunction(Function):
    """A Function; nests of Tensors are not taken apart."""


def traceable(cls: Callable[..., Any]) -> Callable[..., Any]:
    """The class itself."""
    return cls


class _Threads(threading.local):
    enabled = True


_threads = _Threads()


class set_multithreading_enabled:
    """Taken for compatibility: a backward pass runs on the thread that calls it, with either value.

    It sets the value at once, and restores the one before at the end of a ``with``.
    """

    def __init__(self, mode: bool) -> None:
        self._before, _threads.enabled = _threads.enabled, bool(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        _threads.enabled = self._before


def is_multithreading_enabled() -> bool:
    """What ``set_multithreading_enabled`` was last given on this thread, True at first."""
    return _threads.enabled


FunctionCtx = Context

__all__ = [
    "FunctionCtx",
    "InplaceFunction",
    "NestedIOFunction",
    "Variable",
    "is_multithreading_enabled",
    "set_multithreading_enabled",
    "traceable",
]
