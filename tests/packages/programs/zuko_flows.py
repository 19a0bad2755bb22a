"""zuko: densities and gradients of normalizing flows."""

import zuko
from common import data, filled, gradients, show

x, context = data("x", 2, 3), data("context", 2, 2)
for kind in (zuko.flows.MAF, zuko.flows.NSF, zuko.flows.NAF):
    flow = filled(kind(3, 2, transforms=2, hidden_features=(8,)))
    density = flow(context).log_prob(x)
    density.sum().backward()
    show(**{kind.__name__: density, f"{kind.__name__}_gradient": gradients(flow)})
transform = filled(zuko.flows.NSF(3, 2, transforms=2, hidden_features=(8,)))(context[0]).transform
show(transformed=transform(x), back=bool((transform.inv(transform(x)) - x).abs().max() < 1e-9))
flow = filled(zuko.flows.CNF(3, 2, hidden_features=(8,)))
show(**{"~continuous": flow(context).log_prob(x).sum(), "drawn": str(tuple(flow(context).sample((4,)).shape))})
