"""memory_budget on long loops, which it repeats about once, and on random programs of everything that is recorded."""

from __future__ import annotations

import random
import re
from contextlib import suppress

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.core.graph.observers import Observer, observing
from retrograd.func.memory import budget as budget_module
from retrograd.utils.checkpoint import checkpoint

F = nn.functional


class Counter(Observer):
    def __init__(self):
        self.calls = 0

    def called(self, primitive, inputs, params, outputs, node):
        self.calls += 1


def rk4():
    y, p = rg.linspace(0.5, 1.5, 200).reshape(2, 100).requires_grad_(), rg.tensor([1.1, 0.4], requires_grad=True)

    def f(y):
        return rg.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[1] * y[0] * y[1] - p[0] * y[1]])

    def loss():
        h = y
        for _ in range(60):
            k1 = f(h)
            k2 = f(h + 0.01 * k1)
            h = h + 0.02 * f(h + 0.01 * k2) + 0.01 * k1
        return h.square().sum()

    return [y, p], loss


def in_place():
    start, c = rg.linspace(0.1, 1, 100, requires_grad=True), rg.tensor(0.3, requires_grad=True)

    def loss():
        x = start.clone()
        for _ in range(100):
            x += 0.01 * (c * x.sin() - x * x)
            x.mul_(1 - 0.001 * c)
        return x.square().sum()

    return [start, c], loss


def stencil():
    start, c = rg.rand(20, 20).requires_grad_(), rg.tensor(0.2, requires_grad=True)

    def loss():
        u, v = start.clone(), rg.zeros(20, 20)
        v += start * 0.1  # a constant that becomes a variable
        for _ in range(60):
            lap = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
            v[1:-1, 1:-1] += 0.01 * c * lap * (1 - u[1:-1, 1:-1])
            u += 0.001 * v
            u[0] = 0.0
        return u.square().sum()

    return [start, c], loss


def created():
    """Noise, a mask and zeros in each step, which are drawn and created again instead of held."""
    start, c = rg.linspace(0.1, 1, 600, requires_grad=True), rg.tensor(0.3, requires_grad=True)

    def loss():
        h = start
        for _ in range(60):
            rows = rg.zeros(2, 600)
            rows[0] = h
            rows[1] = F.dropout(c * h, 0.2) + 0.01 * rg.randn(600) * c
            h = 0.5 * rows.sum(0).tanh() + rg.arange(600) / 600 * c
        return h.square().sum()

    return [start, c], loss


