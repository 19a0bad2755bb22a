"""Collectives on GPUs, against a stand-in for NCCL: which addresses, counts, types and streams it is called with."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import types

import numpy as np
import pytest

from retrograd.distributed.nccl import NCCLTransport
from retrograd.distributed.reduce_ops import ReduceOp

TYPES = ["INT8", "UINT8", "INT32", "UINT32", "INT64", "UINT64", "FLOAT16", "FLOAT32", "FLOAT64"]
NUMPY = [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32, np.float64]
OPS = {"SUM": np.sum, "PROD": np.prod, "MAX": np.max, "MIN": np.min}


class Array(np.ndarray):
    """An array whose address is found as CuPy's is."""

    @property
    def data(self):
        return types.SimpleNamespace(ptr=self.ctypes.data)


def array(values, dtype=None):
    return np.array(values, dtype).view(Array)


class World:
    """What the communicators of all ranks share: each call is made by all, then computed by one."""

    def __init__(self, size):
        self.size = size
        self.barrier = threading.Barrier(size)
        self.calls = [None] * size

    def together(self, rank, call, compute):
        self.calls[rank] = call
        self.barrier.wait(5)
        if rank == 0:
            compute(self.calls)
        self.barrier.wait(5)


def memory(address, count, kind):
    return np.ctypeslib.as_array(
        (ctypes.c_uint8 * (count * np.dtype(NUMPY[kind]).itemsize)).from_address(address)
    ).view(NUMPY[kind])


def stand_in(world):
    class Communicator:
        def __init__(self, size, identity, rank):
            assert size == world.size and identity == ("id",)
            self.rank, self.messages = rank, None

        def allReduce(self, send, receive, count, kind, op, stream):
            def compute(calls):
                total = OPS[op]([memory(s, count, kind) for s, _ in calls], axis=0)
                for _, r in calls:
                    memory(r, count, kind)[...] = total

            world.together(self.rank, (send, receive), compute)

        def reduce(self, send, receive, count, kind, op, root, stream):
            def compute(calls):
                total = OPS[op]([memory(s, count, kind) for s, _ in calls], axis=0)
                memory(calls[root][1], count, kind)[...] = total

            world.together(self.rank, (send, receive), compute)

        def reduceScatter(self, send, receive, count, kind, op, stream):
            def compute(calls):
                total = OPS[op]([memory(s, count * world.size, kind) for s, _ in calls], axis=0)
                for rank, (_, r) in enumerate(calls):
                    memory(r, count, kind)[...] = total[rank * count : (rank + 1) * count]

            world.together(self.rank, (send, receive), compute)

        def broadcast(self, send, receive, count, kind, root, stream):
            def compute(calls):
                for _, r in calls:
                    memory(r, count, kind)[...] = memory(calls[root][0], count, kind)

            world.together(self.rank, (send, receive), compute)

        def allGather(self, send, receive, count, kind, stream):
            def compute(calls):
                whole = np.concatenate([memory(s, count, kind) for s, _ in calls])
                for _, r in calls:
                    memory(r, count * world.size, kind)[...] = whole

            world.together(self.rank, (send, receive), compute)

        def send(self, address, count, kind, peer, stream):
            groups.messages.append(("send", address, count, kind, peer))

        def recv(self, address, count, kind, peer, stream):
            groups.messages.append(("recv", address, count, kind, peer))
            groups.rank = self.rank

    groups = threading.local()

    def start():
        groups.messages = []

    def end():
        def compute(calls):
            for rank, messages in enumerate(calls):
                for what, address, count, kind, peer in messages:
                    if what == "recv":
                        (sent,) = [m for m in calls[peer] if m[0] == "send" and m[4] == rank]
                        assert sent[2] == count
                        memory(address, count, kind)[...] = memory(sent[1], count, kind)

        world.together(threading.current_thread().rank, groups.messages, compute)

    names = {f"NCCL_{name}": number for number, name in enumerate(TYPES)} | {f"NCCL_{op}": op for op in OPS}
    return types.SimpleNamespace(
        get_unique_id=lambda: ("id",), NcclCommunicator=Communicator, groupStart=start, groupEnd=end, **names
    )


