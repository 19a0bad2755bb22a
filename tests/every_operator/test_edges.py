"""Numbers at the edges: kinks, ties, poles, zeros, infinities and NaN, and what rounds on the way to them.

``EXPECTED`` is written out by hand. Many more points are compared with PyTorch in test_edges_against_torch.py; Tensors
without elements are in test_empty.py, sums of millions of numbers in test_sums.py.
"""

from functools import partial
from typing import Any

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F

inf, nan = np.inf, np.nan


# Written out

EXPECTED = [
    # name, function, inputs, value, gradients of the sum of the result
    (
        "softmax of huge logits",
        lambda x: x.softmax(0) * rg.tensor([1.0, 0.0]),
        [[1e30, 1e30]],
        [0.5, 0],
        [[0.25, -0.25]],
    ),
    ("softmax with -inf", lambda x: x.softmax(0), [[-inf, 1e4]], [0, 1], [[0, 0]]),
    ("softmax of nothing but -inf", lambda x: x.softmax(0), [[-inf, -inf]], [nan, nan], [[nan, nan]]),
    ("log_softmax", lambda x: x.log_softmax(0)[1], [[0.0, -1e4]], -1e4, [[-1, 1]]),
    ("logsumexp of huge numbers", lambda x: x.logsumexp(0), [[1e30, 1e30]], 1e30, [[0.5, 0.5]]),
    ("logsumexp of one inf", lambda x: x.logsumexp(0), [[inf, 0.0]], inf, [[nan, 0]]),
    ("logsumexp of nothing but -inf", lambda x: x.logsumexp(0), [[-inf, -inf]], -inf, [[nan, nan]]),
    (
        "cross_entropy",
        lambda x: F.cross_entropy(x, rg.tensor([1, 0])),
        [[[1e4, 0], [0, 1e4]]],
        1e4,
        [[[0.5, -0.5], [-0.5, 0.5]]],
    ),
    (
        "bce of mistaken logits",
        F.binary_cross_entropy_with_logits,
        [[1e4, -1e4], [0.0, 1.0]],
        1e4,
        [[0.5, -0.5], [-5e3, 5e3]],
    ),
    ("sigmoid", rg.sigmoid, [[-inf, -1e4, 0, 1e4, inf]], [0, 0, 0.5, 1, 1], [[0, 0, 0.25, 0, 0]]),
    ("softplus", F.softplus, [[-inf, -1e4, 1e4, inf]], [0, 0, 1e4, inf], [[0, 0, 1, 1]]),
    ("logsigmoid", F.logsigmoid, [[-inf, -1e4, 1e4, inf]], [-inf, -1e4, 0, 0], [[1, 1, 0, 0]]),
    (
        "gelu",
        F.gelu,
        [[-1e30, -1e4, -7, 0, 1e4, 1e30]],
        [0, 0, -8.958689e-12, 0, 1e4, 1e30],
        [[0, 0, -6.322966e-11, 0.5, 1, 1]],
    ),
    (
        "gelu by tanh",
        partial(F.gelu, approximate="tanh"),
        [[-1e30, -1e4, 0, 1e4, 1e30]],
        [0, 0, 0, 1e4, 1e30],
        [[0, 0, 0.5, 1, 1]],
    ),
    ("relu", rg.relu, [[-1, 0, 1, nan]], [0, 0, 1, nan], [[0, 0, 1, 1]]),
    ("elu", F.elu, [[-inf, 0, 1]], [-1, 0, 1], [[0, 1, 1]]),
    ("hardtanh", F.hardtanh, [[-2, -1, 0, 1, 2]], [-1, -1, 0, 1, 1], [[0, 0, 1, 0, 0]]),
    ("clamp", lambda x: x.clamp(-1, 1), [[-2, -1, 0, 1, 2]], [-1, -1, 0, 1, 1], [[0, 1, 1, 1, 0]]),
    ("log", rg.log, [[0, -1, inf]], [-inf, nan, inf], [[inf, -1, 0]]),
    ("log1p", rg.log1p, [[-1, 0, 1e-30]], [-inf, 0, 1e-30], [[inf, 1, 1]]),
    ("sqrt", rg.sqrt, [[0, -1]], [0, nan], [[inf, nan]]),
    ("division by zero", rg.div, [[1, -1, 0], [0, 0, 0]], [inf, -inf, nan], [[inf, inf, inf], [-inf, inf, nan]]),
    (
        "pow",
        rg.pow,
        [[0, 0, 0, 0, -2, nan], [0, 1, 2, 0.5, 2, 0]],
        [1, 0, 0, 0, 4, 1],
        [[0, 1, 0, inf, -4, 0], [0, 0, 0, 0, nan, nan]],
    ),
    ("power of zero", lambda x: x**0, [[0, 2, nan, inf]], [1, 1, 1, 1], [[0, 0, 0, 0]]),
    ("xlogy", rg.xlogy, [[0, 0, 0], [0, 2, nan]], [0, 0, nan], [[0, np.log(2), nan], [nan, 0, nan]]),
    ("entr", rg.special.entr, [[0, 1, -1]], [0, 0, -inf], [[inf, -1, nan]]),
    ("acos", rg.acos, [[-1, 1]], [np.pi, 0], [[-inf, -inf]]),
    ("asin", rg.asin, [[-1, 1]], [-np.pi / 2, np.pi / 2], [[inf, inf]]),
    ("atan2", rg.atan2, [[0, 0], [0, -1]], [0, np.pi], [[0, -1], [0, 0]]),
    ("hypot", rg.hypot, [[0, 3], [0, 4]], [0, 5], [[nan, 0.6], [nan, 0.8]]),
    ("abs", rg.abs, [[-2, 0, 2]], [2, 0, 2], [[-1, 0, 1]]),
    ("logaddexp", rg.logaddexp, [[-inf, 1e4, inf], [0, 1e4, 0]], [0, 1e4 + np.log(2), inf], [[0, 0.5, 1], [1, 0.5, 0]]),
    ("logit", rg.logit, [[0, 1, 2]], [-inf, inf, nan], [[inf, inf, nan]]),
    ("lgamma", rg.lgamma, [[0, 1, -1]], [inf, 0, inf], [[-inf, -np.euler_gamma, nan]]),
    ("sinc", rg.sinc, [[0, 1e-20]], [1, 1], [[0, 0]]),
    ("erfinv", rg.erfinv, [[-1, 0, 1, 2]], [-inf, 0, inf, nan], [[inf, np.sqrt(np.pi) / 2, inf, nan]]),
    ("maximum at ties", rg.maximum, [[1, 2, nan], [1, 3, 0]], [1, 3, nan], [[0.5, 0, 1], [0.5, 1, 1]]),
    ("fmax", rg.fmax, [[1, nan, nan], [1, 3, nan]], [1, 3, nan], [[1, 0, 1], [0, 1, 0]]),
    ("max of all", rg.max, [[1, 3, 3]], 3, [[0, 0.5, 0.5]]),
    ("max of all with NaN", rg.max, [[1, nan, nan]], nan, [[0, 0.5, 0.5]]),
    ("max along a dimension", lambda x: x.max(0).values, [[1, 3, 3]], 3, [[0, 1, 0]]),
    ("amax", lambda x: x.amax(0), [[1, 3, 3]], 3, [[0, 0.5, 0.5]]),
    ("median of all", rg.median, [[2, 2, 1, 3]], 2, [[0.5, 0.5, 0, 0]]),
    ("median with NaN", rg.median, [[2, nan, 1]], nan, [[0, 1, 0]]),
    ("nanmedian", rg.nanmedian, [[2, nan, 1]], 1, [[0, 0, 1]]),
    ("nansum", rg.nansum, [[1, nan, 2]], 3, [[1, 0, 1]]),
    ("nanmean", rg.nanmean, [[1, nan, 2]], 1.5, [[0.5, 0, 0.5]]),
    ("nan_to_num", lambda x: rg.nan_to_num(x, 0, 5, -5), [[nan, inf, -inf, 1]], [0, 5, -5, 1], [[0, 0, 0, 1]]),
    ("prod without zeros", rg.prod, [[2, 3, 4]], 24, [[12, 8, 6]]),
    ("prod with a zero", rg.prod, [[2, 0, 4]], 0, [[0, 8, 0]]),
    ("prod with two zeros", rg.prod, [[0, 0, 4]], 0, [[0, 0, 0]]),
    ("prod with NaN", rg.prod, [[nan, 3, 4]], nan, [[12, nan, nan]]),
    ("cumprod with a zero", lambda x: x.cumprod(0), [[2, 0, 4]], [2, 0, 0], [[1, 10, 0]]),
    ("cumprod with two zeros", lambda x: x.cumprod(0), [[2, 0, 0, 3]], [2, 0, 0, 0], [[1, 2, 0, 0]]),
    ("cummax at ties", lambda x: x.cummax(0).values, [[1, 3, 3, 2]], [1, 3, 3, 3], [[1, 1, 2, 0]]),
    ("logcumsumexp from -inf", lambda x: x.logcumsumexp(0), [[-inf, 0, 0]], [-inf, 0, np.log(2)], [[nan, 1.5, 0.5]]),
    ("logcumsumexp after inf", lambda x: x.logcumsumexp(0), [[0, inf, 1]], [0, inf, inf], [[1, nan, 0]]),
    ("norm at zero", rg.norm, [[0, 0]], 0, [[0, 0]]),
    ("1-norm at zero", lambda x: x.norm(1), [[0, -2]], 2, [[0, -1]]),
    ("3-norm at zero", lambda x: x.norm(3), [[0, 0]], 0, [[0, 0]]),
    ("0.5-norm at zero", lambda x: x.norm(0.5), [[0, 4]], 4, [[0, 1]]),
    ("inf-norm at ties", lambda x: x.norm(inf), [[2, -2, 1]], 2, [[0.5, -0.5, 0]]),
    ("-inf-norm", lambda x: x.norm(-inf), [[2, 0, 0]], 0, [[0, 0, 0]]),
    ("0-norm", lambda x: x.norm(0), [[2, 0, 3]], 2, [[0, 0, 0]]),
    ("normalize", lambda x: F.normalize(x, dim=0), [[0, 0]], [0, 0], [[1e12, 1e12]]),
    ("cosine_similarity", lambda x, y: rg.cosine_similarity(x, y, 0), [[0, 0], [3, 4]], 0, [[0.6e8, 0.8e8], [0, 0]]),
    ("cdist of one point", rg.cdist, [[[1, 2]], [[1, 2]]], [[0]], [[[0, 0]], [[0, 0]]]),
    ("cdist, p=1", lambda x, y: rg.cdist(x, y, 1), [[[1, 2]], [[1, 4]]], [[2]], [[[0, -1]], [[0, 1]]]),
    ("pdist of one point", F.pdist, [[[1, 2], [1, 2]]], [0], [[[0, 0], [0, 0]]]),
    ("std of equal numbers", rg.std, [[2, 2, 2]], 0, [[0, 0, 0]]),
    ("std of one number", rg.std, [[2]], nan, [[nan]]),
    ("var of one number", lambda x: x.var(correction=0), [[2]], 0, [[0]]),
    ("l1_loss", F.l1_loss, [[1, 2], [1, 4]], 1, [[0, -0.5], [0, 0.5]]),
    ("smooth_l1_loss", F.smooth_l1_loss, [[-1, 0, inf], [0, 0, 0]], inf, [[-1 / 3, 0, 1 / 3], [1 / 3, 0, -1 / 3]]),
    ("layer_norm of equal numbers", lambda x: F.layer_norm(x, (2,)), [[1e4, 1e4]], [0, 0], [[0, 0]]),
    ("max_pool at ties", lambda x: F.max_pool1d(x, 2), [[[1, 1, 2, nan]]], [[1, nan]], [[[1, 0, 0, 1]]]),
    ("sort at ties", lambda x: x.sort(0).values * rg.tensor([1.0, 2.0, 3.0]), [[1, 1, 0]], [0, 2, 3], [[2, 3, 1]]),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("function", "inputs", "value", "gradients"), [case[1:] for case in EXPECTED], ids=[case[0] for case in EXPECTED]
)
def test_expected(function, inputs, value, gradients, dtype):
    xs = [rg.tensor(np.array(x, dtype), requires_grad=True) for x in inputs]
    y = function(*xs)
    close = partial(
        np.testing.assert_allclose,
        rtol=1e-6 if dtype == "float64" else 2e-5,
        atol=2e-10 if dtype == "float64" else 1e-6,
    )
    close(y.detach().numpy(), value)
    for g, wanted in zip(rg.autograd.grad(y.sum(), xs), gradients, strict=True):
        close(g.numpy(), wanted)


