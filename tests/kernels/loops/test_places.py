"""Large arrays by all threads: places in order, elements at places, copies and casts, distances; NumPy's numbers."""

from itertools import permutations

import numpy as np
import pytest

import retrograd as rg
from retrograd import kernels
from retrograd.kernels.loops.layout import copies, lanes
from retrograd.kernels.loops.matrices import distances
from retrograd.nn import functional as F
from retrograd.ops.reduce import ordering


def by_loops(test):
    """A test of compiled loops."""
    return pytest.mark.slow(pytest.mark.skipif(not kernels.available(), reason="there are no compiled loops")(test))


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setattr("retrograd.kernels.runtime.cores.wanted", [2])


def numbers(dtype, shape, kind):
    """Numbers without order, many of them equal, or with zeros of both signs and not finite ones."""
    rng = np.random.default_rng(0)
    if kind == "ties":
        return rng.integers(0, 9, shape).astype(dtype)
    if np.dtype(dtype).kind != "f":
        far = np.iinfo(dtype)
        return rng.integers(far.min // 2, far.max // 2, shape, dtype=dtype)
    x = rng.standard_normal(shape).astype(dtype)
    if kind == "odd":
        for value in (np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf):
            x[rng.random(shape) < 0.1] = value
    return x


KINDS = [
    (dtype, kind)
    for dtype in (np.float16, np.float32, np.float64, np.int64, np.uint8, np.int32)
    for kind in ("plain", "ties", "odd")
    if np.dtype(dtype).kind == "f" or kind != "odd"
]


@pytest.mark.parametrize("dtype, kind", KINDS)
@pytest.mark.parametrize("shape, dim", [((70, 64), 0), ((3, 1500), 1), ((5000,), 0), ((9, 20, 30), 1)])
def test_the_order_of_a_large_array_is_that_of_a_stable_sort(dtype, kind, shape, dim):
    x = numbers(dtype, shape, kind)
    assert ordering.takes(x, dim)
    upward = x.argsort(axis=dim, kind="stable")
    downward = x.shape[dim] - 1 - np.flip(np.flip(x, dim).argsort(axis=dim, kind="stable"), dim)
    np.testing.assert_array_equal(ordering.order(x, dim, False), upward)
    np.testing.assert_array_equal(ordering.order(x, dim, True), downward)
    for k in (0, 1, 3, shape[dim] // 2, shape[dim]):
        for stable, descending in ((upward, False), (downward, True)):
            first = ordering.first(x, dim, k, descending)
            chosen = np.take_along_axis(x, first, dim)
            np.testing.assert_array_equal(chosen, np.take_along_axis(x, stable, dim).take(range(k), dim))
            assert all(len(set(lane)) == k for lane in np.moveaxis(first, dim, -1).reshape(-1, max(k, 1)) if k)
        if k:
            np.testing.assert_array_equal(ordering.at(x, dim, k - 1), upward.take([k - 1], dim))


@pytest.mark.parametrize("name", ["median", "nanmedian"])
@pytest.mark.parametrize("kind", ["plain", "ties", "odd"])
def test_medians_of_large_arrays_are_the_lower_ones(name, kind):
    x = numbers(np.float32, (90, 80), kind)
    x = x[:, : 79 if name == "median" else 80]
    ordered = np.sort(x, axis=-1)
    last = np.count_nonzero(x == x, axis=-1) - 1 if name == "nanmedian" else np.full(len(x), x.shape[1] - 1)
    expected = ordered[np.arange(len(x)), np.maximum(last, 0) // 2]
    if name == "median":
        expected[np.isnan(x).any(axis=-1)] = np.nan
    found = getattr(rg.as_tensor(x), name)(-1)
    np.testing.assert_array_equal(found.values.numpy(), expected)
    np.testing.assert_array_equal(np.take_along_axis(x, found.indices.numpy()[:, None], -1)[:, 0], expected)
    whole = np.sort(x.ravel())
    missing = np.isnan(x).sum()
    at_middle = whole[(x.size - missing - 1) // 2] if name == "nanmedian" or not missing else np.nan
    np.testing.assert_array_equal(getattr(rg.as_tensor(x), name)().numpy(), at_middle)


@by_loops
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("shape, dim", [((300, 200), 0), ((300, 200), 1), ((40, 50, 30), 1), ((70_000,), 0)])
def test_elements_are_read_written_and_added_at_places_as_numpy_does(dtype, shape, dim):
    rng = np.random.default_rng(0)
    index = rng.integers(shape[dim], size=shape)
    x, values = [(rng.standard_normal(shape) * 100).astype(dtype) for _ in range(2)]
    key = list(np.indices(shape, sparse=True))
    key[dim] = index
    assert lanes.takes(x, index, dim)
    np.testing.assert_array_equal(lanes.take(x, index, dim), x[tuple(key)])
    np.testing.assert_array_equal(lanes.take(x[::-1], index, dim), x[::-1][tuple(key)])
    ours, its = x.copy(), x.copy()
    lanes.put(ours, index, values, dim)
    its[tuple(key)] = values
    np.testing.assert_array_equal(ours, its)
    lanes.put(ours, index, 7, dim)
    its[tuple(key)] = 7
    np.testing.assert_array_equal(ours, its)
    lanes.add(ours, index, values, dim)
    np.add.at(its, tuple(key), values)
    np.testing.assert_array_equal(ours, its)
    lanes.add(ours, index, ours, dim)  # what is added changes meanwhile
    np.add.at(its, tuple(key), its.copy())
    np.testing.assert_array_equal(ours, its)


@by_loops
def test_places_that_are_out_of_range_are_refused_before_a_loop_reads_there():
    x, index = rg.zeros(300, 200), rg.zeros(300, 200, dtype=rg.int64)
    for wrong in (-1, 200):
        index[7, 7] = wrong
        for call in (lambda: x.gather(1, index), lambda: x.scatter(1, index, x), lambda: x.scatter_add(1, index, x)):
            with pytest.raises(RuntimeError, match="out of bounds"):
                call()


@by_loops
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_casts_to_and_from_float16_are_numpys(dtype, monkeypatch):
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide = every.astype(dtype)
    found = copies.converted(np.tile(every, 4), dtype)
    np.testing.assert_array_equal(found, np.tile(wide, 4))
    assert (np.signbit(found) == np.signbit(np.tile(wide, 4))).all()
    finite = np.sort(wide[np.isfinite(wide)])
    between = (finite[1:] + finite[:-1]) / 2
    ends = np.array([65519.996, 65520, 65536, 1e30, np.inf, np.nan, 1e-30, 2.0**-25, 0.0], dtype)
    x = np.concatenate([wide, between, np.nextafter(between, dtype(9)), np.nextafter(between, dtype(-9)), ends, -ends])
    with np.errstate(all="ignore"):
        expected = x.astype(np.float16)
    found = copies.converted(x, np.float16)
    np.testing.assert_array_equal(found, expected)
    assert (np.signbit(found) == np.signbit(expected)).all()


@by_loops
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.complex64])
def test_copies_are_numpys_and_lie_in_memory_as_its(dtype):
    x = (np.random.default_rng(0).standard_normal((70, 50, 90)) * 9).astype(dtype)
    for order in permutations(range(3)):
        turned = x.transpose(order)
        for y in (turned, turned[::-1], turned[..., ::2], np.broadcast_to(turned[:1], turned.shape)):
            for ours, its in (
                (copies.copied(y), y.copy(order="C")),
                (copies.cloned(y), y.copy(order="C" if 0 in y.strides else "K")),
                (copies.converted(y, np.complex128), y.astype(np.complex128, order="C" if 0 in y.strides else "K")),
            ):
                np.testing.assert_array_equal(ours, its)
                assert (ours.dtype, ours.strides) == (its.dtype, its.strides)
                assert not np.may_share_memory(ours, y)


@pytest.mark.every(2)
@by_loops
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.complex128])
def test_what_is_written_over_large_arrays_is_numpys(dtype):
    shape = (70, 60, 90)
    x = (np.random.default_rng(0).standard_normal(shape) * 9).astype(dtype)
    values = [
        x,
        x[:1],
        x[..., :1],
        x[0, 0],
        x[0, 0, 0],
        2,
        np.float32(3),
        x.real.astype(np.int8),
        x[:1, :1, :1],
        x[::-1],
    ]
    for order in permutations(range(3)):
        turned = [shape[axis] for axis in order]
        for value in [*values, np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))]:
            for part in ((), np.s_[5:], np.s_[:, ::-1]):
                ours, its = (np.zeros(turned, dtype).transpose(np.argsort(order)) for _ in range(2))
                fits = value[5:] if np.shape(value)[:1] == (70,) and part == np.s_[5:] else value
                copies.write(ours[part], fits)
                its[part] = fits
                np.testing.assert_array_equal(ours, its)
    copies.write(x[1:], x[:-1])  # what is read lies where it is written
    np.testing.assert_array_equal(x[1:], values[0][1:])


