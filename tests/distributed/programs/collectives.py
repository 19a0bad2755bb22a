"""Every collective against NumPy, on all dtypes, strides, and empty and 0-d Tensors."""

from functools import reduce

import numpy as np

import retrograd as rg
import retrograd.distributed as dist
from retrograd.distributed import ReduceOp

dist.init_process_group("mpi", timeout=20)
me, size = dist.get_rank(), dist.get_world_size()
ranks = range(size)

DTYPES = [rg.float16, rg.float32, rg.float64, rg.bfloat16, rg.int8, rg.uint8, rg.int32, rg.int64, rg.bool]
DTYPES += [rg.complex64, rg.complex128]


def value(rank, shape=(3, 2), dtype=np.float64):
    return rg.tensor(np.random.default_rng(rank).integers(1, 5, size=shape).astype(np.float64)).to(dtype)


NUMPY = {ReduceOp.SUM: np.add, ReduceOp.PRODUCT: np.multiply, ReduceOp.MIN: np.minimum, ReduceOp.MAX: np.maximum}
for dtype in DTYPES:
    for op, function in NUMPY.items():
        if dtype in (rg.complex64, rg.complex128) and op in (ReduceOp.MIN, ReduceOp.MAX):
            continue
        for shape in [(3, 2), (), (0, 3)]:
            x = value(me, shape, dtype)
            dist.all_reduce(x, op)
            expected = reduce(function, [value(rank, shape, dtype).array for rank in ranks])
            assert x.dtype == dtype and x.shape == shape
            np.testing.assert_array_equal(x.array, expected)
    x = value(me, (3, 2), dtype)
    dist.broadcast(x, src=size - 1)
    np.testing.assert_array_equal(x.array, value(size - 1, (3, 2), dtype).array)
    rows = [rg.zeros(3, 2).to(dtype) for _ in ranks]
    dist.all_gather(rows, value(me, (3, 2), dtype))
    for rank in ranks:
        np.testing.assert_array_equal(rows[rank].array, value(rank, (3, 2), dtype).array)

x = value(me)
dist.all_reduce(x, ReduceOp.AVG)
np.testing.assert_allclose(x.array, np.mean([value(rank).array for rank in ranks], axis=0), rtol=1e-15)
bits = rg.tensor([1 << me])
dist.all_reduce(bits, ReduceOp.BOR)
assert bits.item() == (1 << size) - 1

# Strided: a transposed view of part of a larger Tensor, written in place.
base = rg.zeros(4, 6, dtype=rg.float64)
view = base[1:3, ::2].T
view.copy_(value(me))
dist.all_reduce(view)
np.testing.assert_array_equal(base.array[1:3, ::2].T, sum(value(rank).array for rank in ranks))
assert base.array[0].sum() == 0 and base.array[:, 1::2].sum() == 0

# A value that the graph has saved keeps its gradient.
w = value(me).requires_grad_()
y = w * 1
loss = (y * y).sum()
dist.all_reduce(y.detach())
loss.backward()
np.testing.assert_array_equal(w.grad.array, 2 * value(me).array)

x = value(me)
dist.reduce(x, dst=1 % size)
expected = sum(value(rank).array for rank in ranks) if me == 1 % size else value(me).array
np.testing.assert_array_equal(x.array, expected)

found = [rg.zeros(3, 2, dtype=rg.float64) for _ in ranks] if me == 0 else None
dist.gather(value(me), found, dst=0)
assert found is None or all((found[rank].array == value(rank).array).all() for rank in ranks)
x = rg.zeros(3, 2, dtype=rg.float64)
dist.scatter(x, [value(rank) for rank in ranks] if me == 0 else None, src=0)
np.testing.assert_array_equal(x.array, value(me).array)

dist.reduce_scatter(x, [value(10 * me + rank) for rank in ranks])
np.testing.assert_array_equal(x.array, sum(value(10 * rank + me).array for rank in ranks))
whole = rg.zeros(3 * size, 2, dtype=rg.float64)
dist.all_gather_into_tensor(whole, value(me))
np.testing.assert_array_equal(whole.array, np.concatenate([value(rank).array for rank in ranks]))
dist.reduce_scatter_tensor(x, whole)
np.testing.assert_array_equal(x.array, size * value(me).array)

outputs = [rg.zeros(rank + 1, me + 1) for rank in ranks]
dist.all_to_all(outputs, [rg.full((me + 1, rank + 1), 10.0 * me + rank) for rank in ranks])
assert all((outputs[rank].array == 10 * rank + me).all() for rank in ranks)
single = rg.zeros(size)
dist.all_to_all_single(single, rg.arange(size) * 1.0 + 10 * me)
assert single.tolist() == [10.0 * rank + me for rank in ranks]

works = []
for number in range(20):
    x = rg.full((1000,), float(number + me))
    works.append((number, x, dist.all_reduce(x, async_op=True)))
dist.barrier()  # after those that are on their way
for number, x, work in works:
    assert work.wait() and work.is_completed()
    assert (x.array == sum(number + rank for rank in ranks)).all()

to, source = (me + 1) % size, (me - 1) % size
if size > 1:
    large = rg.full((200_000,), float(me))
    work = dist.isend(large, to)
    came = rg.empty(200_000)
    assert dist.recv(came, source) == source and (came.array == source).all()
    work.wait()
    ops = [dist.P2POp(dist.isend, rg.tensor([me]), to), dist.P2POp(dist.irecv, number := rg.tensor([-1]), source)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert number.item() == source
    if me == 0:
        assert sorted(dist.recv(rg.zeros(2)) for _ in range(size - 1)) == list(range(1, size))
    else:
        dist.send(rg.zeros(2), 0)

objects = [None] * size
dist.all_gather_object(objects, {"rank": me, "text": "x" * me})
assert [one["rank"] for one in objects] == list(ranks)
given = [me, {"a": rg.tensor([1, 2])}] if me == 0 else [None, None]
dist.broadcast_object_list(given)
assert given[0] == 0 and given[1]["a"].tolist() == [1, 2]
own = [None]
dist.scatter_object_list(own, [f"for {rank}" for rank in ranks] if me == 0 else None)
assert own == [f"for {me}"]

members = sorted({0, size - 1})
group = dist.new_group(members)
if me in members:
    x = rg.ones(2)
    dist.all_reduce(x, group=group)
    assert x[0] == len(members) and dist.get_process_group_ranks(group) == members
    dist.broadcast(x.fill_(me), src=size - 1, group=group)  # a global rank
    assert x[0] == size - 1 and dist.get_group_rank(group, size - 1) == len(members) - 1
else:
    assert dist.get_rank(group) == -1 and dist.all_reduce(rg.ones(2), group=group) is None
dist.destroy_process_group()
dist.init_process_group("mpi")  # again
dist.destroy_process_group()
print("right")
