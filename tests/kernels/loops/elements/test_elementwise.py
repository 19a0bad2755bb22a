"""Masks and losses in one pass: the numbers of their references, and where those are to do the work."""

import numpy as np
import pytest

import retrograd as rg
from retrograd import kernels
from retrograd.kernels.loops.elements import elementwise
from retrograd.kernels.loops.statistics import moments
from retrograd.nn import functional as F

pytestmark = [
    pytest.mark.slow,  # loops are compiled
    pytest.mark.skipif(not kernels.available(), reason="Numba is not installed"),
]


def numbers(dtype):
    rng = np.random.default_rng(0)
    x, y = [(rng.standard_normal((300, 200)) * 2).astype(dtype) for _ in range(2)]
    y[0] = x[0]
    x[1, :3] = np.nan, np.inf, -np.inf
    return x, y


def both(monkeypatch, run):
    """What a function gives by the loops and by the references."""
    launches = []
    launch = elementwise.launch
    monkeypatch.setattr(elementwise, "offering", [None])  # small arrays call loops without ``launch`` otherwise
    monkeypatch.setattr(elementwise, "launch", lambda *args: launches.append(1) or launch(*args))
    ours = run()
    assert launches
    monkeypatch.setattr(elementwise, "compiled", lambda: None)
    return ours, run()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, lambda x, y, **how: F.huber_loss(x, y, delta=0.3)]
)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_losses_of_differences(loss, reduction, dtype, monkeypatch):
    def run():
        values = numbers(dtype)
        x, y = [rg.from_numpy(value).requires_grad_() for value in values]
        (loss(x, y, reduction=reduction) * 1.7).backward()
        clean = np.nan_to_num(values[0], posinf=3, neginf=-3)
        return loss(rg.from_numpy(clean), y, reduction=reduction).item(), x.grad.numpy(), y.grad.numpy()

    ours, reference = both(monkeypatch, run)
    assert ours[0] == pytest.approx(reference[0], rel=1e-6)
    np.testing.assert_array_equal(ours[1], reference[1])
    np.testing.assert_array_equal(ours[2], reference[2])


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-6), (np.float64, 1e-14)])
@pytest.mark.parametrize("loss", [F.binary_cross_entropy_with_logits, F.soft_margin_loss])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_losses_of_scores(loss, reduction, dtype, tolerance, monkeypatch):
    def run():
        x, y = numbers(dtype)
        x[2:6] *= np.array([[1e-6], [30], [400], [1e4]])
        labels = rg.from_numpy(np.tanh(y))
        scores, clean = [rg.from_numpy(value).requires_grad_() for value in (x, x[2:].copy())]
        loss(scores, labels, reduction=reduction).backward()
        value = loss(clean, labels[2:], reduction=reduction)
        return value.item(), scores.grad.numpy(), loss(scores, labels, reduction=reduction).item()

    ours, reference = both(monkeypatch, run)
    assert ours[0] == pytest.approx(reference[0], rel=tolerance)
    np.testing.assert_allclose(ours[1], reference[1], rtol=tolerance, atol=tolerance * np.nanmax(np.abs(reference[1])))
    assert np.isnan(ours[2]) and np.isnan(reference[2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dropout_and_where_are_their_references_bit_for_bit(dtype, monkeypatch):
    def run():
        x, y = [rg.from_numpy(value).requires_grad_() for value in numbers(dtype)]
        rg.manual_seed(3)
        dropped, chosen = F.dropout(x, 0.3), rg.where(y > 0, x, y)
        rg.autograd.backward([dropped, chosen], [y.detach(), x.detach()])
        return [value.detach().numpy() for value in (dropped, chosen, x.grad, y.grad)]

    for ours, reference in zip(*both(monkeypatch, run), strict=True):
        np.testing.assert_array_equal(ours, reference)
        np.testing.assert_array_equal(np.signbit(ours), np.signbit(reference))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_where_a_mask_holds_are_the_references_bit_for_bit(dtype, monkeypatch):
    def run():
        x, y = [rg.from_numpy(value).requires_grad_() for value in numbers(dtype)]
        mask = y > 0
        found = [x.where(mask, 2.0), rg.where(mask, -1.5, x), x.masked_fill(mask, float("-inf"))]
        found.append(x.masked_fill(mask[:, :1], rg.tensor(3.0, dtype=x.dtype)))
        written = x.detach().clone()
        address = written.data_ptr()
        written.masked_fill_(mask, 4.0)
        assert written.data_ptr() == address
        rg.autograd.backward(found, [y.detach()] * 4)
        return [value.detach().numpy() for value in (*found, written, x.grad)]

    for ours, reference in zip(*both(monkeypatch, run), strict=True):
        np.testing.assert_array_equal(ours, reference)
        assert ours.dtype == dtype


def test_second_derivatives_go_by_the_references():
    x, y = [rg.from_numpy(np.abs(value) + 1).requires_grad_() for value in numbers(np.float64)]
    (g,) = rg.autograd.grad(F.mse_loss(x[2:], y[2:], reduction="sum"), x, create_graph=True)
    (h,) = rg.autograd.grad(g.sum(), x)
    assert h[2:].unique().tolist() == [2.0]


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-6), (np.float64, 1e-13)])
@pytest.mark.parametrize("dim", [None, 1, (0, 1)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_norms_and_variances(dim, keepdim, dtype, tolerance, monkeypatch):
    x = rg.from_numpy(np.random.default_rng(0).standard_normal((130, 300)).astype(dtype) + 5)

    def run():
        return [f(x, dim=dim, keepdim=keepdim).numpy() for f in (rg.norm, rg.var, rg.std)]

    ours = run()
    with monkeypatch.context() as change:
        change.setattr(moments, "squares", lambda *args: None)
        for own, reference in zip(ours, run(), strict=True):
            assert (own.dtype, own.shape) == (reference.dtype, reference.shape)
            np.testing.assert_allclose(own, reference, rtol=tolerance)
    assert moments.squares(x.numpy(), (0,), False, True) is None  # to which no loop is due
    huge = rg.full((200, 300), 1e30)
    assert huge.norm().item() == float("inf") and huge.norm(dim=1)[0].item() == float("inf")  # as of few elements
    x[3, 3] = float("nan")
    assert x.var().isnan() and x.norm(dim=1).isnan().sum() == 1


def test_numbers_of_loops_keep_the_sign_of_zero():
    x = -rg.ones(8, 8)
    signs = [np.signbit(F.threshold(x, 0.5, zero).numpy()).all() for zero in (0.0, -0.0, 0.0, -0.0)]
    assert signs == [False, True, False, True]
