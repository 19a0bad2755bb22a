"""gpytorch: an exact and a variational Gaussian process, trained and evaluated."""

import math

import gpytorch
import torch
from common import show

torch.set_default_dtype(torch.float64)
x = torch.linspace(0, 1, 30)
y = torch.sin(x * (2 * math.pi)) + 0.05 * torch.cos(37 * x)


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5))

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Exact(x, y, likelihood)
loss_of = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    loss = -loss_of(model(x), y)
    loss.backward()
    optimizer.step()
show(loss=loss, lengthscale=model.kernel.base_kernel.lengthscale, noise=likelihood.noise)
model.eval()
likelihood.eval()
with torch.no_grad(), gpytorch.settings.fast_pred_var():
    prediction = likelihood(model(torch.linspace(0, 1, 7)))
    lower, upper = prediction.confidence_region()
show(mean=prediction.mean, lower=lower, upper=upper)


class Variational(gpytorch.models.ApproximateGP):
    def __init__(self, z):
        posterior = gpytorch.variational.CholeskyVariationalDistribution(len(z))
        super().__init__(gpytorch.variational.VariationalStrategy(self, z, posterior))
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.RBFKernel()

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


model = Variational(x[:8].clone())
model.variational_strategy.variational_params_initialized.fill_(1)
elbo = gpytorch.mlls.VariationalELBO(likelihood.train(), model, num_data=30)
loss = -elbo(model(x), y)
loss.backward()
show(elbo=loss, gradient=model.variational_strategy.inducing_points.grad.abs())
