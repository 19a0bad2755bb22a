"""NumPy's ufuncs on all threads of the pool: the same numbers as on one."""

from itertools import combinations

import numpy as np
import pytest

import retrograd as rg
from retrograd import kernels
from retrograd.core.arrays.layout import is_view
from retrograd.kernels.loops.elements import ufuncs

pytestmark = [
    pytest.mark.slow,  # loops are compiled
    pytest.mark.skipif(not kernels.available(), reason="there are no compiled loops"),
]


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setattr("retrograd.kernels.runtime.cores.wanted", [2])


def refused(*arrays):
    raise AssertionError([getattr(x, "shape", x) for x in arrays])


def matrix(seed, dtype, shape=(700, 501)):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "ufunc", [np.add, np.subtract, np.multiply, np.true_divide, np.maximum, np.less, np.equal, np.arctan2, np.power]
)
def test_a_ufunc_of_two_large_arrays_is_numpys_bit_for_bit(ufunc, dtype):
    x, y = matrix(1, dtype), matrix(2, dtype)
    run = ufuncs.spread(ufunc, refused)
    column = np.ascontiguousarray(y[:, :1])
    with np.errstate(all="ignore"):
        for a, b in [(x, y), (x, 2.5), (3, y), (x, y[0]), (y[:1], x), (x, column), (column[:, 0:1], x)]:
            ours, its = run(a, b), ufunc(a, b)
            assert (ours.dtype, ours.strides) == (its.dtype, its.strides)
            np.testing.assert_array_equal(ours, its)


def test_large_arrays_are_written_in_place_unless_they_read_themselves():
    kernels.share()
    values = matrix(1, np.float32)
    for other in (2.5, matrix(2, np.float32), matrix(2, np.float32)[3], np.float32(3)):
        x = rg.from_numpy(values.copy())
        before = x.data_ptr()
        x.mul_(other if isinstance(other, float) else rg.as_tensor(other)).add_(1.0)
        np.testing.assert_array_equal(x.numpy(), values * other + np.float32(1))
        assert x.data_ptr() == before
    x = rg.from_numpy(values.copy())
    x.mul_(x).sub_(x[0])  # the row that is subtracted changes meanwhile
    np.testing.assert_array_equal(x.numpy(), values * values - (values * values)[0])


@pytest.mark.parametrize("ufunc", [np.exp, np.log, np.sqrt, np.square, np.sin, np.negative, np.isnan, np.floor])
def test_a_ufunc_of_a_large_array_is_numpys_bit_for_bit(ufunc):
    x = matrix(1, np.float64)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(ufuncs.spread(ufunc, refused)(x), ufunc(x))


@pytest.mark.parametrize(
    "arguments",
    [
        (matrix(1, np.float32).T, matrix(2, np.float32).T),
        (matrix(1, np.float32), matrix(2, np.float64)),
        (matrix(1, np.float32), matrix(2, np.float32, (701, 501))),
        (np.ones((4, 1, 70000), np.float32), np.ones((1, 4, 70000), np.float32)),
        (np.ones(10), np.ones(10)),
        (np.ones((1 << 18, 4), np.float32), np.ones(4, np.float32)),
    ],
)
def test_what_cannot_be_shared_or_is_not_worth_it_is_left_to_numpy(arguments):
    assert ufuncs.spread(np.add, lambda *arrays: "numpy")(*arguments) == "numpy"


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 6e-8), (np.float64, 1e-15)])
@pytest.mark.parametrize(
    "shape", [(1 << 18,), (700, 501), (3, 200001), (20, 130, 300), (8, 10, 30, 141), (1, 300, 1000)]
)
def test_large_sums_over_any_dimensions_are_those_in_extended_precision(shape, dtype, tolerance):
    kernels.share()
    x = np.random.default_rng(1).standard_normal(shape).astype(dtype) + dtype(100)
    for count in range(1, x.ndim + 1):
        for dim in combinations(range(x.ndim), count):
            for keepdim in (False, True):
                ours = rg.from_numpy(x).sum(dim, keepdim=keepdim).numpy()
                exact = x.astype(np.longdouble).sum(axis=dim, keepdims=keepdim)
                assert ours.shape == exact.shape and ours.dtype == dtype
                np.testing.assert_allclose(ours, exact, rtol=tolerance if x.ndim - 1 in dim else 20 * tolerance)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_large_sum_is_not_finite_where_an_element_is_not(value):
    x = matrix(1, np.float32)
    x[600, 300] = value
    np.testing.assert_array_equal(rg.from_numpy(x).sum().numpy(), np.float32(value))
    np.testing.assert_array_equal(rg.from_numpy(x).sum(1).isfinite().numpy(), np.arange(700) != 600)


