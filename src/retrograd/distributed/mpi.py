"""Non-blocking collectives on NumPy arrays by MPI (mpi4py), and their equivalents for one process without MPI.

``MPITransport`` and ``NCCLTransport`` have the same methods, which take contiguous arrays and return requests to poll.
"""

from __future__ import annotations

from functools import lru_cache
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from ..core.arrays import Array
from .reduce_ops import ReduceOp


@lru_cache(1)
def library() -> ModuleType:
    """Import and return ``mpi4py.MPI``; the import initializes MPI.

    Raises:
        ImportError: mpi4py or MPI itself is not installed.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: no MPI library found
        raise ImportError(f"retrograd.distributed needs MPI: pip install 'retrograd[mpi]' ({error})") from error
    return MPI


class Request(Protocol):
    """A started call, with the interface of mpi4py's ``Request``."""

    def Test(self) -> bool:
        """Return whether the call is complete."""


class MPITransport:
    """One group's collectives over MPI. Roots are ranks in the group."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.size: int = comm.size

    def all_reduce(self, send: Array, receive: Array, op: ReduceOp) -> list[Request]:
        return [self.comm.Iallreduce(library().IN_PLACE if send is receive else send, receive, _op(op))]

    def reduce(self, send: Array, receive: Array, op: ReduceOp, root: int) -> list[Request]:
        return [self.comm.Ireduce(send, receive if self.comm.rank == root else None, _op(op), root)]

    def reduce_scatter(self, send: Array, receive: Array, op: ReduceOp) -> list[Request]:
        return [self.comm.Ireduce_scatter_block(send, receive, _op(op))]

    def broadcast(self, array: Array, root: int) -> list[Request]:
        return [self.comm.Ibcast(_bytes(array), root)]

    def all_gather(self, send: Array, receive: Array) -> list[Request]:
        return [self.comm.Iallgather(_bytes(send), _bytes(receive))]

    def gather(self, send: Array, receive: Array, root: int) -> list[Request]:
        return [self.comm.Igather(_bytes(send), _bytes(receive) if self.comm.rank == root else None, root)]

    def scatter(self, send: Array, receive: Array, root: int) -> list[Request]:
        return [self.comm.Iscatter(_bytes(send) if self.comm.rank == root else None, _bytes(receive), root)]

    def all_to_all(self, send: Array, receive: Array, sent: list[int], received: list[int]) -> list[Request]:
        """Send ``sent[i]`` elements to rank i and receive ``received[i]`` from it."""
        size = send.dtype.itemsize
        out, into = [size * n for n in sent], [size * n for n in received]
        MPI = library()
        return [self.comm.Ialltoallv([_bytes(send), (out, None), MPI.BYTE], [_bytes(receive), (into, None), MPI.BYTE])]

    def send(self, array: Array, to: int, tag: int) -> list[Request]:
        return [self.comm.Isend(_bytes(array), to, tag)]

    def receive(self, array: Array, source: int, tag: int) -> list[Request]:
        return [self.comm.Irecv(_bytes(array), source, tag)]


class OneProcess:
    """A communicator of one rank, with the methods of mpi4py's that a group of one rank calls."""

    rank, size = 0, 1

    def Dup(self) -> OneProcess:
        return self

    def Split(self, color: int, key: int) -> OneProcess:
        return self


class OneProcessTransport:
    """The methods of ``MPITransport`` for one rank, on arrays of any device."""

    size = 1

    def all_reduce(self, send: Array, receive: Array, op: ReduceOp) -> list[Request]:
        return self._copy(send, receive)

    def reduce(self, send: Array, receive: Array, op: ReduceOp, root: int) -> list[Request]:
        return self._copy(send, receive)

    def reduce_scatter(self, send: Array, receive: Array, op: ReduceOp) -> list[Request]:
        return self._copy(send, receive)

    def broadcast(self, array: Array, root: int) -> list[Request]:
        return []

    def all_gather(self, send: Array, receive: Array) -> list[Request]:
        return self._copy(send, receive)

    def gather(self, send: Array, receive: Array, root: int) -> list[Request]:
        return self._copy(send, receive)

    def scatter(self, send: Array, receive: Array, root: int) -> list[Request]:
        return self._copy(send, receive)

    def all_to_all(self, send: Array, receive: Array, sent: list[int], received: list[int]) -> list[Request]:
        return self._copy(send, receive)

    def _copy(self, send: Array, receive: Array) -> list[Request]:
        """Copy the array and return no requests to wait for."""
        if send is not receive:
            receive[...] = send.reshape(receive.shape)
        return []


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _op(op: ReduceOp) -> Any:
    MPI = library()
    return {
        ReduceOp.SUM: MPI.SUM, ReduceOp.PRODUCT: MPI.PROD, ReduceOp.MIN: MPI.MIN, ReduceOp.MAX: MPI.MAX,
        ReduceOp.BAND: MPI.BAND, ReduceOp.BOR: MPI.BOR, ReduceOp.BXOR: MPI.BXOR,
    }[op]  # fmt: skip
