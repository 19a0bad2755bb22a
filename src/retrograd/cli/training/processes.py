"""`retrograd train` in several processes: rank, share of the batch, and means over all processes."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import retrograd as rg
from retrograd import distributed
from retrograd.data.generator import generator_state, set_generator_state
from retrograd.distributed.launcher import local_size

from ..console import UserError

TIMEOUT = timedelta(minutes=10)


def count() -> int:
    """Return the number of processes."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def leading() -> bool:
    """Return whether this process writes files and prints."""
    return not distributed.is_initialized() or distributed.get_rank() == 0


@contextlib.contextmanager
def joined() -> Iterator[None]:
    """Join the processes started by mpiexec into one group; all but the first print nothing."""
    rank, size = distributed.launched()
    if size == 1:
        yield
        return
    try:
        distributed.init_process_group("mpi", timeout=TIMEOUT)
    except ImportError as error:
        raise UserError(str(error)) from None
    with contextlib.ExitStack() as stack:
        if rank:
            nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
            stack.enter_context(contextlib.redirect_stdout(nowhere))
        yield
        distributed.destroy_process_group()


def threads_of_each() -> int | None:
    """Return the number of cores per process of this machine; None for one process or if OMP_NUM_THREADS is set."""
    local = local_size()
    if local == 1 or "OMP_NUM_THREADS" in os.environ:
        return None
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, cores // local)


def part(length: int) -> slice:
    """Return this process's rows: parts whose sizes differ by at most one."""
    if count() == 1:
        return slice(0, length)
    rank, size = distributed.get_rank(), distributed.get_world_size()
    return slice(length * rank // size, length * (rank + 1) // size)


def mean(figures: Mapping[str, float], number: int) -> tuple[dict[str, float], int]:
    """Return the means over all processes of figures that are means over `number` targets of this process."""
    if count() == 1:
        return dict(figures), number
    sums = rg.tensor([*(value * number for value in figures.values()), number], dtype=rg.float64)
    distributed.all_reduce(sums)
    *totals, total = sums.tolist()
    return {name: value / total for name, value in zip(figures, totals, strict=True)}, int(total)


def added(sums: Mapping[str, float], total: int) -> tuple[dict[str, float], int]:
    """Return the sums over all processes, some of which may have nothing to add."""
    if count() == 1:
        return dict(sums), total
    everyone: list[Any] = [None] * count()
    distributed.all_gather_object(everyone, (dict(sums), total))
    names = next(one for one, _ in everyone if one)
    return {name: sum(one.get(name, 0.0) for one, _ in everyone) for name in names}, sum(n for _, n in everyone)


@contextlib.contextmanager
def own_random() -> Iterator[None]:
    """Let each process draw its own random numbers in the `with` block; outside, all processes draw the same numbers.

    The seeds follow from the shared state, so a checkpoint stores only that state.
    """
    if count() == 1:
        yield
        return
    generator = rg.default_generator
    seed = int(generator.numpy.integers(2**62)) + distributed.get_rank()
    shared = generator_state(generator.numpy)
    generator.manual_seed(seed)
    try:
        yield
    finally:
        set_generator_state(generator.numpy, shared)
