"""``profiler``: timing of operators as PyTorch does it is not had; naming a stretch of a program is."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NoReturn


class record_function(nullcontext[None]):
    """A context manager that names a stretch of the program for PyTorch's profiler."""

    def __init__(self, name: str, args: str | None = None) -> None:
        super().__init__()
        self.name = name


def profile(*args: Any, **kwargs: Any) -> NoReturn:
    """Not to be had.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("profile: PyTorch's profiler is not had here; Python's cProfile shows where time goes")
