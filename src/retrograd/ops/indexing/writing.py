"""A checked write at an index, which becomes an operator's result or goes in place."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, NamedTuple

from ...core.mutation import apply_inplace
from ...core.primitive import Primitive, apply
from ...core.tensor import Tensor
from ..table.registry import inplace_method


class Write(NamedTuple):
    """A checked call that writes ``value`` at ``index`` of ``x``."""

    primitive: Primitive
    x: Tensor
    value: Any
    params: dict[str, Any]


def result(write: Write) -> Tensor:
    """The operator's result: a copy with the values written."""
    return apply(write.primitive, (write.x, write.value), write.params)


def in_place(name: str, prepare: Callable[..., Write]) -> None:
    """Give Tensor the method ``name_`` that does in place what ``prepare`` has checked."""

    @wraps(prepare)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        write = prepare(self, *args, **kwargs)
        apply_inplace(write.primitive, write.x, write.value, **write.params)
        return self

    method.__signature__ = signature(prepare).replace(return_annotation=Tensor)  # type: ignore[attr-defined]
    setattr(Tensor, name + "_", inplace_method(name, method))