# Selection: what was not taken has gradient 0, whatever its value and whatever flows back to the place


def written(y: rg.Tensor, mask: Any) -> rg.Tensor:
    y[mask] = 0.0
    return y


VALUES, TAKEN = [2.0, nan, inf, -inf], np.array([True, False, False, False])
NOT_TAKEN = [
    ("where", lambda y, taken: rg.where(taken, y, 0.0)),
    ("where, second branch", lambda y, taken: rg.where(~taken, rg.zeros(4, dtype=y.dtype), y)),
    ("Tensor.where", lambda y, taken: y.where(taken, 0.0)),
    ("masked_fill", lambda y, taken: y.masked_fill(~taken, 0.0)),
    ("masked_fill_", lambda y, taken: y.clone().masked_fill_(~taken, 0.0)),
    ("masked_scatter", lambda y, taken: y.masked_scatter(~taken, rg.zeros(3, dtype=y.dtype))),
    ("write by mask", lambda y, taken: written(y.clone(), ~taken)),
    ("nan_to_num", lambda y, taken: y.nan_to_num(0, 0, 0)),
    ("clamp", lambda y, taken: y.clamp(0, 5)),
    ("clamp by Tensors", lambda y, taken: y.clamp(rg.zeros(4, dtype=y.dtype), rg.full((4,), 5, dtype=y.dtype))),
]


