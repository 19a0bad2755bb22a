"""The loops of grid sampling, interpolation and pooling against their references, and against PyTorch."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd.kernels.loops.images import pooling, resampling, sampling
from retrograd.kernels.runtime import threads

MODES, PADDINGS = ("nearest", "bilinear", "bicubic"), ("zeros", "border", "reflection")
WAYS = list(product(MODES, PADDINGS, (False, True)))
RESIZED = {
    "nearest": ((3, 5, 9, 17), {"size": (20, 11)}),
    "bilinear": ((3, 5, 9, 17), {"size": (20, 11)}),
    "bicubic": ((3, 5, 9, 17), {"scale_factor": 1.7}),
    "area": ((3, 5, 9, 17), {"size": (4, 30)}),
    "linear": ((3, 5, 70), {"size": 31}),
    "trilinear": ((2, 3, 4, 9, 6), {"size": (7, 5, 12)}),
}


def points(shape, dtype, far=1.7):
    return np.random.default_rng(0).uniform(-far, far, shape).astype(dtype)


def with_gradients(lib, function, *arrays):
    leaves = [lib.tensor(array, requires_grad=True) for array in arrays]
    y = function(*leaves)
    y.backward(lib.tensor(np.random.default_rng(1).standard_normal(y.shape).astype(arrays[0].dtype)))
    return [y.detach().numpy(), *[leaf.grad.numpy() for leaf in leaves]]


def assert_close(found, wanted, dtype):
    for ours, reference in zip(found, wanted, strict=True):
        assert ours.dtype == reference.dtype and ours.shape == reference.shape
        np.testing.assert_allclose(ours, reference, rtol=0, atol=500 * np.finfo(dtype).eps * np.abs(reference).max())


@pytest.fixture
def by_reference(monkeypatch):
    def call(function):
        with monkeypatch.context() as patch:
            for kernels, name in ((sampling, "takes"), (resampling, "takes"), (pooling, "takes"), (pooling, "reads")):
                patch.setattr(kernels, name, lambda *args: False)
            return function()

    return call


@pytest.mark.slow  # compiles loops
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("axes", [2, 3])
def test_sampling_loops_agree_with_the_reference(axes, dtype, by_reference):
    x = points((3, 5, 4, 6, 7)[: axes + 2], dtype)
    grid = points((3, 2, 9, 16)[: axes + 1] + (axes,), dtype) if axes == 3 else points((3, 9, 40, 2), dtype)
    for mode, padding, align in WAYS:
        if axes == 3 and mode == "bicubic":
            continue

        def run(mode=mode, padding=padding, align=align):
            return with_gradients(rg, lambda x, grid: F.grid_sample(x, grid, mode, padding, align), x, grid)

        assert_close(run(), by_reference(run), dtype)


@pytest.mark.slow  # compiles loops
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", RESIZED)
def test_resampling_loops_agree_with_the_reference(mode, dtype, by_reference):
    shape, options = RESIZED[mode]

    def run():
        return with_gradients(rg, lambda x: F.interpolate(x, mode=mode, **options), points(shape, dtype))

    assert_close(run(), by_reference(run), dtype)


POOLED = {
    "maxima": lambda x: F.max_pool2d(x, 3, 2, padding=1),
    "means": lambda x: F.avg_pool2d(x, 3, 2, padding=1),
    "samples": lambda x: F.grid_sample(x, rg.zeros(3, 4, 4, 2, device=x.device) + 0.3, align_corners=False),
}


@pytest.mark.parametrize("name", [*RESIZED, *POOLED])
def test_images_are_resized_and_pooled_by_the_reference_on_either_backend(name, backend, by_reference):
    shape, options = RESIZED.get(name, RESIZED["area"])
    function = POOLED.get(name, lambda x: F.interpolate(x, mode=name, **options))

    def run():
        x = rg.tensor(points(shape, np.float32), device=rg.get_default_device(), requires_grad=True)
        y = function(x)
        (y * y).sum().backward()
        assert y.device.type == x.grad.device.type == rg.get_default_device().type
        return [y.detach().numpy(), x.grad.numpy()]

    wanted = by_reference(run)
    with backend():
        assert_close(run(), wanted, np.float32)


@pytest.mark.slow  # compiles loops
def test_the_loop_of_fractional_pooling_chooses_what_the_reference_chooses(by_reference):
    x = points((2, 3, 12, 11), np.float32)
    x[0, 1, 3:6] = np.nan
    samples = rg.tensor(np.random.default_rng(2).random((2, 3, 2)).astype(np.float32))

    def run():
        return F.fractional_max_pool2d_with_indices(rg.tensor(x), 3, (5, 4), _random_samples=samples).indices.numpy()

    np.testing.assert_array_equal(run(), by_reference(run))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_maxima_of_equal_infinite_and_undefined_numbers_have_the_winners_of_the_reference(dtype, by_reference):
    rng = np.random.default_rng(2)
    x = rng.choice(np.array([-1, 0, 1, -np.inf, np.nan], dtype), (2, 3, 5, 9, 11), p=[0.3, 0.2, 0.1, 0.3, 0.1])
    for kernel, stride, padding, dilation in [(3, 1, 1, 1), (3, 2, 1, 1), ((1, 3, 2), 3, 0, 1), ((2, 3, 4), 2, 1, 2)]:

        def run(how=(kernel, stride, padding, dilation)):
            return with_gradients(rg, lambda x: F.max_pool3d(x, *how), x)

        (y, gradient), (wanted, wanted_gradient) = run(), by_reference(run)
        np.testing.assert_array_equal(y, wanted)
        np.testing.assert_allclose(gradient, wanted_gradient, atol=1e-5)  # summed in another order


@pytest.mark.slow  # compiles loops
def test_the_number_of_threads_does_not_show(monkeypatch):
    x, grid = points((2, 40, 9, 9), np.float32), points((2, 40, 40, 2), np.float32)
    results = []
    for count in (1, 3):
        monkeypatch.setattr(threads, "count", lambda count=count: count)
        sampled = with_gradients(rg, lambda x, grid: F.grid_sample(x, grid, align_corners=False), x, grid)
        results.append([*sampled, *with_gradients(rg, lambda x: F.interpolate(x, size=50, mode="bilinear"), x)])
    for one, three in zip(*results, strict=True):
        np.testing.assert_array_equal(one, three)


@pytest.mark.every(3)
@pytest.mark.slow
@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("mode, padding, align", WAYS)
def test_points_anywhere_sample_what_pytorch_samples(mode, padding, align, axes):
    torch = pytest.importorskip("torch")
    if axes == 3 and mode == "bicubic":
        pytest.skip("of images alone")
    places = [-1e5, -3.0, -2.0, -1.25, -1.0, -0.999, -0.5, 0.0, 0.3, 1.0, 1.0000001, 2.6, 5.0]
    grid = np.array(list(product(places, [0.3, -1.0, 4.3])))
    grid = np.concatenate([grid, np.full((len(grid), axes - 2), 0.2)], axis=1).reshape((1,) * axes + (-1, axes))
    x = points((1, 2, 2, 3, 4)[:2] + (2, 3, 4)[-axes:], np.float64)
    ours, theirs = [
        with_gradients(
            lib, lambda x, grid, lib=lib: lib.nn.functional.grid_sample(x, grid, mode, padding, align), x, grid
        )
        for lib in (rg, torch)
    ]
    assert_close(ours, theirs, np.float32)  # near kinks reflections differ in the last digits


@pytest.mark.parametrize("least", [pytest.param(1, id="loops", marks=pytest.mark.slow), 1 << 60])
@pytest.mark.parametrize("axes", [2, 3])
def test_what_is_not_finite_is_sampled_as_by_pytorch(axes, least, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(sampling, "SEVERAL", least)
    grid = np.array(list(product([np.nan, -4.0, -0.2, 0.1, 7.0], repeat=2)))
    grid = np.concatenate([grid, np.full((len(grid), axes - 2), 0.2)], axis=1).reshape((1,) * axes + (-1, axes))
    x = points((1, 2) + (2, 3, 4)[-axes:], np.float64)
    x[0, 0, 0], x[0, 1, -1] = np.inf, np.nan
    for mode, padding, align in product(("nearest", "bilinear"), PADDINGS, (False, True)):
        ours, theirs = [
            lib.nn.functional.grid_sample(lib.tensor(x), lib.tensor(grid), mode, padding, align).numpy()
            for lib in (rg, torch)
        ]
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, err_msg=f"{mode} {padding} {align}")


def test_an_infinity_reaches_only_the_outputs_that_read_it():
    x = np.ones((1, 1, 20, 20), np.float32)
    x[0, 0, 3, 4] = np.inf
    y = F.interpolate(rg.tensor(x), scale_factor=2, mode="bilinear").numpy()
    assert np.isinf(y).sum() == 16 and not np.isnan(y).any()