@by_loops
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex128])
def test_large_arrays_are_joined_as_numpy_joins_them(dtype, dim):
    x = (np.random.default_rng(0).standard_normal((70, 70, 70)) * 9).astype(dtype)
    part = (*(slice(None),) * dim, slice(3))
    nothing = x[(*(slice(None),) * dim, slice(0))]
    for xs in ([x], [x, x], [x[part], nothing, x.T, x[::-1]], [x, x.real.astype(np.float16)]):
        ours, its = copies.joined(xs, dim), np.ascontiguousarray(np.concatenate(xs, dim))
        np.testing.assert_array_equal(ours, its)
        assert (ours.dtype, ours.strides) == (its.dtype, its.strides)
    for wrong in (x[0], x[:69, :69, :69]):
        with pytest.raises(ValueError, match="dimension"):
            copies.joined([x, wrong], dim)


@by_loops
def test_large_tensors_are_filled_and_copied_over_in_place():
    kernels.share()
    values = numbers(np.float32, (600, 501), "special")
    x = rg.zeros(600, 501)
    address, view = x.data_ptr(), x[1:]
    for source in (rg.from_numpy(values), rg.from_numpy(np.ascontiguousarray(values.T)).t(), values[:1]):
        np.testing.assert_array_equal(x.copy_(source).numpy(), np.broadcast_to(source, x.shape))
    assert (x.fill_(3.0) == 3).all() and (x.zero_() == 0).all()
    x[:, 2:] = rg.from_numpy(values[:, 2:])
    np.testing.assert_array_equal(view.numpy(), np.hstack([np.zeros((600, 2)), values[:, 2:]])[1:])
    assert x.data_ptr() == address and (rg.full((600, 501), 7, dtype=rg.int64) == 7).all()
    before = (x * 1).requires_grad_()
    product = before * before
    with rg.no_grad():
        before.zero_()
    product.sum().backward()  # of what was there when the product was made
    np.testing.assert_array_equal(before.grad.numpy(), 2 * x.numpy())


