"""Constants folded: what no call changes is computed once, and is nobody's but the program's."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.compiler.cpu import machine_code
from retrograd.compiler.passes import constants
from retrograd.nn import functional as F


def normal(seed, *shape):
    return rg.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def same(f, *calls):
    """The compiled function, after calls that gave what the eager one does."""
    compiled = rg.compile(f)
    for call in calls:
        for got, wanted in zip(compiled(*call), f(*call), strict=True):
            np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-5)
    return compiled


def names(compiled):
    (entry,) = compiled.entries
    return [step.name for step in entry.folded.instructions]


def test_masks_tables_and_positions_are_computed_once():
    w = normal(0, 64, 64)

    def f(x):
        positions = rg.arange(64).float() / 64
        table = F.one_hot(rg.arange(64) % 7, 7).float()
        hidden = (x @ w).masked_fill(rg.triu(rg.ones(64, 64), 1) > 0, -1.0)
        return (hidden + positions + rg.eye(64)) @ table, hidden * 0.5

    compiled = same(f, *[(normal(k, 64, 64),) for k in range(4)])
    assert {"arange", "eye", "triu"} <= set(names(compiled))
    assert "computed once: " in compiled.explain() and "constants are kept" in compiled.explain()
    assert any(kind == "constant" for _, (kind, _) in compiled.entries[0].trace.program.inputs)


@pytest.mark.parametrize("size", [8, 100])
def test_what_is_returned_or_written_is_made_in_each_call(size):
    def f(x):
        mask = rg.tril(rg.ones(size, size))
        counts = rg.arange(size).float()
        counts[0] = x.sum()
        total = rg.zeros(size, size)
        total += x
        return x * mask, mask, counts, total, mask[1:], rg.eye(size)

    compiled = rg.compile(f)
    for k in range(4):
        x = normal(k, size, size)
        got = compiled(x)
        for one, two in zip(got, f(x), strict=True):
            np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=1e-5, atol=1e-4)  # a sum of 10,000 numbers
        for one in got:
            one.mul_(-3.0)


def test_gradients_that_are_constant_are_the_users():
    w = normal(0, 40, 40).requires_grad_()

    def f(x):
        w.grad = None
        (w * rg.tril(rg.ones(40, 40))).sum().backward()
        return (x * 2,)

    compiled = rg.compile(f)
    for k in range(4):
        compiled(normal(k, 3))
        assert (w.grad.numpy() == np.tril(np.ones((40, 40)))).all()
        w.grad.mul_(5.0)


def test_a_backward_part_reads_constants_that_nobody_else_has():
    f = rg.compile(lambda x: (x * rg.tril(rg.ones(40, 40)) + rg.arange(40).float()).square().sum())
    for k in range(4):
        x, y = normal(k, 40, 40).requires_grad_(), normal(k, 40, 40).requires_grad_()
        f(x).backward()
        f.function(y).backward()
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-5)


@pytest.mark.parametrize("size", [10, 600])
def test_an_array_that_its_owner_writes_is_not_a_constant(size):
    table = np.ones((size, size), np.float32)

    def f(x):
        return (x * rg.from_numpy(table).cumsum(0),)

    compiled = rg.compile(f)
    for k in range(4):
        x = normal(k, size, size)
        np.testing.assert_allclose(compiled(x)[0].numpy(), f(x)[0].numpy(), rtol=1e-5)
        table *= 2


def test_numbers_that_vary_make_other_constants():
    def f(x, n):
        return (x * (rg.arange(50).float() * n).cos(),)

    same(f, *[(normal(k, 50), n) for k, n in enumerate([1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 4.0])])


def test_random_numbers_are_drawn_in_each_call():
    compiled = rg.compile(lambda x: x + rg.rand(50) * rg.arange(50).float())
    x = rg.zeros(50)
    drawn = [compiled(x).numpy().copy() for _ in range(4)]
    assert all((one != two).any() for one, two in zip(drawn, drawn[1:], strict=False))


def test_large_constants_are_not_kept(monkeypatch):
    def f(x):
        return (x + rg.eye(200).cumsum(0) * 2, x * rg.arange(200).float())

    assert "eye" in names(same(f, *[(normal(k, 200, 200),) for k in range(3)]))
    monkeypatch.setattr(constants, "MAX_CONSTANT_BYTES", 10_000)
    assert "eye" not in names(same(f, *[(normal(k, 200, 200),) for k in range(3)]))
    monkeypatch.setattr(constants, "MAX_CONSTANT_BYTES", 1 << 22)
    monkeypatch.setattr(constants, "MAX_TOTAL_BYTES", 10_000)
    assert not names(same(f, *[(normal(k, 200, 200),) for k in range(3)]))


def test_numbers_made_of_constants_and_their_checks_are_folded():
    def f(x):
        scale = rg.arange(5).float().sum().item()
        return (x * scale, x + F.one_hot(rg.arange(4), 4).sum())

    compiled = same(f, *[(normal(k, 100),) for k in range(4)])
    assert not [step for step in compiled.entries[0].replay.instructions if step.kind == "guard"]


@pytest.mark.skipif(not machine_code.available(), reason="needs the library of loops and LLVM")
def test_a_region_takes_constants_that_are_scalars():
    def f(x):
        scale = rg.arange(5).float().sum() / 7
        return (((x * scale) + 1.0).exp() * scale.sqrt(),)

    same(f, *[(normal(k, 100),) for k in range(4)])
