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
