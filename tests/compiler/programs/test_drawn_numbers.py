"""Programs whose shapes, strides and positions follow from numbers that vary from call to call."""

import random

import pytest

import retrograd as rg
from retrograd import nn

F = nn.functional

# ``x`` has shape (42, 6), ``n`` is from 1 to 6.
EXPRESSIONS = (
    "x[:n]", "x[n:]", "x[::n]", "x[:, :n]", "x[-n:, 1:]", "x[n]", "x.flatten()[n : 7 * n : n]", "x[: n + 1].T",
    "x * len(x[:n])", "x * x[n:].shape[0]", "x * x[:, ::n].stride(1)", "x[:n].reshape(-1)", "x[:n].softmax(0)",
    "rg.stack([t * 2.0 for t in x[:n]])", "sum(t.sum() for t in x[: 6 * n].split(6))", "rg.cat(x[:n].unbind())",
    "x.repeat(n, 1)", "x.roll(n, 0)", "x.view(-1)[: 6 * n].view(n, 6)", "x.narrow(0, n, n)", "x.select(1, n - 1)",
    "rg.zeros(n).sum() + rg.arange(n).numel() * x", "F.pad(x, (n, 0))", "x.topk(n, 1).values", "x.unfold(0, n, 2)",
    "x * (n % 3) + n", "x.chunk(n)[0] * n", "x.expand(n, 42, 6).sum(0)", "x[:n] @ x[:n].T", "x.tile(n)[:, :n]",
)  # fmt: skip


def drawn(seed: int) -> str:
    draw = random.Random(seed)
    first, second = draw.choice(EXPRESSIONS), draw.choice(EXPRESSIONS)
    join = draw.choice(["{0}, {1}", "({0}).sum() * ({1})", "({0}) * ({1}).numel()"])
    return f"def f(x, n):\n    return {join.format(first, second)}\n"


def results_and_gradient(run, n, dtype):
    x = rg.sin(rg.arange(252, dtype=dtype)).reshape(42, 6).requires_grad_()
    results = run(x, n)
    results = results if isinstance(results, tuple) else (results,)
    return [*results, rg.autograd.grad(sum(y.square().sum() for y in results), x)[0]]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_shapes_and_positions_that_follow_from_numbers_are_those_of_each_call(seed):
    source, draw = drawn(seed), random.Random(seed)
    names = {"rg": rg, "F": F}
    exec(source, names)
    compiled = rg.compile(names["f"], dynamic=draw.choice([None, True]))
    for n in [draw.randint(1, 6) for _ in range(6)]:
        wanted, got = (results_and_gradient(run, n, rg.float64) for run in (names["f"], compiled))
        for a, b in zip(wanted, got, strict=True):
            assert a.shape == b.shape and rg.allclose(a, b), (source, n)
