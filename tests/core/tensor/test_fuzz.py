"""Random programs with views and in-place writes against a model that never mutates (see ``fuzzing``)."""

from __future__ import annotations

import gc
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import retrograd as rg
from retrograd.core.graph.nodes import Node
from retrograd.core.tensor.storage import Storage
from tests.core.tensor import fuzzing


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_programs_agree_with_the_model_that_never_mutates(data):
    """Values and versions at each step, gradients of both orders, after all memory was written over."""
    with np.errstate(all="ignore"):
        fuzzing.run(lambda n: data.draw(st.integers(0, n - 1)), steps=6)


@pytest.mark.every(2)
@pytest.mark.parametrize("seed", range(60))
def test_longer_programs(seed):
    with np.errstate(all="ignore"):
        fuzzing.run(random.Random(seed).randrange, steps=20)


@pytest.mark.parametrize("seed", range(20))
def test_writes_are_in_place_where_nothing_is_differentiated(seed):
    with np.errstate(all="ignore"):
        program = fuzzing.Program(random.Random(seed).randrange, differentiable=False)
        for _ in range(15):
            program.step()


def loss_of(seed: int, shift: float = 0.0, steps: int = 8) -> tuple[float, list[rg.Tensor]]:
    with np.errstate(all="ignore"):
        program = fuzzing.Program(random.Random(seed).randrange, shift=shift)
        for _ in range(steps):
            program.step()
        mine, _ = program.loss()
        leaves = [leaf for leaf, _ in program.leaves]
        if not mine.requires_grad:
            return mine.item(), [rg.zeros_like(leaf.detach()) for leaf in leaves]
        return mine.item(), list(rg.autograd.grad(mine, leaves, materialize_grads=True))


def is_smooth(seed: int) -> bool:
    """Whether the program has no constant copies of what it differentiates (detach, no_grad), hooks, or kinks."""
    program = fuzzing.Program(random.Random(seed).randrange)
    for _ in range(8):
        program.step()
    kinks = ("no_grad", "detach", "hook", "UNARY[6]", "WRITES[14]", "WRITES[16]", "WRITES[22]")
    return not any(word in line for line in program.log for word in kinks)


@pytest.mark.slow
def test_central_differences():
    """A sample with neither detached parts nor kinks, against central differences of the mutating program itself."""
    seeds = [seed for seed in range(150) if is_smooth(seed)]
    assert len(seeds) > 10
    for seed in seeds:
        _, gradients = loss_of(seed)
        if gradients[0].numel():
            difference = (loss_of(seed, 1e-6)[0] - loss_of(seed, -1e-6)[0]) / 2e-6
            np.testing.assert_allclose(gradients[0].reshape(-1)[0].item(), difference, rtol=1e-5, atol=1e-6)


def test_threads_do_not_disturb_each_other():
    alone = [loss_of(seed)[0] for seed in range(24)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: loss_of(seed)[0], range(24)))
    np.testing.assert_array_equal(together, alone)


def test_no_reference_cycles():
    """What a program leaves behind is freed by counting references alone."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for seed in range(30):
            loss_of(seed)
        gc.collect()
        ours = [each for each in gc.garbage if isinstance(each, (rg.Tensor, Node, Storage))]
        assert not ours
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_short_lived_views_do_not_pile_up():
    x = rg.zeros(4)
    for index in range(1000):
        x[index % 4].add_(1)
        x.data += 1
    assert x._storage is not None and len(x._storage.members) < 50
