"""Data sets, and functions that split, concatenate and zip them, with the semantics of ``torch.utils.data``."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np

from ..core.arrays import Array
from ..ops.make.creation import from_numpy
from .generator import GeneratorLike, numpy_generator

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """A map from indices to samples. Subclasses define ``__getitem__(index)`` and, for most uses, ``__len__()``.

    A subclass may also define ``__getitems__(indices)``, which returns a list of samples, if that is
    faster than loading one sample at a time. ``a + b`` is ``ConcatDataset([a, b])``.

    >>> from retrograd.data import Dataset
    >>> class Squares(Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, index):
    ...         return index ** 2
    >>> [Squares()[i] for i in range(4)]
    [0, 1, 4, 9]
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ConcatDataset([self, other])


class Indexed(Protocol[T_co]):
    """A map-style data set: a ``Dataset``, a sequence or an array."""

    def __getitem__(self, index: Any, /) -> T_co: ...


class IterableDataset(Dataset[T_co]):
    """A stream of samples. Subclasses define ``__iter__()``.

    Each DataLoader worker iterates over the data set on its own; ``__iter__`` can divide the stream between the
    workers with ``get_worker_info()``. ``a + b`` is ``ChainDataset([a, b])``.
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Samples along the first dimension of Tensors of equal length: sample i is ``(t_1[i], ..., t_n[i])``.

    NumPy arrays become Tensors that share their memory. Different lengths and 0-d Tensors raise AssertionError.

    Args:
        tensors: Tensors or NumPy arrays ``(N, ...)``, all of the same N.

    >>> from retrograd.data import TensorDataset
    >>> x, y = TensorDataset(np.arange(6.0).reshape(3, 2), np.array([7, 8, 9]))[1]
    >>> x.tolist(), y.item()
    ([2.0, 3.0], 8)
    """

    tensors: tuple[Any, ...]

    def __init__(self, *tensors: Array) -> None:
        shapes = [tuple(tensor.shape) for tensor in tensors]
        if not shapes or not all(shapes) or len({shape[0] for shape in shapes}) > 1:
            raise AssertionError(f"TensorDataset: tensors must agree in the size of dimension 0, got shapes {shapes}")
        self.tensors = tuple(from_numpy(t) if isinstance(t, np.ndarray) else t for t in tensors)

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class StackDataset(Dataset[Any]):
    """Data sets zipped: sample i is the tuple, or with keywords the dict, of the i-th samples of all data sets.

    Args:
        args: data sets whose samples form a tuple; or
        kwargs: data sets whose samples form a dict.

    Raises:
        ValueError: the data sets differ in length; no data set is passed, or some by position and some by keyword.

    >>> from retrograd.data import StackDataset
    >>> StackDataset(image=[10, 11], label=[0, 1])[1]
    {'image': 11, 'label': 1}
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError("StackDataset: pass data sets either by position or by keyword, and at least one")
        self.datasets = args or kwargs
        sizes = [len(dataset) for dataset in args or kwargs.values()]
        if len(set(sizes)) > 1:
            raise ValueError(f"StackDataset: data sets must have one length, got {sizes}")
        self._length = sizes[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """Data sets concatenated.

    Args:
        datasets: data sets with a length.

    Raises:
        ValueError: ``datasets`` is empty or contains an IterableDataset.
        IndexError: when indexed, the index is out of range.

    >>> from retrograd.data import ConcatDataset
    >>> joined = ConcatDataset(["abc", "de"])
    >>> len(joined), joined[3], joined[-1]
    (5, 'd', 'e')
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Indexed[T_co]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset: datasets is empty")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise ValueError("ConcatDataset: an IterableDataset has no indices; use ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T_co:
        if not -len(self) <= index < len(self):
            raise IndexError(f"ConcatDataset: index {index} is out of range for {len(self)} samples")
        index %= len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]


