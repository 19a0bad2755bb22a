"""DataLoader: batches of a data set, loaded in order and ahead of use, resumable at any batch."""

from __future__ import annotations

import itertools
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from concurrent.futures import Future, wait
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar, cast

import numpy as np

from ..core.graph.modes import modes, watchers
from ..ops.table.arguments import ChecksOptions
from .collate import default_collate, default_convert
from .dataset import Indexed, IterableDataset
from .generator import GeneratorLike, generator_state, numpy_generator, set_generator_state
from .sampler import BatchSampler, RandomSampler, SequentialSampler
from .worker import Fetcher, IterableFetcher, MapFetcher, Signal, Task, WorkerPool, load

T_co = TypeVar("T_co", covariant=True)

# Attributes that cannot be set later, because other attributes are computed from them.
_FIXED = frozenset({"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"})


class _Batches(Iterator[T_co]):
    """An iterator over the batches of one epoch. Its length is the loader's, however many batches are left."""

    def __init__(self, batches: Generator[T_co, None, None], loader: DataLoader[T_co]) -> None:
        self._batches, self._loader = batches, loader
        self.close = batches.close  # also stops the workers of the epoch

    def __next__(self) -> T_co:
        return next(self._batches)

    def __len__(self) -> int:
        return len(self._loader)


