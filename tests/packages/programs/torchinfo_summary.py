"""A summary of a model by torchinfo, and its graph by torchviz."""

from common import data, filled
from torch import nn
from torchinfo import summary

model = filled(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)))
info = summary(model, input_data=data("image", 2, 3, 8, 8), verbose=0)
print(info)
print("total", info.total_params, info.total_mult_adds)
