"""Compiled functions that call vmap, alone and nested with derivatives, and functions under vmap that are compiled."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, scan, vmap
from retrograd.func.nests import flatten

F = nn.functional


def steps(x, w):
    y = x.clone()
    y[1:] += (w @ y)[1:].tanh()
    y = rg.where(y > y.mean(), y.sort()[0], y * w[1])
    part = y.new_zeros(2, 3)
    part[0] = y
    return np.exp(-(part**2).sum(0)) + F.layer_norm(y, (3,))


def rolled(x, w):
    return scan(lambda c, _: ((w @ c).sin() + 0.1 * c, None), x, None, length=4)[0]


def loss(w, x):
    return steps(x, w).square().sum()


PROGRAMS = {
    "gradients per example": lambda w, x: vmap(grad_and_value(loss), (None, 0))(w, x),
    "jacobians": lambda w, x: (jacrev(loss)(w, x[0]), jacfwd(loss)(w, x[0]), vmap(jacrev(steps), (0, None))(x, w)),
    "hessian": lambda w, x: hessian(loss)(w, x[0]),
    "products with the hessian": lambda w, x: vmap(
        lambda x, t: jvp(grad(lambda x: loss(w, x)), (x,), (t,)), chunk_size=2
    )(x, x),
    "a loop of mapped steps": lambda w, x: grad(
        lambda x: scan(lambda c, _: (vmap(rg.sin)(c @ w), None), x, None, length=4)[0].sum()
    )(x),
    "a compiled loop": lambda w, x: (
        vmap(rolled, (0, None))(x, w), jacrev(rolled)(x[0], w), hessian(lambda x: rolled(x, w).sum())(x[0]),
    ),
    "two levels": lambda w, x: vmap(vmap(lambda x, c: steps(x * c, w), (0, None)), (None, 0))(x, x[0]),
    "vmap": lambda w, x: vmap(steps, (0, None), 1)(x, w),
    "drawn by probabilities": lambda w, x: vmap(lambda x: rg.bernoulli(x.sigmoid()), randomness="different")(x),
    "drawn per example": lambda w, x: vmap(lambda x: F.dropout(x, 0.5) * rg.rand(3), randomness="different")(x),
    "drawn for all": lambda w, x: vmap(lambda x: x + rg.bernoulli(rg.full((3,), 0.5)), randomness="same")(x),
    "gradient of a mean": lambda w, x: grad(lambda w: vmap(loss, (None, 0))(w, x).mean())(w),
}  # fmt: skip


@pytest.mark.every(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_compiled_function_maps_as_an_eager_one(name):
    program = PROGRAMS[name]
    compiled = rg.compile(program)
    for seed in range(3):
        rg.manual_seed(seed)
        w, x = rg.randn(3, 3, dtype=rg.float64) * 0.5, rg.randn(4, 3, dtype=rg.float64)
        state = rg.get_rng_state()
        wanted = program(w, x)
        rg.set_rng_state(state)
        found = compiled(w, x)
        pairs = zip(flatten(wanted)[0], flatten(found)[0], strict=True)
        for want, got in pairs:
            np.testing.assert_allclose(got.array, want.array, rtol=1e-12, atol=1e-14)
    assert compiled.traces == 1
    assert "eagerly" not in compiled.explain()


def test_gradients_per_example_of_a_module_are_compiled_and_follow_its_parameters():
    model = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2))
    x, y = rg.randn(5, 3), rg.tensor([0, 1, 1, 0, 1])

    def one(p, x, y):
        return F.cross_entropy(functional_call(model, p, (x[None],)), y[None])

    function = rg.compile(vmap(grad(one), (None, 0, 0)))
    for _ in range(3):
        parameters = {name: p.detach() for name, p in model.named_parameters()}
        found = function(parameters, x, y)
        for k in range(5):
            model.zero_grad()
            F.cross_entropy(model(x[k : k + 1]), y[k : k + 1]).backward()
            for name, p in model.named_parameters():
                np.testing.assert_allclose(found[name].array[k], p.grad.array, rtol=1e-5, atol=1e-6)
        with rg.no_grad():
            for p in model.parameters():
                p.mul_(0.9)
    assert function.traces == 1


def test_a_leaf_that_a_mapped_function_captures_gets_its_gradient():
    w = rg.randn(3, 3, requires_grad=True)

    @rg.compile
    def step(x):
        value = vmap(lambda x: loss(w, x))(x).mean()
        value.backward()
        return value

    for _ in range(3):
        x = rg.randn(4, 3)
        w.grad = None
        step(x)
        found, w.grad = w.grad, None
        vmap(lambda x: loss(w, x))(x).mean().backward()
        np.testing.assert_allclose(found.array, w.grad.array, rtol=1e-4, atol=1e-5)


def test_a_condition_on_an_example_is_the_error_of_vmap():
    with pytest.raises(RuntimeError, match="data-dependent control flow"):
        rg.compile(lambda x: vmap(lambda x: x if x.sum() > 0 else -x)(x))(rg.ones(2, 3))


def test_a_mapped_function_may_be_compiled():
    x, w = rg.randn(4, 3), rg.randn(3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = vmap(grad(rg.compile(loss)), (None, 0))(w, x)
    np.testing.assert_allclose(found.array, vmap(grad(loss), (None, 0))(w, x).array, rtol=1e-5, atol=1e-6)
