"""Optimizers of pytorch-optimizer on a small model."""

import torch
from common import data, filled, show
from pytorch_optimizer import load_optimizer

for name in ("adabelief", "adan", "adopt", "came", "lamb", "lion", "madgrad", "prodigy", "radam", "ranger",
             "schedulefreeadamw", "shampoo", "stableadamw"):  # fmt: skip
    model = filled(torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)))
    optimizer = load_optimizer(name)(model.parameters())
    if hasattr(optimizer, "train"):
        optimizer.train()
    for _ in range(5):
        loss = torch.nn.functional.mse_loss(model(data("x", 16, 6)), data("y", 16, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    show(**{name: float(loss)})
