"""``__torch_function__`` of objects that are no Tensors: they decide what operators do with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..core.tensor.tensor import Tensor


def answer(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
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
