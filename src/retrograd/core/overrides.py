"""PyTorch's protocol ``__torch_function__`` for objects that are no Tensors, such as lazily evaluated matrices.

An operator that fails asks its arguments for the protocol. Objects that answer every attribute, such as the proxies of
``fx``, must be asked before: while one exists, ``watchers`` is not empty, and every public operator asks first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .graph.modes import watchers
from .tensor.tensor import Tensor


class EagerlyAsked:
    """The base class of objects that operators ask for ``__torch_function__`` before they look at arguments."""

    alive = 0

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        EagerlyAsked.alive += 1
        watchers.add(_TOKEN)
        return super().__new__(cls)

    def __del__(self) -> None:
        EagerlyAsked.alive -= 1
        if not EagerlyAsked.alive:
            watchers.discard(_TOKEN)


_TOKEN = id(EagerlyAsked)


def overridden(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what the arguments' ``__torch_function__`` make of a call, or NotImplemented if none has the protocol.

    As in PyTorch, the method of a subclass precedes that of its base class, and ``types`` are the classes that have
    the protocol. Arguments inside tuples and lists count.

    Raises:
        TypeError: every method returned NotImplemented.
    """
    kinds: list[Any] = []
    for value in _values((*args, *kwargs.values())):
        kind = type(value)
        if kind not in kinds and hasattr(kind, "__torch_function__") and not isinstance(value, Tensor):
            place = next((at for at, other in enumerate(kinds) if issubclass(kind, other)), len(kinds))
            kinds.insert(place, kind)
    for kind in kinds:
        result = kind.__torch_function__(function, tuple(kinds), args, kwargs)
        if result is not NotImplemented:
            return result
    if not kinds:
        return NotImplemented
    name = getattr(function, "__name__", function)
    raise TypeError(
        f"no implementation found for {name!r} on types that implement __torch_function__: "
        f"{[kind.__qualname__ for kind in kinds]}"
    )


def _values(values: Any) -> Iterator[Any]:
    for value in values:
        if type(value) in (tuple, list):
            yield from _values(value)
        else:
            yield value
