"""Additions within normalizations, and results that are computed again together with a gradient."""

import numpy as np
import pytest

import retrograd as rg
from retrograd import kernels, nn
from retrograd.compiler.passes import recomputing
from retrograd.core.graph import recomputed
from retrograd.kernels.loops.elements.elementwise import with_value
from retrograd.nn import functional as F
from retrograd.ops.nn.normalization import fused
from tests.compiler.passes.test_overwriting import normal, program_of

pytestmark = pytest.mark.skipif(not kernels.available(), reason="needs the library of loops")

NORMS = {
    "with bias": lambda width: nn.LayerNorm(width),
    "without bias": lambda width: nn.LayerNorm(width, bias=False),
    "without weight": lambda width: nn.LayerNorm(width, elementwise_affine=False),
    "rms": lambda width: nn.RMSNorm(width),
}


class Residual(nn.Module):
    """Blocks ``x + down(f(up(norm(x))))``, and a last normalization."""

    def __init__(self, norm, function=rg.tanh, width=96, blocks=3):
        super().__init__()
        self.norms = nn.ModuleList([norm(width) for _ in range(blocks + 1)])
        self.up = nn.ModuleList([nn.Linear(width, 2 * width, bias=False) for _ in range(blocks)])
        self.down = nn.ModuleList([nn.Linear(2 * width, width, bias=False) for _ in range(blocks)])
        self.function = function

    def forward(self, x):
        for norm, up, down in zip(self.norms, self.up, self.down, strict=False):
            x = x + down(self.function(up(norm(x))))
        return self.norms[-1](x)


def steps_of(model):
    def step(x, y):
        model.zero_grad()
        loss = (model(x) * y).sum()
        loss.backward()
        return loss

    return step


def compared(made, *shape):
    """The compiled step of a model, after three calls whose gradients have the bits of eager calls."""
    models = []
    for _ in range(2):
        rg.manual_seed(0)
        models.append(made())
    compiled, eager = rg.compile(steps_of(models[0])), steps_of(models[1])
    x, y = normal(1, *shape).requires_grad_(), normal(2, *shape)
    for _ in range(3):
        found = []
        for step in (compiled, eager):
            x.grad = None
            found.append((step(x, y).item(), x.grad.numpy().copy()))
        assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
        np.testing.assert_array_equal(found[0][1], found[1][1])
        for p, q in zip(models[0].parameters(), models[1].parameters(), strict=True):
            np.testing.assert_array_equal(p.grad.numpy(), q.grad.numpy())
    return program_of(compiled)


def count(replay, function):
    return sum(function in (step.function, getattr(step.function, "func", None)) for step in replay.instructions)


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("shape", [(3, 250, 96), (700, 96)])
def test_a_normalization_adds_the_residual_and_its_gradient(kind, shape):
    replay = compared(lambda: Residual(NORMS[kind]), *shape)
    norm = fused.RMS_NORM if kind == "rms" else fused.LAYER_NORM
    assert count(replay, norm.of_sum) == 3
    assert count(replay, fused._backward_with) == 3
    assert not any(step.name == "add" for step in replay.instructions)


def test_a_normalization_without_weight_returns_nothing_but_the_sum():
    replay = compared(lambda: Residual(NORMS["without weight"]), 700, 96)
    assert all(not step.outs for step in replay.instructions if step.function is fused._backward_with)


def test_a_sum_that_nothing_may_write_over_is_an_instruction_of_its_own():
    norm = nn.LayerNorm(96)
    x, y = normal(3, 700, 96), normal(4, 700, 96)
    compiled = rg.compile(lambda x, y: norm(x + y))
    for _ in range(2):
        np.testing.assert_array_equal(compiled(x, y).detach().numpy(), norm(x + y).detach().numpy())
    assert not count(program_of(compiled), fused.LAYER_NORM.of_sum)


@pytest.fixture
def everything_again(monkeypatch):
    """Results of every size are computed again."""
    for name in ("MIN_ARENA", "MIN_BYTES", "MIN_GAIN"):
        monkeypatch.setattr(recomputing, name, 0)
    monkeypatch.setattr(recomputing, "MIN_DISTANCE", 1)


