"""Gradients at the ends of a dtype's range, infinities, NaN: the weights, finite or not, are PyTorch's."""

import itertools

import numpy as np
import pytest

import retrograd as rg
from retrograd import optim

torch = pytest.importorskip("torch")

OPTIONS = {
    "SGD": [{}, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, {"momentum": 0.9, "dampening": 0.5}],
    "ASGD": [{"t0": 1, "lambd": 0.1}],
    "Adam": [{}, {"amsgrad": True, "weight_decay": 0.1}, {"betas": (0.3, 0.4)}, {"maximize": True}],
    "AdamW": [{}],
    "Adamax": [{}, {"betas": (0.3, 0.4)}],
    "NAdam": [{}],
    "RAdam": [{}, {"betas": (0.3, 0.2)}],
    "Adagrad": [{}, {"lr_decay": 0.1, "initial_accumulator_value": 0.1}],
    "Adadelta": [{}, {"rho": 0.3}],
    "RMSprop": [{}, {"centered": True}, {"momentum": 0.9}],
    "Rprop": [{}],
    "Adafactor": [{}, {"weight_decay": 0.1}],
    "Muon": [{}],
}
CASES = [(name, options) for name, all_options in OPTIONS.items() for options in all_options]

# 0, a number below the normal ones, squares that vanish, squares that overflow, squares that overflow even times 0.001.
EXTREMES = {
    np.float16: [1e-7, 1e-4, 200.0, -300.0, 5000.0, -6e4],
    np.float32: [1e-42, 1e-30, 1e19, -1e20, 1e38, -3e38],
    np.float64: [1e-310, 1e-200, 1e154, -1e155, 1e300, -1e308],
}
TOLERANCE = {np.float16: 2e-2, np.float32: 1e-4, np.float64: 1e-9}


@pytest.fixture(autouse=True)
def full_precision_muon(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda self: self.clone())


def check_steps(name, options, gradients, tolerance):
    """Step both libraries from 0.7 along the gradients."""
    start = np.full_like(gradients[0], 0.7)
    ours, theirs = rg.tensor(start, requires_grad=True), torch.tensor(start, requires_grad=True)
    our_optimizer = getattr(optim, name)([ours], **options)
    their_optimizer = getattr(torch.optim, name)([theirs], **options)
    for g in gradients:
        ours.grad, theirs.grad = rg.tensor(g), torch.tensor(g)
        our_optimizer.step()
        their_optimizer.step()
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", EXTREMES)
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_extreme_gradients_move_the_weights_as_in_pytorch(name, options, dtype):
    values = [0.0, 1.0, -0.3, np.inf, -np.inf, np.nan, *EXTREMES[dtype]]
    if name in ("Adafactor", "Muon"):  # one extreme among ordinary gradients, in a matrix and (Adafactor) a vector
        random = np.random.default_rng(0)
        for value, shape in itertools.product(values, [(4, 3), (5,)] if name == "Adafactor" else [(4, 3)]):
            gradients = random.normal(size=(4, *shape)).astype(dtype)
            gradients[1][..., 1] = gradients[2].flat[0] = value
            check_steps(name, options, gradients, TOLERANCE[dtype])
    else:  # every sequence of three, one in each element, and ordinary gradients afterwards
        sequences = np.array(list(itertools.product(values, repeat=3)), dtype).T
        check_steps(name, options, [*sequences, *np.ones_like(sequences[:2])], TOLERANCE[dtype])
