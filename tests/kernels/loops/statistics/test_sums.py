"""Sums of ten million float32 numbers are at least as accurate as NumPy's pairwise sums.

Each reduction, and each sum that a backward pass makes, is compared with float64, and its error with that of NumPy's
``sum`` of the same terms in the same memory; where NumPy does not sum pairwise (over leading dimensions) ours must be
better, near what NumPy reaches along contiguous memory.
"""

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import kernels
from retrograd.kernels.runtime import cores

N = 10_000_000
EPS = float(np.finfo(np.float32).eps)
RNG = np.random.default_rng(0)
UNIT = RNG.random(N, dtype=np.float32)
OFFSET = (UNIT - np.float32(0.5)) * 2 + np.float32(1e4)  # 1e4 +- 1
POSITIVE = UNIT + np.float32(0.5)


def error(got, wanted):
    """The largest relative error."""
    got = got.detach().numpy() if isinstance(got, rg.Tensor) else np.asarray(got)
    return float(np.max(np.abs(got - wanted) / np.abs(wanted)))


def wide(x):
    return x.astype(np.float64)


def summed(f, terms):
    """A case: ours, NumPy's pairwise sum of the float32 terms, and the sum of the float64 ones."""
    return f, lambda x: terms(x).sum(), lambda x: terms(wide(x)).sum()


ALL = {
    "sum": summed(rg.sum, lambda x: x),
    "mean": (rg.mean, np.mean, lambda x: wide(x).mean()),
    "nansum": summed(rg.nansum, lambda x: x),
    "1-norm": summed(lambda x: x.norm(1), np.abs),
    "norm": (rg.norm, lambda x: np.sqrt((x * x).sum()), lambda x: np.linalg.norm(wide(x))),
    "var": (rg.var, lambda x: x.var(ddof=1), lambda x: wide(x).var(ddof=1)),
    "std": (rg.std, lambda x: x.std(ddof=1), lambda x: wide(x).std(ddof=1)),
    "logsumexp": (lambda x: x.logsumexp(0), lambda x: np.log(np.exp(x).sum()), lambda x: np.log(np.exp(wide(x)).sum())),
    "last of cumsum": summed(lambda x: x.cumsum(0)[-1], lambda x: x),
    "trapezoid": summed(lambda x: rg.trapezoid(x), lambda x: (x[1:] + x[:-1]) / 2),
    "mse_loss": (
        lambda x: F.mse_loss(x, x * 0),
        lambda x: (x * x).mean(),
        lambda x: (wide(x) ** 2).mean(),
    ),
    "dot": (lambda x: x @ x, lambda x: x @ x, lambda x: wide(x) @ wide(x)),
    "strided": summed(lambda x: x[::3].sum(), lambda x: x[::3]),
    "gradient of a broadcast scalar": (
        lambda x: gradient(lambda s: (x * s).sum(), ()),
        np.sum,
        lambda x: wide(x).sum(),
    ),
}  # fmt: skip


def gradient(f, shape):
    leaf = rg.ones(shape, requires_grad=True)
    return rg.autograd.grad(f(leaf), leaf)[0]


@pytest.mark.parametrize("name", ALL)
def test_all_elements(name):
    ours, numpy, reference = ALL[name]
    wanted = reference(POSITIVE)
    assert error(ours(rg.from_numpy(POSITIVE)), wanted) <= max(2 * error(numpy(POSITIVE), wanted), EPS)


def test_variance_of_numbers_far_from_zero():
    """The squares are of deviations, not of the numbers: 1e8 in float32 would leave nothing of a variance of 1/3."""
    for f, numpy in ((rg.var, np.var), (rg.std, np.std)):
        wanted = numpy(wide(OFFSET), ddof=1)
        assert error(f(rg.from_numpy(OFFSET)), wanted) <= max(2 * error(numpy(OFFSET, ddof=1), wanted), EPS)


