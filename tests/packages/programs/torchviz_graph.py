"""The computational graph of a model by torchviz."""

from common import data, filled
from torch import nn
from torchviz import make_dot

model = filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))
graph = make_dot(model(data("x", 2, 3)).sum(), params=dict(model.named_parameters()))
print("parameters", sum(name in graph.source for name, _ in model.named_parameters()))
print("accumulates", graph.source.count("AccumulateGrad"))
