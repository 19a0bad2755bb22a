"""The budget that a memory_budget names if it is too small: large enough, and the same in every smaller budget."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from tests.func.memory.test_budget import cnn, mlp, recurrent, transformer

F = nn.functional


def widths():
    """Wide and narrow layers: to compute them again from nothing takes more than all that is saved."""
    sizes = (64, 32, 128, 16, 256, 64, 10)
    layers = [each for pair in zip(sizes, sizes[1:], strict=False) for each in (nn.Linear(*pair), nn.ReLU())]
    target = rg.tensor(np.arange(64) % 10)
    return nn.Sequential(*layers), rg.randn(64, 64), lambda y: F.cross_entropy(y, target)


class Residual(nn.Module):
    def __init__(self, channels, stride=1):
        super().__init__()
        wider = channels * stride
        self.body = nn.Sequential(
            nn.Conv2d(channels, wider, 3, stride, 1), nn.BatchNorm2d(wider), nn.ReLU(), nn.Conv2d(wider, wider, 3, 1, 1)
        )
        self.short = nn.Conv2d(channels, wider, 1, stride)

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))


def residual():
    return nn.Sequential(Residual(4), Residual(4, 2), Residual(8)), rg.randn(4, 4, 12, 12), lambda y: y.square().mean()


class Skipping(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, 1, 1)
        self.deep = nn.Conv2d(8, 16, 3, 1, 1)
        self.up = nn.Conv2d(24, 4, 3, 1, 1)

    def forward(self, x):
        high = F.relu(self.down(x))
        deep = F.relu(self.deep(F.max_pool2d(high, 2)))
        return self.up(rg.cat([F.interpolate(deep, scale_factor=2), high], 1))


def skipping():
    return Skipping(), rg.randn(4, 3, 16, 16), lambda y: y.square().mean()


class Tangle(nn.Module):
    """A random program over matrices of 20 columns: values that are used again, views, masks, and some that nobody
    uses but the program holds until its end."""

    def __init__(self, seed):
        super().__init__()
        self.seed = seed
        self.weight = nn.Parameter(rg.randn(20, 20) * 0.3)

    def forward(self, x):
        draw = random.Random(self.seed)
        values = [x @ self.weight]
        for _ in range(draw.randint(5, 30)):
            a, b = (values[-1 - min(int(draw.expovariate(rate)), len(values) - 1)] for rate in (0.6, 0.4))
            rows = draw.choice((1, 3, 10, 40))
            values.append(
                draw.choice(
                    (
                        lambda: a.sin(),  # noqa: B023
                        lambda: a.sum(0, keepdim=True) * b,  # noqa: B023
                        lambda: a @ self.weight,  # noqa: B023
                        lambda: rg.cat([a, b], 0)[:rows],  # noqa: B023
                        lambda: (a.mean(0, keepdim=True).expand(rows, 20) * 1.1).tanh(),  # noqa: B023
                        lambda: F.dropout(a, 0.3),  # noqa: B023
                        lambda: a.softmax(-1),  # noqa: B023
                        lambda: F.layer_norm(a, (20,)),  # noqa: B023
                        lambda: a.exp().log1p() + b.mean(0, keepdim=True),  # noqa: B023
                        lambda: (a * 1.0).sigmoid_(),  # noqa: B023
                    )
                )()
            )
        return values[-1]


def tangle(seed):
    return lambda: (Tangle(seed), rg.randn(10, 20), lambda y: y.square().mean())


def named(make, limit):
    """The smallest budget that the step names in this one, and the gradients; None where it is kept."""
    rg.manual_seed(0)
    model, x, loss_of = make()
    least = None
    try:
        with rg.memory_budget(limit) as budget:
            loss_of(model(x)).backward()
        assert budget.peak <= limit
    except RuntimeError as error:
        least = int(re.search(r"a budget of (\d+) bytes", str(error))[1])
    return least, [p.grad.array.tobytes() for p in model.parameters()]


def smallest(make):
    """The number that all budgets name which are too small: some at random, and those next below it."""
    full, plain = named(make, 10**12)
    assert full is None
    least, _ = named(make, 1)
    if least is None:
        return 0
    draw = random.Random(least)
    for limit in {least - 1, int(0.995 * least), least // 2, *(draw.randint(1, least - 1) for _ in range(3))}:
        found, gradients = named(make, max(limit, 1))
        assert found == least or found is None and limit >= 0.8 * least, limit
        assert gradients == plain
    for limit in (least, least + 1, *(draw.randint(least, 2 * least) for _ in range(3))):
        assert named(make, limit) == (None, plain), limit
    return least


MODELS = [mlp, widths, cnn, residual, skipping, recurrent, transformer]


@pytest.mark.slow
@pytest.mark.parametrize("make", MODELS)
def test_the_named_budget_is_the_smallest_of_a_model(make):
    assert smallest(make)


@pytest.mark.every(4)
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed >= 16)) for seed in range(64)])
def test_the_named_budget_is_the_smallest_of_a_random_program(seed):
    smallest(tangle(seed))


def test_a_large_intermediate_before_a_small_value_does_not_count():
    """No node saves it, so it is in memory only while it is read, as in the forward pass."""
    x = rg.linspace(0, 1, 100, requires_grad=True)
    with rg.memory_budget(400) as budget:
        y = x.expand(1000, 100).mul(2.0).sum(0)
        for _ in range(6):
            y = y.sin()
        y.sum().backward()
    assert budget.recomputations
    assert budget.peak == 400


def test_what_nobody_uses_need_not_stay():
    x = rg.linspace(0, 1, 100, requires_grad=True)
    with rg.memory_budget(800) as budget:
        unused = x.expand(50, 100).sin().exp()
        y = x.sin().sin().sin()
        y.sum().backward()
    assert unused.shape == (50, 100)
    assert budget.peak <= 800