DIMENSIONS = [
    ((N // 10, 10), 0),
    ((N // 10, 10), 1),
    ((10, N // 10), 0),
    ((10, N // 10), 1),
    ((100, N // 10_000, 100), 1),
    ((100, N // 10_000, 100), (0, 1)),
    ((100, N // 10_000, 100), (0, 2)),
]


@pytest.mark.parametrize(("shape", "dim"), DIMENSIONS)
def test_along_dimensions(shape, dim):
    """Along any dimension: no worse than twice NumPy, and never worse than a few roundings."""
    x = POSITIVE.reshape(shape)
    t = rg.from_numpy(x)
    wanted = wide(x).sum(dim)
    ours = error(t.sum(dim), wanted)
    assert ours <= max(2 * error(x.sum(dim), wanted), EPS)
    assert ours <= 10 * EPS
    assert error(t.mean(dim, keepdim=True), wide(x).mean(dim, keepdims=True)) <= 10 * EPS
    assert error(t.norm(dim=dim), np.sqrt((wide(x) ** 2).sum(dim))) <= 10 * EPS
    assert error(t.var(dim), wide(x).var(dim, ddof=1)) <= 30 * EPS


def test_memory_in_another_order():
    """Here sums are NumPy's own, of the same layout."""
    x = POSITIVE.reshape(-1, 10)
    for view, ours in (
        (x.T, rg.from_numpy(x).t()),
        (x[::2], rg.from_numpy(x)[::2]),
        (x[:, ::2], rg.from_numpy(x)[:, ::2]),
    ):
        for dim in (0, 1):
            wanted = wide(view).sum(dim)
            assert error(ours.sum(dim), wanted) <= max(2 * error(view.sum(dim), wanted), EPS)


BACKWARD = {
    "bias over rows": (lambda x: gradient(lambda b: (x + b).mul(x).sum(), (10,)), lambda x: x.sum(0)),
    "column": (lambda x: gradient(lambda b: (x * b).sum(), (N // 10, 1)), lambda x: x.sum(1, keepdims=True)),
    "expand": (lambda x: gradient(lambda b: (b.expand(N // 10, 10) * x).sum(), (10,)), lambda x: x.sum(0)),
    "bias of linear": (
        lambda x: gradient(lambda b: (F.linear(x[:, :3], rg.ones(4, 3), b) * x[:, :4]).sum(), (4,)),
        lambda x: x[:, :4].sum(0),
    ),
    "weight of linear": (
        lambda x: gradient(lambda w: (F.linear(x[:, :3], w) * x[:, :4]).sum(), (4, 3)),
        lambda x: x[:, :4].T @ x[:, :3],
    ),
    "bias of layer_norm": (
        lambda x: gradient(lambda b: (F.layer_norm(x, (10,), None, b) * x).sum(), (10,)),
        lambda x: x.sum(0),
    ),
    "bias of batch_norm": (
        lambda x: gradient(lambda b: (F.batch_norm(x, None, None, None, b, training=True) * x).sum(), (10,)),
        lambda x: x.sum(0),
    ),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_sums_of_the_backward_pass(name):
    ours, terms = BACKWARD[name]
    x = POSITIVE.reshape(-1, 10)
    wanted = terms(wide(x))
    # NumPy does not sum over rows pairwise; a product with a weight is BLAS's own.
    limit = 2 * error(terms(x), wanted) if name.startswith("weight") else 20 * EPS
    assert error(ours(rg.from_numpy(x)), wanted) <= max(limit, EPS)


@pytest.mark.slow
def test_normalization_of_numbers_far_from_zero():
    """With numbers of 1e4 +- 1 a rounding of the mean is 1e-3 of the deviation; much more would be a bad sum."""
    rows = OFFSET.reshape(10, -1)
    columns = OFFSET.reshape(-1, 10)
    for x, axis, got in (
        (rows, 1, F.layer_norm(rg.from_numpy(rows), (N // 10,))),
        (columns, 0, F.batch_norm(rg.from_numpy(columns), None, None, training=True)),
    ):
        centred = wide(x) - wide(x).mean(axis, keepdims=True)
        wanted = centred / np.sqrt((centred**2).mean(axis, keepdims=True) + 1e-5)
        assert np.abs(got.numpy() - wanted).max() <= 5e-3


def test_running_statistics_of_batch_norm():
    mean, var = rg.zeros(10), rg.zeros(10)
    F.batch_norm(rg.from_numpy(OFFSET.reshape(-1, 10)), mean, var, training=True, momentum=1.0)
    x = wide(OFFSET).reshape(-1, 10)
    assert error(mean, x.mean(0)) <= 2 * EPS
    assert error(var, x.var(0, ddof=1)) <= 100 * EPS


def test_cross_entropy_of_a_million_rows():
    logits = POSITIVE.reshape(-1, 10)
    labels = (np.arange(N // 10) * 7) % 10
    x = wide(logits)
    terms = np.log(np.exp(x).sum(1)) - x[np.arange(len(x)), labels]
    assert error(F.cross_entropy(rg.from_numpy(logits), rg.from_numpy(labels)), terms.mean()) <= 2 * EPS


def test_product_of_numbers_near_one():
    """A product's error grows with the root of its length, in NumPy's as in ours."""
    x = 1 + (UNIT - np.float32(0.5)) * np.float32(1e-3)
    wanted = wide(x).prod()
    assert error(rg.from_numpy(x).prod(), wanted) <= 2 * error(x.prod(), wanted)


SUMS = {
    "sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean((0, 2)),
    "var": lambda x: x.var(1),
    "norm": lambda x: x.norm(dim=2),
    "logsumexp": lambda x: x.logsumexp(1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[2:]),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "softmax": lambda x: x.softmax(1),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_their_references_on_either_backend(name, on_backend):
    on_backend(SUMS[name], UNIT[: 8 * 33 * 70].reshape(8, 33, 70), rtol=1e-4)


@pytest.mark.skipif(not kernels.available(), reason="there are no compiled loops")
@pytest.mark.parametrize(("shape", "dim"), [((4099, 70), 0), ((2, 70, 65, 33), (1, 2)), ((70, 3, 1300), (0, 1))])
@pytest.mark.parametrize("keepdim", [False, True])
def test_sums_over_rows_round_once_with_any_number_of_threads(shape, dim, keepdim, monkeypatch):
    x = POSITIVE[: np.prod(shape)].reshape(shape)
    monkeypatch.setattr(cores, "wanted", [1])
    ours = rg.from_numpy(x).sum(dim, keepdim).numpy()
    np.testing.assert_array_equal(ours, wide(x).sum(dim, keepdims=keepdim).astype(np.float32))
    monkeypatch.setattr(cores, "wanted", [3])
    np.testing.assert_array_equal(rg.from_numpy(x).sum(dim, keepdim).numpy(), ours)
