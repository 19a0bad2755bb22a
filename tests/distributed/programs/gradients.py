"""Differentiable collectives: the gradient of the sum of all ranks' losses, against central differences."""

import numpy as np

import retrograd as rg
import retrograd.distributed as dist
from retrograd.distributed import ReduceOp
from retrograd.distributed.nn import functional as DF

dist.init_process_group("mpi", timeout=20)
me, size = dist.get_rank(), dist.get_world_size()
weight = rg.from_numpy(np.random.default_rng(100 + me).normal(size=(size, 3)))


def to_all(x):
    return rg.cat([part * weight[i] for i, part in enumerate(DF.all_gather(x))])


FUNCTIONS = {
    "sum": lambda x: DF.all_reduce(x).sin() * weight[0],
    "avg": lambda x: DF.all_reduce(x, ReduceOp.AVG).sin() * weight[0],
    "max": lambda x: DF.all_reduce(x, ReduceOp.MAX).sin() * weight[0],
    "product": lambda x: DF.all_reduce(x, ReduceOp.PRODUCT) * weight[0],
    "gather": to_all,
    "broadcast": lambda x: DF.broadcast(x, size - 1).sin() * weight[0],
    "reduce": lambda x: DF.reduce(x, 0).sin() * weight[0] if me == 0 else DF.reduce(x, 0) * 0,
    "reduce_scatter": lambda x: DF.reduce_scatter(x, [x * i for i in range(size)]).sin() * weight[0],
    "scatter": lambda x: DF.scatter([x * (i + 1) for i in range(size)], 0).sin() * weight[0],
    "all_to_all": lambda x: rg.stack(DF.all_to_all([x] * size, [x.sin() * i for i in range(size)])) * weight,
}


def total(name, x):
    loss = FUNCTIONS[name](x).sum().detach()
    dist.all_reduce(loss)
    return loss.item()


start = np.random.default_rng(me).normal(size=3)
for name, function in FUNCTIONS.items():
    x = rg.tensor(start, requires_grad=True)
    function(x).sum().backward()
    for rank in range(size):
        for place in range(3):
            step = np.zeros(3)
            step[place] = 1e-6 * (rank == me)
            slope = (total(name, rg.tensor(start + step)) - total(name, rg.tensor(start - step))) / 2e-6
            if rank == me:
                np.testing.assert_allclose(x.grad[place].item(), slope, rtol=1e-6, atol=1e-8, err_msg=name)
# Second order: the gradient of a sum over ranks is itself differentiated.
x = rg.tensor(start, requires_grad=True)
(g,) = rg.autograd.grad((DF.all_reduce(x) ** 3).sum(), x, create_graph=True)
g.sum().backward()
whole = sum(np.random.default_rng(rank).normal(size=3) for rank in range(size))
np.testing.assert_allclose(x.grad.array, 6 * whole * size * size, rtol=1e-12)
dist.destroy_process_group()
print("right")
