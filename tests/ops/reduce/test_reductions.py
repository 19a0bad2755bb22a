"""What the operator harness does not ask of reductions, scans, sorting and statistics: accuracy, dtypes, errors."""

from functools import partial

import numpy as np
import pytest

import retrograd as rg
from tests.helpers.together import check_all

REDUCING = (
    "sum",
    "mean",
    "amax",
    "amin",
    "prod",
    "max",
    "min",
    "argmax",
    "std",
    "var",
    "nansum",
    "any",
    "all",
    "logsumexp",
)
SCANNING = (
    "cumsum",
    "cumprod",
    "cummax",
    "cummin",
    "logcumsumexp",
    "sort",
    "argsort",
    "softmax",
    "log_softmax",
    "mode",
)


def relative_error(got, wanted):
    return float(np.max(np.abs(got.numpy() - wanted) / np.abs(wanted)))


@pytest.mark.parametrize(
    "shape, dim",
    [
        ((1_000_000,), None),
        ((300_000, 3), 0),
        ((3, 300_000), 1),
        ((2, 100_001, 3), 1),
        ((700, 700), (0, 1)),
        ((2, 999, 999), (0, 1)),
    ],
)
def test_long_float32_sums_are_accurate(shape, dim):
    x = np.random.default_rng(0).random(shape, dtype=np.float32)
    wanted = x.astype(np.float64).sum(axis=dim)
    assert relative_error(rg.sum(rg.tensor(x), dim), wanted) < 1e-6
    assert relative_error(rg.mean(rg.tensor(x), dim), wanted * wanted.size / x.size) < 1e-6


def test_long_float32_running_sums_are_accurate():
    x = np.random.default_rng(0).random(1_000_000, dtype=np.float32)
    assert relative_error(rg.cumsum(rg.tensor(x), 0), np.cumsum(x.astype(np.float64))) < 1e-7


def test_variance_far_from_zero():
    x = (1e4 + np.random.default_rng(0).standard_normal(100_000)).astype(np.float32)
    assert relative_error(rg.var(rg.tensor(x)), np.var(x.astype(np.float64), ddof=1)) < 1e-5


def test_float16_sums_beyond_its_precision():
    x = rg.tensor(np.ones((5000, 2), np.float16))
    assert rg.sum(x, 0).tolist() == [5000, 5000]
    assert rg.norm(rg.tensor(np.full(4, 300, np.float16))).item() == 600


def test_blocked_sum_of_infinities_and_nan():
    x = np.ones((5000, 3), np.float32)
    x[7, 0], x[8, 1] = np.inf, np.nan
    np.testing.assert_array_equal(rg.sum(rg.tensor(x), 0).numpy(), [np.inf, np.nan, 5000])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32", "int64"])
def test_integers_add_up_in_int64(dtype):
    x = rg.tensor(np.ones(300, dtype))
    for name in ("sum", "nansum", "prod"):
        assert getattr(rg, name)(x).dtype == np.int64
    assert rg.sum(x).item() == 300
    assert rg.cumsum(x, 0).dtype == np.int64


def test_means_of_integers_are_refused():
    for name in ("mean", "std", "var", "norm", "nanmean", "quantile"):
        with pytest.raises(RuntimeError, match=rf"{name}.*int64"):
            getattr(rg, name)(rg.tensor([1, 2]), *((0.5,) if name == "quantile" else ()))
    assert rg.mean(rg.tensor([1, 2]), dtype=np.float64).item() == 1.5


@pytest.mark.parametrize("name", REDUCING + SCANNING)
def test_dimension_out_of_range(name):
    with pytest.raises(IndexError, match=rf"{name}.*\[-2, 1\].*5"):
        getattr(rg, name)(rg.tensor(np.ones((2, 3))), 5)


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "std", "logsumexp", "any"])
def test_repeated_dimension(name):
    with pytest.raises(RuntimeError, match=f"{name}.*more than once"):
        getattr(rg, name)(rg.tensor(np.ones((2, 3))), (0, 0))


