"""Samplers: the order of the samples in an epoch.

The semantics are those of ``torch.utils.data``; the random numbers are NumPy's. A sampler draws all its random numbers
at the start of an iteration, so that a ``DataLoader`` can resume from the generator's state and a count.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Generic, TypeVar

import numpy as np

from ..ops.table.arguments import ChecksOptions
from ..ops.table.documentation import like
from .generator import GeneratorLike, numpy_generator

T_co = TypeVar("T_co", covariant=True)


_AT_ONCE = 1 << 16


class Sampler(ChecksOptions, Generic[T_co]):
    """The indices of one epoch. Subclasses define ``__iter__()`` and, for most uses, ``__len__()``."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class SequentialSampler(Sampler[int]):
    """The indices 0 to ``len(data_source) - 1`` in order.

    Args:
        data_source: an object with a length.

    >>> from retrograd.data import SequentialSampler
    >>> list(SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


@like(SequentialSampler)
class RandomSampler(Sampler[int]):
    """The indices of ``data_source`` in random order, or ``num_samples`` of them drawn with replacement.

    If ``num_samples`` exceeds the number of indices, several permutations are concatenated (without replacement).

    Args:
        replacement: draw the indices independently, so that an index may be repeated.
        num_samples: the number of indices in an epoch; the length of ``data_source`` by default.
        generator: a ``retrograd.Generator`` or ``numpy.random.Generator``; by default the global generator.

    Raises:
        TypeError: ``replacement`` is not a bool.
        ValueError: ``num_samples`` is not a positive integer, or ``data_source`` is empty and ``num_samples`` positive.

    >>> from retrograd.data import RandomSampler
    >>> sorted(RandomSampler(range(5), generator=np.random.default_rng(0)))
    [0, 1, 2, 3, 4]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: GeneratorLike | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"RandomSampler: replacement must be a bool, got {replacement!r}")
        if num_samples is not None and not _is_positive_integer(num_samples):
            raise ValueError(f"RandomSampler: num_samples must be a positive integer, got {num_samples!r}")
        self.data_source = data_source
        self.replacement = replacement
        self.generator = generator
        self._num_samples = num_samples

    @property
    def num_samples(self) -> int:
        """The number of indices in an epoch."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size, count = len(self.data_source), self.num_samples
        if not size:
            if count:
                raise ValueError(f"RandomSampler: cannot draw {count} samples from an empty data source")
            return
        generator = numpy_generator(self.generator)
        if self.replacement:
            # Draw in chunks: num_samples may exceed what memory can store, and a program may stop early.
            for start in range(0, count, _AT_ONCE):
                yield from generator.integers(size, size=min(_AT_ONCE, count - start)).tolist()
        else:
            orders = [generator.permutation(size) for _ in range(-(-count // size))]
            yield from np.concatenate(orders)[:count].tolist()

    def __len__(self) -> int:
        return self.num_samples


@like(RandomSampler)
class SubsetRandomSampler(Sampler[int]):
    """The given ``indices`` in random order.

    Args:
        indices: a sequence of indices, for instance the indices of a training split.

    >>> from retrograd.data import SubsetRandomSampler
    >>> sorted(SubsetRandomSampler([7, 3, 5], generator=np.random.default_rng(0)))
    [3, 5, 7]
    """

    def __init__(self, indices: Sequence[int], generator: GeneratorLike | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in numpy_generator(self.generator).permutation(len(self.indices)).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


@like(RandomSampler)
class WeightedRandomSampler(Sampler[int]):
    """Draw ``num_samples`` indices, index i with probability ``weights[i] / sum(weights)``.

    Negative, infinite, NaN or all-zero weights raise ValueError, and so does drawing more samples without replacement
    than there are positive weights.

    Args:
        weights: one number per index; the sum is arbitrary.
        num_samples: the number of indices in an epoch.

    >>> from retrograd.data import WeightedRandomSampler
    >>> list(WeightedRandomSampler([0.0, 3.0], 4, generator=np.random.default_rng(0)))
    [1, 1, 1, 1]
    """

    def __init__(
        self, weights: object, num_samples: int, replacement: bool = True, generator: GeneratorLike | None = None
    ) -> None:
        if not _is_positive_integer(num_samples):
            raise ValueError(f"WeightedRandomSampler: num_samples must be a positive integer, got {num_samples!r}")
        if not isinstance(replacement, bool):
            raise ValueError(f"WeightedRandomSampler: replacement must be a bool, got {replacement!r}")
        self.weights = np.array(weights, dtype=np.float64)
        if self.weights.ndim != 1:
            raise ValueError(f"WeightedRandomSampler: weights must have one dimension, got shape {self.weights.shape}")
        if not (np.isfinite(self.weights).all() and (self.weights >= 0).all() and self.weights.sum() > 0):
            raise ValueError("WeightedRandomSampler: weights must be finite and not negative, with a positive sum")
        if not replacement and num_samples > np.count_nonzero(self.weights):
            raise ValueError(
                f"WeightedRandomSampler: {num_samples} samples without replacement need at least as many positive "
                f"weights, got {np.count_nonzero(self.weights)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        probabilities = self.weights / self.weights.sum()
        generator = numpy_generator(self.generator)
        yield from generator.choice(
            len(probabilities), size=self.num_samples, replace=self.replacement, p=probabilities
        ).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Group the indices of ``sampler`` into lists of ``batch_size``.

    Args:
        sampler: an iterable of indices; it needs a length only for ``len()`` of the BatchSampler.
        batch_size: a positive number of indices.
        drop_last: drop a last list that is shorter.

    Raises:
        ValueError: ``batch_size`` is not a positive integer, or ``drop_last`` is not a bool.

    >>> from retrograd.data import BatchSampler
    >>> list(BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not _is_positive_integer(batch_size):
            raise ValueError(f"BatchSampler: batch_size must be a positive integer, got {batch_size!r}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"BatchSampler: drop_last must be a bool, got {drop_last!r}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        size = len(self.sampler)  # type: ignore[arg-type]
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)


def _is_positive_integer(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) > 0
