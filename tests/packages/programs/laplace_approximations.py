"""laplace-torch: Laplace approximations with four structures of the Hessian."""

import torch
from common import filled, show
from laplace import Laplace
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_dtype(torch.float64)
x = torch.linspace(-1, 1, 20).unsqueeze(-1)
loader = DataLoader(TensorDataset(x, torch.sin(3 * x)), batch_size=10)
model = filled(torch.nn.Sequential(torch.nn.Linear(1, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1)))
for weights, structure in (("all", "full"), ("last_layer", "full"), ("all", "diag"), ("all", "kron")):
    fitted = Laplace(model, "regression", subset_of_weights=weights, hessian_structure=structure)
    fitted.fit(loader)
    mean, variance = fitted(torch.tensor([[0.3], [0.8]]))
    show(evidence=fitted.log_marginal_likelihood(), mean=mean, variance=variance)
