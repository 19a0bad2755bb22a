"""Load batches in the calling thread, in worker threads, or in worker processes.

Every worker is a queue served by one thread of this process: a thread worker loads the batch itself, a process worker
sends the task to its process and waits for the batch. Order, errors and closing are therefore the same for both.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import pickle
import random
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from .dataset import samples_at, tensor_batch

SECONDS_TO_FINISH_A_BATCH = 5.0


class Signal(Enum):
    """A worker's answer instead of a batch. (Members keep their identity when pickled.)"""

    EXHAUSTED = "the worker's part of an iterable data set has come to its end"


@dataclass(frozen=True)
class Task:
    """One batch to load: the ``batch``-th of an epoch, from ``indices`` or, for an IterableDataset, the next batch."""

    epoch: int
    batch: int
    seed: int
    indices: Any = None


@dataclass(frozen=True)
class WorkerInfo:
    """Identity of a worker: ``id`` among ``num_workers``, its own ``seed``, and its (copy of the) data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_thread_state = threading.local()


def get_worker_info() -> WorkerInfo | None:
    """Return the ``WorkerInfo`` of the calling DataLoader worker; None outside of workers."""
    return getattr(_thread_state, "info", None)


def batch_generator() -> np.random.Generator:
    """Return a generator for random augmentation in a data set or ``collate_fn``, seeded for each batch.

    The seed depends only on the epoch's seed and the batch's number, so augmented batches are the same for any number
    of workers and in a resumed run. Outside of a DataLoader the call raises RuntimeError.
    """
    generator = getattr(_thread_state, "generator", None)
    if generator is None:
        task: Task | None = getattr(_thread_state, "task", None)
        if task is None:
            raise RuntimeError(
                "batch_generator: call it inside a data set or collate_fn while a DataLoader loads a batch"
            )
        generator = _thread_state.generator = np.random.default_rng([task.seed, task.batch])
    return generator


class MapFetcher:
    """Load the samples at a task's indices; without batching (``batched=False``) the sample at one index."""

    def __init__(self, dataset: Any, collate_fn: Callable[[Any], object], batched: bool, stacks: bool) -> None:
        self.dataset = dataset
        self.collate_fn = collate_fn
        self.batched = batched
        self.stacks = stacks  # collate_fn is default_collate, so a batch may be gathered by indexing

    def __call__(self, task: Task) -> Any:
        if not self.batched:
            return self.collate_fn(self.dataset[task.indices])
        if self.stacks and (batch := tensor_batch(self.dataset, task.indices)) is not None:
            return batch
        return self.collate_fn(samples_at(self.dataset, task.indices))


class IterableFetcher:
    """Load the next samples of this worker's iterator over the data set; a new epoch starts a new iterator."""

    def __init__(
        self, dataset: Any, collate_fn: Callable[[Any], object], batch_size: int | None, drop_last: bool
    ) -> None:
        self.dataset = dataset
        self.collate_fn = collate_fn
        self.batch_size = batch_size
        self.drop_last = drop_last
        # Each worker thread has its own iterator; each worker process has its own copy of this object.
        self._iteration = threading.local()

    def __call__(self, task: Task) -> Any:
        samples = self._samples(task.epoch)
        batch = list(itertools.islice(samples, self.batch_size or 1))
        if not batch or (self.drop_last and len(batch) < (self.batch_size or 1)):
            self._iteration.samples = iter(())
            return Signal.EXHAUSTED
        return self.collate_fn(batch if self.batch_size else batch[0])

    def _samples(self, epoch: int) -> Iterator[object]:
        current = getattr(self._iteration, "epoch", None)
        if current is None or current < epoch:
            self._iteration.epoch = epoch
            self._iteration.samples = iter(self.dataset)
        elif current > epoch:
            raise RuntimeError(
                "DataLoader: a later iteration over the same persistent workers has ended this iteration"
            )
        return self._iteration.samples

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "_iteration"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state, _iteration=threading.local())


Fetcher = Callable[[Task], Any]


def load(fetch: Fetcher, task: Task) -> Any:
    """Return the batch of ``task``, with ``batch_generator`` set to the batch's generator."""
    outer = getattr(_thread_state, "task", None), getattr(_thread_state, "generator", None)
    _thread_state.task, _thread_state.generator = task, None
    try:
        return fetch(task)
    finally:
        _thread_state.task, _thread_state.generator = outer


