"""Compiled scans, reductions and searches do what their references do, for every dimension, dtype and thread count."""

import numpy as np
import pytest

import retrograd as rg
from retrograd import kernels
from retrograd.kernels import chunked
from retrograd.kernels.loops.elements import ufuncs
from retrograd.kernels.loops.layout import search
from retrograd.kernels.loops.statistics import scans

pytestmark = [
    pytest.mark.slow,  # all of them compile loops
    pytest.mark.skipif(not kernels.available(), reason="Numba is not installed"),
]
SHAPES = [(37, 61), (5, 7, 90), (2500,), (700, 3), (3, 700)]
SCANS = {
    "cumsum": (rg.cumsum, "fdl"),
    "cumprod": (rg.cumprod, "fdl"),
    "logcumsumexp": (rg.logcumsumexp, "fd"),
    "cummax": (lambda x, dim: rg.cummax(x, dim).values, "fdl"),
    "cummin": (lambda x, dim: rg.cummin(x, dim).values, "fdl"),
    "index of cummax": (lambda x, dim: rg.cummax(x, dim).indices, "fdl"),
    "argmin": (rg.argmin, "fdl"),
    "max": (lambda x, dim: rg.max(x, dim).values, "fdl"),
    "prod": (rg.prod, "fdl"),
}
REDUCTIONS = {
    name: getattr(rg, name)
    for name in ("sum", "prod", "amax", "amin", "any", "all", "argmax", "argmin", "count_nonzero")
}


def numbers(shape, kind, seed=0):
    """Few different ones, so that there are ties and zeros; floating numbers near one in size."""
    found = np.random.default_rng(seed).integers(-2, 3, shape)
    return found if kind == "l" else (found * 0.75).astype(kind)


@pytest.fixture
def references(monkeypatch):
    """Turn the loops off."""

    def turn_off():
        for module in (scans, ufuncs, search):
            monkeypatch.setattr(module, "compiled", lambda: None)

    return turn_off


@pytest.fixture(params=[1, 2])
def threads(request, monkeypatch):
    monkeypatch.setattr("retrograd.kernels.runtime.cores.wanted", [request.param])
    monkeypatch.setattr(ufuncs, "BLOCK", 1 << 10)
    for module in (ufuncs, chunked):
        monkeypatch.setattr(module, "LARGE", 1 << 10)
    monkeypatch.setattr("retrograd.ops.reduce.extremes.LARGE", 1 << 10)
    monkeypatch.setattr("retrograd.ops.reduce.reductions.LARGE", 1 << 10)
    monkeypatch.setattr("retrograd.core.arrays.summation.LARGE", 1 << 10)
    return request.param


@pytest.mark.parametrize("name", SCANS)
def test_scans_are_their_references_on_either_backend(name, backend):
    scan, kinds = SCANS[name]
    for kind in kinds:
        x = numbers((37, 61), kind)
        for dim in (0, 1):
            wanted = kernels.by_reference(lambda: scan(rg.tensor(x), dim).numpy(), (), {})  # noqa: B023
            with backend():
                device = rg.get_default_device()
                found = scan(rg.tensor(x, device=device), dim)
                assert found.device.type == device.type
                np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", SCANS)
def test_a_scan_and_its_gradient_are_those_of_the_reference(name, shape, references):
    scan, kinds = SCANS[name]

    def found():
        for kind in kinds:
            for dim in range(len(shape)):
                x = rg.tensor(numbers(shape, kind), requires_grad=kind != "l")
                y = scan(x, dim)
                yield y.detach().numpy()
                if y.requires_grad:
                    y.backward(rg.tensor(numbers(y.shape, kind, 1)))
                    yield x.grad.numpy()

    ours = list(found())
    references()
    for one, its in zip(ours, found(), strict=True):
        assert one.dtype == its.dtype
        np.testing.assert_allclose(one, its, rtol=2e-5 if one.dtype == np.float32 else 1e-11, atol=1e-6)


@pytest.mark.parametrize("dim", [0, 1])
def test_infinities_and_nan_pass_through_scans_as_in_the_reference(dim, references):
    row = [-np.inf, -np.inf, 1.0, 2.0, np.inf, 3.0, -np.inf, np.nan, 4.0, np.nan, 5.0]
    x = np.array([row + [0.0] * 90] * 20, np.float32)
    x = np.ascontiguousarray(x.T) if dim == 0 else x
    calls = [
        rg.logcumsumexp,
        rg.argmax,
        rg.argmin,
        *[lambda x, dim, f=f: f(x, dim).indices for f in (rg.cummax, rg.cummin)],
    ]
    ours = [call(rg.tensor(x), dim).numpy() for call in calls]
    references()
    for call, found in zip(calls, ours, strict=True):
        np.testing.assert_array_equal(found, call(rg.tensor(x), dim).numpy())