@pytest.mark.slow
@pytest.mark.parametrize("make", [rk4, in_place, stencil, created])
def test_a_long_loop_is_repeated_about_once_in_a_fifth_of_its_memory(make):
    leaves, loss = make()
    counter = Counter()
    rg.manual_seed(0)
    with observing(counter):
        plain = [g.array.tobytes() for g in rg.autograd.grad(loss(), leaves)]
    rg.manual_seed(0)
    with rg.memory_budget("1 GB") as free:
        rg.autograd.grad(loss(), leaves)
    assert free.recomputations == 0
    rg.manual_seed(0)
    with rg.memory_budget(free.peak // 5) as budget:
        assert [g.array.tobytes() for g in rg.autograd.grad(loss(), leaves)] == plain
    assert budget.peak <= free.peak // 5
    assert budget.recomputations < 1.2 * counter.calls


def test_a_write_by_numpy_to_a_created_tensor_is_seen():
    x = rg.linspace(0, 1, 500, requires_grad=True)

    def loss():
        y = x
        for step in range(20):
            mask, noise = rg.zeros(500), rg.ones(500)
            mask.numpy()[step::3] = 1.0
            y = (y * noise).sin()
            noise.numpy()[:9] = 2.0
            y = (y * mask.detach() + noise * x).cos()
        return y.sum()

    (plain,) = rg.autograd.grad(loss(), x)
    with rg.memory_budget("30 kB"), suppress(RuntimeError):  # what NumPy wrote is held
        x.grad = None
        loss().backward()
    assert rg.equal(x.grad, plain)


class Halved(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * 0.5

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


def half_precision(a, w):
    with rg.autocast("cpu", dtype=rg.float16):
        return (a @ w.T @ w).float() * 0.1


def with_a_zero_row(a):
    b = a * 1.0
    b[0] = 0.0
    return b


def written_into_constant(a, b):
    t = rg.zeros(*a.shape)
    t[:, 1:3] = a[:, 1:3]
    t += b
    return t


def without_a_record(a):
    b = a * 2.0
    with rg.no_grad():
        b.mul_(0.5)
    return b


def hooked(a):
    b = a.tanh()
    if b.requires_grad:
        b.register_hook(lambda g: g * 1.01)
    return b


NEW = [
    lambda a, b, w: (a * b).sin(),
    lambda a, b, w: F.dropout(a, 0.3) + b * 0.5,
    lambda a, b, w: a + 0.1 * rg.randn(*a.shape) * b,
    lambda a, b, w: rg.where(rg.rand(*a.shape) > 0.5, a, b),
    lambda a, b, w: rg.cat([part.cos() for part in a.chunk(2, 1)], 1),
    lambda a, b, w: a.sort(0)[0] * 0.7,
    lambda a, b, w: rg.stack(a.unbind(0)[::-1]).sigmoid(),
    lambda a, b, w: Halved.apply(a),
    lambda a, b, w: checkpoint(lambda a, b: (F.dropout(a, 0.2) * b).tanh(), a, b, use_reentrant=False),
    lambda a, b, w: half_precision(a, w),
    lambda a, b, w: F.layer_norm(a, (4,)),
    lambda a, b, w: F.gelu(a).cumsum(0) * 0.3,
    lambda a, b, w: with_a_zero_row(a),
    lambda a, b, w: written_into_constant(a, b),
    lambda a, b, w: without_a_record(a),
    lambda a, b, w: hooked(a),
]
WRITES = [
    lambda a, b: a.mul_(b.tanh()),
    lambda a, b: a.add_(b, alpha=0.1),
    lambda a, b: a[1:].sub_(b[:-1] * 0.1),
    lambda a, b: a.T.mul_(0.9),
    lambda a, b: a[1].copy_(b[0] * 0.3),
]


def gradients(seed):
    draw = random.Random(seed)
    rg.manual_seed(seed)
    leaves = [rg.randn(5, 4, requires_grad=True) for _ in range(3)]
    values = [leaves[1].clone(), leaves[2] * 1.0, rg.randn(5, 4)]
    for _ in range(draw.choice((8, 16, 40))):
        a, b = (values[-1 - min(int(draw.expovariate(0.5)), len(values) - 1)] for _ in range(2))
        if draw.random() < 0.7:
            values.append(draw.choice(NEW)(a, b, leaves[0]))
        else:
            draw.choice(WRITES)(a, b)
    loss, other = (values[-1] + values[-2] * 0.1 + values[0]).square().mean(), values[len(values) // 2].sin().sum()
    if draw.random() < 0.5:  # the values that the graph saved are overwritten
        for x in values:
            x.detach().zero_()
    first = rg.autograd.grad(loss, leaves, allow_unused=True, create_graph=True)
    second = sum((g * g).sum() for g in first if g is not None)
    found = [*first, *rg.autograd.grad(second, leaves, allow_unused=True, retain_graph=True)]
    if other.requires_grad:
        found += rg.autograd.grad(other, leaves, allow_unused=True)
    return [None if g is None else g.detach().array.tobytes() for g in (*found, rg.rand(2))]


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed >= 3)) for seed in range(10)])
def test_gradients_of_a_random_program_are_the_same_to_the_last_bit(seed, monkeypatch):
    monkeypatch.setattr(budget_module, "SMALL", 1)
    with np.errstate(all="ignore"):
        plain = gradients(seed)
        with rg.memory_budget("1 GB") as budget:
            assert gradients(seed) == plain
        for limit in (budget.peak * 3 // 5, budget.peak // 10):
            for _ in range(20):  # each backward pass may name a larger budget
                try:
                    with rg.memory_budget(limit) as bounded:
                        assert gradients(seed) == plain
                    break
                except RuntimeError as error:
                    limit = int(re.search(r"a budget of (\d+) bytes", str(error))[1])
            assert bounded.peak <= limit
