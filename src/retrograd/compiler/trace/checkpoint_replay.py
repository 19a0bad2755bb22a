"""Parts of a function that run twice within a trace, as checkpoints do.

The instructions of the second run are not merged with those of the first, since a checkpoint recomputes to save memory.
Random numbers of the first run are reused instead, because a program draws each of them once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .tracer import Tracer


class CheckpointRuns:
    """One part that runs twice: ``first()`` and ``second()`` are the contexts of its runs."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.number = 0  # of the run that instructions belong to; 0 for the function itself
        self._around: CheckpointRuns | None = None
        self._kept: list[Any] = []
        self._again: Iterator[Any] | None = None

    @contextmanager
    def first(self) -> Iterator[None]:
        """Store the random draws."""
        with self._entered():
            self.number = 0 if self._around is None else self._around.number
            yield

    @contextmanager
    def second(self) -> Iterator[None]:
        """Replay the stored random draws."""
        self._again = iter(self._kept)
        self.tracer.checkpoint_reruns += 1
        self.number = self.tracer.checkpoint_reruns
        try:
            with self._entered():
                yield
        finally:
            self._again, self._kept = None, []

    @contextmanager
    def _entered(self) -> Iterator[None]:
        self._around, self.tracer.checkpoint_runs = self.tracer.checkpoint_runs, self
        try:
            yield
        finally:
            self.tracer.checkpoint_runs = self._around

    def drawn(self, draw: Callable[[], Any]) -> Any:
        """Return the result of ``draw`` in the first run."""
        if self._again is not None:
            for numbers in self._again:
                return numbers
        numbers = draw() if self._around is None else self._around.drawn(draw)
        if self._again is None:  # a copy, because the program may write to the numbers
            self._kept.append(self.tracer.call(np.copy, (numbers,), {}))
        return numbers
