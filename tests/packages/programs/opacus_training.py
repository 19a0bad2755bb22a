"""opacus: gradients per example, and private training without noise."""

import torch
from common import data, filled, show
from opacus import PrivacyEngine
from opacus.grad_sample import GradSampleModule
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_dtype(torch.float64)
loss_of = torch.nn.CrossEntropyLoss()
model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.GroupNorm(1, 2), torch.nn.Flatten(), torch.nn.Linear(8, 2)
)
model = GradSampleModule(filled(model))
loss_of(model(data("images", 3, 1, 4, 4)), torch.tensor([0, 1, 0])).backward()
for name, parameter in model.named_parameters():
    show(**{name: parameter.grad_sample[1].abs()})

plain = filled(torch.nn.Linear(3, 2))
optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(data("rows", 20, 3), torch.tensor([0, 1] * 10)), batch_size=5)
private, optimizer, loader = PrivacyEngine().make_private(
    module=plain, optimizer=optimizer, data_loader=loader, noise_multiplier=0.0, max_grad_norm=0.3,
    poisson_sampling=False,
)  # fmt: skip
for x, y in loader:
    optimizer.zero_grad()
    loss_of(private(x), y).backward()
    optimizer.step()
show(weight=plain.weight, bias=plain.bias[0])
