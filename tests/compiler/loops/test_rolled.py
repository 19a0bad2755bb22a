"""Loops in compiled functions: the body is compiled once, and so is the loop of the backward pass."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.func import fori_loop, grad, jvp, scan, vmap, while_loop
from tests.compiler.programs.looped import check_looped

F64 = rg.float64


def rolled(function) -> list:
    """The loops among the instructions of a compiled function's only program."""
    (entry,) = function.entries
    return [step for step in entry.trace.program.instructions if step.kind == "rolled"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_random_loop_has_the_numbers_of_an_eager_one(seed):
    assert check_looped(seed) == "rolled"


@pytest.mark.parametrize("way", ["loops", "mixed"])
def test_a_random_loop_runs_as_replays_too(way):
    for seed in (40,):
        assert check_looped(seed, way) == "rolled"


@pytest.mark.every(3)
@pytest.mark.slow
@pytest.mark.parametrize("way", ["usual", "loops", "mixed"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_more_random_loops_have_the_numbers_of_eager_ones(way, dtype, pytestconfig):
    for seed in range(100, 120 if pytestconfig.getoption("--long") else 102):
        check_looped(seed, way, dtype)


def orbit(steps, **options):
    def loss(p, u):
        def step(u, _):
            return u + 0.01 * rg.stack([p[0] * u[0] - u[0] * u[1], u[0] * u[1] - p[1] * u[1]]), None

        return (scan(step, u, length=steps, **options)[0] ** 2).sum()

    return loss


POINT = rg.tensor([1.5, 3.0], dtype=F64), rg.tensor([1.0, 1.0], dtype=F64)


@pytest.mark.slow
def test_the_number_of_instructions_does_not_grow_with_the_number_of_steps():
    counts = []
    for steps in (3, 700):
        function = rg.compile(grad(orbit(steps)))
        got = function(*POINT)
        counts.append(len(function.entries[0].trace.program.instructions))
        assert rg.allclose(function(*POINT), got, rtol=1e-12)
    assert counts[0] == counts[1] < 20
    assert rg.allclose(got, grad(orbit(700))(*POINT), rtol=1e-9)
    assert "a loop of 700 steps" in function.explain()


def test_a_loop_whose_result_requires_grad_has_a_backward_part():
    function = rg.compile(orbit(20))
    want = grad(orbit(20))(*POINT)
    for _ in range(3):
        p = POINT[0].clone().requires_grad_()
        function(p, POINT[1]).backward()
        assert rg.allclose(p.grad, want, rtol=1e-12)
    assert rolled(function)


def test_numbers_and_tensors_from_outside_are_inputs_of_the_loop():
    layer = rg.nn.Linear(3, 3)

    def function(x, h):
        scale = x.sum()
        total = scan(lambda c, _: (layer(c).tanh() * h + scale, c.sum()), x, length=5)[1].sum()
        return total + fori_loop(0, 4, lambda i, y: y + i * h, scale)

    compiled = rg.compile(function)
    for h in (0.1, 0.2, 0.3, 0.4):
        for seed in (0, 1):
            x = rg.tensor(np.random.default_rng(seed).standard_normal(3).astype(np.float32))
            assert rg.allclose(compiled(x, h), function(x, h), rtol=1e-5)
    with rg.no_grad():
        layer.weight.mul_(2)
    assert rg.allclose(compiled(x, h), function(x, h), rtol=1e-5)
    assert compiled.traces <= 3


def test_a_step_that_cannot_be_compiled_once_is_traced_step_by_step():
    counter = [0.0]

    def impure(c, _):
        counter[0] += 1.0
        return c + counter[0], None

    def random(c, _):
        return c + rg.rand(3), None

    def decides(c, x):
        return (c * 2 if c.sum() > 3 else c + 1), None

    def writes(c, x):
        c += 1
        return c, None

    with pytest.raises(RuntimeError, match="pure function"):
        rg.compile(lambda x: scan(impure, x, length=3)[0])(rg.zeros(3))
    function = rg.compile(lambda x: scan(random, x, length=3)[0])
    rg.manual_seed(0)
    first = [function(rg.zeros(3)) for _ in range(2)]
    rg.manual_seed(0)
    assert [scan(random, rg.zeros(3), length=3)[0].tolist() for _ in range(2)] == [x.tolist() for x in first]
    function = rg.compile(lambda x: scan(writes, x * 1, length=3)[0])
    assert [function(rg.zeros(3)).tolist() for _ in range(2)] == [[3, 3, 3]] * 2 and not rolled(function)
    function = rg.compile(lambda x: while_loop(lambda v: v < 3, lambda v: v + 1, x))
    assert [function(rg.tensor(v)) for v in (0.0, 0.5, 2.0, 0.0)] == [3, 3.5, 3, 3]
    with pytest.raises(RuntimeError, match="depends on the elements"):
        rg.compile(lambda x: scan(decides, x, length=3)[0])(rg.ones(3))


@pytest.mark.filterwarnings("ignore:compile")
def test_a_loop_of_a_call_without_a_program_has_its_backward_pass():
    class Noisy(rg.autograd.Function):  # its backward pass draws, so that it cannot be compiled once
        @staticmethod
        def forward(ctx, x):
            return x / 2

        @staticmethod
        def backward(ctx, g):
            return g / 2 + 0 * rg.rand(2)

    def halved(x):
        y = scan(lambda c, _: (Noisy.apply(c), None), x, length=3)[0]
        return y.sum() * (2 if y.sum().item() > 0 else 1)  # ends the trace

    function = rg.compile(halved, fallback=True)
    for _ in range(2):
        x = rg.ones(2, requires_grad=True)
        function(x).backward()
        assert x.grad.tolist() == [0.25, 0.25] and not function.entries


def test_errors_of_a_step_are_those_of_an_eager_loop():
    for f, words in (
        (lambda c, x: c, "pair"),
        (lambda c, x: (rg.ones(2), None), "same shape and dtype"),
        (lambda c, x: (c @ rg.ones(5), None), "matmul"),
    ):
        with pytest.raises((TypeError, RuntimeError), match=words):
            rg.compile(lambda x, f=f: scan(f, x, length=2)[0])(rg.ones(3))
    function = rg.compile(lambda x: scan(lambda c, _: (rg.linalg.inv(c), None), x, length=3)[0])
    assert function(2 * rg.eye(2)).tolist() == [[0.5, 0], [0, 0.5]]
    with pytest.raises(RuntimeError, match="Singular"):
        function(rg.zeros(2, 2))
    assert function(2 * rg.eye(2)).tolist() == [[0.5, 0], [0, 0.5]]


def test_sizes_and_layouts_that_change_between_calls_give_right_numbers():
    def function(x, xs):
        return scan(lambda c, x: (c @ x.T * 0.5, c.sum(0)), x, xs)

    compiled = rg.compile(function)
    rng = np.random.default_rng(0)
    for steps in (2, 5, 2, 3):
        for turned in (False, True):
            x = rg.tensor(rng.standard_normal((3, 3)))
            xs = rg.tensor(rng.standard_normal((steps, 3, 3)))
            if turned:
                x, xs = x.T, xs.transpose(1, 2)
            for got, want in zip(compiled(x, xs), function(x, xs), strict=True):
                assert rg.allclose(got, want, rtol=1e-12)


def test_results_of_a_loop_do_not_share_memory_with_its_arguments():
    compiled = rg.compile(lambda x, xs: scan(lambda c, x: (c, x), x, xs))
    x, xs = rg.ones(3), rg.ones(4, 3)
    for _ in range(2):
        last, ys = compiled(x, xs)
        last += 1
        ys += 1
        assert x.sum() == 3 and xs.sum() == 12


@pytest.mark.slow
def test_derivatives_of_a_compiled_loop_through_vmap_and_forward_mode():
    loss = orbit(4)
    ps = rg.stack([POINT[0], POINT[0] * 0.5])
    for function in (
        lambda p: vmap(grad(loss), in_dims=(0, None))(ps * p.sum(), POINT[1]),
        lambda p: jvp(lambda p: loss(p, POINT[1]), (p,), (p,))[1],
        lambda p: grad(lambda p: jvp(lambda p: loss(p, POINT[1]), (p,), (p,))[1])(p),
    ):
        compiled = rg.compile(function)
        for p in (POINT[0], POINT[0] * 0.9):
            assert rg.allclose(compiled(p), function(p), rtol=1e-10)


def test_a_compiled_checkpointed_loop_stores_the_square_root_of_its_carries():
    def loss(x, checkpoint):
        return scan(lambda c, _: ((c * 1.01).sin(), None), x, length=100, checkpoint=checkpoint)[0].sum()

    largest = {}
    for checkpoint in (False, True):
        function = rg.compile(lambda x, checkpoint=checkpoint: grad(lambda x: loss(x, checkpoint))(x))
        x = rg.linspace(0, 1, 50, dtype=F64)
        assert rg.allclose(function(x), grad(lambda x, c=checkpoint: loss(x, c))(x), rtol=1e-12)
        largest[checkpoint] = max(v.nbytes for step in rolled(function) for v in step.outs)
    assert largest[False] == 100 * 400 and largest[True] == 10 * 400


def test_loops_are_rolled_after_bfloat16_and_meta_have_come():
    rg.ones(1, dtype=rg.bfloat16), rg.empty(1, device="meta")
    assert check_looped(0) == "rolled"


@pytest.mark.slow
@pytest.mark.parametrize("reads", [1, 3])
def test_only_sums_of_a_constants_gradients_within_a_step_round_bfloat16_differently(reads):
    def loss(u, k, xs):
        def step(u, x):
            u = (u * k + x).tanh() if reads == 1 else (u * k + x * k).tanh() + k.sin()
            return u, u

        u, ys = scan(step, u, xs)
        return (u * u).sum() + ys.sum()

    numbers = np.random.default_rng(0)
    given = [rg.tensor(numbers.standard_normal(s).astype(np.float32)).bfloat16() for s in ((8,), (8,), (12, 8))]
    values, gradients = rg.compile(loss), rg.compile(grad(loss, argnums=(0, 1, 2)))
    for _ in range(2):
        assert values(*given).item() == loss(*given).item()
        (u, k, xs), (eager_u, eager_k, eager_xs) = gradients(*given), grad(loss, argnums=(0, 1, 2))(*given)
        assert rg.equal(u, eager_u)
        assert rg.equal(xs, eager_xs)
        error = float((k.float() - eager_k.float()).abs().max() / eager_k.float().abs().max())
        assert error <= (0 if reads == 1 else 3 * 2.0**-8)  # a sum of 12 steps in another order
    assert rolled(values)
    assert rolled(gradients)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.slow)])
def test_rolled_arrays_of_a_step_have_the_numbers_of_eager_ones(dtype):
    def loss(u, k):
        def step(u, _):
            near = rg.roll(u, 1, 0) + rg.roll(u, -2, 0) * rg.roll(u, 1, 1) - rg.roll(u, -1, -1)
            near = near + rg.roll(u, (1, 1), (0, 1))
            return u + k * (near - rg.roll(u.sin(), 3, 0) * rg.roll(u, 13, 0)), rg.roll(u, 2, 1)

        u, ys = scan(step, u, length=4)
        return (u**2).sum() + ys.mean()

    u = rg.tensor(np.random.default_rng(0).standard_normal((24, 25)).astype(dtype))
    k = rg.tensor(0.05, dtype=u.dtype)
    for function in (loss, grad(loss, argnums=(0, 1))):
        compiled = rg.compile(function)
        for _ in range(2):
            pairs = compiled(u, k), function(u, k)
            for got, want in zip(*pairs, strict=True) if isinstance(pairs[0], tuple) else [pairs]:
                np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-3 if dtype == np.float32 else 1e-11)
