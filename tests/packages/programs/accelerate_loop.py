"""A training loop of accelerate, with gradient accumulation and a saved state."""

import tempfile

import torch
from accelerate import Accelerator, init_empty_weights
from common import data, filled, show
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = filled(nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loader = DataLoader(TensorDataset(data("x", 32, 6), data("y", 32, 1)), batch_size=4)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
for _ in range(2):
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
show(loss=float(loss), rate=scheduler.get_last_lr()[0], gathered=accelerator.gather(loss.detach().reshape(1)))
with tempfile.TemporaryDirectory() as folder:
    accelerator.save_state(folder)
    with torch.no_grad():
        accelerator.unwrap_model(model)[0].weight.zero_()
    accelerator.load_state(folder)
show(loaded=nn.functional.mse_loss(model(x), y))
with init_empty_weights():
    empty = nn.Linear(1000, 1000)
print("empty", empty.weight.device)