@pytest.mark.parametrize("name", ["amax", "amin", "max", "min", "argmax", "argmin", "aminmax"])
def test_extremes_of_nothing(name):
    function, empty = getattr(rg, name), rg.tensor(np.zeros((0, 3)))
    with pytest.raises((RuntimeError, IndexError), match=f"{name}.*no elements"):
        function(empty)
    with pytest.raises(IndexError, match=f"{name}.*non-zero size"):
        function(empty, dim=0)
    result = function(empty, dim=1)
    assert (result if isinstance(result, rg.Tensor) else result[0]).shape == (0,)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda x: rg.sum(x, dim=0, axis=0), TypeError, "sum.*both"),
        (lambda x: rg.sum(x, "0"), TypeError, "sum.*dim.*str"),
        (lambda x: rg.topk(x, 4), RuntimeError, r"topk.*k=4.*float64\(2, 3\)"),
        (lambda x: rg.kthvalue(x, 0), RuntimeError, "kthvalue.*k=0"),
        (lambda x: rg.quantile(x, 1.5), RuntimeError, r"quantile.*\[0, 1\]"),
        (lambda x: rg.quantile(x, rg.tensor([0.5])), RuntimeError, "quantile.*float64.*float32"),
        (lambda x: rg.quantile(x, 0.5, interpolation="cubic"), RuntimeError, "quantile.*'cubic'"),
        (lambda x: rg.norm(x, "bad"), RuntimeError, "norm.*'bad'"),
        (lambda x: rg.renorm(x, -1, 0, 1.0), RuntimeError, "renorm.*p=-1"),
        (lambda x: rg.var(x, 0, True, correction=0), TypeError, "var.*both"),
        (lambda x: rg.searchsorted(x, x[:1]), RuntimeError, "searchsorted.*leading dimensions"),
        (lambda x: rg.searchsorted(x[0], x, side="left", right=True), RuntimeError, "searchsorted.*disagree"),
        (lambda x: rg.bucketize(x, x), RuntimeError, "bucketize.*1 dimension"),
        (lambda x: rg.bincount(x), NotImplementedError, "bincount.*float64"),
        (lambda x: rg.bincount(rg.tensor([-1])), RuntimeError, "bincount.*negative"),
        (lambda x: rg.histc(x, 4, 2, 1), RuntimeError, r"histc.*\[2.0, 1.0\]"),
        (lambda x: rg.diff(x, -1), RuntimeError, "diff.*-1"),
        (lambda x: rg.gradient(x, edge_order=3), RuntimeError, "gradient.*3"),
        (lambda x: rg.gradient(x[:1]), RuntimeError, "gradient.*at least 2"),
        (lambda x: rg.trapezoid(x, rg.tensor([1.0])), RuntimeError, "trapezoid.*same length"),
        (lambda x: rg.cov(x[None]), RuntimeError, "cov.*at most 2"),
        (lambda x: rg.cov(rg.ones(2), fweights=rg.ones(2)), RuntimeError, "fweights must have integer dtype.*float32"),
        (lambda x: rg.softmax(rg.tensor([1]), 0), NotImplementedError, "softmax.*int64"),
        (lambda x: rg.sum("x"), TypeError, "sum.*input.*str"),
    ],
)
def test_bad_arguments_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call(rg.tensor(np.ones((2, 3))))


def test_implicit_dimension_of_functional_softmax_warns():
    x = rg.tensor(np.ones((2, 3)))
    with pytest.warns(UserWarning, match="softmax: pass dim"):
        y = rg.nn.functional.softmax(x)
    np.testing.assert_allclose(y.sum(1).numpy(), 1)


def test_softmax_takes_a_dtype():
    x = rg.tensor([1, 2, 3])
    assert rg.softmax(x, 0, np.float64).dtype == np.float64
    assert rg.nn.functional.log_softmax(x, dim=0, dtype=np.float32).dtype == np.float32


