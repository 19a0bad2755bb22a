"""Process groups: their members, and how a group runs a collective."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeAlias

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import NUMPY, Device, backend_of
from ..ops.table.documentation import like
from .errors import DistBackendError, DistError
from .guard import Call, guard
from .hub import listed
from .launcher import local_rank
from .mpi import MPITransport, OneProcessTransport, Request, library
from .nccl import NCCLTransport

DEFAULT_TIMEOUT = timedelta(minutes=30)
_TEXT = 512  # bytes of a call's description that ranks compare
_SPIN_SECONDS = 2e-3  # a rank polls for this long without sleeping
_REPORT_SECONDS = 0.5  # a rank informs the hub after it has waited for this long
_BACKGROUND_POLL_SECONDS = 5e-4  # the pause between polls on the communicator's thread

urgent = threading.Event()  # set while the program waits for the communicator's thread

Transport: TypeAlias = MPITransport | OneProcessTransport | NCCLTransport


class ProcessGroup:
    """Ranks that call collectives together.

    Attributes:
        ranks: the members' global ranks, in the order of their ranks in the group.
        timeout: seconds that a collective may take.
    """

    def __init__(self, comm: Any, ranks: Sequence[int], timeout: float, backend: str, number: int) -> None:
        self.ranks = list(ranks)
        self.timeout = timeout
        self.backend = backend
        self.number = number
        self._comm = comm
        self._headers = comm.Dup()  # a separate communicator for the descriptions of calls
        self._host: Transport = MPITransport(comm) if comm.size > 1 else OneProcessTransport()
        self._devices: NCCLTransport | None = None
        self._mine, self._all = np.zeros(2, np.int64), np.zeros(2, np.int64)
        self._calls = 0

    def rank(self) -> int:
        """This process's rank in the group."""
        return self._comm.rank

    def size(self) -> int:
        """The number of ranks."""
        return self._comm.size

    def name(self) -> str:
        """The backend's name."""
        return self.backend

    def __repr__(self) -> str:
        return f"<ProcessGroup of {listed(self.ranks)}>"

    def group_rank_of(self, name: str, rank: int, argument: str) -> int:
        """Return the group rank of a global rank.

        Raises:
            ValueError: ``rank`` is not in the group.
        """
        try:
            return self.ranks.index(rank)
        except ValueError:
            raise ValueError(
                f"{name}: {argument} must be one of the group's ranks {self.ranks}, got {rank!r}"
            ) from None

    def transport(self, array: Array) -> Any:
        """Return the transport for an array: NCCL (created at first use) for CuPy arrays of several ranks, else MPI."""
        if backend_of(array) is NUMPY or self.size() == 1:
            return self._host
        if self._devices is None:
            xp, share = backend_of(array).xp, self._comm.bcast
            self._devices = NCCLTransport(xp, array.device, self.size(), self.rank(), share)
        return self._devices

    def run(self, text: str, start: Callable[[], Sequence[Request]] | None) -> None:
        """Agree on a call with all ranks, start it, and wait until its requests are done.

        Args:
            text: the call as shown to the user; must be equal on all ranks.
            start: starts the call and returns its requests.

        Raises:
            DistError: the ranks make different calls.
        """
        self._calls += 1
        outer = guard.current
        call = guard.current = Call(text, f"{self.number}:{self._calls}", self.ranks)
        try:
            if self.size() > 1:
                self._compare(call)
            if start is not None:
                for request in start():
                    wait_for(request, call, self.timeout)
        finally:
            guard.current = outer
        guard.last = text

    def _compare(self, call: Call) -> None:
        digest = zlib.crc32(call.text.encode())
        self._mine[:] = digest, -digest
        header = self._headers.Iallreduce(self._mine, self._all, library().MAX)
        wait_for(header, call, self.timeout)
        if self._all[0] != -self._all[1]:
            raise DistError(self._difference(call))

    def _difference(self, call: Call) -> str:
        """Describe which ranks make which calls."""
        mine = np.zeros(_TEXT, np.uint8)
        text = call.text.encode()[:_TEXT]
        mine[: len(text)] = list(text)
        descriptions = np.empty((self.size(), _TEXT), np.uint8)
        wait_for(self._headers.Iallgather(mine, descriptions), call, self.timeout)
        found: dict[str, list[int]] = {}
        for rank, row in zip(self.ranks, descriptions, strict=True):
            found.setdefault(bytes(row).rstrip(b"\0").decode(errors="replace"), []).append(rank)
        # List calls of few ranks first, because these are more likely to be the wrong calls.
        parts = sorted(found.items(), key=lambda item: (len(item[1]), -item[1][0]))
        calls = [f"{listed(ranks)} call{'s' * (len(ranks) == 1)} {text}" for text, ranks in parts[:4]]
        return "the ranks make different calls: " + ", ".join(calls) + (", ..." if len(parts) > 4 else "")


