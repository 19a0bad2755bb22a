"""Gradient accumulation: large batches in small pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

Batch = TypeVar("Batch")


class Piece(NamedTuple):
    """A batch, its weight in the average over its group, and whether it is the group's last."""

    batch: object
    weight: float
    steps: bool


def accumulate(batches: Iterable[Batch], count: int) -> Iterator[Piece]:
    """Yield the batches in groups of ``count``, each with the weight that makes their gradients an average.

    The last group, which may be smaller, is weighted by its own size.

    Args:
        batches: any iterable, for example a ``DataLoader``.
        count: the number of batches per optimizer step.

    Raises:
        ValueError: ``count`` is not positive.

    >>> from retrograd.training import accumulate
    >>> [(batch, weight, steps) for batch, weight, steps in accumulate("abc", 2)]
    [('a', 0.5, False), ('b', 0.5, True), ('c', 1.0, True)]

    In a training loop::

        for (x, y), weight, steps in accumulate(loader, 4):
            (loss_function(model(x), y) * weight).backward()
            if steps:
                optimizer.step()
                optimizer.zero_grad()
    """
    if count < 1:
        raise ValueError(f"accumulate: count must be positive, got {count}")
    iterator = iter(batches)
    while group := list(islice(iterator, count)):
        for index, batch in enumerate(group, 1):
            yield Piece(batch, 1 / len(group), index == len(group))