@pytest.mark.parametrize("function", [case[1] for case in NOT_TAKEN], ids=[case[0] for case in NOT_TAKEN])
def test_the_branch_not_taken(function):
    y = rg.tensor(VALUES, dtype=rg.float64, requires_grad=True)
    cotangent = rg.tensor([3.0, nan, inf, nan], dtype=rg.float64)
    (g,) = rg.autograd.grad(function(y, rg.tensor(TAKEN)), y, cotangent)
    assert g.tolist() == [3, 0, 0, 0]


def test_what_is_read_by_a_mask_alone_has_a_gradient():
    for read in (lambda y, taken: y.masked_select(taken), lambda y, taken: y[taken], lambda y, taken: y[:1].nansum()):
        y = rg.tensor(VALUES, dtype=rg.float64, requires_grad=True)
        (g,) = rg.autograd.grad(read(y, rg.tensor(TAKEN)).sum(), y)
        assert g.tolist() == [1, 0, 0, 0]


def test_the_taken_branch_of_where_stays_finite():
    taken = rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)
    other = rg.tensor([0.0, -1.0], dtype=rg.float64, requires_grad=True)
    y = rg.where(rg.tensor([True, True]), taken**2, other.log() / other)
    assert rg.autograd.grad(y.sum(), taken)[0].tolist() == [2, 4]


