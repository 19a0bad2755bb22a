"""One rank goes wrong, in a way that is named on the command line."""

import os
import signal
import sys
import time

import retrograd as rg
import retrograd.distributed as dist
from retrograd import nn
from retrograd.nn.parallel import DistributedDataParallel
from retrograd.training import Checkpoint

kind, who, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
dist.init_process_group("mpi", timeout=2)
me = dist.get_rank()
rg.manual_seed(0)
model = nn.Linear(3, 4 if kind == "parameters" and me == who else 2)
ddp = DistributedDataParallel(model)
optimizer = rg.optim.SGD(ddp.parameters(), lr=0.1)
checkpoint = Checkpoint(path, model=ddp, optimizer=optimizer)
for step in range(1, 4):
    optimizer.zero_grad()
    ddp(rg.ones(2, 3)).sum().backward()
    optimizer.step()
    checkpoint.save(step)
if me == who:
    match kind:
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "raises":
            raise ValueError("a bad number")
        case "sleeps":
            time.sleep(60)
        case "computes":
            while True:
                pass
        case "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "leaves":
            sys.exit(0)
        case "shape":
            dist.all_reduce(rg.ones(4))
        case "dtype":
            dist.all_reduce(rg.ones(3, dtype=rg.float64))
        case "another":
            dist.barrier()
if kind == "all raise":
    raise KeyError("everywhere")
if kind == "killed in the walk":
    grad = ddp(rg.ones(2, 3))
    if me == who:
        os.kill(os.getpid(), signal.SIGKILL)
    grad.sum().backward()
dist.all_reduce(rg.ones(3))
checkpoint.save(4)
