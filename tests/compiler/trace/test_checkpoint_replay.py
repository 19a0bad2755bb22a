"""Checkpoints in compiled programs: what they do not keep is computed a second time there, too."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import nn
from retrograd.func import checkpoint as checkpointed
from retrograd.utils.checkpoint import checkpoint, checkpoint_sequential

WIDTH, DEPTH = 64, 6


class Model(nn.Module):
    """Blocks with dropout; checkpoints around pairs of them, and around each inside of these."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self.level = level
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(0.2), nn.Tanh()) for _ in range(DEPTH)
        )

    def pair(self, x, start):
        for block in self.blocks[start : start + 2]:
            x = checkpoint(block, x) if self.level > 1 else block(x)
        return x

    def forward(self, x):
        for start in range(0, DEPTH, 2):
            x = checkpoint(self.pair, x, start) if self.level else self.pair(x, start)
        return x


def trained(level, compiled, steps=4):
    """Losses, where the generator is then, and the memory of the program."""
    rg.manual_seed(0)
    model = Model(level).double()
    optimizer = rg.optim.Adam(model.parameters(), 1e-2)
    x = rg.randn(128, WIDTH, dtype=rg.float64)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    run = rg.compile(step) if compiled else step
    losses = [run(x).item() for _ in range(steps)]
    if compiled:
        assert run.traces == 1 and run.entries[0].calls == steps - 1
    return losses, rg.rand(()).item(), run.entries[0].replay.plan.size if compiled else 0


@pytest.mark.slow  # compiles loops
def test_a_step_with_dropout_in_checkpoints_is_the_eager_one_in_less_memory():
    losses, drawn, _ = trained(0, False)
    sizes = []
    for level in (0, 1, 2):
        found, next_drawn, size = trained(level, True)
        np.testing.assert_allclose(found, losses, rtol=1e-12)
        assert next_drawn == drawn
        sizes.append(size)
    assert sizes[0] > 1.5 * sizes[1] > 1.5 * sizes[2]


@pytest.mark.parametrize("how", ["module", "sequential", "func"])
def test_a_backward_outside_of_the_program_gives_the_gradients_of_the_eager_one(how):
    blocks = [nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8)]
    chain = nn.Sequential(*blocks)
    forward = {
        "module": lambda x: checkpoint(chain, x),
        "sequential": lambda x: checkpoint_sequential(chain, 2, x),
        "func": checkpointed(chain),
    }[how]
    compiled = rg.compile(forward)

    def gradients(function):
        rg.manual_seed(1)
        found = []
        for _ in range(3):
            chain.zero_grad()
            function(rg.ones(4, 8)).square().sum().backward()
            found.append([p.grad.numpy().copy() for p in chain.parameters()])
        return found

    for wanted, found in zip(gradients(forward), gradients(compiled), strict=True):
        for a, b in zip(wanted, found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)
    assert compiled.traces == 1


def test_what_is_drawn_and_then_written_to_is_drawn_alike_in_both_runs():
    weight = rg.ones(5, dtype=rg.float64, requires_grad=True)

    def part(x):
        noise = rg.rand(5, dtype=rg.float64)
        noise.mul_(2).add_(x)
        return (noise * weight).exp() * F.dropout(weight, 0.5)

    def step(x):
        weight.grad = None
        checkpoint(part, x).sum().backward()
        return weight.grad * 1

    def several(function):
        rg.manual_seed(2)
        return [function(rg.ones(5, dtype=rg.float64)).numpy() for _ in range(4)]

    compiled = rg.compile(step)
    np.testing.assert_allclose(several(compiled), several(step), rtol=1e-12)
    assert compiled.traces == 1


def test_a_part_that_need_not_draw_alike_draws_anew():
    weight = rg.ones(1000, requires_grad=True)

    def step():
        weight.grad = None
        result = checkpoint(lambda: F.dropout(weight, 0.5) ** 2, preserve_rng_state=False)
        result.sum().backward()
        return result.detach(), weight.grad * 1

    for function in (step, rg.compile(step)):
        for _ in range(3):
            result, grad = function()
            assert ((result == 0) != (grad == 0)).any()
