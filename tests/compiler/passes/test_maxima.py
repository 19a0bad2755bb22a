"""Maxima that are computed before an operator that clips, and together with batch normalization."""

import numpy as np
import pytest

import retrograd as rg
from retrograd import kernels, nn
from retrograd.nn import functional as F

pytestmark = pytest.mark.skipif(not kernels.available(), reason="needs the library of loops")

WINDOWS = [(2, 2, 0), (3, 2, 1), (3, 1, 1), ((2, 3), (1, 2), 0)]


def numbers(*shape, dtype=np.float32, seed=0):
    """Return many ties, zeros of both signs, and some numbers that are not finite."""
    values = np.array([-2, -1, -0.0, 0.0, 1, 1, 2, 0.5, -np.inf, np.inf, np.nan], dtype)
    chances = [0.2, 0.2, 0.1, 0.1, 0.1, 0.1, 0.05, 0.12, 0.01, 0.01, 0.01]
    return np.random.default_rng(seed).choice(values, shape, p=chances)


def program_of(compiled):
    """Return the instructions, including those in compiled regions."""
    (entry,) = (*compiled.own, *compiled.entries)
    return [part for step in entry.replay.instructions for part in step.parts or (step,)]


def names(compiled):
    return [step.name for step in program_of(compiled)]


def bits(x):
    return x.view(f"i{x.itemsize}")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_maxima_before_relu_have_the_gradients_of_maxima_after_relu_to_the_last_bit(window, dtype):
    kernel, stride, padding = window
    x, g = numbers(8, 16, 38, 40, dtype=dtype), None

    def step(x, g):
        y = F.max_pool2d(F.relu(x), kernel, stride, padding)
        return y, rg.autograd.grad(y, x, g)[0]

    compiled = rg.compile(step)
    for seed in range(3):
        x = rg.from_numpy(numbers(8, 16, 38, 40, dtype=dtype, seed=seed)).requires_grad_()
        g = rg.from_numpy(numbers(*F.max_pool2d(x, kernel, stride, padding).shape, dtype=dtype, seed=seed + 9))
        (y, new), (eager, old) = compiled(x, g), step(x, g)
        np.testing.assert_array_equal(y.detach().numpy(), eager.detach().numpy())
        np.testing.assert_array_equal(bits(new.numpy()), bits(old.numpy()))
    shapes = [step.outs[0].shape for step in program_of(compiled) if step.name in ("relu", "keep_where_not_zero")]
    assert shapes == [tuple(g.shape)] * 2
    torch = pytest.importorskip("torch")
    theirs = torch.from_numpy(x.detach().numpy().copy()).requires_grad_()
    y = torch.nn.functional.max_pool2d(torch.relu(theirs), kernel, stride, padding)
    y.backward(torch.from_numpy(g.numpy()))
    np.testing.assert_array_equal(new.numpy(), theirs.grad.numpy())


def test_maxima_without_a_gradient_come_first_too():
    compiled = rg.compile(lambda x: F.max_pool2d(F.relu(x), 2))
    x = numbers(8, 16, 38, 40)
    for _ in range(2):
        new = compiled(rg.from_numpy(x)).numpy()
    np.testing.assert_array_equal(new, F.max_pool2d(F.relu(rg.from_numpy(x)), 2).numpy())
    assert [step.outs[0].shape for step in program_of(compiled) if step.name == "relu"] == [(8, 16, 19, 20)]


READERS = {
    "a result": lambda x, y: (y, F.max_pool2d(y, 2).sum()),
    "another operator": lambda x, y: (F.max_pool2d(y, 2).sum() + (y * y).sum(),),
    "two maxima": lambda x, y: (F.max_pool2d(y, 2).sum() + F.max_pool2d(y, 3).sum(),),
    "places": lambda x, y: (F.max_pool2d(y, 2, return_indices=True)[1], F.max_pool2d(y, 2).sum()),
    "windows without elements": lambda x, y: (F.max_pool2d(y, 2, dilation=39, padding=1, stride=1).sum(),),
}


@pytest.mark.parametrize("reads", READERS.values(), ids=READERS)
def test_maxima_stay_after_relu_if_its_result_is_read_by_others(reads):
    def step(x):
        found = reads(x, F.relu(x))
        return *found, rg.autograd.grad(found[-1], x)[0]

    compiled = rg.compile(step)
    x = rg.from_numpy(np.where(np.isfinite(a := numbers(8, 16, 38, 40)), a, 3)).requires_grad_()
    for _ in range(2):
        new = compiled(x)
    for one, other in zip(new, step(x), strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())


def network(channels, dtype, affine=True):
    rg.manual_seed(0)
    layers = nn.Conv2d(1, channels, 3, padding=1), nn.BatchNorm2d(channels, affine=affine), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*layers, nn.Conv2d(channels, 2, 3)).to(dtype)


def training(channels=16, size=(40, 36), dtype=rg.float32, affine=True):
    model = network(channels, dtype, affine)
    optimizer = rg.optim.SGD(model.parameters(), lr=0.1)
    x = rg.from_numpy(np.random.default_rng(1).standard_normal((8, 1, *size))).to(dtype)

    def step():
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, step


CASES = {
    "adjacent windows": {},
    "lines of several vectors": {"size": (8, 150)},
    "without weight and bias": {"affine": False},
    "an odd number of columns": {"size": (40, 35)},
    "double precision": {"dtype": rg.float64},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_network_with_batch_normalization_and_maxima_trains_as_without_compilation(case):
    (model, step), (other, eager) = training(**case), training(**case)
    compiled = rg.compile(step)
    for _ in range(4):
        new, old = compiled(), eager()
        assert new.item() == pytest.approx(old.item(), rel=1e-6)
    for one, two in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=1e-5, atol=1e-6)
    together = case in ({}, CASES["lines of several vectors"], CASES["without weight and bias"])
    assert ("maxima_of_batch_norm" in names(compiled)) == together
    assert ("maxima_of_batch_norm_backward" in names(compiled)) == together


def test_batch_normalization_with_maxima_has_the_bits_of_both_operators():
    x, g = (rg.from_numpy(np.random.default_rng(seed).standard_normal((8, 16, 40, s)).astype("f4")) for seed, s in
            ((0, 28), (1, 28)))  # fmt: skip
    g, x = F.max_pool2d(g, 2), x.requires_grad_()
    weight, bias = [rg.linspace(-1, 2, 16).requires_grad_() for _ in range(2)]

    def step(x, g, weight, bias):
        y = F.max_pool2d(F.relu(F.batch_norm(x, None, None, weight, bias, training=True)), 2)
        return y, *rg.autograd.grad(y, (x, weight, bias), g)

    compiled = rg.compile(step)
    for _ in range(2):
        found = compiled(x, g, weight, bias)
    assert "maxima_of_batch_norm_backward" in names(compiled)
    for new, old in zip(found, step(x, g, weight, bias), strict=True):
        np.testing.assert_array_equal(new.detach().numpy(), old.detach().numpy())
