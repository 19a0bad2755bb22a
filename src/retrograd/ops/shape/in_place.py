"""In-place forms of views, which change the shape of a Tensor on the same memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.graph.modes import modes, recording
from ...core.tensor.tensor import Tensor, tensor_method
from ..table.registry import named_errors
from .permutation import t, transpose
from .shape import squeeze, unsqueeze
from .views import as_strided


def _reshaping_method(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def method(self: Tensor, *args: object, **kwargs: object) -> Tensor:
        if modes.grad_enabled and self._requires and self._node is None:
            raise RuntimeError("a leaf Tensor that requires grad cannot change its shape in place")
        with recording(self._node is not None):  # if there is a history, it must have the new shape, too
            view = function(self, *args, **kwargs)
        self.array = view.array
        if self._node is not None:
            self._node = view._node
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place form of ``{name[:-1]}``: this Tensor itself takes the new shape, on the same memory."
    return named_errors(name, method)


_changed: Any
for _name, _changed in (
    ("squeeze", squeeze),
    ("unsqueeze", unsqueeze),
    ("transpose", transpose),
    ("swapaxes", transpose),
    ("swapdims", transpose),
    ("t", t),
    ("as_strided", as_strided),
):
    tensor_method(_reshaping_method(_name + "_", _changed), _name + "_")
