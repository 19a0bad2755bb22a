"""The communicator of a job of one process, where every collective is a copy. It needs no MPI."""

from __future__ import annotations

from typing import Any

from .reductions import ReduceOp


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

    def all_reduce(self, send: Any, receive: Any, op: ReduceOp) -> list[Any]:
        return self._copy(send, receive)

    def reduce(self, send: Any, receive: Any, op: ReduceOp, root: int) -> list[Any]:
        return self._copy(send, receive)

    def reduce_scatter(self, send: Any, receive: Any, op: ReduceOp) -> list[Any]:
        return self._copy(send, receive)

    def broadcast(self, array: Any, root: int) -> list[Any]:
        return []

    def all_gather(self, send: Any, receive: Any) -> list[Any]:
        return self._copy(send, receive)

    def gather(self, send: Any, receive: Any, root: int) -> list[Any]:
        return self._copy(send, receive)

    def scatter(self, send: Any, receive: Any, root: int) -> list[Any]:
        return self._copy(send, receive)

    def all_to_all(self, send: Any, receive: Any, sent: list[int], received: list[int]) -> list[Any]:
        return self._copy(send, receive)

    def _copy(self, send: Any, receive: Any) -> list[Any]:
        """Copy the array and return no requests to wait for."""
        if send is not receive:
            receive[...] = send.reshape(receive.shape)
        return []
