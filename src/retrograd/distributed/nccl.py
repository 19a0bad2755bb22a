"""Collectives on CuPy arrays by NCCL: one GPU per rank, on a separate CUDA stream.

CuPy's ``NcclCommunicator`` takes addresses and counts. A call starts after the work queued on the rank's current
stream, and is complete when its event is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from .mpi import Request
from .reduce_ops import ReduceOp

CuPyArray: TypeAlias = Any  # CuPy has no types
_OPS = {ReduceOp.SUM: "NCCL_SUM", ReduceOp.PRODUCT: "NCCL_PROD", ReduceOp.MIN: "NCCL_MIN", ReduceOp.MAX: "NCCL_MAX"}


class _Request:
    """A call that completes with an event on the stream; references the arrays that it uses."""

    def __init__(self, event: Any, *held: object) -> None:
        self._event = event
        self._held = held

    def Test(self) -> bool:
        return bool(self._event.done)


class NCCLTransport:
    """One group's collectives over NCCL, with the methods of ``MPITransport``.

    Args:
        cupy: the CuPy module.
        device: the GPU of this rank; set in every call, because the current device is per thread.
        size, rank: the size of the group, and this process's rank in it.
        share: broadcasts the value passed on rank 0 to all ranks.

    Raises:
        RuntimeError: CuPy was built without NCCL.
    """

    def __init__(self, cupy: Any, device: Any, size: int, rank: int, share: Callable[[Any], Any]) -> None:
        self.cupy, self.device, self.size, self.rank = cupy, device, size, rank
        try:
            from cupy.cuda import nccl
        except ImportError:
            raise RuntimeError("collectives on GPUs need CuPy with NCCL; install nvidia-nccl") from None
        self.nccl = nccl
        identity = share(nccl.get_unique_id() if rank == 0 else None)
        with device:
            self.comm = nccl.NcclCommunicator(size, identity, rank)
            self.stream = cupy.cuda.Stream(non_blocking=True)

    def _run(self, call: Callable[[int], object], *held: object) -> list[Request]:
        with self.device:
            self.stream.wait_event(self.cupy.cuda.get_current_stream().record())
            call(self.stream.ptr)
            return [_Request(self.stream.record(), *held)]

    def _type(self, array: CuPyArray) -> int:
        dtype = array.dtype
        name = {"i": "INT", "u": "UINT", "f": "FLOAT"}[dtype.kind] + str(8 * dtype.itemsize)
        return getattr(self.nccl, f"NCCL_{name}")

    def _count_and_type(self, array: CuPyArray) -> tuple[int, int]:
        """Return the element count and the NCCL type; a complex element counts as two real elements."""
        if array.dtype.kind == "c":
            real = array.reshape(-1).view(array.real.dtype)
            return real.size, self._type(real)
        return array.size, self._type(array)

    def _operation(self, op: ReduceOp, array: CuPyArray) -> int:
        if op not in _OPS or array.dtype.kind == "c" and op is not ReduceOp.SUM:
            raise RuntimeError(f"NCCL does not support {op.name} of {array.dtype}; move the Tensor to the CPU")
        return getattr(self.nccl, _OPS[op])

    def all_reduce(self, send: CuPyArray, receive: CuPyArray, op: ReduceOp) -> list[Request]:
        (count, kind), what = self._count_and_type(send), self._operation(op, send)
        return self._run(
            lambda s: self.comm.allReduce(send.data.ptr, receive.data.ptr, count, kind, what, s), send, receive
        )

    def reduce(self, send: CuPyArray, receive: CuPyArray, op: ReduceOp, root: int) -> list[Request]:
        (count, kind), what = self._count_and_type(send), self._operation(op, send)
        return self._run(
            lambda s: self.comm.reduce(send.data.ptr, receive.data.ptr, count, kind, what, root, s), send, receive
        )

    def reduce_scatter(self, send: CuPyArray, receive: CuPyArray, op: ReduceOp) -> list[Request]:
        (count, kind), what = self._count_and_type(receive), self._operation(op, send)
        return self._run(
            lambda s: self.comm.reduceScatter(send.data.ptr, receive.data.ptr, count, kind, what, s), send, receive
        )

    def broadcast(self, array: CuPyArray, root: int) -> list[Request]:
        at, kind = array.data.ptr, self.nccl.NCCL_UINT8
        return self._run(lambda s: self.comm.broadcast(at, at, array.nbytes, kind, root, s), array)

    def all_gather(self, send: CuPyArray, receive: CuPyArray) -> list[Request]:
        kind = self.nccl.NCCL_UINT8
        return self._run(
            lambda s: self.comm.allGather(send.data.ptr, receive.data.ptr, send.nbytes, kind, s), send, receive
        )

    def gather(self, send: CuPyArray, receive: CuPyArray, root: int) -> list[Request]:
        equal = [send.size] * self.size if self.rank == root else [0] * self.size
        return self.all_to_all(send, receive, [send.size * (to == root) for to in range(self.size)], equal)

    def scatter(self, send: CuPyArray, receive: CuPyArray, root: int) -> list[Request]:
        equal = [receive.size] * self.size if self.rank == root else [0] * self.size
        return self.all_to_all(send, receive, equal, [receive.size * (by == root) for by in range(self.size)])

    def all_to_all(self, send: CuPyArray, receive: CuPyArray, sent: list[int], received: list[int]) -> list[Request]:
        kind, width = self.nccl.NCCL_UINT8, receive.dtype.itemsize if send is None else send.dtype.itemsize
        starts = [0, *np.cumsum(sent)], [0, *np.cumsum(received)]

        def call(stream: int) -> None:
            self.nccl.groupStart()
            for peer in range(self.size):
                if sent[peer]:
                    at = send.data.ptr + int(starts[0][peer]) * width
                    self.comm.send(at, sent[peer] * width, kind, peer, stream)
                if received[peer]:
                    at = receive.data.ptr + int(starts[1][peer]) * width
                    self.comm.recv(at, received[peer] * width, kind, peer, stream)
            self.nccl.groupEnd()

        return self._run(call, send, receive)

    def send(self, array: CuPyArray, to: int, tag: int) -> list[Request]:
        kind = self.nccl.NCCL_UINT8
        return self._run(lambda s: self.comm.send(array.data.ptr, array.nbytes, kind, to, s), array)

    def receive(self, array: CuPyArray, source: int, tag: int) -> list[Request]:
        kind = self.nccl.NCCL_UINT8
        return self._run(lambda s: self.comm.recv(array.data.ptr, array.nbytes, kind, source, s), array)
