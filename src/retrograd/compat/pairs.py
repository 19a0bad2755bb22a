"""``nn.modules.utils``: arguments that are given once or per dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], Any]:
    def parse(x: Any) -> Any:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single, _pair = _ntuple(1, "_single"), _ntuple(2, "_pair")
_triple, _quadruple = _ntuple(3, "_triple"), _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size: list[int] | None, defaults: list[int]) -> Any:
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size or ()):
        raise ValueError(f"Input dimension should be at least {len(out_size or ()) + 1}")
    return [v if v is not None else d for v, d in zip(out_size or (), defaults[-len(out_size or ()) :])]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Rename ``prefix + name`` to ``name``, in place: what ``DataParallel`` puts before."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
