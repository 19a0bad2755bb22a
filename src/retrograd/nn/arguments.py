"""The kinds of arguments that modules take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ..ops.table import types

Size: TypeAlias = int | tuple[int, ...]  # one number for all dimensions, or one for each
DeviceLike: TypeAlias = types.DeviceLike | None
DTypeLike: TypeAlias = types.DTypeLike | None


def ntuple(value: int | Iterable[int], count: int) -> tuple[int, ...]:
    """``value`` repeated, or the tuple it is already.

    >>> ntuple(3, 2), ntuple((1, 2), 2)
    ((3, 3), (1, 2))
    """
    return tuple(value) if isinstance(value, Iterable) else (value,) * count
