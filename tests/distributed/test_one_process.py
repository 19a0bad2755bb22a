"""A program of one process has process groups without MPI."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import retrograd as rg
import retrograd.distributed as dist
from retrograd.distributed import launch, mpi
from retrograd.nn.parallel import DistributedDataParallel


@pytest.fixture
def no_mpi(monkeypatch):
    """An environment without mpi4py."""
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    mpi.library.cache_clear()
    yield
    if dist.is_initialized():
        dist.destroy_process_group()
    mpi.library.cache_clear()


@pytest.fixture
def one(no_mpi, tmp_path):
    """The process group of a program of one process."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)


def test_all_collectives_of_one_process_are_identities(one):
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
    x = rg.arange(6.0).view(2, 3)
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT):
        dist.all_reduce(x, op)
        dist.reduce(x, 0, op)
    dist.broadcast(x, 0)
    dist.barrier()
    assert dist.all_reduce(x.T[1:], async_op=True).wait()
    np.testing.assert_array_equal(x.array, np.arange(6.0).reshape(2, 3))
    results = [rg.empty(2, 3) for _ in range(8)]
    dist.all_gather([results[0]], x)
    dist.gather(x, [results[1]])
    dist.scatter(results[2], [x])
    dist.reduce_scatter(results[3], [x])
    dist.reduce_scatter_tensor(results[4], x)
    dist.all_gather_into_tensor(results[5], x)
    dist.all_to_all([results[6]], [x])
    dist.all_to_all_single(results[7], x)
    for result in results:
        np.testing.assert_array_equal(result.array, x.array)
    half = rg.tensor([1.5, 2.0], dtype=rg.float16)
    dist.all_reduce(half, dist.ReduceOp.AVG)
    assert half.dtype == rg.float16 and half.tolist() == [1.5, 2.0]


def test_objects_groups_and_messages_of_one_process(one):
    for function in (dist.all_gather_object, dist.gather_object):
        found = [None]
        function(*((found, {"a": 1}) if function is dist.all_gather_object else ({"a": 1}, found)))
        assert found == [{"a": 1}]
    objects, received = ["x", 2], [None]
    dist.broadcast_object_list(objects, 0)
    dist.scatter_object_list(received, [(3,)], 0)
    assert (objects, received) == (["x", 2], [(3,)])
    group = dist.new_group([0])
    dist.all_reduce(rg.ones(1), group=group)
    assert dist.get_world_size(group) == 1 and dist.new_group([]) is dist.GroupMember.NON_GROUP_MEMBER
    for call in (dist.send, dist.recv, dist.isend, dist.irecv):
        with pytest.raises(ValueError, match="another rank, got this rank"):
            call(rg.ones(1), 0)
    with pytest.raises(ValueError, match="no other rank to receive from"):
        dist.recv(rg.ones(1))


def test_data_parallel_training_of_one_process_equals_training_without(one):
    def train(parallel):
        rg.manual_seed(0)
        model = rg.nn.Sequential(rg.nn.Linear(3, 4), rg.nn.BatchNorm1d(4), rg.nn.Linear(4, 1)).double()
        outer = DistributedDataParallel(model) if parallel else model
        optimizer = rg.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            outer(rg.randn(5, 3, dtype=rg.float64)).square().sum().backward()
            optimizer.step()
        return [p.array for p in model.parameters()]

    for own, other in zip(train(True), train(False), strict=True):
        np.testing.assert_array_equal(own, other)


def test_the_environment_may_describe_one_process(no_mpi, monkeypatch):
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost"}.items():
        monkeypatch.setenv(name, value)
    assert dist.is_available() and dist.is_gloo_available() and not dist.is_mpi_available()
    dist.init_process_group("nccl")
    assert dist.get_world_size() == 1
    dist.destroy_process_group()
    assert not dist.is_initialized()
    dist.init_process_group()
    assert dist.get_backend() == "mpi"


def test_several_processes_without_mpi_name_the_extra_and_the_command(no_mpi, monkeypatch):
    monkeypatch.setattr(launch, "launched", lambda: (0, 1))
    with pytest.raises(ImportError, match=r"2 processes need MPI: pip install 'retrograd\[mpi\]'.*mpiexec -n 2 "):
        dist.init_process_group("gloo", rank=0, world_size=2)
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ImportError, match="3 processes need MPI"):
        dist.init_process_group("gloo")
    monkeypatch.delenv("WORLD_SIZE")
    with pytest.raises(RuntimeError, match="expects rank 1, this process has rank 0 of 1"):
        dist.init_process_group("gloo", rank=1, world_size=1)
