"""DataLoader: batches of a data set, in order, loaded ahead of their use, from any position."""

from __future__ import annotations

import itertools
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, wait
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

import numpy as np

from ..core.graph.modes import modes, watchers
from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .generator import generator_state, numpy_generator, set_generator_state
from .sampler import BatchSampler, RandomSampler, SequentialSampler
from .worker import Fetcher, IterableFetcher, MapFetcher, Signal, Task, WorkerPool, load

T_co = TypeVar("T_co", covariant=True)


class DataLoader(Generic[T_co]):
    """Iterates over a data set in batches, as ``torch.utils.data.DataLoader`` does.

    The batches are the same, in the same order, for any number of workers: the order is drawn in the calling process,
    and ``batch_generator`` gives data sets random numbers that belong to the batch. An exception in a worker is raised
    again where the loader is iterated, with the worker's traceback. Leaving the loop early ends the workers.

    Args:
        dataset: anything with ``__getitem__`` and ``__len__``, or an ``IterableDataset``.
        batch_size: samples per batch; None gives single samples, not collated.
        shuffle: draw a new random order for every epoch, from ``generator``.
        sampler: the indices of an epoch, in place of ``shuffle``.
        batch_sampler: lists of indices, in place of ``batch_size``, ``shuffle``, ``sampler`` and ``drop_last``.
        num_workers: how many workers load batches ahead; 0 loads each batch when it is asked for.
        collate_fn: makes a batch of a list of samples; ``default_collate`` stacks them into Tensors.
        pin_memory: accepted for PyTorch programs; NumPy's memory is never pinned.
        drop_last: leave out a last batch that is smaller than the others.
        timeout: seconds after which waiting for a worker's batch raises RuntimeError; 0 waits for ever.
        worker_init_fn: called with the worker's id in every worker before its first batch.
        multiprocessing_context: how workers run: "fork", "spawn", "forkserver" or a ``multiprocessing`` context for
            processes, None for the platform's default, or "thread" for threads of this process, which copy nothing
            and suit data sets that spend their time in NumPy or in reading files.
        generator: a ``retrograd.Generator`` or ``numpy.random.Generator``; None is the global one.
        prefetch_factor: how many batches per worker are loaded ahead, 2 unless told.
        persistent_workers: keep the workers from one epoch to the next.

    >>> from retrograd.data import DataLoader, TensorDataset
    >>> data = TensorDataset(np.arange(10.0).reshape(5, 2), np.arange(5))
    >>> [y.tolist() for x, y in DataLoader(data, batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
    ) -> None:
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
            raise ValueError("DataLoader: timeout needs worker processes; a thread cannot be ended from outside")
        if prefetch_factor is not None and prefetch_factor < 1:
            raise ValueError(f"DataLoader: prefetch_factor must be positive, got {prefetch_factor}")
        if iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError("DataLoader: an IterableDataset has its own order: no shuffle, sampler or batch_sampler")
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: sampler excludes shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError("DataLoader: batch_sampler excludes batch_size, shuffle, sampler and drop_last")
        if batch_size is None and drop_last:
            raise ValueError("DataLoader: drop_last needs a batch_size")
        if generator is not None:
            numpy_generator(generator)  # refuses what is none
        if sampler is None and not iterable:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is not None:
            # Checks the arguments for an iterable data set too, whose batches have no indices.
            batch_sampler = BatchSampler(() if sampler is None else sampler, batch_size, drop_last)

        self.dataset = dataset
        self.batch_size = batch_size
        self.sampler = sampler
        self.batch_sampler = None if iterable else batch_sampler
        self.num_workers = num_workers
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)
        self.pin_memory = pin_memory
        self.drop_last = drop_last
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = (prefetch_factor or 2) if num_workers else None
        self.persistent_workers = persistent_workers

        self._fetch: Fetcher
        if iterable:
            self._fetch = IterableFetcher(dataset, self.collate_fn, batch_size, drop_last)
        else:
            stacks = self.collate_fn is default_collate
            self._fetch = MapFetcher(dataset, self.collate_fn, batch_sampler is not None, stacks)
        self._pool: WorkerPool | None = None
        self._pool_closer: weakref.finalize[Any, Any]
        self._epoch = 0
        # The position: batches handed out in the epoch in progress, and the generators' states when it began.
        self._batches_given = 0
        self._epoch_start: list[dict[str, Any]] | None = None
        self._resumes = False

    def __len__(self) -> int:
        """The number of batches in an epoch; TypeError where the data set or sampler has no length."""
        if not isinstance(self.dataset, IterableDataset):
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)  # type: ignore[arg-type]
        size = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return size
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)

    def __iter__(self) -> Iterator[T_co]:
        if watchers and modes.tracer is not None:
            modes.tracer.breaks("a DataLoader is iterated")
        self._epoch += 1
        epoch = self._epoch
        resumes, self._resumes = self._resumes, False
        skip = self._batches_given if resumes else 0
        generators = self._generators()
        now = [generator_state(generator) for generator in generators]
        if resumes and self._epoch_start is not None:
            _set_states(generators, self._epoch_start)
        self._epoch_start = [generator_state(generator) for generator in generators]
        self._batches_given = skip

        seed = int(numpy_generator(self.generator).integers(2**63))
        tasks: Iterator[Task] = self._tasks(epoch, seed)
        if resumes:
            if self._has_indices:
                # One task more than is skipped, so that the sampler has drawn before the generators move on.
                first = list(itertools.islice(tasks, skip + 1))
                if len(first) < skip:
                    raise RuntimeError(f"DataLoader: cannot resume after {skip} batches, the epoch has {len(first)}")
                tasks = itertools.chain(first[skip:], tasks)
            _set_states(generators, now)
        batches = self._ahead(tasks, seed) if self.num_workers else self._in_turn(tasks)
        try:
            if not self._has_indices:
                # A stream has no indices to skip: it is read again up to the position.
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

    def state_dict(self) -> dict[str, Any]:
        """The position in the epoch and the generators' states, in plain Python values.

        Taken in the loop, it counts the batch in hand as done. A loader of the same data and arguments that loads
        it goes on with the next batch, and draws the same orders for the epochs that follow.
        """
        return {
            "batches_given": self._batches_given,
            "epoch_start": self._epoch_start,
            "generators": [generator_state(generator) for generator in self._generators()],
            "batches_in_epoch": self._length(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Puts the loader, and the generators it draws from, where ``state_dict`` found them.

        The next iteration goes on inside the saved epoch; the one after it begins a new epoch. ValueError where the
        state is of a loader with another number of batches or generators, or is none.
        """
        generators = self._generators()
        if state["batches_in_epoch"] != self._length():
            raise ValueError(
                f"DataLoader: the state is of a loader with {state['batches_in_epoch']} batches in an epoch; "
                f"this one has {self._length()}"
            )
        if len(state["generators"]) != len(generators):
            raise ValueError(
                f"DataLoader: the state holds {len(state['generators'])} generators, this loader has {len(generators)}"
            )
        given, start = state["batches_given"], state["epoch_start"]
        most = self._length() if self._has_indices else None  # workers of a stream may give a batch more
        if not isinstance(given, int) or given < 0 or most is not None and given > most:
            raise ValueError(f"DataLoader: the state is after {given!r:.80} batches of {self._length()}")
        if start is not None:
            if not isinstance(start, list) or len(start) != len(generators):
                raise ValueError(f"DataLoader: the state's epoch_start is not of {len(generators)} generators")
            _set_states(generators, start)  # refuses what is no state, now and not when the loader is iterated
        _set_states(generators, state["generators"])
        self._batches_given, self._epoch_start, self._resumes = given, start, start is not None

    @property
    def _has_indices(self) -> bool:
        return self.sampler is not None or self.batch_sampler is not None

    def _length(self) -> int | None:
        try:
            return len(self)
        except TypeError:
            return None

    def _generators(self) -> list[np.random.Generator]:
        """Every generator that this loader and its samplers draw from, once."""
        holders: list[Any] = [self, self.batch_sampler, getattr(self.batch_sampler, "sampler", None), self.sampler]
        found = [numpy_generator(holder.generator) for holder in holders if hasattr(holder, "generator")]
        return list({id(generator): generator for generator in found}.values())

    def _tasks(self, epoch: int, seed: int) -> Iterator[Task]:
        indices = self.sampler if self.batch_sampler is None else self.batch_sampler
        for number, batch in enumerate(itertools.repeat(None) if indices is None else indices):
            yield Task(epoch, number, seed, batch)

    def _in_turn(self, tasks: Iterator[Task]) -> Generator[Any, None, None]:
        for task in tasks:
            batch = load(self._fetch, task)
            if batch is Signal.EXHAUSTED:
                return
            yield batch

    def _ahead(self, tasks: Iterator[Task], seed: int) -> Generator[Any, None, None]:
        pool = self._pool or WorkerPool(
            self._fetch, self.num_workers, seed, self.dataset, self.worker_init_fn, self.multiprocessing_context
        )
        if self.persistent_workers and self._pool is None:
            self._pool = pool
            self._pool_closer = weakref.finalize(self, pool.close)
        pending: deque[tuple[Task, Future[Any]]] = deque()
        exhausted: set[int] = set()  # the workers that have come to the end of an iterable data set
        try:
            for task in itertools.islice(tasks, self.num_workers * (self.prefetch_factor or 1)):
                pending.append((task, pool.submit(task)))
            while pending and len(exhausted) < self.num_workers:
                task, future = pending.popleft()
                if not wait([future], timeout=self.timeout or None).done:
                    raise RuntimeError(f"DataLoader: no batch came from its worker within {self.timeout} seconds")
                batch = future.result()
                if (following := next(tasks, None)) is not None:
                    pending.append((following, pool.submit(following)))
                if batch is Signal.EXHAUSTED:
                    exhausted.add(task.batch % self.num_workers)
                else:
                    yield batch
        except Exception:
            if pool is self._pool:  # its workers may be dead or stuck: the next epoch starts new ones
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
