"""``fx``: a mark for PyTorch's tracer of modules, which libraries put on functions. There is no such tracer here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Marked = TypeVar("Marked", str, Callable[..., object])


def wrap(fn_or_name: Marked) -> Marked:
    """The function, or its name, as it is."""
    return fn_or_name