@pytest.mark.parametrize("kind", "fdl")
@pytest.mark.parametrize("shape", [*SHAPES, (4, 50), (33,)])
def test_topk_is_the_beginning_of_a_stable_sort(shape, kind):
    x = numbers(shape, kind)
    if kind != "l":
        x.reshape(-1)[::11] = np.nan
        x.reshape(-1)[5::13] = -np.inf
    for dim, length in enumerate(shape):
        for largest in (True, False):
            order = rg.argsort(rg.tensor(x), dim, descending=largest).numpy()
            for k in (1, 2, min(64, int((2 * length) ** 0.5))):
                found = scans.leading(x, dim, k, largest)
                wanted = order[(slice(None),) * dim + (slice(0, k),)]
                np.testing.assert_array_equal(found, wanted)
                values, indices = rg.topk(rg.tensor(x), k, dim, largest)
                np.testing.assert_array_equal(indices.numpy(), wanted)
                np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, wanted, dim))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", ["cumprod", "prod", "logcumsumexp"])
def test_second_derivatives_through_loops_are_right_where_factors_are_zero(name, dim):
    rng = np.random.default_rng(0)
    start, direction = rng.standard_normal((2, 40, 30))
    start[3, 4] = start[5, 4] = start[3, 6] = 0

    def slope(numbers):
        x = rg.tensor(numbers, requires_grad=True)
        (g,) = rg.autograd.grad((getattr(rg, name)(x, dim) ** 2).sum(), x, create_graph=True)
        return x, (g * rg.tensor(direction)).sum()

    x, total = slope(start)
    (second,) = rg.autograd.grad(total, x)
    step = 1e-5
    ahead, behind = [slope(start + way * step * direction)[1].item() for way in (1, -1)]
    np.testing.assert_allclose((second.numpy() * direction).sum(), (ahead - behind) / (2 * step), rtol=1e-4)


@pytest.mark.parametrize("kind", ["f", "d", "l", "i", "?"])
@pytest.mark.parametrize("shape", [(64, 80), (3, 11, 128), (20000,), (1, 5000), (5001, 1), (70, 9, 70), (300, 64)])
def test_large_reductions_are_numpys(shape, kind, threads):
    x = numbers(shape, "l") if kind != "?" else numbers(shape, "l") > -2
    x = np.where(x == 0, 1, x).astype(kind) * (0.75 if kind in "fd" else 1)
    x = x.astype(kind)
    if kind in "fd":
        x.reshape(-1)[7] = np.nan
    for name, reduce in REDUCTIONS.items():
        if kind == "?" and name in ("argmax", "argmin"):
            continue
        for dim in (None, *range(x.ndim)):
            found = reduce(rg.tensor(x), dim).numpy() if dim is not None else reduce(rg.tensor(x)).numpy()
            with np.errstate(all="ignore"):
                wanted = np.asarray(getattr(np, name)(x, axis=dim))
            assert found.shape == wanted.shape, name
            np.testing.assert_allclose(found, wanted, rtol=1e-4, err_msg=f"{name} {dim}")


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_a_reduction_does_not_depend_on_the_number_of_threads(dim, monkeypatch):
    x = np.random.default_rng(0).standard_normal((1000, 700)).astype(np.float32) + 1
    found = []
    for count in (1, 2, 3):
        monkeypatch.setattr("retrograd.kernels.runtime.cores.wanted", [count])
        found.append(ufuncs.reduced(np.multiply, x, dim, False))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("dim", [0, 1, 2, (0, 2)])
def test_what_is_computed_by_lanes_is_the_whole(dim, threads):
    def away(x, y, dim, keepdim):
        return (x - y).max(axis=dim, keepdims=keepdim)

    x, y = np.random.default_rng(0).standard_normal((2, 50, 60, 70)).astype(np.float32)
    for keepdim in (False, True):
        found = chunked.by_lanes(away)(x, y, dim=dim, keepdim=keepdim)
        np.testing.assert_array_equal(found, away(x, y, dim, keepdim))


@pytest.mark.parametrize("shape", [(300, 200), (70_000,), (40, 3, 500), (40_000, 1), (9, 40, 3, 2, 30)])
@pytest.mark.parametrize("kind", ["f", "d", "l", "i", "?", "B"])
def test_nonzero_finds_all_places_in_order(shape, kind):
    for share in (0.5, 0.001, 1.0, 0.0):
        x = (np.random.default_rng(0).random(shape) < share).astype(kind)
        np.testing.assert_array_equal(rg.nonzero(rg.tensor(x)).numpy(), np.argwhere(x))
        for found, wanted in zip(rg.nonzero(rg.tensor(x), as_tuple=True), x.nonzero(), strict=True):
            np.testing.assert_array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("places", [9, 20, 300])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_along_another_dimension_than_the_last_is_that_of_the_transposed(name, dim, places):
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((2, 70, 90, places)).astype(np.float32)
    if dim:
        x[0, :5, 0], x[1, 3, 1], x[2, :, 2], x[3, 4, 3] = -np.inf, np.inf, -np.inf, np.nan

    def found(array, cotangent, dim):
        leaf = rg.tensor(array, requires_grad=True)
        y = getattr(rg, name)(leaf, dim)
        y.backward(rg.tensor(cotangent))
        assert y.detach().numpy().flags.c_contiguous
        return y.detach().numpy(), leaf.grad.numpy()

    turned = found(*[np.ascontiguousarray(np.moveaxis(each, dim, -1)) for each in (x, g)], 2)
    for one, other in zip(found(x, g, dim), turned, strict=True):
        np.testing.assert_allclose(one, np.moveaxis(other, -1, dim), rtol=2e-6, atol=4e-6)