def test_where_within_where_guards_a_pole():
    """Selecting the argument, too, keeps the pole out; otherwise log's rule gives 0 / 0, as in PyTorch."""
    x = rg.tensor([4.0, 0.0], dtype=rg.float64, requires_grad=True)
    guarded = rg.where(x > 0, rg.where(x > 0, x, 1.0).log(), x)
    assert rg.autograd.grad(guarded.sum(), x)[0].tolist() == [0.25, 1]
    (g,) = rg.autograd.grad(rg.where(x > 0, x.log(), x).sum(), x)
    assert g[0] == 0.25 and g[1].isnan()


# Rounding on the way to the edge: float32 against float64, by relative error

NEAR = [
    ("expm1", rg.expm1, [1e-30, -1e-8, 1e-4]),
    ("log1p", rg.log1p, [1e-30, -1e-8, 1e-4]),
    ("sigmoid far below", rg.sigmoid, [-80, -20, -5]),
    ("logsigmoid far above", F.logsigmoid, [5, 20, 80]),
    ("softplus far below", F.softplus, [-80, -20, -5]),
    ("silu far below", F.silu, [-80, -20, -5]),
    ("mish far below", F.mish, [-80, -20, -5]),
    ("elu near 0", F.elu, [-1e-30, -1e-8, -1e-4]),
    ("erfc far above", rg.erfc, [1, 4, 9]),
    ("sinc near 0", rg.sinc, [1e-20, 1e-4, 0.1]),
    ("asinh near 0", rg.asinh, [1e-20, -1e-6, 1e-3]),
    ("atanh near 0", rg.atanh, [1e-20, -1e-6, 1e-3]),
    ("log_ndtr far below", rg.special.log_ndtr, [-30, -10, -5]),
    ("i1 near 0", rg.special.i1, [1e-20, 1e-6, 1e-3]),
    ("logaddexp", lambda x: rg.logaddexp(x, x * 0), [-80, -20, -5]),
    ("hypot without overflow", lambda x: rg.hypot(x, x), [1e-30, 1e30]),
    ("cosine_similarity without overflow", lambda x: rg.cosine_similarity(x, x.flip(0) * 2, 0), [1e18, 2e18, 1e17]),
    ("logsumexp of large numbers", lambda x: x.logsumexp(0), [10000, 10000.5, 9999]),
    ("log_softmax of large numbers", lambda x: x.log_softmax(0), [10000, 10000.5, 9999]),
]  # fmt: skip


