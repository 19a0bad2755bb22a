"""captum: attributions by gradients, hooks, and perturbation."""

import torch
from captum.attr import (
    LRP,
    DeepLift,
    FeatureAblation,
    GuidedBackprop,
    InputXGradient,
    IntegratedGradients,
    LayerConductance,
    NeuronConductance,
    Occlusion,
    Saliency,
)
from common import data, filled, show

model = filled(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))).eval()
x, baseline = data("x", 2, 3), torch.zeros(2, 3, dtype=torch.float64)
for method in (IntegratedGradients, DeepLift):
    values, delta = method(model).attribute(x, baseline, target=0, return_convergence_delta=True)
    show(**{method.__name__: values[0, 1], "small": bool(delta.abs().max() < 0.1)})
for method in (FeatureAblation, GuidedBackprop, InputXGradient, LRP, Saliency):
    show(**{method.__name__: method(model).attribute(x, target=1)[0]})
show(occlusion=Occlusion(model).attribute(x, sliding_window_shapes=(1,), target=0)[0])
show(layer=LayerConductance(model, model[0]).attribute(x, baseline, target=0)[:, 0])
show(neuron=NeuronConductance(model, model[0]).attribute(x, 1, target=0)[:, 0])