class ChainDataset(IterableDataset[T_co]):
    """Streams concatenated.

    Args:
        datasets: IterableDatasets.

    Raises:
        TypeError: an element is not an IterableDataset.

    >>> from retrograd.data import ChainDataset, IterableDataset
    >>> class Letters(IterableDataset):
    ...     def __init__(self, letters):
    ...         self.letters = letters
    ...     def __iter__(self):
    ...         return iter(self.letters)
    >>> list(ChainDataset([Letters("ab"), Letters("c")]))
    ['a', 'b', 'c']
    """

    def __init__(self, datasets: Iterable[Indexed[T_co]]) -> None:
        self.datasets: list[Any] = list(datasets)
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise TypeError(f"ChainDataset: expected IterableDatasets, got {type(dataset).__name__}")

    def __iter__(self) -> Iterator[T_co]:
        return itertools.chain.from_iterable(self.datasets)

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)


class Subset(Dataset[T_co]):
    """The samples of ``dataset`` at ``indices``, in the order of ``indices``.

    Args:
        dataset: a map-style data set.
        indices: the indices of the samples.

    >>> from retrograd.data import Subset
    >>> list(Subset("abcd", [3, 1]))
    ['d', 'b']
    """

    def __init__(self, dataset: Indexed[T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T_co]:
        return samples_at(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def samples_at(dataset: Any, indices: Sequence[object]) -> list[Any]:
    """Return the samples at ``indices``, by one call of ``__getitems__`` if the data set defines it."""
    get_many = getattr(dataset, "__getitems__", None)
    if get_many is None:
        return [dataset[index] for index in indices]
    samples = list(get_many(indices))
    if len(samples) != len(indices):
        raise ValueError(
            f"{type(dataset).__name__}.__getitems__ must return one sample for each of {len(indices)} indices, "
            f"got {len(samples)}"
        )
    return samples


def tensor_batch(dataset: Any, indices: Sequence[int]) -> list[Any] | None:
    """Return ``default_collate`` of the samples at ``indices``, by indexing each Tensor once.

    Return None unless the data set is a TensorDataset, or a Subset of a TensorDataset, and not of a subclass, which may
    override ``__getitem__``.
    """
    while type(dataset) is Subset:
        indices = [dataset.indices[i] for i in indices]
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset:
        return None
    where = np.asarray(indices, dtype=np.int64)
    return [tensor[where] for tensor in dataset.tensors]


def random_split(
    dataset: Indexed[T_co], lengths: Sequence[float], generator: GeneratorLike | None = None
) -> list[Subset[T_co]]:
    """Split ``dataset`` at random into subsets of given lengths, which sum to its length or, as fractions, to 1.

    For fractions each subset has ``floor(len(dataset) * fraction)`` samples, and the remaining samples go one each to
    the first subsets. Lengths that do not sum to the length of the data set, and fractions outside ``[0, 1]``, raise
    ValueError.

    Args:
        dataset: a data set with a length.
        lengths: numbers of samples, or fractions between 0 and 1.
        generator: a ``retrograd.Generator`` or ``numpy.random.Generator``; the global generator by default.

    >>> from retrograd.data import random_split
    >>> train, test = random_split(range(10), [0.75, 0.25], generator=np.random.default_rng(0))
    >>> len(train), len(test), sorted([*train, *test]) == list(range(10))
    (8, 2, True)
    """
    size, total = len(cast(Sized, dataset)), sum(lengths)
    if math.isclose(total, 1) and total <= 1:
        for fraction in lengths:
            if not 0 <= fraction <= 1:
                raise ValueError(f"random_split: a fraction must be between 0 and 1, got {fraction}")
        counts = [math.floor(size * fraction) for fraction in lengths]
        for i in range(size - sum(counts)):
            counts[i % len(counts)] += 1
        for i, count in enumerate(counts):
            if count == 0:
                warnings.warn(f"random_split: subset {i} is empty", stacklevel=2)
    elif total != size or any(length != int(length) or length < 0 for length in lengths):
        raise ValueError(
            f"random_split: lengths must sum to the length of the data set, {size}, or to 1, got {list(lengths)}"
        )
    else:
        counts = [int(length) for length in lengths]
    order = numpy_generator(generator).permutation(size).tolist()
    ends = itertools.accumulate(counts)
    return [Subset(dataset, order[end - count : end]) for count, end in zip(counts, ends)]
