"""``multiprocessing``, and a context manager of ``distributed.tensor``.

Tensors are sent to other processes by copy; Tensors of ``share_memory_()`` are in memory that forked processes share.
"""

from __future__ import annotations

import multiprocessing as _python
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from multiprocessing.process import BaseProcess
from typing import Any

from ...distributed.launcher import launched

# ``distributed.tensor``: programs test whether a Tensor is a DTensor, and none is; ``compat.absent`` has the names


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


class ProcessRaisedException(Exception):
    """A process of ``spawn`` failed."""


def spawn(
    fn: Callable[..., object],
    args: tuple[object, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> list[BaseProcess] | None:
    """Run ``fn(rank, *args)`` in ``nprocs`` processes: in new ones, or in those that mpiexec has started.

    Returns:
        None after all processes have ended; with ``join=False`` the list of processes.

    Raises:
        ProcessRaisedException: a process failed.
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
    context: Any = _python.get_context(start_method)
    processes = [context.Process(target=fn, args=(number, *args), daemon=daemon) for number in range(nprocs)]
    for process in processes:
        process.start()
    if not join:
        return processes
    for process in processes:
        process.join()
    failed = [
        f"{number} (exit code {process.exitcode})" for number, process in enumerate(processes) if process.exitcode
    ]
    if failed:
        raise ProcessRaisedException(f"spawn: process {', '.join(failed)} failed")
    return None


_OWN = (
    ProcessRaisedException, get_all_sharing_strategies, get_sharing_strategy, set_sharing_strategy, spawn,
)  # fmt: skip
NAMES: Mapping[str, str | Mapping[str, object]] = {
    "multiprocessing": {
        **{name: getattr(_python, name) for name in _python.__all__},
        **{own.__name__: own for own in _OWN},
    },
    "tensor": "implicit_replication",
}