def test_softmax_of_a_masked_row_elsewhere_finite():
    x = rg.tensor(np.array([[-np.inf, 0.0, 0.0]]), requires_grad=True)
    y = rg.softmax(x, 1)
    (y * rg.tensor([1.0, 2.0, 4.0])).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[0, -0.5, 0.5]])


def test_equal_elements_share_or_the_index_takes_the_gradient():
    for name, wanted in (("amax", [0.5, 0, 0.5]), ("max", [0.5, 0, 0.5]), ("median", [0.5, 0, 0.5])):
        x = rg.tensor([3.0, 1.0, 3.0], requires_grad=True)
        getattr(rg, name)(x).backward()
        assert x.grad.tolist() == wanted, name
    x = rg.tensor([3.0, 1.0, 3.0], requires_grad=True)
    values, indices = rg.max(x, 0)
    values.backward()
    assert indices.item() == 0 and x.grad.tolist() == [1, 0, 0]


def test_deviation_and_norm_without_spread_have_no_nan_gradient():
    for function in (rg.std, rg.norm, lambda x: rg.dist(x, x.detach())):
        x = rg.tensor([0.0, 0.0, 0.0], requires_grad=True)
        function(x).backward()
        assert x.grad.tolist() == [0, 0, 0]


def test_second_derivative_of_a_product_with_zeros():
    x = rg.tensor(np.array([2.0, 0.0, 0.0, 5.0]), requires_grad=True)
    (g,) = rg.autograd.grad(rg.prod(x), x, create_graph=True)
    assert g.tolist() == [0, 0, 0, 0]
    (h,) = rg.autograd.grad(g[1], x)
    assert h.tolist() == [0, 0, 10, 0]


def test_second_derivative_of_a_running_product_with_zeros():
    x = rg.tensor(np.array([2.0, 0.0, 3.0]), requires_grad=True)
    (g,) = rg.autograd.grad(rg.cumprod(x, 0).sum(), x, create_graph=True)
    assert g.tolist() == [1, 8, 0]  # 1 + b + bc, a + ac, ab
    (h,) = rg.autograd.grad(g[1], x)
    assert h.tolist() == [4, 0, 2]  # 1 + c, 0, a


def test_forms_of_deviation():
    x = np.random.default_rng(0).standard_normal((3, 4))
    t = rg.tensor(x)
    for got, wanted in (
        (rg.std(t, False), np.std(x)),
        (rg.std(t, 0, False), np.std(x, 0)),
        (t.std(axis=1, keepdims=True), np.std(x, 1, ddof=1, keepdims=True)),
        (t.var((0, 1), correction=2), np.var(x, ddof=2)),
        (rg.var_mean(t, 0).mean, x.mean(0)),
        (rg.std_mean(t, dim=None, unbiased=False).std, np.std(x)),
    ):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-12)


def test_topk_of_many_equals_a_full_sort():
    x = np.random.default_rng(0).integers(0, 50, (4, 300)).astype(float)
    t = rg.tensor(x)
    for largest in (True, False):
        values, indices = rg.topk(t, 5, largest=largest)
        ordered, _ = rg.sort(t, descending=largest)
        np.testing.assert_array_equal(values.numpy(), ordered.numpy()[:, :5])
        np.testing.assert_array_equal(np.take_along_axis(x, indices.numpy(), 1), values.numpy())


def both_orders(module, tensor, call, values, weights, second):
    """The gradient of the weighted result, and the gradient of a weighted sum of that gradient."""
    x = tensor(values, requires_grad=True)
    results = call(module, x)
    results = results if isinstance(results, tuple) else (results,)
    total = sum((y * tensor(w)).sum() for y, w in zip(results, weights))
    (g,) = module.autograd.grad(total, x, create_graph=True)
    if not g.requires_grad:
        return [g.detach().numpy(), np.zeros_like(values)]
    (h,) = module.autograd.grad((g * tensor(second)).sum(), x, allow_unused=True)
    return [g.detach().numpy(), np.zeros_like(values) if h is None else h.detach().numpy()]


