"""Backends of PyTorch's that Retrograd has not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

enabled = False
allow_tf32 = False
strategy = None


def is_available() -> bool:
    """Whether the library is used: no."""
    return False


def is_built() -> bool:
    """Whether the library could be used: no."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Whether this is macOS 13: not with this library."""
    return False


@contextmanager
def flags(*args: Any, **kwargs: Any) -> Iterator[None]:
    """A context that would set the library's flags: none has an effect here."""
    yield