SMOOTH = {"gelu": F.gelu, "tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu}


@pytest.mark.parametrize("function", SMOOTH)
@pytest.mark.parametrize("kind", NORMS)
def test_what_is_computed_again_comes_with_the_gradient_of_its_inputs(kind, function, everything_again, monkeypatch):
    def made():
        return Residual(NORMS[kind], SMOOTH[function], blocks=4)

    replay = compared(made, 700, 96)
    assert sum(step.name == "value_and_gradient" for step in replay.instructions) >= 3
    assert count(replay, fused._backward_again) >= 3
    monkeypatch.setattr(recomputing, "MAX_AHEAD", 0)
    assert replay.plan.size <= compared(made, 700, 96).plan.size


@pytest.mark.parametrize("keep", [False, True])
def test_a_cotangent_that_leaves_the_program_is_not_overwritten(keep, everything_again):
    up, down = normal(5, 192, 96).requires_grad_(), normal(6, 96, 192).requires_grad_()

    def step(x):
        up.grad = down.grad = None
        hidden = F.gelu(F.linear(x, up))
        gradients = []
        hidden.register_hook(lambda g: gradients.append(g) if keep else None)
        F.linear(F.relu(F.linear(hidden, down)), up).relu().sum().backward()
        return gradients

    compiled, x = rg.compile(step), normal(7, 700, 96)
    for _ in range(2):
        found = [*compiled(x), up.grad, down.grad]
        wanted = [*step(x), up.grad, down.grad]
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-4)
    assert any(step.name == "value_and_gradient" for step in program_of(compiled).instructions) != keep


@pytest.mark.parametrize("first", [False, True])
def test_a_cotangent_that_another_rule_reads_is_not_overwritten(first, everything_again):
    one, two, down = normal(5, 192, 96).requires_grad_(), normal(6, 192, 96).requires_grad_(), normal(8, 96, 192)

    def step(x):
        one.grad = two.grad = None
        terms = F.gelu(F.linear(x, one)), F.linear(x, two)
        hidden = terms[0] + terms[1] if first else terms[1] + terms[0]
        (F.linear(hidden, down).square().sum() + F.linear(terms[0], down).sum()).backward()

    compiled, x = rg.compile(step), normal(7, 700, 96)
    for _ in range(2):
        found = []
        for call in (compiled, step):
            call(x)
            found.append((one.grad.numpy().copy(), two.grad.numpy().copy()))
        for new, old in zip(*found, strict=True):
            np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-1)


def test_the_loop_for_value_and_gradient_has_the_bits_of_both():
    x = np.concatenate([np.linspace(-20, 20, 40001), [0, -0.0, np.inf, -np.inf, np.nan, 1e30]]).astype(np.float32)
    g = np.random.default_rng(0).standard_normal(len(x)).astype(np.float32)
    for function in SMOOTH.values():
        leaf = rg.from_numpy(x).requires_grad_()
        wanted = function(leaf)
        wanted.backward(rg.from_numpy(g))
        name = {"gelu": "gelu", "tanh": "gelu_tanh", "silu": "silu"}[next(k for k in SMOOTH if SMOOTH[k] is function)]
        both, over = recomputed.over_cotangent[name, f"{name}_backward"], g.copy()
        np.testing.assert_array_equal(both(over, x), wanted.detach().numpy())
        np.testing.assert_array_equal(over, leaf.grad.numpy())


def test_value_and_gradient_of_other_dtypes_come_from_their_functions():
    both = with_value("gelu", np.square, lambda g, x: 2 * g * x)
    g, x = np.random.default_rng(0).standard_normal((2, 1000))
    wanted = 2 * g * x
    np.testing.assert_array_equal(both(g, x), x * x)
    np.testing.assert_array_equal(g, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("wanted", [(True, True, True), (True, True, False), (True, False, False)])
def test_the_forms_with_an_addition_compute_what_separate_calls_compute(dtype, wanted):
    x, plus, dy, total = np.random.default_rng(0).standard_normal((4, 100, 80)).astype(dtype)
    w, b = np.random.default_rng(1).standard_normal((2, 80)).astype(dtype)
    layout, y = fused.Layout(None, (-1,), None), x.copy()
    found = fused._forward_of_sum(y, plus, w, b, layout, 1e-5)
    np.testing.assert_array_equal(y, x + plus)
    for one, other in zip(found, fused._forward(x + plus, w, b, layout, 1e-5), strict=True):
        np.testing.assert_array_equal(one, other)
    given = dy, y, w, b, *found[1:], layout, 1e-5, wanted
    gradients, sum_of = fused._backward(*given), total.copy()
    again, *others = fused._backward_with(*given, total=sum_of, again=True)
    np.testing.assert_array_equal(again, found[0])
    np.testing.assert_array_equal(sum_of, total + gradients[0])
    for one, other in zip(others, gradients[1:], strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(fused._backward_again(*given), (found[0], *gradients), strict=True):
        np.testing.assert_array_equal(one, other)


def test_sums_over_rows_of_many_columns_are_not_fused():
    def wide(x, y):
        z = x * y
        return z, z.sum(0)

    for columns, fuses in ((512, True), (8192, False)):
        x, y = normal(1, 64, columns), normal(2, 64, columns)
        compiled = rg.compile(wide)
        for _ in range(2):
            found = compiled(x, y)
        loops = [step for step in program_of(compiled).instructions if step.kind == "loop"]
        assert bool(loops) == fuses
        for one, other in zip(found, wide(x, y), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6, atol=1e-6)
