"""Steps with ``differentiable=True``: the values of plain steps, and the gradients that PyTorch's have."""

import numpy as np
import pytest

import retrograd as rg

OPTIMIZERS = {
    "sgd": ("SGD", {"lr": 0.1}),
    "sgd with momentum": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}),
    "sgd with nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    "asgd": ("ASGD", {"lr": 0.1, "t0": 1, "weight_decay": 0.1}),
    "adam": ("Adam", {"lr": 0.1, "weight_decay": 0.1}),
    "adam with the largest": ("Adam", {"lr": 0.1, "amsgrad": True, "maximize": True}),
    "adamw": ("AdamW", {"lr": 0.1, "weight_decay": 0.1}),
    "adamax": ("Adamax", {"lr": 0.1, "weight_decay": 0.1}),
    "nadam": ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "radam": ("RAdam", {"lr": 0.1, "weight_decay": 0.1}),
    "radam that is certain": ("RAdam", {"lr": 0.1, "betas": (0.9, 0.6)}),
    "adagrad": ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1}),
    "adadelta": ("Adadelta", {"lr": 0.1, "weight_decay": 0.1}),
    "rmsprop": ("RMSprop", {"lr": 0.1, "weight_decay": 0.1}),
    "rmsprop with all": ("RMSprop", {"lr": 0.1, "centered": True, "momentum": 0.9, "maximize": True}),
    "rprop": ("Rprop", {"lr": 0.1}),
}


START = rg.tensor([0.5, -1.0, 2.0], dtype=rg.float64)
TARGET = rg.tensor([1.0, 0.3, -0.7], dtype=rg.float64)


def after_steps(name, options, start, target, differentiable=True):
    """The parameter after four steps."""
    parameter = start.clone() if differentiable else start.detach().clone().requires_grad_()
    optimizer = getattr(rg.optim, name)([parameter], **options, differentiable=differentiable)
    for _ in range(4):
        here = parameter * 1
        loss = ((here - target) ** 2).sum() + (here * target).sin().sum()
        (parameter.grad,) = rg.autograd.grad(loss, here, create_graph=differentiable)
        optimizer.step()
    return parameter


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_recorded_steps_have_the_values_of_plain_ones(name):
    start = START.clone().requires_grad_()
    recorded = after_steps(*OPTIMIZERS[name], start, TARGET)
    plain = after_steps(*OPTIMIZERS[name], start, TARGET, differentiable=False)
    np.testing.assert_allclose(recorded.detach().numpy(), plain.detach().numpy(), rtol=1e-7)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_gradients_through_steps_are_those_of_finite_differences(name):
    inputs = START.clone().requires_grad_(), TARGET.clone().requires_grad_()
    assert rg.autograd.gradcheck(lambda start, target: after_steps(*OPTIMIZERS[name], start, target), inputs)


def test_a_learning_rate_that_is_a_tensor_gets_a_gradient():
    lr = rg.tensor(0.1, dtype=rg.float64, requires_grad=True)
    start = rg.tensor([0.5, -1.0], dtype=rg.float64)
    parameter = start.clone().requires_grad_() * 1
    optimizer = rg.optim.SGD([parameter], lr=lr, differentiable=True)
    parameter.grad = rg.tensor([1.0, 3.0], dtype=rg.float64)
    optimizer.step()
    (found,) = rg.autograd.grad(parameter.sum(), lr)
    assert found.item() == -4


def test_a_recorded_step_refuses_leaves_as_every_write_does_and_what_has_no_recorded_form():
    leaf = rg.ones(2, requires_grad=True)
    optimizer = rg.optim.Adam([leaf], differentiable=True)
    leaf.grad = rg.ones(2)
    with pytest.raises(RuntimeError, match="leaf"):
        optimizer.step()

    class Own(rg.optim.SGD):
        def _update(self, parameter, gradient, group):
            """Another formula."""

    optimizer = Own([leaf], differentiable=True)
    with pytest.raises(RuntimeError, match="Own: differentiable=True is not supported"):
        optimizer.step()
