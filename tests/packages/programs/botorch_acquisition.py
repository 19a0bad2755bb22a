"""botorch: a Gaussian process and acquisition functions."""

import torch
from botorch.acquisition import ExpectedImprovement, LogExpectedImprovement, UpperConfidenceBound
from botorch.models import SingleTaskGP
from common import data, show
from gpytorch.mlls import ExactMarginalLogLikelihood

torch.set_default_dtype(torch.float64)
x = data("x", 7, 2).sigmoid()
y = 1 - (x - 0.5).norm(dim=-1, keepdim=True)
model = SingleTaskGP(x, y)
loss = -ExactMarginalLogLikelihood(model.likelihood, model)(model.train()(x), model.train_targets)
loss.backward()
show(loss=loss, gradient=model.covar_module.raw_lengthscale.grad)
model.eval()
candidates = data("candidates", 3, 1, 2).sigmoid().requires_grad_()
for function in (ExpectedImprovement(model, 0.8), LogExpectedImprovement(model, 0.8), UpperConfidenceBound(model, 0.1)):
    show(**{type(function).__name__: function(candidates)})
UpperConfidenceBound(model, 0.1)(candidates).sum().backward()
show(slope=candidates.grad)
