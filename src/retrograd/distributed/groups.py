"""Groups of processes: how they are made, who is in them, and how a collective goes its way through one."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from ..core.arrays.devices import NUMPY, Device, backend_of
from .errors import DistBackendError, DistError
from .guard import Call, guard
from .hub import listed
from .launcher import local_rank
from .mpi import MPICarrier, library
from .nccl import NCCLCarrier

DEFAULT_TIMEOUT = timedelta(minutes=30)
_TEXT = 512  # bytes of a call's description, where ranks compare theirs
_SOON, _LONG = 2e-3, 0.5  # seconds of waiting after which a rank sleeps in between, and tells the hub
_BESIDE = 5e-4  # seconds between questions that are asked beside the program

urgent = threading.Event()  # whether the program waits for what is on its way beside it


class ProcessGroup:
    """Ranks that call collectives together.

    Attributes:
        ranks: the members' global ranks; a member's place among them is its rank in the group.
        timeout: seconds that a collective may take.
    """

    def __init__(self, comm: Any, ranks: Sequence[int], timeout: float, backend: str, number: int) -> None:
        self.ranks = list(ranks)
        self.timeout = timeout
        self.backend = backend
        self.number = number
        self._comm = comm
        self._headers = comm.Dup()  # descriptions of calls do not meet their data
        self._host = MPICarrier(comm)
        self._devices: Any = None
        self._mine, self._all = np.zeros(2, np.int64), np.zeros(2, np.int64)
        self._calls = 0

    def rank(self) -> int:
        """This process's rank in the group."""
        return self._comm.rank

    def size(self) -> int:
        """How many ranks there are."""
        return self._comm.size

    def name(self) -> str:
        """The backend's name."""
        return self.backend

    def __repr__(self) -> str:
        return f"<ProcessGroup of {listed(self.ranks)}>"

    def place(self, name: str, rank: int, argument: str) -> int:
        """The place in the group of a global rank.

        Raises:
            ValueError: it is none of the group's.
        """
        try:
            return self.ranks.index(rank)
        except ValueError:
            raise ValueError(f"{name}: {argument}={rank!r} is not one of the group's ranks {self.ranks}") from None

    def carrier(self, array: Any) -> Any:
        """What carries such an array: NCCL where it is CuPy's. NCCL's group is made with the first of them."""
        if backend_of(array) is NUMPY:
            return self._host
        if self._devices is None:
            xp, share = backend_of(array).xp, self._comm.bcast
            self._devices = NCCLCarrier(xp, array.device, self.size(), self.rank(), share)
        return self._devices

    def run(self, text: str, start: Callable[[], Sequence[Any]] | None) -> None:
        """Make a call: agree on it with all ranks, start it, and wait until its requests are done.

        Args:
            text: what must be equal on all ranks, as the user would read it.
            start: starts it, once all ranks are known to make the same call.

        Raises:
            DistError: the ranks differ in what they call.
        """
        self._calls += 1
        outer = guard.current
        call = guard.current = Call(text, f"{self.number}:{self._calls}", self.ranks)
        try:
            digest = zlib.crc32(text.encode())
            self._mine[:] = digest, -digest
            header = self._headers.Iallreduce(self._mine, self._all, library().MAX)
            wait_for(header, call, self.timeout)
            if self._all[0] != -self._all[1]:
                raise DistError(self._difference(call))
            if start is not None:
                for request in start():
                    wait_for(request, call, self.timeout)
        finally:
            guard.current = outer
        guard.last = text

    def _difference(self, call: Call) -> str:
        """Which ranks differ from which others, and how."""
        mine = np.zeros(_TEXT, np.uint8)
        text = call.text.encode()[:_TEXT]
        mine[: len(text)] = list(text)
        everyone = np.empty((self.size(), _TEXT), np.uint8)
        wait_for(self._headers.Iallgather(mine, everyone), call, self.timeout)
        found: dict[str, list[int]] = {}
        for rank, row in zip(self.ranks, everyone, strict=True):
            found.setdefault(bytes(row).rstrip(b"\0").decode(errors="replace"), []).append(rank)
        # The few are named first: they are more likely to be wrong.
        parts = sorted(found.items(), key=lambda item: (len(item[1]), -item[1][0]))
        told = [f"{listed(ranks)} call{'s' * (len(ranks) == 1)} {text}" for text, ranks in parts[:4]]
        return "the ranks differ: " + ", ".join(told) + (", ..." if len(parts) > 4 else "")