def compare_both_orders(call, values, shape):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    second = rng.standard_normal(values.shape)
    weights = [rng.uniform(0.5, 1, shape) for _ in range(2)]
    ours = both_orders(rg, rg.tensor, call, values, weights, second)
    theirs = both_orders(torch, torch.tensor, call, values, weights, second)
    for got, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("name", ["std", "var", "std_mean", "var_mean"])
@pytest.mark.parametrize("correction", [0, 0.5, 1, 2, 3, 5])
@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0")  # PyTorch's
def test_deviations_of_no_more_elements_than_the_correction_are_pytorchs_to_both_orders(name, correction):
    def check(values, dim):
        values = np.array(values)
        shape = () if dim is None else values.shape[:-1]
        compare_both_orders(lambda m, x: getattr(m, name)(x, dim=dim, correction=correction), values, shape)

    samples = [[1.0, 2.0], [1.0], [2.0, 2.0], [1.0, 2.0, 4.0], [[1.0, 2.0], [3.0, 3.0]]]
    check_all((f"{values} along {dim}", partial(check, values, dim)) for values in samples for dim in (None, -1))


def test_a_deviation_with_a_correction_beyond_the_count_has_a_gradient_of_zeros_along_a_dimension():
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    (g,) = rg.autograd.grad(rg.std(x, dim=0, correction=3), x, create_graph=True)
    assert g.tolist() == [0, 0]
    (h,) = rg.autograd.grad(g.sum(), x)
    assert h.tolist() == [0, 0]


@pytest.mark.parametrize(
    "values",
    [
        [-np.inf, 1.0, 2.0],
        [-np.inf, -np.inf, 0.0, -np.inf],
        [-np.inf, -np.inf, -np.inf, 1.0, 2.0],
        [1.0, -np.inf, 2.0],
        [1.0, -np.inf],
        [-np.inf, -np.inf],
        [np.inf, 1.0],
        [1.0, np.inf, 2.0],
    ],
    ids=str,
)
def test_running_log_sum_exp_at_infinities_is_pytorchs_to_both_orders(values):
    values = np.array(values)
    compare_both_orders(lambda m, x: m.logcumsumexp(x, 0), values, values.shape)


def test_second_derivative_of_running_log_sum_exp_behind_minus_infinity_is_that_without_it():
    def second_order(values):
        x = rg.tensor(np.array(values), requires_grad=True)
        (g,) = rg.autograd.grad((rg.logcumsumexp(x, 0) ** 2)[-2:].sum(), x, create_graph=True)
        (h,) = rg.autograd.grad(g[-1], x)
        return h.numpy()[-2:]

    np.testing.assert_allclose(second_order([-np.inf, 1.0, 2.0]), second_order([1.0, 2.0]), rtol=1e-12)


@pytest.mark.parametrize("p", [0.5, 1.5, 2, 2.5, 3, 4])
def test_second_derivative_of_a_norm_beside_a_zero_is_that_without_it(p):
    def second_order(values):
        x = rg.tensor(np.array(values), requires_grad=True)
        (g,) = rg.autograd.grad(rg.norm(x, p), x, create_graph=True)
        (h,) = rg.autograd.grad(g[-1], x)
        return h.numpy()

    beside = second_order([0.0, 2.0, -3.0])
    assert beside[0] == 0
    np.testing.assert_allclose(beside[1:], second_order([2.0, -3.0]), rtol=1e-12)


def test_second_derivative_of_the_2_norm_at_a_zero():
    x = rg.tensor(np.array([0.0, 3.0, 4.0]), requires_grad=True)
    (g,) = rg.autograd.grad(rg.norm(x), x, create_graph=True)
    (h,) = rg.autograd.grad(g[0], x)
    np.testing.assert_allclose(h.numpy(), [0.2, 0, 0], rtol=1e-12)


