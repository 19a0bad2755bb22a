"""``backends.cudnn``: cuDNN is not used, so its switches may be set and change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True
benchmark_limit = 10


def is_available() -> bool:
    """Whether cuDNN is used: no."""
    return False


def is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN takes a Tensor: no."""
    return False


def version() -> int | None:
    """cuDNN's version: none."""
    return None


@contextmanager
def flags(**settings: Any) -> Iterator[None]:
    """Switches for the time of a block."""
    import retrograd.backends.cudnn as module  # type: ignore[import-not-found]

    before = {name: getattr(module, name) for name in settings}
    vars(module).update(settings)
    try:
        yield
    finally:
        vars(module).update(before)
