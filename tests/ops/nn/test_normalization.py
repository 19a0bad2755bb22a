"""Normalization: running statistics, precision, errors. Values and gradients are in the operator harness."""

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F


def draw(*shape, seed=0, **options):
    return rg.tensor(np.random.default_rng(seed).standard_normal(shape), **options)


@pytest.mark.parametrize(
    ("function", "options"), [("batch_norm", {"training": True}), ("instance_norm", {"use_input_stats": True})]
)
@pytest.mark.parametrize("shape", [(3, 2, 4), (2, 2, 3, 4)])
def test_running_statistics(function, options, shape):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, mean, var = rng.standard_normal(shape), rng.standard_normal(2), rng.uniform(1, 2, 2)
    ours = [rg.tensor(mean.copy()), rg.tensor(var.copy())]
    theirs = [torch.tensor(mean.copy()), torch.tensor(var.copy())]
    memory = [each.array for each in ours]
    for _ in range(2):
        getattr(F, function)(rg.tensor(x, requires_grad=True), *ours, momentum=0.3, **options)
        getattr(torch.nn.functional, function)(torch.tensor(x), *theirs, momentum=0.3, **options)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-12)
        assert not a.requires_grad
    assert all(each.array is array for each, array in zip(ours, memory, strict=True))


def test_an_update_does_not_disturb_an_earlier_graph():
    x = draw(4, 2, requires_grad=True)
    mean, var = draw(2, seed=1), draw(2, seed=2) ** 2 + 1
    y = F.batch_norm(x, mean, var)
    wanted = 1 / np.sqrt(var.numpy().copy() + 1e-5)
    F.batch_norm(x.detach(), mean, var, training=True)
    y.sum().backward()
    np.testing.assert_allclose(x.grad, np.broadcast_to(wanted, (4, 2)), rtol=1e-12)


def test_statistics_of_float16_are_taken_in_float32():
    x = rg.tensor(np.full((2, 4096), 300.0, np.float16) + np.arange(4096).astype(np.float16) % 7)
    y = F.layer_norm(x, (4096,))
    assert y.dtype == rg.float16
    assert np.isfinite(y.numpy()).all() and abs(float(y.numpy().astype(np.float64).var()) - 1) < 1e-2


def test_large_offset_keeps_its_accuracy():
    x = draw(8, 64).numpy() + 1e4
    narrow = F.layer_norm(rg.tensor(x.astype(np.float32)), (64,)).numpy()
    wide = F.layer_norm(rg.tensor(x.astype(np.float32).astype(np.float64)), (64,)).numpy()
    np.testing.assert_allclose(narrow, wide, atol=1e-3)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (RuntimeError, lambda: F.layer_norm(draw(2, 3), (4,))),
        (RuntimeError, lambda: F.layer_norm(draw(2, 3), ())),
        (RuntimeError, lambda: F.layer_norm(draw(2, 3), (3,), draw(2))),
        (NotImplementedError, lambda: F.layer_norm(rg.ones(2, 3, dtype=rg.int64), (3,))),
        (RuntimeError, lambda: F.rms_norm(draw(2, 3), (2,))),
        (RuntimeError, lambda: F.group_norm(draw(2, 4), 3)),
        (RuntimeError, lambda: F.group_norm(draw(4), 2)),
        (ValueError, lambda: F.group_norm(draw(1, 2), 2)),
        (RuntimeError, lambda: F.batch_norm(draw(2, 3), None, None)),
        (ValueError, lambda: F.batch_norm(draw(1, 3), None, None, training=True)),
        (ValueError, lambda: F.batch_norm(draw(2, 3), draw(3), None, training=True)),
        (IndexError, lambda: F.batch_norm(draw(3), None, None, training=True)),
        (RuntimeError, lambda: F.batch_norm(draw(2, 3), draw(2), draw(2))),
        (RuntimeError, lambda: F.batch_norm(draw(2, 3), None, None, draw(2), training=True)),
        (ValueError, lambda: F.instance_norm(draw(2, 3, 1))),
        (RuntimeError, lambda: F.instance_norm(draw(2, 3, 4), use_input_stats=False)),
        (IndexError, lambda: F.normalize(draw(2, 3), dim=2)),
    ],
)
def test_errors(error, call):
    with pytest.raises(error, match="norm"):
        call()