class DataLoader(ChecksOptions, Generic[T_co]):
    """Iterate over a data set in batches, as ``torch.utils.data.DataLoader`` does.

    The batches and their order are the same for any number of workers: the calling process draws the order, and
    ``batch_generator`` returns a random generator for each batch. An exception in a worker is raised again in the
    calling process, with the worker's traceback. Leaving the loop early ends the workers.

    Args:
        dataset: anything with ``__getitem__`` and ``__len__``, or an ``IterableDataset``.
        batch_size: samples per batch; None returns single samples, not collated.
        shuffle: draw a new random order for every epoch from ``generator``.
        sampler: the indices of an epoch, instead of ``shuffle``.
        batch_sampler: lists of indices, instead of ``batch_size``, ``shuffle``, ``sampler`` and ``drop_last``.
        num_workers: the number of workers that prefetch batches; 0 loads each batch in the calling thread.
        collate_fn: converts a list of samples to a batch; ``default_collate`` stacks them into Tensors.
        pin_memory, pin_memory_device, in_order: accepted for compatibility; batches come in the order of the sampler.
        drop_last: leave out a last batch that is smaller than the others.
        timeout: seconds to wait for a worker's batch before RuntimeError is raised; 0 waits indefinitely.
        worker_init_fn: called with the worker's id in every worker before its first batch.
        multiprocessing_context: how workers run: "fork", "spawn", "forkserver" or a ``multiprocessing`` context for
            processes, None for the platform's default, or "thread" for threads of this process, which copy nothing
            and suit data sets that spend their time in NumPy or in reading files.
        generator: a ``retrograd.Generator`` or ``numpy.random.Generator``; None is the global generator.
        prefetch_factor: the number of batches to prefetch per worker, 2 by default.
        persistent_workers: reuse the workers in the next epoch.

    >>> from retrograd.data import DataLoader, TensorDataset
    >>> data = TensorDataset(np.arange(10.0).reshape(5, 2), np.arange(5))
    >>> [y.tolist() for x, y in DataLoader(data, batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Indexed[object] | Iterable[object],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], object] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        generator: GeneratorLike | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        self.dataset: Any = dataset
        iterable = isinstance(dataset, IterableDataset)
        if num_workers < 0:
            raise ValueError(f"DataLoader: num_workers must not be negative, got {num_workers}")
        if timeout < 0:
            raise ValueError(f"DataLoader: timeout must not be negative, got {timeout}")
        if not num_workers and (prefetch_factor is not None or persistent_workers or multiprocessing_context):
            raise ValueError(
                "DataLoader: prefetch_factor, persistent_workers and multiprocessing_context need num_workers > 0"
            )
        if timeout and multiprocessing_context == "thread":
            raise ValueError("DataLoader: timeout needs worker processes, because a thread cannot be terminated")
        if prefetch_factor is not None and prefetch_factor < 1:
            raise ValueError(f"DataLoader: prefetch_factor must be positive, got {prefetch_factor}")
        if iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError("DataLoader: an IterableDataset has no indices; pass no shuffle, sampler or batch_sampler")
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: pass either sampler or shuffle, not both")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError(
                "DataLoader: batch_sampler cannot be combined with batch_size, shuffle, sampler or drop_last"
            )
        if batch_size is None and drop_last:
            raise ValueError("DataLoader: drop_last needs a batch_size")
        if generator is not None:
            numpy_generator(generator)  # raises TypeError if this is not a generator
        if sampler is None and not iterable:
            source = cast(Sized, dataset)
            sampler = RandomSampler(source, generator=generator) if shuffle else SequentialSampler(source)
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is not None:
            # Also checks the arguments for an IterableDataset, whose batches have no indices.
            batch_sampler = BatchSampler(() if sampler is None else sampler, batch_size, drop_last)

        self.batch_size = batch_size
        self.sampler = sampler
        self.batch_sampler = None if iterable else batch_sampler
        self.num_workers = num_workers
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)
        self.pin_memory, self.pin_memory_device, self.in_order = pin_memory, pin_memory_device, in_order
        self.drop_last = drop_last
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = (prefetch_factor or 2) if num_workers else None
        self.persistent_workers = persistent_workers

        self._pool: WorkerPool | None = None
        self._pool_closer: weakref.finalize[Any, Any]
        self._epoch = 0
        # The position: batches returned in the current epoch, and the generators' states at its start.
        self._batches_given = 0
        self._epoch_start: list[dict[str, object]] | None = None
        self._resumes = False

    def __len__(self) -> int:
        """The number of batches in an epoch; TypeError if the data set or sampler has no length."""
        if not isinstance(self.dataset, IterableDataset):
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)  # type: ignore[arg-type]
        size = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return size
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)

    def _get_iterator(self) -> Iterator[T_co]:
        """Return a new iterator over the batches. Subclasses in other packages call this method in ``__iter__``."""
        return DataLoader.__iter__(self)

    def __setattr__(self, name: str, value: object) -> None:
        if name in _FIXED and "_epoch" in self.__dict__:
            raise ValueError(f"DataLoader: {name} cannot be set after the loader was created; create another loader")
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[T_co]:
        return _Batches(self._epoch_of_batches(), self)

    def _epoch_of_batches(self) -> Generator[T_co, None, None]:
        if watchers and modes.tracer is not None:
            modes.tracer.breaks("a DataLoader is iterated")
        self._epoch += 1
        epoch = self._epoch
        resumes, self._resumes = self._resumes, False
        skip = self._batches_given if resumes else 0
        generators = self._generators()
        current_states = [generator_state(generator) for generator in generators]
        if resumes and self._epoch_start is not None:
            _set_states(generators, self._epoch_start)
        self._epoch_start = [generator_state(generator) for generator in generators]
        self._batches_given = skip

        seed = int(numpy_generator(self.generator).integers(2**63))
        tasks: Iterator[Task] = self._tasks(epoch, seed)
        if resumes:
            if self._has_indices:
                # Take one more task than is skipped: the sampler must draw before the generators' states are restored.
                first = list(itertools.islice(tasks, skip + 1))
                if len(first) < skip:
                    raise RuntimeError(f"DataLoader: cannot resume after {skip} batches, the epoch has {len(first)}")
                tasks = itertools.chain(first[skip:], tasks)
            _set_states(generators, current_states)
        batches = self._prefetched(tasks, seed) if self.num_workers else self._sequential(tasks)
        try:
            if not self._has_indices:
                # A stream has no indices to skip, so it is read again up to the position.
                for _ in itertools.islice(batches, skip):
                    pass
            for batch in batches:
                if epoch == self._epoch:
                    self._batches_given += 1
                yield batch
        finally:
            batches.close()
        if epoch == self._epoch:
            self._batches_given, self._epoch_start = 0, None

    def check_worker_number_rationality(self) -> None:
        """Do nothing. PyTorch warns of more workers than processors."""

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the epoch and the generators' states, as plain Python values.

        Inside the loop the current batch counts as done. A loader of the same data and arguments that loads the state
        continues with the next batch, and draws the same orders for the following epochs.
        """
        return {
            "batches_given": self._batches_given,
            "epoch_start": self._epoch_start,
            "generators": [generator_state(generator) for generator in self._generators()],
            "batches_in_epoch": self._length(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the position of the loader and the states of its generators from ``state_dict``.

        The next iteration continues the saved epoch; further iterations start new epochs. ValueError if the state is
        invalid, or comes from a loader with a different number of batches or generators.
        """
        generators = self._generators()
        if state["batches_in_epoch"] != self._length():
            raise ValueError(
                f"DataLoader: the state comes from a loader with {state['batches_in_epoch']} batches in an epoch, "
                f"but this loader has {self._length()}"
            )
        if len(state["generators"]) != len(generators):
            raise ValueError(
                f"DataLoader: the state has {len(state['generators'])} generators, expected {len(generators)}"
            )
        given, start = state["batches_given"], state["epoch_start"]
        # A stream with several workers may have more batches than its length says.
        limit = self._length() if self._has_indices else None
        if not isinstance(given, int) or given < 0 or limit is not None and given > limit:
            raise ValueError(
                f"DataLoader: the state's position {given!r:.80} is not in an epoch of {self._length()} batches"
            )
        if start is not None:
            if not isinstance(start, list) or len(start) != len(generators):
                raise ValueError(
                    f"DataLoader: the state's epoch_start must be the states of {len(generators)} generators"
                )
            _set_states(generators, start)  # check the states now, not at the next iteration
        _set_states(generators, state["generators"])
        self._batches_given, self._epoch_start, self._resumes = given, start, start is not None

    @property
    def _fetch(self) -> Fetcher:
        if isinstance(self.dataset, IterableDataset):
            return IterableFetcher(self.dataset, self.collate_fn, self.batch_size, self.drop_last)
        stacks = self.collate_fn is default_collate
        return MapFetcher(self.dataset, self.collate_fn, self.batch_sampler is not None, stacks)

    @property
    def _has_indices(self) -> bool:
        return self.sampler is not None or self.batch_sampler is not None

    def _length(self) -> int | None:
        try:
            return len(self)
        except TypeError:
            return None

    def _generators(self) -> list[np.random.Generator]:
        """The distinct generators that this loader and its samplers draw from."""
        holders: list[object] = [self, self.batch_sampler, getattr(self.batch_sampler, "sampler", None), self.sampler]
        found = [numpy_generator(holder.generator) for holder in holders if hasattr(holder, "generator")]
        return list({id(generator): generator for generator in found}.values())

    def _tasks(self, epoch: int, seed: int) -> Iterator[Task]:
        indices = self.sampler if self.batch_sampler is None else self.batch_sampler
        for number, batch in enumerate(itertools.repeat(None) if indices is None else indices):
            yield Task(epoch, number, seed, batch)

    def _sequential(self, tasks: Iterator[Task]) -> Generator[Any, None, None]:
        fetch = self._fetch
        for task in tasks:
            batch = load(fetch, task)
            if batch is Signal.EXHAUSTED:
                return
            yield batch

    def _prefetched(self, tasks: Iterator[Task], seed: int) -> Generator[Any, None, None]:
        pool = self._pool or WorkerPool(
            self._fetch, self.num_workers, seed, self.dataset, self.worker_init_fn, self.multiprocessing_context
        )
        if self.persistent_workers and self._pool is None:
            self._pool = pool
            self._pool_closer = weakref.finalize(self, pool.close)
        pending: deque[tuple[Task, Future[object]]] = deque()
        exhausted: set[int] = set()  # workers that have reached the end of an IterableDataset
        try:
            for task in itertools.islice(tasks, self.num_workers * (self.prefetch_factor or 1)):
                pending.append((task, pool.submit(task)))
            while pending and len(exhausted) < self.num_workers:
                task, future = pending.popleft()
                if not wait([future], timeout=self.timeout or None).done:
                    raise RuntimeError(
                        f"DataLoader: no batch arrived from a worker within {self.timeout} seconds; raise the timeout"
                    )
                batch = future.result()
                if (following := next(tasks, None)) is not None:
                    pending.append((following, pool.submit(following)))
                if batch is Signal.EXHAUSTED:
                    exhausted.add(task.batch % self.num_workers)
                else:
                    yield batch
        except Exception:
            if pool is self._pool:  # the workers may be dead or stuck, so the next epoch starts new workers
                self._pool_closer.detach()
                self._pool = None
            raise
        finally:
            for _, future in pending:
                future.cancel()
            if pool is not self._pool:
                pool.close()


def _set_states(generators: list[np.random.Generator], states: list[dict[str, Any]]) -> None:
    for generator, state in zip(generators, states, strict=True):
        set_generator_state(generator, state)