@pytest.mark.parametrize(("function", "x"), [case[1:] for case in NEAR], ids=[case[0] for case in NEAR])
def test_float32_near_the_edge(function, x):
    """Values and gradients keep their digits, tiny as they may be; the gradient may lose twenty roundings."""
    results = []
    for dtype in ("float32", "float64"):
        leaf = rg.tensor(np.array(x, "float32").astype(dtype), requires_grad=True)
        y = function(leaf)
        (g,) = rg.autograd.grad(y.sum() if "softmax" not in str(y.grad_fn) else y[1], leaf)
        results.append((y.detach().numpy(), g.numpy()))
    (value, gradient), (wanted, wanted_gradient) = results
    np.testing.assert_allclose(value, wanted, rtol=5e-7)
    np.testing.assert_allclose(gradient, wanted_gradient, rtol=2.5e-6, atol=1e-37)


def test_loss_of_sure_and_right_logits():
    """log(1 + e^-x) has no x in it that would have to cancel."""
    x = np.array([5, 20, 80], "float32")
    for sign, target in ((1, 1.0), (-1, 0.0)):
        loss = F.binary_cross_entropy_with_logits(rg.tensor(sign * x), rg.full((3,), target), reduction="none")
        np.testing.assert_allclose(loss.numpy(), np.log1p(np.exp(-x.astype("float64"))), rtol=5e-7)


