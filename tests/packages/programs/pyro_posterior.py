"""pyro: traces, stochastic variational inference, enumeration, and the potential of Hamiltonian Monte Carlo."""

import pyro
import pyro.distributions as dist
import torch
from common import data, show
from pyro.infer import SVI, Trace_ELBO, TraceEnum_ELBO, config_enumerate
from pyro.infer.autoguide import AutoDelta, init_to_value
from pyro.infer.mcmc.util import initialize_model
from pyro.nn import PyroModule, PyroSample

torch.set_default_dtype(torch.float64)
tosses = torch.tensor([1.0] * 6 + [0.0] * 4)


def coin(tosses):
    fairness = pyro.sample("fairness", dist.Beta(torch.tensor(10.0), torch.tensor(10.0)))
    with pyro.plate("tosses", len(tosses)):
        pyro.sample("seen", dist.Bernoulli(fairness), obs=tosses)


trace = pyro.poutine.trace(pyro.poutine.condition(coin, {"fairness": torch.tensor(0.3)})).get_trace(tosses)
show(log_prob=trace.log_prob_sum())
guide = AutoDelta(coin, init_loc_fn=init_to_value(values={"fairness": torch.tensor(0.4)}))
steps = SVI(coin, guide, pyro.optim.Adam({"lr": 0.05}), loss=Trace_ELBO())
for _ in range(20):
    loss = steps.step(tosses)
show(loss=loss, mode=guide.median()["fairness"])
_, potential, _, _ = initialize_model(coin, model_args=(tosses,))
show(potential=potential({"fairness": torch.tensor(0.2)}))


@config_enumerate
def mixture(x):
    weights = pyro.param("weights", torch.tensor([0.4, 0.6]), constraint=dist.constraints.simplex)
    places = pyro.param("places", torch.tensor([-1.0, 2.0]))
    with pyro.plate("x", len(x)):
        chosen = pyro.sample("chosen", dist.Categorical(weights))
        pyro.sample("seen", dist.Normal(places[chosen], 1.0), obs=x)


steps = SVI(mixture, lambda x: None, pyro.optim.ClippedAdam({"lr": 0.1}), TraceEnum_ELBO(max_plate_nesting=1))
for _ in range(10):
    loss = steps.step(data("x", 5))
show(enumerated=loss, places=pyro.param("places"))


class Regression(PyroModule):
    def __init__(self):
        super().__init__()
        self.linear = PyroModule[torch.nn.Linear](2, 1)
        self.linear.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 2]).to_event(2))
        self.linear.bias = PyroSample(dist.Normal(0.0, 10.0).expand([1]).to_event(1))

    def forward(self, x, y=None):
        with pyro.plate("rows", len(x)):
            pyro.sample("y", dist.Normal(self.linear(x).squeeze(-1), 1.0), obs=y)


fixed = {"linear.weight": torch.ones(1, 2), "linear.bias": torch.ones(1)}
trace = pyro.poutine.trace(pyro.poutine.condition(Regression(), fixed)).get_trace(data("rows", 3, 2), torch.ones(3))
show(regression=trace.log_prob_sum())
