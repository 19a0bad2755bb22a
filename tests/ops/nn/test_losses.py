"""Losses at their edges, and their errors. Values and gradients are in the operator harness."""

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F

X = rg.tensor(np.random.default_rng(0).standard_normal((4, 5)))
CLASSES = rg.tensor(np.array([0, 1, 2, 4]))


def test_cross_entropy_of_large_logits_in_float32():
    x = rg.tensor([[1e6, 1e6 - 1.0]], requires_grad=True)
    loss = F.cross_entropy(x, rg.tensor([1]))
    loss.backward()
    assert loss.item() == pytest.approx(np.log1p(np.e), rel=1e-6)
    np.testing.assert_allclose(x.grad, [[1 / (1 + np.exp(-1)), -1 / (1 + np.exp(-1))]], rtol=1e-6)


def test_nothing_counted():
    x = rg.tensor(np.ones((2, 3)), requires_grad=True)
    loss = F.cross_entropy(x, rg.tensor([-100, -100]))
    loss.backward()
    assert np.isnan(loss.item())
    assert not x.grad.numpy().any()


@pytest.mark.parametrize("targets", [[-100, -100, -100], [1, -100, 2]], ids=["all ignored", "one ignored"])
@pytest.mark.parametrize("weight", [None, [1.0, 2.0, 0.0, 1.0]], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    ("name", "options"), [("cross_entropy", {}), ("cross_entropy", {"label_smoothing": 0.2}), ("nll_loss", {})]
)
def test_derivatives_where_targets_are_ignored(name, options, reduction, weight, targets):
    torch = pytest.importorskip("torch")
    x, u = np.random.default_rng(0).standard_normal((2, 3, 4))
    found = []
    for m, grad in ((rg, rg.autograd.grad), (torch, torch.autograd.grad)):
        logits = m.tensor(x, requires_grad=True)
        w = None if weight is None else m.tensor(np.array(weight))
        loss = getattr(m.nn.functional, name)(
            logits * 1.0, m.tensor(np.array(targets)), w, reduction=reduction, **options
        )
        g = m.tensor(np.ones(tuple(loss.shape)), requires_grad=True)
        (first,) = grad(loss, logits, g, create_graph=True)
        second = grad(first, (logits, g), m.tensor(u), allow_unused=True)
        found.append([None if part is None else part.detach().numpy() for part in (loss, first, *second)])
    for ours, theirs in zip(*found, strict=True):
        if theirs is None or ours is None:  # nll_loss is linear
            assert theirs is None or not theirs.any()
            assert ours is None or not ours.any()
        else:
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15)


def test_older_flags_of_reduction():
    for flags, reduction in (({"size_average": False}, "sum"), ({"reduce": False}, "none"), ({"reduce": True}, "mean")):
        with pytest.warns(UserWarning, match="deprecated"):
            got = F.mse_loss(X, X + 2, **flags)
        np.testing.assert_array_equal(got, F.mse_loss(X, X + 2, reduction=reduction))


def test_broadcast_target_is_warned_of():
    with pytest.warns(UserWarning, match="broadcast"):
        F.mse_loss(X, X[:1])