def test_second_derivative_of_a_bessel_function_near_zero():
    """I1'' = x (3/8 + 5/96 x^2 + ...): it must not come from a difference of numbers of the size of 1 / x."""
    x = rg.tensor([1e-20, 1e-6, 0.04, 0.06], dtype=rg.float64, requires_grad=True)
    (g,) = rg.autograd.grad(rg.special.i1(x).sum(), x, create_graph=True)
    (h,) = rg.autograd.grad(g.sum(), x)
    series = 3 / 8 * x.detach() + 5 / 96 * x.detach() ** 3 + 7 / 3072 * x.detach() ** 5
    np.testing.assert_allclose(h.numpy(), series.numpy(), rtol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
def test_attention_feels_no_rounding_of_large_scores(scale):
    """Equal scores share the weights equally whatever their size, in the backward pass, too."""
    k = rg.full((1, 3, 4), scale)
    v = rg.ones(1, 3, 2, requires_grad=True)
    F.scaled_dot_product_attention(rg.full((1, 1, 4), scale), k, v).sum().backward()
    np.testing.assert_allclose(v.grad.numpy(), 1 / 3, rtol=1e-6)


def test_matrix_norms_of_a_matrix_without_full_rank():
    """Zero singular values of a matrix that is not square divide nothing."""
    for order in ("nuc", 2, "fro"):
        x = rg.zeros(3, 2, dtype=rg.float64, requires_grad=True)
        rg.linalg.matrix_norm(x, order).backward()
        assert np.isfinite(x.grad.numpy()).all(), order


# float16: sums and counts beyond its range, 65504


COUNT = 70000
HALF = [
    ("mean", rg.mean, [2.0] * COUNT, 2.0),
    ("mean along a dimension", lambda x: x.reshape(2, -1).mean(1).sum(), [5.0] * COUNT, 10.0),
    ("nanmean", rg.nanmean, [1.0] * 60000, 1.0),
    ("var", rg.var, [1000.0, 1001, 1002] * 200, 0.6678),
    ("std", rg.std, [2000.0, -2000] * 200, 2002.0),
    ("norm", rg.norm, [300.0] * 400, 6000.0),
    ("logsumexp", lambda x: x.logsumexp(0), [0.0] * COUNT, np.log(COUNT)),
    ("softmax", lambda x: x.softmax(0).sum(), [600.0] * 512, 1.0),
    ("layer_norm", lambda x: F.layer_norm(x, (512,))[0], [600.0, 100] * 256, 1.0),
    ("rms_norm", lambda x: F.rms_norm(x, (512,))[0], [600.0] * 512, 1.0),
    ("mse_loss", lambda x: F.mse_loss(x, x * 0), [2.0] * COUNT, 4.0),
    ("bce", lambda x: F.binary_cross_entropy_with_logits(x, x * 0), [0.0] * COUNT, np.log(2)),
    ("nll_loss", lambda x: F.nll_loss(x.reshape(-1, 1), rg.zeros(COUNT, dtype=rg.int64)), [-2.0] * COUNT, 2.0),
    ("sigmoid", rg.sigmoid, -12.0, 6.14e-6),
    ("silu", F.silu, -12.0, -7.37e-5),
    ("gelu by tanh", partial(F.gelu, approximate="tanh"), 300.0, 300.0),
]  # fmt: skip


@pytest.mark.parametrize(("function", "x", "wanted"), [case[1:] for case in HALF], ids=[case[0] for case in HALF])
def test_float16(function, x, wanted):
    leaf = rg.tensor(np.array(x, np.float16), requires_grad=True)
    y = function(leaf)
    assert y.dtype == rg.float16
    np.testing.assert_allclose(y.item(), wanted, rtol=5e-3)
    (g,) = rg.autograd.grad(y.sum(), leaf)
    assert g.dtype == rg.float16 and np.isfinite(g.numpy()).all()
    if function in (rg.mean, rg.nanmean):
        np.testing.assert_allclose(g.numpy(), 1 / len(x), rtol=5e-3)