def test_sums_of_large_arrays_are_accurate_and_do_not_depend_on_the_number_of_threads(monkeypatch):
    x = rg.from_numpy(matrix(1, np.float32, (701, 1003)) + 1000)
    exact = x.numpy().astype(np.float64)
    results = []
    for threads in (1, 2, 3):
        monkeypatch.setattr("retrograd.kernels.runtime.cores.wanted", [threads])
        results.append([x.sum().numpy(), x.mean(-1, keepdim=True).numpy(), x.sum((0, 1), keepdim=True).numpy()])
    for ours in zip(*results, strict=True):
        np.testing.assert_array_equal(ours[0], ours[1])
        np.testing.assert_array_equal(ours[0], ours[2])
    np.testing.assert_allclose(results[0][0], exact.sum(), rtol=2e-7)
    np.testing.assert_allclose(results[0][1], exact.mean(-1, keepdims=True), rtol=2e-7)
    assert results[0][2].shape == (1, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extremes_of_large_arrays_are_numpys(dtype):
    values = matrix(1, dtype)
    x = rg.from_numpy(values)
    for ours, its in [
        (x.amax(), values.max()),
        (x.amin(1), values.min(1)),
        (x.max(), values.max()),
        (x.min(), values.min()),
    ]:
        np.testing.assert_array_equal(ours.numpy(), its)
    assert x.amax((0, 1), keepdim=True).shape == (1, 1) and x.amin(-1, keepdim=True).shape == (700, 1)
    values[3, 7] = np.nan
    assert x.amax().isnan() and x.amin(1).isnan().nonzero().tolist() == [[3]]


def test_gradients_of_large_products_are_numpys_bit_for_bit(monkeypatch):
    def gradients():
        x, y = [rg.from_numpy(matrix(seed, np.float32)).requires_grad_() for seed in (1, 2)]
        ((x * y - 0.5) / y * x).backward(rg.from_numpy(matrix(3, np.float32)))
        return x.grad.numpy(), y.grad.numpy()

    kernels.share()
    ours = gradients()
    monkeypatch.setattr("retrograd.kernels.loops.elements.ufuncs.compiled", lambda: None)
    for mine, its in zip(ours, gradients(), strict=True):
        np.testing.assert_array_equal(mine, its)


def test_a_number_spread_over_a_large_array_is_computed_with_as_one():
    x, one = matrix(1, np.float32), np.broadcast_to(np.float32(1.5), (700, 501))
    run = ufuncs.spread(np.multiply, refused)
    for a, b in [(x, one), (one, x), (one, one)]:
        ours = run(a, b)
        assert ours.flags.c_contiguous
        np.testing.assert_array_equal(ours, a * b)


def test_the_rules_of_products_are_numpys_on_large_arrays():
    kernels.share()
    x, y = [rg.from_numpy(matrix(seed, np.float32)).requires_grad_() for seed in (1, 2)]
    (x * 3.0 * y).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy() * np.float32(3))
    np.testing.assert_array_equal(y.grad.numpy(), x.detach().numpy() * np.float32(3))
    x.grad = None
    (x * y[:, :1]).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.broadcast_to(y.detach().numpy()[:, :1], x.shape))


def test_large_results_begin_with_a_line_and_become_gradients_without_a_copy(monkeypatch):
    kernels.share()
    addresses = []
    empty = ufuncs.empty

    def noting(*args):
        out = empty(*args)
        addresses.append(out.ctypes.data)
        return out

    monkeypatch.setattr(ufuncs, "empty", noting)
    x = rg.from_numpy(matrix(1, np.float32)).requires_grad_()
    (x * 2.0).sum().backward()
    assert len(addresses) == 2 and not any(address % 64 for address in addresses)
    assert x.grad.data_ptr() == addresses[1]


def test_a_gradient_that_is_a_part_of_a_large_array_gets_memory_of_its_own():
    kernels.share()
    x = rg.from_numpy(matrix(1, np.float32)).requires_grad_()
    y = rg.from_numpy(matrix(2, np.float32)).requires_grad_()
    (rg.cat([x, y]) * 2.0).sum().backward()
    x.grad.zero_()
    assert not np.shares_memory(x.grad.numpy(), y.grad.numpy()) and y.grad.unique().tolist() == [2.0]
    assert not is_view(x.grad.array) and not is_view(y.grad.array)


def test_large_results_own_their_memory_for_whoever_asks():
    kernels.share()
    x = rg.from_numpy(matrix(1, np.float32)) * 2.0
    assert x[1:].storage_offset() == x.shape[1] and x.untyped_storage().nbytes() == 4 * x.numel()
    assert x[1:].untyped_storage().data_ptr() == x.data_ptr() and x[1:].array.base is x.array


UFUNCS = {
    "add": lambda x, y: x + y[:1],
    "multiply": lambda x, y: x * y * 2.5,
    "divide": lambda x, y: x / (y * y + 1),
    "maximum": rg.maximum,
    "compare": lambda x, y: rg.where(x < y, x, y),
    "atan2": rg.atan2,
    "power": lambda x, y: (x * x + 1) ** y,
    "sine": lambda x, y: rg.sin(x) * rg.log1p(y * y),
    "extremes": lambda x, y: x.amax(1) + y.amin(1),
}


@pytest.mark.parametrize("name", UFUNCS)
def test_ufuncs_are_their_references_on_either_backend(name, on_backend):
    on_backend(UFUNCS[name], matrix(1, np.float32, (150, 301)), matrix(2, np.float32, (150, 301)), rtol=1e-4)