def wait_for(request: Any, call: Call, timeout: float) -> None:
    """Ask until the request is done: without a pause at first, then sleeping in between; beside the program, which
    wants the interpreter, seldom, until it waits itself.

    Raises:
        DistError: it was not done in time, and there is no hub to end the job.
        DistBackendError: MPI says that it failed.
    """
    try:
        at_once = threading.current_thread() is threading.main_thread() or urgent.is_set()
        for _ in range(100 if at_once else 1):
            if request.Test():
                return
        began, told = time.monotonic(), False
        while not request.Test():
            if not at_once and urgent.wait(_BESIDE):
                at_once, began = True, time.monotonic()
            waited = time.monotonic() - began
            if waited > timeout:
                guard.late(call, timeout)
            if waited > _LONG and not told:
                told = True
                guard.waits(call)
            if at_once:
                time.sleep(0 if waited < _SOON else min(1e-3, waited / 20))
        if told:
            guard.goes_on()
    except library().Exception as error:
        raise DistBackendError(f"{call.text}: MPI: {error}") from None


class _NonMember:
    """What ``new_group`` gives a rank that is not in the group: collectives on it do nothing."""

    def __repr__(self) -> str:
        return "<not a member of this group>"


class GroupMember:
    """``WORLD`` is the group of all ranks; ``NON_GROUP_MEMBER`` stands for a group that this rank is not in."""

    NON_GROUP_MEMBER = _NonMember()
    WORLD: ProcessGroup | None = None


def is_initialized() -> bool:
    """Whether ``init_process_group`` was called, and ``destroy_process_group`` not since."""
    return GroupMember.WORLD is not None


def world_group() -> ProcessGroup:
    """The group of all ranks.

    Raises:
        ValueError: ``init_process_group`` was not called.
    """
    if GroupMember.WORLD is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return GroupMember.WORLD


def group_of(group: Any) -> ProcessGroup | None:
    """The group that is meant: None is that of all ranks; the result is None for a group that this rank is not in."""
    if group is None:
        return world_group()
    if isinstance(group, _NonMember):
        return None
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"group must be a ProcessGroup or None, got {type(group).__name__}")
    world_group()
    return group


def get_rank(group: Any = None) -> int:
    """This process's rank in the group, -1 where it is not in it.

    Raises:
        ValueError: ``init_process_group`` was not called.
    """
    found = group_of(group)
    return -1 if found is None else found.rank()


def get_world_size(group: Any = None) -> int:
    """How many ranks the group has, -1 where this process is not in it.

    Raises:
        ValueError: ``init_process_group`` was not called.
    """
    found = group_of(group)
    return -1 if found is None else found.size()


def get_backend(group: Any = None) -> str:
    """The backend's name, as ``init_process_group`` was given it."""
    found = group_of(group)
    return "undefined" if found is None else found.backend


def get_default_backend_for_device(device: Any) -> str:
    """PyTorch's name of the backend for a device: ``gloo``, on GPUs ``nccl``; both are taken for ``mpi`` here."""
    return "nccl" if Device(device or "cpu").type == "cuda" else "gloo"


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The global ranks of the group's members, by their rank in the group."""
    found = group_of(group)
    return [] if found is None else list(found.ranks)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The rank in the group of a global rank."""
    return group.place("get_group_rank", global_rank, "global_rank")


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The global rank of a rank in the group."""
    if not 0 <= group_rank < group.size():
        raise ValueError(f"get_global_rank: group_rank={group_rank} of a group of {group.size()}")
    return group.ranks[group_rank]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's number among those on its machine."""
    found = local_rank()
    if found is None and fallback_rank is None:
        raise RuntimeError("get_node_local_rank: LOCAL_RANK is not in the environment; pass fallback_rank")
    return int(fallback_rank or 0) if found is None else found


def seconds_of(name: str, timeout: timedelta | float | None) -> float:
    if timeout is None:
        timeout = DEFAULT_TIMEOUT
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    if not seconds > 0:
        raise ValueError(f"{name}: timeout must be positive, got {timeout!r}")
    return seconds
