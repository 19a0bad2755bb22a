"""``multiprocessing``: Python's, with ``spawn`` and names of how Tensors are shared.

Tensors are sent to other processes by copy, but those of ``share_memory_()`` lie in memory that forked processes share.
"""

from __future__ import annotations

import multiprocessing as _python
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from typing import Any

from ..distributed.launcher import launched

_sharing = ["file_descriptor"]


def get_all_sharing_strategies() -> set[str]:
    """The names of ways to share memory."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """The name that ``set_sharing_strategy`` set."""
    return _sharing[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose a way to share memory; forked processes share it in one way."""
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(
            f"set_sharing_strategy: wanted one of {get_all_sharing_strategies()}, got {new_strategy!r}"
        )
    _sharing[0] = new_strategy


class ProcessRaisedException(Exception):
    """A process of ``spawn`` failed."""


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Run ``fn(number, *args)`` in ``nprocs`` processes; in those that mpiexec has started, where it has.

    Returns:
        None after all have ended, or the list of processes with ``join=False``.

    Raises:
        ProcessRaisedException: one of them failed.
        RuntimeError: mpiexec has started another number of processes.
    """
    rank, size = launched()
    if size > 1:  # the processes are there already, and this is one of them
        if nprocs != size:
            raise RuntimeError(
                f"spawn: nprocs is {nprocs}, and mpiexec has started {size} processes; write mpiexec -n {nprocs}, and "
                "have the program take the number of processes from distributed.get_world_size()"
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
