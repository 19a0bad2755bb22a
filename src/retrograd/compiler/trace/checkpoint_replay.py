"""Parts of a function that run twice within a trace, as checkpoints do.

The instructions of the second run are not merged with those of the first, since a checkpoint recomputes to save memory.
Random numbers of the first run are reused instead, because a program draws each of them once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np


class Tracing(Protocol):
    """The part of the tracer that a checkpoint uses."""

    checkpoint_runs: CheckpointRuns | None
    checkpoint_reruns: int

    def call(self, function: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """Call a function and record it."""


class CheckpointRuns:
    """One part that runs twice: ``first()`` and ``second()`` are the contexts of its runs."""

    def __init__(self, tracer: Tracing) -> None:
        self.tracer = tracer
        self.number = 0  # the run that instructions belong to; 0 for the function itself
        self._enclosing: CheckpointRuns | None = None
        self._draws: list[object] = []
        self._replayed_draws: Iterator[object] | None = None

    @contextmanager
    def first(self) -> Iterator[None]:
        """Store the random draws."""
        with self._current():
            self.number = 0 if self._enclosing is None else self._enclosing.number
            yield

    @contextmanager
    def second(self) -> Iterator[None]:
        """Replay the stored random draws."""
        self._replayed_draws = iter(self._draws)
        self.tracer.checkpoint_reruns += 1
        self.number = self.tracer.checkpoint_reruns
        try:
            with self._current():
                yield
        finally:
            self._replayed_draws, self._draws = None, []

    @contextmanager
    def _current(self) -> Iterator[None]:
        self._enclosing, self.tracer.checkpoint_runs = self.tracer.checkpoint_runs, self
        try:
            yield
        finally:
            self.tracer.checkpoint_runs = self._enclosing

    def drawn(self, draw: Callable[[], object]) -> Any:
        """Return the result of ``draw`` in the first run."""
        if self._replayed_draws is not None:
            for numbers in self._replayed_draws:
                return numbers
        numbers = draw() if self._enclosing is None else self._enclosing.drawn(draw)
        if self._replayed_draws is None:  # a copy, because the program may write to the numbers
            self._draws.append(self.tracer.call(np.copy, (numbers,), {}))
        return numbers