def wait_for(request: Request, call: Call, timeout: float) -> None:
    """Poll a request until it is done.

    The main thread polls at first without a pause, then with growing pauses. The communicator's thread polls rarely, to
    leave the interpreter to the program, until the program waits for the result.

    Raises:
        DistError: the timeout is exceeded and no hub ends the job.
        DistBackendError: MPI reports an error.
    """
    try:
        at_once = threading.current_thread() is threading.main_thread() or urgent.is_set()
        for _ in range(100 if at_once else 1):
            if request.Test():
                return
        began, reported = time.monotonic(), False
        while not request.Test():
            if not at_once and urgent.wait(_BACKGROUND_POLL_SECONDS):
                at_once, began = True, time.monotonic()
            waited = time.monotonic() - began
            if waited > timeout:
                guard.report_timeout(call, timeout)
            if waited > _REPORT_SECONDS and not reported:
                reported = True
                guard.report_wait(call)
            if at_once:
                time.sleep(0 if waited < _SPIN_SECONDS else min(1e-3, waited / 20))
        if reported:
            guard.report_progress()
    except library().Exception as error:
        raise DistBackendError(f"{call.text}: MPI: {error}") from None


class _NonMember:
    """The value of ``new_group`` on ranks outside the group; collectives on it do nothing."""

    def __repr__(self) -> str:
        return "<not a member of this group>"


class GroupMember:
    """``WORLD`` is the group of all ranks; ``NON_GROUP_MEMBER`` is the group on ranks that are not in it."""

    NON_GROUP_MEMBER = _NonMember()
    WORLD: ProcessGroup | None = None


def is_initialized() -> bool:
    """Whether a default process group exists: ``init_process_group`` was called, and not yet destroyed."""
    return GroupMember.WORLD is not None


def world_group() -> ProcessGroup:
    """Return the group of all ranks.

    Raises:
        ValueError: ``init_process_group`` was not called.
    """
    if GroupMember.WORLD is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return GroupMember.WORLD


def group_of(group: object) -> ProcessGroup | None:
    """Return the group, all ranks for None; return None for a group that does not contain this rank."""
    if group is None:
        return world_group()
    if isinstance(group, _NonMember):
        return None
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"group must be a ProcessGroup or None, got {type(group).__name__}")
    world_group()
    return group


@like(world_group, raises="ValueError")
def get_rank(group: object = None) -> int:
    """This process's rank in the group, or -1 if the process is not in it."""
    found = group_of(group)
    return -1 if found is None else found.rank()


@like(world_group, raises="ValueError")
def get_world_size(group: object = None) -> int:
    """The number of ranks in the group, or -1 if this process is not in it."""
    found = group_of(group)
    return -1 if found is None else found.size()


def get_backend(group: object = None) -> str:
    """The name of the backend, as passed to ``init_process_group``."""
    found = group_of(group)
    return "undefined" if found is None else found.backend


def get_default_backend_for_device(device: str | Device | None) -> str:
    """PyTorch's backend for a device: ``"nccl"`` for GPUs, else ``"gloo"``; Retrograd treats both as ``"mpi"``."""
    return "nccl" if Device(device or "cpu").type == "cuda" else "gloo"


def get_process_group_ranks(group: object = None) -> list[int]:
    """The global ranks of the group's members, ordered by rank in the group."""
    found = group_of(group)
    return [] if found is None else list(found.ranks)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Convert a global rank to a rank in the group."""
    return group.group_rank_of("get_group_rank", global_rank, "global_rank")


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Convert a rank in the group to a global rank."""
    if not 0 <= group_rank < group.size():
        raise ValueError(f"get_global_rank: group_rank must be in range({group.size()}), got {group_rank}")
    return group.ranks[group_rank]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's rank among the processes on its machine."""
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