@pytest.mark.parametrize("p", [-1, -2])
def test_a_norm_of_negative_p_does_not_move_with_infinite_elements(p):
    compare_both_orders(lambda m, x: m.linalg.vector_norm(x, p), np.array([np.inf, 1.0]), ())


@pytest.mark.parametrize("values", [[1.0, -np.inf], [-np.inf, 2.0, 1.0]], ids=str)
def test_quantiles_between_infinities_are_pytorchs(values):
    torch = pytest.importorskip("torch")
    for q in (0.25, 0.5, 0.75):
        got, wanted = rg.quantile(rg.tensor(values), q), torch.quantile(torch.tensor(values), q)
        np.testing.assert_array_equal(got.numpy(), wanted.numpy())


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (600, 3), (70, 70, 70)])
def test_a_dimension_that_sums_keep_has_a_step(shape):
    x = rg.ones(*shape)
    for dim in range(len(shape)):
        for out in (x.sum(dim, keepdim=True), x.mean(dim, keepdim=True)):
            assert out.stride() == rg.empty(*out.shape).stride()  # 0 would say that elements share their memory


@pytest.mark.parametrize("dim", [(), []])
def test_no_dimensions_of_all_and_any_reduce_none(dim):
    x = rg.tensor([[1, 0], [0, 0]])
    assert rg.all(x, dim=dim).tolist() == rg.any(x, dim=dim, keepdim=True).tolist() == [[True, False], [False, False]]


@pytest.mark.parametrize("sorter", [rg.tensor([0, 1, 3]), rg.tensor([0, -1, 2]), rg.tensor([0.0, 1.0, 2.0])])
def test_a_sorter_must_hold_positions_of_the_sequence(sorter):
    with pytest.raises(RuntimeError, match="searchsorted"):
        rg.searchsorted(rg.arange(3.0), rg.ones(2), sorter=sorter)


def test_medians_of_bfloat16_along_a_dimension_find_nan():
    x = rg.tensor([[1.0, float("nan"), 0.0], [3.0, 1.0, 2.0]]).bfloat16()
    assert str(x.median(1).values.tolist()) == "[nan, 2.0]" and x.median(1).indices.tolist() == [1, 2]
    assert x.nanmedian(1).values.tolist() == [0.0, 2.0]


@pytest.mark.parametrize("dim", [(0,), (0, 1)])
@pytest.mark.parametrize("name", ["sum", "mean", "logsumexp", "var"])
def test_the_derivative_of_an_empty_gradient_by_the_cotangent_is_zero(name, dim):
    x = rg.zeros(0, 3, requires_grad=True)
    y = getattr(rg, name)(x, dim)
    g = rg.ones_like(y).requires_grad_()
    (dx,) = rg.autograd.grad(y, x, g, create_graph=True)
    (second,) = rg.autograd.grad(dx.sum(), g)
    assert not second.any()


def test_the_derivative_of_the_gradient_of_an_empty_loss_by_the_cotangent_is_zero():
    x, g = rg.zeros(0, 3, requires_grad=True), rg.ones((), requires_grad=True)
    (dx,) = rg.autograd.grad(rg.nn.functional.mse_loss(x, rg.zeros(0, 3)), x, g, create_graph=True)
    assert rg.autograd.grad(dx.sum(), g)[0] == 0


REDUCTIONS = ("sum", "prod", "mean", "max", "min", "amax", "amin", "ptp", "var", "std")


@pytest.mark.parametrize("name", [*REDUCTIONS, "nansum", "nanmean", "nanmax", "nanmin"])
def test_numpys_reductions_over_no_dimension_reduce_nothing(name):
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    got = getattr(np, name)(rg.tensor(values), axis=())
    np.testing.assert_array_equal(got.numpy(), getattr(np, name)(values, axis=()))


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.minimum])
def test_reduce_of_a_ufunc_over_no_dimension_reduces_nothing(ufunc):
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(ufunc.reduce(rg.tensor(values), axis=()).numpy(), values)