@pytest.mark.parametrize(
    "name",
    [
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "binary_cross_entropy_with_logits",
        "soft_margin_loss",
        "kl_div",
        "poisson_nll_loss",
        "hinge_embedding_loss",
        "multilabel_soft_margin_loss",
    ],
)
@pytest.mark.parametrize("reduction", ["average", None])
def test_unknown_reduction(name, reduction):
    with pytest.raises(ValueError, match="not a valid value for reduction"):
        getattr(F, name)(X, X, reduction=reduction)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (IndexError, lambda: F.cross_entropy(X, CLASSES + 1)),
        (IndexError, lambda: F.cross_entropy(X, CLASSES - 1)),
        (ValueError, lambda: F.cross_entropy(X, CLASSES[:3])),
        (RuntimeError, lambda: F.cross_entropy(X, CLASSES[:, None])),
        (RuntimeError, lambda: F.cross_entropy(X, CLASSES, weight=X[0, :4])),
        (RuntimeError, lambda: F.cross_entropy(X, CLASSES, label_smoothing=1.5)),
        (RuntimeError, lambda: F.cross_entropy(X, X, ignore_index=0)),
        (ValueError, lambda: F.cross_entropy(X, X[:3])),
        (NotImplementedError, lambda: F.cross_entropy(CLASSES[:, None], CLASSES)),
        (RuntimeError, lambda: F.nll_loss(X, X)),
        (IndexError, lambda: F.nll_loss(X, CLASSES + 1)),
        (RuntimeError, lambda: F.binary_cross_entropy(X, X)),
        (ValueError, lambda: F.binary_cross_entropy(X * 0, X[:1])),
        (ValueError, lambda: F.binary_cross_entropy_with_logits(X, X[:1])),
        (ValueError, lambda: F.mse_loss(X, X, weight=X[:1])),
        (NotImplementedError, lambda: F.mse_loss(CLASSES, CLASSES)),
        (RuntimeError, lambda: F.smooth_l1_loss(X, X, beta=-1)),
        (RuntimeError, lambda: F.huber_loss(X, X, delta=0)),
        (ValueError, lambda: F.gaussian_nll_loss(X, X, -X * X)),
        (ValueError, lambda: F.gaussian_nll_loss(X, X, X[:2] ** 2)),
        (RuntimeError, lambda: F.margin_ranking_loss(X, X, X[0])),
        (RuntimeError, lambda: F.cosine_embedding_loss(X, X[0], CLASSES)),
        (RuntimeError, lambda: F.cosine_embedding_loss(X, X, CLASSES[:3])),
        (ValueError, lambda: F.multi_margin_loss(X, CLASSES, p=3)),
        (RuntimeError, lambda: F.multi_margin_loss(X, CLASSES + 1)),
        (RuntimeError, lambda: F.multi_margin_loss(X, CLASSES[:3])),
        (RuntimeError, lambda: F.multilabel_margin_loss(X, CLASSES)),
        (ValueError, lambda: F.triplet_margin_loss(X, X, X, margin=-1)),
        (RuntimeError, lambda: F.triplet_margin_loss(X, X, X[0])),
        (RuntimeError, lambda: rg.cosine_similarity(X, X[:3])),
        (IndexError, lambda: rg.cosine_similarity(X, X, dim=2)),
        (RuntimeError, lambda: rg.cdist(X, X[:, :3])),
        (RuntimeError, lambda: rg.cdist(X, X, p=-1)),
        (ValueError, lambda: rg.cdist(X, X, compute_mode="fast")),
        (RuntimeError, lambda: F.pdist(X[0])),
    ],
)
def test_errors(error, call):
    with pytest.raises(error, match="loss|entropy|cosine|dist"):
        call()


@pytest.mark.parametrize("size", [4, 40, 4000])
@pytest.mark.parametrize("difference", [3e38, -3e38])
def test_the_gradient_of_a_mean_of_squares_is_finite_where_twice_the_difference_is_not(size, difference):
    x = rg.full((size,), difference, requires_grad=True)
    target = rg.zeros(size, requires_grad=True)
    gx, gy = rg.autograd.grad(F.mse_loss(x, target), (x, target))
    np.testing.assert_allclose(gx.numpy(), np.float32(difference) / size * 2, rtol=1e-6)
    np.testing.assert_array_equal(gy.numpy(), -gx.numpy())


@pytest.mark.parametrize("size", [4, 4000])
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_smooth_l1_of_a_large_beta_does_not_overflow(size, reduction):
    for difference, beta in [(1e30, 1e10), (1e20, 1e21), (3e34, 1e34)]:
        d, b = np.float64(np.float32(difference)), beta
        loss = F.smooth_l1_loss(rg.full((size,), difference), rg.zeros(size), reduction=reduction, beta=beta)
        wanted = d - b / 2 if d >= b else d * d / (2 * b)
        np.testing.assert_allclose(loss.numpy(), wanted, rtol=1e-5)  # 4,000 numbers are added in float32