def test_a_cast_of_large_numbers_that_are_none_warns_on_no_thread():
    x = rg.full((600, 500), float("nan"))
    assert x.to(rg.int32).shape == (600, 500)
    assert rg.full((600, 500), 1e300, dtype=rg.float64).to(rg.float32)[0, 0].item() == float("inf")


@by_loops
@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 2e-6), (np.float64, 1e-14)])
def test_distances_of_pairs_are_those_of_the_reference(dtype, tolerance, monkeypatch):
    values = np.random.default_rng(0).standard_normal((90, 33)).astype(dtype)
    values[5] = values[2]

    def run():
        x = rg.from_numpy(values).requires_grad_()
        y = F.pdist(x)
        (y * rg.arange(y.numel(), dtype=y.dtype)).sum().backward()
        return y.detach().numpy(), x.grad.numpy()

    assert distances.takes(values)
    ours = run()
    monkeypatch.setattr(distances, "takes", lambda x: False)
    for own, its in zip(ours, run(), strict=True):
        np.testing.assert_allclose(own, its, rtol=tolerance, atol=tolerance * abs(its).max())


def test_the_coordinates_of_a_number_are_left_to_numpy(monkeypatch):
    """The loop reads the last length of the shape, which a number does not have."""
    from retrograd.kernels.loops.layout import search

    monkeypatch.setattr(search, "USEFUL", 0)
    assert search.coordinates(np.ones(())) is None


PLACES = {
    "gather": lambda x, index: x.gather(0, index),
    "scatter_add": lambda x, index: (x * 0).scatter_add(0, index, x),
    "sort": lambda x, index: x.sort(1).values,
    "median": lambda x, index: x.median(1).values,
    "pdist": lambda x, index: F.pdist(x),
    "float16": lambda x, index: x.half().float(),
    "joined": lambda x, index: rg.cat([x, x[:, ::2]], 1),
}


@pytest.mark.parametrize("name", PLACES)
def test_places_are_those_of_the_references_on_either_backend(name, on_backend):
    rng = np.random.default_rng(5)
    on_backend(PLACES[name], rng.standard_normal((90, 70)).astype("f"), rng.integers(90, size=(90, 70)))