class ThreadWorker:
    """A worker whose thread loads the batches."""

    def __init__(self, fetch: Fetcher, info: WorkerInfo, init_fn: Callable[[int], None] | None) -> None:
        self.info = info
        self._fetch = fetch
        self._init_fn = init_fn
        self._started = False
        self._thread = ThreadPoolExecutor(1, f"DataLoader-worker-{info.id}")

    def submit(self, task: Task) -> Future[Any]:
        return self._thread.submit(self._load, task)

    def _load(self, task: Task) -> Any:
        try:
            if not self._started:
                _thread_state.info = self.info
                if self._init_fn is not None:
                    self._init_fn(self.info.id)
                self._started = True
            return load(self._fetch, task)
        except Exception as error:
            error.add_note(f"Raised in DataLoader worker thread {self.info.id}.")
            raise

    def stop(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        self._thread.shutdown(wait=True)


class ProcessWorker:
    """A worker whose thread sends the tasks to a process."""

    def __init__(
        self,
        fetch: Fetcher,
        info: WorkerInfo,
        init_fn: Callable[[int], None] | None,
        context: BaseContext,
        siblings: list[ProcessWorker],
    ) -> None:
        self.info = info
        self._owner = os.getpid()
        self._connection, theirs = context.Pipe()
        # A forked process inherits this process's ends of the pipes. It must close them; otherwise its own pipe stays
        # open, and it waits forever, after this process has ended.
        forked = context.get_start_method() == "fork"
        inherited = [worker._connection for worker in siblings] + [self._connection] if forked else []
        self._process = context.Process(  # type: ignore[attr-defined]
            target=_serve, args=(theirs, inherited, fetch, info, init_fn), name=f"DataLoader-{info.id}", daemon=True
        )
        with warnings.catch_warnings():
            # Python 3.12 warns about a fork in a multithreaded process. BLAS libraries support a fork, and our own
            # threads start after it.
            warnings.filterwarnings("ignore", "(?s).*fork", DeprecationWarning)
            self._process.start()
        theirs.close()
        self._thread = ThreadPoolExecutor(1, f"DataLoader-proxy-{info.id}")

    def submit(self, task: Task) -> Future[Any]:
        return self._thread.submit(self._exchange, task)

    def _exchange(self, task: Task) -> Any:
        try:
            self._connection.send(task)
            done, answer = self._connection.recv()
        except (EOFError, OSError) as error:
            self._process.join(1.0)
            raise RuntimeError(
                f"DataLoader worker process {self.info.id} (pid {self._process.pid}) ended unexpectedly with "
                f"exit code {self._process.exitcode}"
            ) from error
        if not done:
            raise answer
        return answer

    def stop(self) -> None:
        if os.getpid() != self._owner:
            return
        try:
            self._thread.submit(self._send_stop)  # after the batch in progress, if any
        except RuntimeError:  # the interpreter is exiting and has ended the thread
            self._send_stop()
        self._thread.shutdown(wait=False)

    def _send_stop(self) -> None:
        with contextlib.suppress(OSError):  # the process has already ended
            self._connection.send(None)

    def join(self) -> None:
        if os.getpid() != self._owner:
            return
        self._process.join(SECONDS_TO_FINISH_A_BATCH)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()
        self._thread.shutdown(wait=True)
        self._connection.close()
        self._process.close()


def _serve(
    connection: Connection,
    inherited: list[Connection],
    fetch: Fetcher,
    info: WorkerInfo,
    init_fn: Callable[[int], None] | None,
) -> None:
    """Run a worker process: answer tasks with (True, batch) or (False, exception) until it receives a stop request."""
    for other in inherited:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the main process handles it
    _thread_state.info = info
    started = init_fn is None
    while True:
        try:
            task = connection.recv()
            if task is None:
                return
        except (EOFError, OSError):
            return
        try:
            if not started and init_fn is not None:
                _seed_global_generators(info.seed)  # programs seed their own generators with ``initial_seed()``
                init_fn(info.id)
                started = True
            # Forked workers start with equal global generators and would draw equal augmentations. Random numbers must
            # depend only on the batch, not on the worker that loads the batch.
            _seed_global_generators(int(np.random.SeedSequence([task.seed, task.batch]).generate_state(1)[0]))
            answer = ForkingPickler.dumps((True, load(fetch, task)))
        except Exception as error:
            answer = ForkingPickler.dumps((False, _picklable(error, info)))
        try:
            connection.send_bytes(answer)
        except OSError:
            return


def _seed_global_generators(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 (users' data sets draw from it)
    manual_seed = getattr(sys.modules.get("retrograd"), "manual_seed", None)
    if manual_seed is not None:
        manual_seed(seed)


def _picklable(error: Exception, info: WorkerInfo) -> Exception:
    """Return ``error`` with the worker's traceback as a note; a RuntimeError if ``error`` cannot be pickled."""
    text = "".join(traceback.format_exception(error)).rstrip()
    note = f"Raised in DataLoader worker process {info.id}. Original traceback:\n{text}"
    error.add_note(note)
    try:
        copy = pickle.loads(pickle.dumps(error))
        if type(copy) is type(error) and str(copy) == str(error):
            return error
    except Exception:  # a user's exception may raise anything when pickled
        pass
    return RuntimeError(f"{type(error).__name__}: {error}\n{note}")


class WorkerPool:
    """``num_workers`` workers, each with its own first-in, first-out queue of tasks."""

    workers: list[ThreadWorker] | list[ProcessWorker]

    def __init__(
        self,
        fetch: Fetcher,
        num_workers: int,
        seed: int,
        dataset: Any,
        init_fn: Callable[[int], None] | None,
        context: str | BaseContext | None,
    ) -> None:
        infos = [WorkerInfo(i, num_workers, seed + i, dataset) for i in range(num_workers)]
        if context == "thread":
            self.workers = [ThreadWorker(fetch, info, init_fn) for info in infos]
            return
        if not isinstance(context, BaseContext):
            context = multiprocessing.get_context(context)
        # Fork all processes before the first task starts a thread in this process.
        processes: list[ProcessWorker] = []
        self.workers = processes
        try:
            for info in infos:
                processes.append(ProcessWorker(fetch, info, init_fn, context, processes))
        except BaseException:
            self.close()
            raise

    def submit(self, task: Task) -> Future[Any]:
        """Submit ``task`` to worker ``task.batch % num_workers`` and return the future batch."""
        return self.workers[task.batch % len(self.workers)].submit(task)

    def close(self) -> None:
        """Stop the workers and wait for them to end; their pending tasks must have been cancelled."""
        for worker in self.workers:
            worker.stop()
        for worker in self.workers:
            worker.join()
