"""Fifty steps of a model in float64 on the same global batches; rank 0 prints the losses."""

import json
import sys

import numpy as np

import retrograd as rg
import retrograd.distributed as dist
from retrograd import nn
from retrograd.data import DataLoader, DistributedSampler, TensorDataset
from retrograd.nn.parallel import DistributedDataParallel

kind = sys.argv[1]
dist.init_process_group("mpi", timeout=20)
me, size = dist.get_rank(), dist.get_world_size()
rg.manual_seed(me)
draw = np.random.default_rng(0)
if kind == "transformer":
    layer = nn.TransformerEncoderLayer(12, 3, 24, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.Linear(4, 12), layer, nn.Linear(12, 3))
    data = TensorDataset(draw.normal(size=(240, 5, 4)), draw.integers(3, size=(240, 5)))
else:
    model = nn.Sequential(
        nn.Linear(4, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 3)
    )
    data = TensorDataset(draw.normal(size=(240, 4)), draw.integers(3, size=240))
rg.manual_seed(0)
for p in model.parameters():
    p.data = rg.from_numpy(draw.normal(size=p.shape)) * 0.3
model = DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(model.double()))
optimizer = rg.optim.AdamW(model.parameters(), lr=0.01)
sampler = DistributedSampler(data, seed=3)
loader = DataLoader(data, batch_size=24 // size, sampler=sampler)
losses = []
for epoch in range(5):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x).flatten(0, -2), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        grads = [p.grad.array.tobytes() for p in model.parameters()]
        everyone = [None] * size
        dist.all_gather_object(everyone, grads)
        assert all(one == grads for one in everyone)
        optimizer.step()
        mean = loss.detach()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        losses.append(mean.item())
dist.destroy_process_group()
if me == 0:
    print(json.dumps(losses))