NORMALIZED = {
    "layer_norm": lambda m, x: m.nn.functional.layer_norm(x, x.shape[1:]),
    "layer_norm, 2-D": lambda m, x: m.nn.functional.layer_norm(x.reshape(x.shape[0], -1), (x[0].numel(),)),
    "rms_norm": lambda m, x: m.nn.functional.rms_norm(x, x.shape[2:], eps=1e-6),
    "group_norm": lambda m, x: m.nn.functional.group_norm(x, 2),
    "instance_norm": lambda m, x: m.nn.functional.instance_norm(x),
    "batch_norm": lambda m, x: m.nn.functional.batch_norm(x, None, None, training=True),
}


@pytest.mark.parametrize("shape", [(4, 4, 6), (8, 16, 512)], ids=["small", "large"])  # large ones run by compiled loops
@pytest.mark.parametrize("value", [1e18, 1e19, 1e20, 1e37, -3e38, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", NORMALIZED)
def test_squares_that_overflow_single_precision_give_what_double_precision_gives(name, value, shape):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(np.float32)
    x[1, 2, 3] = value
    g = rng.standard_normal(shape).astype(np.float32)
    ours, theirs = rg.tensor(x, requires_grad=True), torch.tensor(x.astype(np.float64), requires_grad=True)
    y, wanted = NORMALIZED[name](rg, ours), NORMALIZED[name](torch, theirs)
    y.backward(rg.tensor(g.reshape(y.shape)))
    wanted.backward(torch.tensor(g.astype(np.float64)).reshape(wanted.shape))
    assert y.dtype == ours.grad.dtype == np.float32
    np.testing.assert_allclose(y.detach().numpy(), wanted.detach().numpy(), rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-2, atol=2e-5)


@pytest.mark.parametrize("shape", [(4, 4, 6), (8, 16, 512)], ids=["small", "large"])
@pytest.mark.parametrize("name", NORMALIZED)
def test_differences_that_overflow_single_precision_give_what_double_precision_gives(name, shape):
    torch = pytest.importorskip("torch")
    x = np.full(shape, 3e38, np.float32)
    x[..., 1::3] = -3e38
    x[..., 2::5] = np.random.default_rng(0).uniform(-1e38, 1e38, x[..., 2::5].shape)
    g = np.linspace(-1, 1, x.size, dtype=np.float32).reshape(shape)
    ours, theirs = rg.tensor(x, requires_grad=True), torch.tensor(x.astype(np.float64), requires_grad=True)
    y, wanted = NORMALIZED[name](rg, ours), NORMALIZED[name](torch, theirs)
    y.backward(rg.tensor(g.reshape(y.shape)))
    wanted.backward(torch.tensor(g.astype(np.float64)).reshape(wanted.shape))
    np.testing.assert_allclose(y.detach().numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
    scale = np.abs(theirs.grad.numpy()).max()  # near the smallest number of single precision
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-4, atol=1e-4 * scale)


@pytest.mark.parametrize("name", NORMALIZED)
def test_squares_that_overflow_double_precision_give_nan_not_zero(name):
    x = np.ones((4, 4, 6))
    x[1, 2, 3] = 1e200
    assert np.isnan(NORMALIZED[name](rg, rg.tensor(x)).numpy()[1].reshape(4, 6)[2]).all()


@pytest.mark.parametrize("name", NORMALIZED)
def test_second_order_where_squares_overflow_single_precision(name):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((4, 4, 6)).astype(np.float32) * np.float32(1e20)
    found = []
    for m, grad, dtype in ((rg, rg.autograd.grad, np.float32), (torch, torch.autograd.grad, np.float64)):
        leaf = m.tensor(x.astype(dtype), requires_grad=True)
        factors = m.tensor(np.arange(x.size, dtype=dtype), requires_grad=True)
        y = NORMALIZED[name](m, leaf).reshape(-1)
        (g,) = grad(y, leaf, factors, create_graph=True)
        found.append([part.numpy() for part in grad((g * 1e20).reshape(-1)[::5].sum(), (leaf, factors))])
    for ours, theirs, scale in zip(*found, (1e20, 1.0), strict=True):
        np.testing.assert_allclose(ours * scale, theirs * scale, rtol=1e-3, atol=1e-3 * np.abs(theirs * scale).max())


@pytest.mark.parametrize("shape", [(4, 2), (4, 2, 6000)], ids=["small", "large"])
@pytest.mark.parametrize("value", [1e18, 1e20, np.inf, np.nan])
def test_running_statistics_of_a_batch_whose_squares_overflow(value, shape):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x[1, 0] = value
    ours, theirs = (rg.zeros(2), rg.ones(2)), (torch.zeros(2).double(), torch.ones(2).double())
    F.batch_norm(rg.tensor(x), *ours, training=True)
    torch.nn.functional.batch_norm(torch.tensor(x).double(), *theirs, training=True)
    for found, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.float().numpy(), rtol=1e-5)


def test_training_leaves_what_evaluation_has_saved():
    x = rg.randn(4, 3, 5, requires_grad=True)
    mean, var = rg.zeros(3), rg.ones(3)
    y = F.batch_norm(x, mean, var)
    F.batch_norm(9 * rg.randn(4, 3, 5), mean, var, training=True, momentum=0.9)
    y.sum().backward()
    assert var.array.min() > 2
    np.testing.assert_allclose(x.grad.array, 1 / np.sqrt(1 + 1e-5), rtol=1e-6)


@pytest.mark.parametrize("held", ["alone", "in one memory", "saved by a graph"])
def test_running_statistics_step_towards_those_of_the_batch_whoever_holds_them(held):
    x = rg.randn(4, 3, 5)
    both = rg.zeros(2, 3)
    mean, var = (both[0], both[1]) if held == "in one memory" else (rg.zeros(3), rg.zeros(3))
    w = rg.ones(3, requires_grad=True)
    product = (w * mean).sum() if held == "saved by a graph" else None
    F.batch_norm(x, mean, var, training=True, momentum=0.25)
    rows = x.array.transpose(1, 0, 2).reshape(3, -1)
    np.testing.assert_allclose(mean.array, 0.25 * rows.mean(1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(var.array, 0.25 * rows.var(1, ddof=1), rtol=1e-4)
    if product is not None:
        product.backward()
        assert not w.grad.array.any()


def test_running_statistics_are_the_same_bits_whoever_watches():
    rng = np.random.default_rng(0)
    x = rg.tensor(rng.standard_normal((16, 7, 6, 6)).astype(np.float32) * 3 + 1)
    norms = [rg.nn.BatchNorm2d(7, momentum=0.3) for _ in range(2)]
    for _ in range(20):
        norms[0](x)
        with rg.memory_budget(1 << 30):
            norms[1](x)
        x = x * 1.1
    for name in ("running_mean", "running_var"):
        np.testing.assert_array_equal(getattr(norms[0], name).numpy(), getattr(norms[1], name).numpy())


@pytest.mark.parametrize("layer, shape", [(rg.nn.BatchNorm1d, (0, 3)), (rg.nn.BatchNorm2d, (0, 3, 2, 2))])
def test_batch_norm_of_an_empty_batch_keeps_the_shape_and_has_no_gradient_for_its_weight(layer, shape):
    layer, x = layer(3), rg.zeros(shape, requires_grad=True)
    y = layer(x)
    y.sum().backward()
    assert y.shape == shape and x.grad.shape == shape and layer.weight.grad.tolist() == [0.0] * 3
    assert layer.eval()(x).shape == shape
