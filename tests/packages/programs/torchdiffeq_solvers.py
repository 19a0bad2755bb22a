"""torchdiffeq: solvers, the adjoint method, and events."""

import torch
from common import data, show
from torchdiffeq import odeint, odeint_adjoint, odeint_event

torch.set_default_dtype(torch.float64)


class Cubic(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.tensor([[-0.1, 2.0], [-2.0, -0.1]]))

    def forward(self, t, y):
        return (y**3) @ self.matrix


cubic, start, times = Cubic(), torch.tensor([[1.0, 0.2]]), torch.linspace(0, 1, 5)
for method in ("rk4", "midpoint", "explicit_adams", "dopri5", "bosh3"):
    name = method if method in ("rk4", "midpoint", "explicit_adams") else f"~{method}"
    show(**{name: odeint(cubic, start, times, method=method)})
loss = odeint_adjoint(cubic, start, times, method="rk4").pow(2).sum()
loss.backward()
show(adjoint=loss, gradient=cubic.matrix.grad)


def falling(t, y):
    return torch.stack([y[1], torch.tensor(-9.8)])


moment, _ = odeint_event(falling, torch.tensor([1.0, 0.0]), torch.tensor(0.0), event_fn=lambda t, y: y[0])
show(**{"~moment": moment, "data": data("x", 2)})
