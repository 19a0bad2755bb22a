"""``multiprocessing``, and the names of ``distributed.tensor`` that programs use without distributed Tensors.

Tensors are sent to other processes by copy; Tensors of ``share_memory_()`` are in memory that forked processes share.
"""

from __future__ import annotations

import multiprocessing as _python
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

from ...distributed.launcher import launched

# ``distributed.tensor``: programs test whether a Tensor is a DTensor, and none is; ``compat.absent`` has the names


@dataclass(frozen=True)
class Placement:
    """The placement of a Tensor on one dimension of processes, for programs that describe plans; no Tensor is
    distributed."""

    def is_replicate(self) -> bool:
        """Return whether every process has the whole Tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether the Tensor is a reduction over the processes, by ``reduce_op`` if it is given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether the processes have parts of the Tensor, along ``dim`` if it is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)


@dataclass(frozen=True)
class Replicate(Placement):
    """Every process has the whole Tensor."""


@dataclass(frozen=True)
class Shard(Placement):
    """Each process has a part of the Tensor along a dimension."""

    dim: int


@dataclass(frozen=True)
class _StridedShard(Shard):
    """Each process has several parts of the Tensor along a dimension."""

    split_factor: int = field(kw_only=True)


@dataclass(frozen=True)
class Partial(Placement):
    """The Tensor is the reduction of the processes' Tensors."""

    reduce_op: str = "sum"


def implicit_replication() -> AbstractContextManager[None]:
    """Return a context manager that has no effect: every Tensor is whole."""
    return nullcontext()


# ``multiprocessing``

_sharing_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """Return the names that ``set_sharing_strategy`` accepts."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """Return the last value of ``set_sharing_strategy``."""
    return _sharing_strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Store the name of a strategy. It has no effect: forked processes share memory in one way."""
    global _sharing_strategy
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(
            f"set_sharing_strategy: expected one of {sorted(get_all_sharing_strategies())}, got {new_strategy!r}"
        )
    _sharing_strategy = new_strategy


class ProcessException(Exception):
    """A process of ``start_processes`` failed.

    Args:
        msg: the message.
        error_index: the rank of the process.
        pid: the process id.
    """

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process of ``start_processes`` raised an error, whose traceback is in the message."""


class ProcessExitedException(ProcessException):
    """A process of ``start_processes`` ended with an exit code, or by a signal."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(fn: Callable[..., object], rank: int, args: tuple[object, ...], error_file: str) -> None:
    """Run the function in a process, and write the traceback of its error to a file."""
    try:
        fn(rank, *args)
    except KeyboardInterrupt:
        pass  # the parent process gets a KeyboardInterrupt as well, and raises it
    except Exception:
        Path(error_file).write_text(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """The processes that ``start_processes`` started.

    Args:
        processes: the processes, by rank.
        folder: the temporary folder of their tracebacks.
    """

    def __init__(self, processes: Sequence[BaseProcess], folder: str) -> None:
        self.processes, self._folder = list(processes), folder
        self._remove_folder = finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def pids(self) -> list[int | None]:
        """Return the process ids by rank."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until all processes have ended, or one has failed, which ends the others.

        Args:
            timeout: the maximum number of seconds to wait.
            grace_period: how many seconds the other processes have to end by themselves after a failure.

        Returns:
            Whether all processes have ended.

        Raises:
            ProcessRaisedException: a process raised an error.
            ProcessExitedException: a process ended with another exit code than 0.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while running := [process for process in self.processes if process.is_alive()]:
            if any(process.exitcode for process in self.processes):
                break
            if not wait([process.sentinel for process in running], None if end is None else end - time.monotonic()):
                return False
        failed = [rank for rank, process in enumerate(self.processes) if process.exitcode]
        if failed:
            self._stop(grace_period)
            error = self._error(failed[0])
        self._remove_folder()
        if failed:
            raise error
        return True

    def _stop(self, grace_period: float | None) -> None:
        """End the processes that run: by SIGTERM after the grace period, by SIGKILL 30 seconds later."""
        for seconds, end in ((grace_period, BaseProcess.terminate), (30.0, BaseProcess.kill)):
            limit = time.monotonic() + (seconds or 0)
            for process in self.processes:
                process.join(max(0.0, limit - time.monotonic()))
            for process in self.processes:
                if process.is_alive():
                    end(process)
        for process in self.processes:
            process.join()

    def _error(self, rank: int) -> ProcessException:
        process, file = self.processes[rank], _error_file(self._folder, rank)
        pid, code = process.pid or 0, process.exitcode or 0
        if file.exists():
            text = f"\n\n-- Process {rank} terminated with the following error:\n{file.read_text()}"
            return ProcessRaisedException(text, rank, pid)
        if code > 0:
            return ProcessExitedException(f"process {rank} terminated with exit code {code}", rank, pid, code)
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"<Unknown signal {-code}>"
        return ProcessExitedException(f"process {rank} terminated with signal {name}", rank, pid, code, name)


def _error_file(folder: str, rank: int) -> Path:
    return Path(folder, str(rank))


def start_processes(
    fn: Callable[..., object],
    args: tuple[object, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run ``fn(rank, *args)`` in ``nprocs`` processes: in new ones, or in those that mpiexec has started.

    Returns:
        None after all processes have ended; with ``join=False`` the processes.

    Raises:
        ProcessRaisedException: a process raised an error. The others are ended.
        ProcessExitedException: a process ended with another exit code than 0. The others are ended.
        RuntimeError: mpiexec has started a different number of processes.
    """
    rank, size = launched()
    if size > 1:  # mpiexec started the processes, and this is one of them
        if nprocs != size:
            raise RuntimeError(
                f"spawn: nprocs is {nprocs}, but mpiexec has started {size} processes; run mpiexec -n {nprocs}, and "
                "read the number of processes from distributed.get_world_size()"
            )
        fn(rank, *args)
        return None
    method: Any = _python.get_context(start_method)
    folder = mkdtemp(prefix="retrograd-processes-")
    processes = [
        method.Process(target=_run, args=(fn, number, args, str(_error_file(folder, number))), daemon=daemon)
        for number in range(nprocs)
    ]
    for process in processes:
        process.start()
    context = ProcessContext(processes, folder)
    if not join:
        return context
    context.join()
    return None


def spawn(
    fn: Callable[..., object],
    args: tuple[object, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run ``fn(rank, *args)`` in ``nprocs`` processes; see ``start_processes``."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


_SPAWN = (
    ProcessContext, ProcessException, ProcessExitedException, ProcessRaisedException, spawn, start_processes,
)  # fmt: skip
_OWN = (*_SPAWN, get_all_sharing_strategies, get_sharing_strategy, set_sharing_strategy)
NAMES: Mapping[str, str | Mapping[str, object]] = {
    "multiprocessing": {
        **{name: getattr(_python, name) for name in _python.__all__},
        **{own.__name__: own for own in _OWN},
    },
    "multiprocessing.spawn": {own.__name__: own for own in _SPAWN},
    "placements": {"Partial": Partial, "Placement": Placement, "Replicate": Replicate, "Shard": Shard},
    "strided": {"_StridedShard": _StridedShard},
    "tensor": "implicit_replication",
}