class Stream:
    ptr = 1

    def __init__(self, non_blocking=False):
        self.waited = []

    def record(self):
        return types.SimpleNamespace(done=True)

    def wait_event(self, event):
        self.waited.append(event)


def on_ranks(monkeypatch, size, function):
    """The results of ``function(carrier, rank)`` on threads that are ranks."""
    world = World(size)
    cuda = types.ModuleType("cupy.cuda")
    cuda.nccl = stand_in(world)
    cuda.Stream, cuda.get_current_stream = Stream, Stream
    cupy = types.ModuleType("cupy")
    cupy.cuda = cuda
    monkeypatch.setitem(__import__("sys").modules, "cupy", cupy)
    monkeypatch.setitem(__import__("sys").modules, "cupy.cuda", cuda)
    found, errors = [None] * size, []

    def run(rank):
        threading.current_thread().rank = rank
        try:
            carrier = NCCLTransport(cupy, contextlib.nullcontext(), size, rank, lambda identity: ("id",))
            found[rank] = function(carrier, rank)
            assert carrier.stream.waited
        except BaseException as error:
            errors.append(error)
            world.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    if errors:
        raise errors[0]
    return found


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64, np.uint8, np.complex64])
def test_reductions(monkeypatch, dtype):
    def function(carrier, rank):
        send = array([1 + rank, 2, 3 * rank, 4], dtype)
        out, part, at_root = np.empty_like(send), np.empty_like(send[:2]), np.zeros_like(send)
        requests = carrier.all_reduce(send, out, ReduceOp.SUM) + carrier.reduce_scatter(send, part, ReduceOp.SUM)
        requests += carrier.reduce(send, at_root, ReduceOp.SUM, 1)
        assert all(request.Test() for request in requests)
        return out.tolist(), part.tolist(), at_root.tolist()

    total = [3, 4, 3, 8]
    assert on_ranks(monkeypatch, 2, function) == [(total, total[:2], [0] * 4), (total, total[2:], total)]


def test_moves(monkeypatch):
    def function(carrier, rank):
        send = array([rank, 10 + rank], np.complex128)
        whole, shared = array(np.empty(6), np.complex128), send.copy()
        carrier.broadcast(shared, 2)
        carrier.all_gather(send, whole)
        given = array(np.arange(3 * (rank + 1)) + 100 * rank, np.int16)
        came = array(np.zeros(6), np.int16)
        carrier.all_to_all(given, came, [rank + 1] * 3, [1, 2, 3])
        gathered = array(np.zeros(6 * (rank == 0)), np.complex128)
        carrier.gather(send, gathered, 0)
        own = array(np.zeros(2), np.complex128)
        carrier.scatter(whole if rank == 1 else own[:0], own, 1)
        return [x.real.astype(int).tolist() for x in (shared, whole, came, gathered, own)]

    whole = [0, 10, 1, 11, 2, 12]
    for rank, (shared, everyone, came, gathered, own) in enumerate(on_ranks(monkeypatch, 3, function)):
        assert shared == [2, 12] and everyone == whole
        assert came == [rank, *(100 + 2 * rank + i for i in range(2)), *(200 + 3 * rank + i for i in range(3))]
        assert gathered == (whole if rank == 0 else []) and own == whole[2 * rank : 2 * rank + 2]


def test_what_nccl_has_not_is_refused(monkeypatch):
    def function(carrier, rank):
        x = array([1, 2], np.int64)
        with pytest.raises(RuntimeError, match="NCCL does not support BXOR of int64"):
            carrier.all_reduce(x, x, ReduceOp.BXOR)
        carrier.broadcast(x, 0)

    on_ranks(monkeypatch, 1, function)
