"""Parts of a function that run twice within a trace, as checkpoints do.

The second run computes its instructions again, which no pass takes for those of the first: memory is what a checkpoint
is for. Random numbers are kept instead, since a program draws each of them once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np


class Tracing(Protocol):
    """What a part that runs twice needs of the tracer."""

    twice: Twice | None
    second_runs: int

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function and record it."""


class Twice:
    """One such part: ``first()`` is around its first run and ``second()`` around the other."""

    def __init__(self, tracer: Tracing) -> None:
        self.tracer = tracer
        self.number = 0  # of the run that instructions belong to; 0 is the function's own
        self._around: Twice | None = None
        self._kept: list[Any] = []
        self._again: Iterator[Any] | None = None

    @contextmanager
    def first(self) -> Iterator[None]:
        """Keep what is drawn."""
        with self._entered():
            self.number = 0 if self._around is None else self._around.number
            yield

    @contextmanager
    def second(self) -> Iterator[None]:
        """Draw what was kept."""
        self._again = iter(self._kept)
        self.tracer.second_runs += 1
        self.number = self.tracer.second_runs
        try:
            with self._entered():
                yield
        finally:
            self._again, self._kept = None, []

    @contextmanager
    def _entered(self) -> Iterator[None]:
        self._around, self.tracer.twice = self.tracer.twice, self
        try:
            yield
        finally:
            self.tracer.twice = self._around

    def drawn(self, draw: Callable[[], Any]) -> Any:
        """What ``draw`` gives in the first run."""
        if self._again is not None:
            for numbers in self._again:
                return numbers
        numbers = draw() if self._around is None else self._around.drawn(draw)
        if self._again is None:  # a copy, for the program may write into what it has drawn
            self._kept.append(self.tracer.call(np.copy, (numbers,), {}))
        return numbers
