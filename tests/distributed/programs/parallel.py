"""What DistributedDataParallel promises, each promise beside a computation in one process."""

import sys

import numpy as np

import retrograd as rg
import retrograd.distributed as dist
from retrograd import nn
from retrograd.distributed.collectives import broadcast_all
from retrograd.distributed.optim import ZeroRedundancyOptimizer
from retrograd.nn.parallel import DistributedDataParallel
from retrograd.training import Checkpoint

dist.init_process_group("mpi", timeout=20)
me, size = dist.get_rank(), dist.get_world_size()


def batch(rank, rows=4):
    draw = np.random.default_rng(rank)
    return rg.from_numpy(draw.normal(size=(rows, 6))), rg.from_numpy(draw.normal(size=(rows, 2)))


def network():
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)).double()


def alike(values):
    everyone = [None] * size
    dist.all_gather_object(everyone, [None if x is None else x.array.tobytes() for x in values])
    return all(one == everyone[0] for one in everyone)


def alone(model, ranks, loss=nn.functional.mse_loss):
    """The mean gradients of several ranks' batches, by one process."""
    twin = network()
    twin.load_state_dict(model.state_dict())
    sum(loss(twin(batch(rank)[0]), batch(rank)[1]) for rank in ranks).backward()
    return [p.grad / len(ranks) for p in twin.parameters()]


def check(model, expected):
    grads = [p.grad for p in model.parameters()]
    assert alike(grads)
    for found, wanted in zip(grads, expected, strict=True):
        np.testing.assert_allclose(found.array, wanted.array, rtol=1e-12, atol=1e-15)


# Rank 0's weights win, and names have the prefix.
rg.manual_seed(me)
model = network()
ddp = DistributedDataParallel(model, bucket_cap_mb=1e-4)
assert alike(model.parameters()) and list(ddp.state_dict())[0] == "module.0.weight"
assert len(ddp._buckets) > 1

nn.functional.mse_loss(ddp(batch(me)[0]), batch(me)[1]).backward()
check(model, alone(model, range(size)))

# Accumulation without communication: batches of ranks 0 to 2 * size, the first half of them inside no_sync.
ddp.zero_grad()
with ddp.no_sync():
    nn.functional.mse_loss(ddp(batch(size + me)[0]), batch(size + me)[1]).backward()
    assert size == 1 or not alike([p.grad for p in model.parameters()])
nn.functional.mse_loss(ddp(batch(me)[0]), batch(me)[1]).backward()
check(model, [2 * g for g in alone(model, range(2 * size))])


# Parameters that some ranks use, and one that none does.
class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.never = (nn.Linear(6, 2).double() for _ in range(3))

    def forward(self, x, first):
        return {"out": [self.first(x) if first else self.second(x)]}


branches = Branches()
ddp = DistributedDataParallel(branches, find_unused_parameters=True, bucket_cap_mb=1e-4)
for _ in range(2):
    ddp.zero_grad()
    ddp(batch(me)[0], me == 0)["out"][0].sum().backward()
    assert branches.never.weight.grad is None
    expected = batch(0)[0].sum(0) / size
    np.testing.assert_allclose(branches.first.weight.grad.array, np.stack([expected.array] * 2), rtol=1e-12)
    if size > 1:
        assert alike([branches.second.weight.grad])
    else:
        assert branches.second.weight.grad is None

# Without find_unused_parameters the next call says what was missing.
ddp = DistributedDataParallel(Branches())
ddp(batch(me)[0], True)["out"][0].sum().backward()
try:
    ddp(batch(me)[0], True)
except RuntimeError as error:
    assert "Expected to have finished reduction" in str(error) and "never.weight" in str(error)
else:
    raise AssertionError("nothing was said")
dist.barrier()

# Buffers follow rank 0's; those of SyncBatchNorm are those of one process with the whole batch.
norm = nn.BatchNorm1d(6).double()
ddp = DistributedDataParallel(norm)
norm.running_mean.fill_(float(me))
ddp(batch(me)[0])
for _ in range(3):
    ddp(batch(me)[0])
broadcast_all(norm.buffers(), 0, ddp.process_group)
assert alike(norm.buffers())
whole, sync = nn.BatchNorm2d(3).double(), nn.BatchNorm2d(3).double()
sync = DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(sync)))
images = [np.random.default_rng(rank).normal(size=(2 + rank, 3, 4, 2)) for rank in range(size)]
x = rg.tensor(np.concatenate(images), requires_grad=True)
y = rg.tensor(images[me], requires_grad=True)
for _ in range(2):
    expected, found = whole(x), sync(y)
(expected**3).sum().backward()
(found**3).sum().backward()
start = sum(len(images[rank]) for rank in range(me))
rows = slice(start, start + len(images[me]))
np.testing.assert_allclose(found.detach().array, expected.detach().array[rows], rtol=1e-10, atol=1e-12)
np.testing.assert_allclose(y.grad.array, x.grad.array[rows], rtol=1e-8, atol=1e-10)
np.testing.assert_allclose(size * sync.module[0].weight.grad.array, whole.weight.grad.array, rtol=1e-10)
np.testing.assert_allclose(sync.module[0].running_var.array, whole.running_var.array, rtol=1e-12)

# The checkpoint of a sharded optimizer is that of one process.
path = sys.argv[1]
rg.manual_seed(0)
model, plain = network(), network()
plain.load_state_dict(model.state_dict())
ddp = DistributedDataParallel(model)
groups = [{"params": list(model[0].parameters())}, {"params": list(model[2].parameters()), "lr": 0.1}]
zero = ZeroRedundancyOptimizer(groups, optimizer_class=rg.optim.AdamW, lr=0.01)
groups = [{"params": list(plain[0].parameters())}, {"params": list(plain[2].parameters()), "lr": 0.1}]
adam = rg.optim.AdamW(groups, lr=0.01)
for number in range(6):
    for optimizer in (zero, adam):
        optimizer.param_groups[0]["lr"] = 0.01 * (number + 1)
    for net, optimizer in ((ddp, zero), (plain, adam)):
        optimizer.zero_grad()
        if net is ddp:
            nn.functional.mse_loss(ddp(batch(me)[0]), batch(me)[1]).backward()
        else:
            for p, g in zip(plain.parameters(), alone(plain, range(size)), strict=True):
                p.grad = g
        nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        optimizer.step()
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        np.testing.assert_allclose(one.detach().array, other.detach().array, rtol=1e-11)
    assert alike(model.parameters())
    if number == 2:
        Checkpoint(path, model=ddp, optimizer=zero).save(3)
        again = DistributedDataParallel(network())
        resumed = ZeroRedundancyOptimizer(
            [{"params": list(again.module[0].parameters())}, {"params": list(again.module[2].parameters())}],
            optimizer_class=rg.optim.AdamW,
            lr=1.0,
        )
        assert Checkpoint(path, model=again, optimizer=resumed).resume().step == 3
        model, ddp, zero = again.module, again, resumed
        assert zero.param_groups[1]["lr"] == 0.1
states = 0 if zero.optim is None else len(zero.optim.state)
assert states < 4 or size == 1
dist.destroy_process_group()
print("right")
