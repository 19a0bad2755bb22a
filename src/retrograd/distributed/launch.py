"""Create and destroy process groups."""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Sequence
from datetime import timedelta
from multiprocessing import parent_process
from typing import Any

import numpy as np

from ..core.arrays.devices import is_cuda_available
from ..ops.table.documentation import like
from .groups import GroupMember, ProcessGroup, seconds_of, wait_for, world_group
from .guard import Call, guard, start_hub
from .launcher import integer_of, launched
from .mpi import OneProcess, library
from .work import communicator

BACKENDS = ("mpi", "gloo", "nccl")

_group_numbers = itertools.count()


def is_available() -> bool:
    """Whether process groups can be created: True. More than one process needs MPI; see ``is_mpi_available``."""
    return True


def is_mpi_available() -> bool:
    """Whether mpi4py is installed, which groups of several processes need."""
    return importlib.util.find_spec("mpi4py") is not None


def is_gloo_available() -> bool:
    """Whether the backend ``"gloo"``, an alias of ``"mpi"``, can be used: True; see ``is_available``."""
    return is_available()


def is_nccl_available() -> bool:
    """Whether mpi4py is installed and CuPy finds a GPU."""
    return is_mpi_available() and is_cuda_available()


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process: always False."""
    return False


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | float | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: object = None,
    group_name: str = "",
    pg_options: object = None,
    device_id: object = None,
) -> None:
    """Create the default process group. All processes that ``mpiexec`` started must call it.

    A program that runs as one process needs neither ``mpiexec`` nor MPI. After the call, if one of several ranks dies,
    raises an uncaught error, exits before the others, or does not reach a collective within the timeout, the whole job
    ends with one line that names the rank and the reason.

    Args:
        backend: ``"mpi"``. PyTorch's ``"gloo"``, ``"nccl"`` and ``"cpu:gloo,cuda:nccl"`` are aliases: NumPy arrays
            are sent by MPI, CuPy arrays by NCCL.
        timeout: the time limit of a collective, a timedelta or seconds; 30 minutes by default.
        world_size, rank: the expected values, which must equal the launcher's values.
        init_method, store, group_name, pg_options, device_id: ignored; for compatibility.

    Raises:
        ImportError: the job has several processes, and mpi4py is not installed (extra ``mpi``).
        RuntimeError: the default group exists already, or the launcher's number of processes or rank is not the
            expected one.
        ValueError: ``backend`` is unknown or ``timeout`` is not positive.

    >>> import retrograd.distributed as dist
    >>> dist.is_initialized()
    False
    """
    name = "mpi" if backend is None else str(backend).lower()
    kinds = {part.rpartition(":")[2] for part in name.split(",")}
    if not kinds <= set(BACKENDS):
        raise ValueError(f"init_process_group: backend must be mpi (or gloo, nccl), got {backend!r}")
    if GroupMember.WORLD is not None:
        raise RuntimeError("init_process_group: trying to initialize the default process group twice!")
    seconds = seconds_of("init_process_group", timeout)
    if launched()[1] > 1 and parent_process() is not None:
        raise RuntimeError(
            "init_process_group: this process was started by the program, not by mpiexec; call init_process_group in "
            "each process that mpiexec has started, and start no others"
        )
    expected = _expected(world_size, "WORLD_SIZE"), _expected(rank, "RANK")
    world = _world(expected[0])
    if expected[0] not in (-1, world.size):
        raise RuntimeError(
            f"init_process_group: the program expects {expected[0]} processes, and there {_are(world.size)}; start it "
            f"with: mpiexec -n {expected[0]} retrograd run program.py"
        )
    if expected[1] not in (-1, world.rank):
        raise RuntimeError(
            f"init_process_group: the program expects rank {expected[1]}, this process has rank {world.rank} of "
            f"{world.size}"
        )
    group = ProcessGroup(world, range(world.size), seconds, name if backend else "mpi", next(_group_numbers))
    if world.size > 1:
        address = np.zeros(512, np.uint8)
        if world.rank == 0:
            text = " ".join(map(str, start_hub(world.size))).encode()
            address[: len(text)] = list(text)
        call = Call("init_process_group", "start", group.ranks)
        wait_for(world.Ibcast(address, 0), call, seconds)
        host, port, token = bytes(address).rstrip(b"\0").decode().split()
        guard.open((host, int(port)), world.rank, token)
    GroupMember.WORLD = group


def _world(expected: int) -> Any:
    """Return the communicator of all processes. One process needs no MPI."""
    try:
        return library().COMM_WORLD.Dup()
    except ImportError as error:
        count = max(expected, launched()[1])
        if count > 1:
            raise ImportError(
                f"init_process_group: {count} processes need MPI: pip install 'retrograd[mpi]', and start the program "
                f"with: mpiexec -n {count} retrograd run program.py ({error.__cause__})"
            ) from None
        return OneProcess()


def _expected(given: int, variable: str) -> int:
    """Return the expected world size or rank: the argument, else the environment variable, else -1."""
    if given != -1:
        return int(given)
    return integer_of(variable) if variable in os.environ else -1


def _are(count: int) -> str:
    return "is 1" if count == 1 else f"are {count}"


@like(world_group, raises="ValueError")
def destroy_process_group(group: object = None) -> None:
    """Destroy a process group, the default one if None; the last call of a distributed program."""
    if group is not None and group is not GroupMember.WORLD:
        return
    world = world_group()
    communicator.finish()
    GroupMember.WORLD = None
    world.run("destroy_process_group()", None)
    guard.close()


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | float | None = None,
    backend: str | None = None,
    pg_options: object = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: object = None,
) -> Any:
    """Create a group of some ranks. All ranks must call it in the same order, members or not.

    Args:
        ranks: the members' global ranks, all by default; they are sorted, as in PyTorch.
        timeout: the time limit of the group's collectives; by default the time limit of the default group.
        backend, pg_options, use_local_synchronization, group_desc, device_id: ignored; for compatibility.

    Returns:
        The group, or ``GroupMember.NON_GROUP_MEMBER`` on ranks that are not in it.

    Raises:
        ValueError: a rank is out of range or repeated.
    """
    world = world_group()
    members = sorted(range(world.size()) if ranks is None else ranks)
    if len(set(members)) != len(members) or any(not 0 <= rank < world.size() for rank in members):
        raise ValueError(f"new_group: ranks must be distinct and in range({world.size()}), got {list(ranks or ())}")
    seconds = world.timeout if timeout is None else seconds_of("new_group", timeout)
    world.run(f"new_group({members})", None)
    number = next(_group_numbers)
    inside = world.rank() in members
    outside = library().UNDEFINED if world.size() > 1 else 1
    comm = world._comm.Split(0 if inside else outside, world.rank())
    if not inside:
        return GroupMember.NON_GROUP_MEMBER
    return ProcessGroup(comm, members, seconds, backend or world.backend, number)
