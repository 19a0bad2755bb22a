"""Point-to-point communication: ``send``, ``recv`` and their asynchronous forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from ..core.errors import describe
from ..core.tensor.tensor import Tensor
from ..ops.table.documentation import like
from .collectives import empty, flat, tensor_of, write
from .errors import DistError
from .groups import ProcessGroup, group_of, seconds_of, wait_for
from .guard import Call
from .mpi import Request, library
from .work import Work

_TEXT = 128  # bytes of a message's description


class Message(Work):
    """A message in progress; ``wait()`` and ``is_completed()`` poll MPI on the calling thread."""

    def __init__(self, group: ProcessGroup, call: Call, requests: list[Request], finish: Callable[[], None]) -> None:
        super().__init__()
        self._group, self._place, self._requests, self._finish = group, call, requests, finish

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        seconds = self._group.timeout if timeout is None else seconds_of("wait", timeout)
        while self._requests:
            wait_for(self._requests[0], self._place, seconds)
            del self._requests[0]
        self._end()
        return True

    def is_completed(self) -> bool:
        while self._requests and self._requests[0].Test():
            del self._requests[0]
        if not self._requests:
            self._end()
        return not self._requests

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def _end(self) -> None:
        if not self._done.is_set():
            self._done.set()
            try:
                self._finish()
            except BaseException as error:
                self._error = error
        if self._error is not None:
            raise self._error


def isend(
    tensor: Tensor, dst: int | None = None, group: object = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Send a Tensor to rank ``dst`` and return at once. Do not write to the Tensor before ``wait()`` returns.

    Args:
        tensor: the Tensor to send.
        dst: the global rank; alternatively ``group_dst``, the rank in the group.
        group: a group that contains both ranks.
        tag: must equal the receiver's tag.

    Raises:
        ValueError: ``dst`` is this rank or not in the group.
    """
    name = "send"
    tensor_of(name, "tensor", tensor)
    process_group = group_of(group)
    if process_group is None:
        return None
    to = _other(name, process_group, dst, "dst", group_dst)
    row = flat(tensor.array)
    header = np.zeros(_TEXT, np.uint8)
    text = describe(tensor).encode()[:_TEXT]
    header[: len(text)] = list(text)
    requests = [process_group._headers.Isend(header, to, tag), *process_group.transport(row).send(row, to, tag)]
    label = f"send({describe(tensor)}, dst={process_group.ranks[to]})"
    call = Call(label, f"p{process_group.number}:{process_group.rank()}>{to}", [process_group.ranks[to]])
    return Message(process_group, call, requests, lambda: None)


@like(isend)
def irecv(
    tensor: Tensor, src: int | None = None, group: object = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Receive a Tensor from rank ``src`` and return at once. The Tensor is written when ``wait()`` returns.

    Args:
        tensor: written in place; must have the shape and dtype of the sent Tensor.
        src: the global rank; alternatively ``group_src``, the rank in the group.
        tag: must equal the sender's tag.

    Raises:
        RuntimeError: the sent Tensor has another shape or dtype.
        ValueError: ``src`` is this rank or not in the group.
    """
    name = "recv"
    tensor_of(name, "tensor", tensor)
    found = group_of(group)
    if found is None:
        return None
    process_group = found
    source = _other(name, process_group, src, "src", group_src)
    row = empty(flat(tensor.array), tensor.array.size)
    header = np.zeros(_TEXT, np.uint8)
    label = f"recv({describe(tensor)}, src={process_group.ranks[source]})"
    call = Call(label, f"p{process_group.number}:{source}>{process_group.rank()}", [process_group.ranks[source]])
    arrival = process_group._headers.Irecv(header, source, tag)

    class Data:
        """The request for the data, created after the header has confirmed shape and dtype."""

        requests: list[Request] | None = None

        def Test(self) -> bool:
            if self.requests is None:
                sent = bytes(header).rstrip(b"\0").decode(errors="replace")
                if sent != describe(tensor):
                    raise DistError(
                        f"recv: rank {process_group.ranks[source]} sent {sent}, but the receiving Tensor is "
                        f"{describe(tensor)}"
                    )
                self.requests = process_group.transport(row).receive(row, source, tag)
            return all(request.Test() for request in self.requests)

    return Message(process_group, call, [arrival, Data()], lambda: write(tensor, row))


def send(
    tensor: Tensor, dst: int | None = None, group: object = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """Send a Tensor to rank ``dst`` and wait; see ``isend``."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor, src: int | None = None, group: object = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Receive a Tensor from rank ``src``, or from any rank if ``src`` is None, and wait; see ``irecv``.

    Returns:
        The global rank of the sender; -1 on ranks that are not in the group.
    """
    found = group_of(group)
    if found is None:
        return -1
    process_group = found
    if src is None and group_src is None:
        if process_group.size() == 1:
            raise ValueError("recv: the group has one rank, so that there is no other rank to receive from")
        MPI = library()
        status = MPI.Status()

        class Probe:
            def Test(self) -> bool:
                return bool(process_group._headers.Iprobe(MPI.ANY_SOURCE, tag, status))

        others = [rank for rank in process_group.ranks if rank != process_group.ranks[process_group.rank()]]
        call = Call(f"recv({describe(tensor)})", f"p{process_group.number}:any>{process_group.rank()}", others)
        wait_for(Probe(), call, process_group.timeout)
        src = process_group.ranks[status.Get_source()]
    work = irecv(tensor, src, group, tag, group_src)
    assert work is not None
    work.wait()
    return process_group.ranks[group_src] if src is None and group_src is not None else int(src or 0)


def _other(name: str, process_group: ProcessGroup, rank: int | None, argument: str, place: int | None) -> int:
    if (rank is None) == (place is None):
        raise ValueError(f"{name}: pass exactly one of {argument} and group_{argument}")
    found = process_group.group_rank_of(name, rank, argument) if place is None and rank is not None else int(place or 0)
    if found == process_group.rank():
        raise ValueError(f"{name}: {argument} must be another rank, got this rank ({process_group.ranks[found]})")
    return found


class P2POp:
    """The arguments of one ``isend`` or ``irecv`` in ``batch_isend_irecv``."""

    def __init__(
        self,
        op: Callable[..., object],
        tensor: Tensor,
        peer: int | None = None,
        group: object = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(f"P2POp: op must be isend or irecv, got {op!r}")
        self.op, self.tensor, self.peer, self.group, self.tag, self.group_peer = (
            op,
            tensor,
            peer,
            group,
            tag,
            group_peer,
        )


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Any]:
    """Start all messages and return the list of their Works."""
    return [one.op(one.tensor, one.peer, one.group, one.tag, one.group_peer) for one in p2p_op_list]


__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]
