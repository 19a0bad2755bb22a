"""Python loops of many steps in compiled functions."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.func import grad
from tests.compiler.programs.python_loops import check_python_loop


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3])
def test_a_random_python_loop_has_the_numbers_of_an_eager_one(seed):
    assert check_python_loop(seed)


@pytest.mark.slow
def test_more_random_python_loops_have_the_numbers_of_eager_ones(pytestconfig):
    seeds = range(40, 60 if pytestconfig.getoption("--long") else 44)
    assert sum(check_python_loop(seed) > 0 for seed in seeds) >= len(seeds) / 2
    assert check_python_loop(6, np.float32)


def driven(u, xs, table):
    """Read a row, write a row, write in place, and read the value of the step before the last."""
    before = u * 0.5
    for i in range(len(xs)):
        v = u * 0.9 + 0.1 * xs[i] + 0.01 * i * before
        v[1:] += 0.1 * u[:-1]
        table[i] = v
        u, before = v, u
    return (u * u).sum() + (table**2).mean()


def loss(u, xs):
    return driven(u, xs, rg.zeros(len(xs), len(u), dtype=u.dtype))


@pytest.mark.slow
def test_the_program_of_a_python_loop_does_not_grow_with_its_steps():
    lengths = []
    for steps in (60, 100):
        rng = np.random.default_rng(0)
        arguments = rg.tensor(rng.standard_normal(3)), rg.tensor(rng.standard_normal((steps, 3)))
        function, compiled = grad(loss, argnums=(0, 1)), rg.compile(grad(loss, argnums=(0, 1)), max_operators=400)
        for _ in range(2):
            for got, want in zip(compiled(*arguments), function(*arguments), strict=True):
                np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)
        (entry,) = compiled.entries
        lengths.append(len(entry.trace.program.instructions))
        assert sum(step.kind == "rolled" for step in entry.trace.program.instructions) == 2
    assert lengths[0] == lengths[1] < 40


def test_a_python_loop_writes_to_an_argument_in_each_step():
    def diffuse(u):
        for _ in range(110):
            u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        return u.sum()

    compiled, start = rg.compile(diffuse), rg.tensor(np.random.default_rng(0).standard_normal(6))
    for _ in range(3):
        got, want = start.clone(), start.clone()
        assert compiled(got).item() == pytest.approx(diffuse(want).item(), rel=1e-12)
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)
    assert any(step.kind == "rolled" for step in compiled.entries[0].trace.program.instructions)
