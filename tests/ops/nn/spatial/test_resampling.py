"""Interpolation and pooling against PyTorch: which elements an output reads, and infinities that reach no other."""

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F

torch = pytest.importorskip("torch")

INFINITE = [np.inf, -np.inf, np.nan]


def interpolated(x, **options):
    """The results of both libraries."""
    ours = F.interpolate(rg.tensor(x), **options).numpy()
    return ours, torch.nn.functional.interpolate(torch.tensor(x), **options).numpy()


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_interpolation_reads_the_elements_that_pytorch_reads_at_any_scale(axes, dtype):
    rng = np.random.default_rng(axes)
    linear = ("linear", "bilinear", "trilinear")[axes - 1]
    modes = ["nearest", "nearest-exact", "area", linear, *(["bicubic"] if axes == 2 else [])]
    for _ in range(300):
        x = rng.standard_normal((1, 2, *rng.integers(1, (40, 12, 6)[axes - 1], axes))).astype(dtype)
        options = {"mode": str(rng.choice(modes))}
        if rng.random() < 0.8:
            options["scale_factor"] = [float(round(scale, 2)) for scale in rng.uniform(1, 3.2, axes)]
            options["recompute_scale_factor"] = bool(rng.integers(2))
        else:
            options["size"] = rng.integers(2, 12, axes).tolist()
        if options["mode"] in (linear, "bicubic"):
            options["align_corners"] = bool(rng.integers(2))
            options["antialias"] = axes == 2 and bool(rng.integers(2))
            if x.shape[-1] == 1 and options["antialias"]:
                continue  # PyTorch gives every row of such an image the first row's numbers
        ours, theirs = interpolated(x, **options)
        tolerance = 1e-4 if dtype == np.float32 else 1e-10
        np.testing.assert_allclose(ours, theirs, tolerance, tolerance, err_msg=f"{x.shape} {options}")


def test_an_axis_that_keeps_its_length_is_not_interpolated_whatever_the_factor():
    x = np.array([[[0.0, 1.0]]])
    ours, theirs = interpolated(x, scale_factor=1.13, mode="linear")
    assert ours.tolist() == theirs.tolist() == x.tolist()


@pytest.mark.parametrize(("shape", "factor"), [((1, 1, 3), 2.18), ((1, 2, 3, 2), 2.18), ((1, 1, 3, 70), 2.18)])
def test_nearest_chooses_as_pytorchs_kernels_for_small_and_large_images_do(shape, factor):
    ours, theirs = interpolated(np.arange(np.prod(shape), dtype=np.float32).reshape(shape), scale_factor=factor)
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("mode", ["nearest", "linear", "area"])
@pytest.mark.parametrize("value", INFINITE)
def test_an_infinity_in_a_gradient_reaches_the_elements_that_its_output_read_and_no_others(mode, value):
    for size, out in [(8, 3), (3, 8), (7, 5), (32, 6)]:
        x = rg.tensor(np.zeros((1, 1, size)), requires_grad=True)
        reads = rg.func.jacrev(lambda x, mode=mode, out=out: F.interpolate(x, out, mode=mode))(x).numpy()[0, 0, :, 0, 0]
        for place in range(out):
            g = np.ones((1, 1, out))
            g[0, 0, place] = value
            (gradient,) = rg.autograd.grad(F.interpolate(x, out, mode=mode), x, rg.tensor(g))
            np.testing.assert_array_equal(np.isfinite(gradient.numpy()[0, 0]), reads[place] == 0)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("value", INFINITE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_infinity_reaches_the_windows_of_adaptive_pooling_that_hold_it_and_no_others(axes, value, dtype):
    rng = np.random.default_rng(0)
    name = f"adaptive_avg_pool{axes}d"
    for size in (5, 7, 8, 13)[: 5 - axes]:
        x = rng.standard_normal((2, 2, *[size] * axes)).astype(dtype)
        for _ in range(3):
            x[(0, 1, *rng.integers(0, size, axes))] = value
        for out in (1, 2, 3, 5):
            ours = getattr(F, name)(rg.tensor(x), out).numpy()
            theirs = getattr(torch.nn.functional, name)(torch.tensor(x), out).numpy()
            np.testing.assert_allclose(ours, theirs, 1e-5, 1e-5)


def test_pooling_and_interpolation_to_nothing_have_gradients_of_zero():
    x = rg.tensor(np.ones((1, 2, 5, 1)), requires_grad=True)
    for result in (F.adaptive_avg_pool2d(x, (2, 0)), F.interpolate(x, scale_factor=0.6, mode="area")):
        assert 0 in result.shape
        (gradient,) = rg.autograd.grad(result.sum(), x)
        assert not gradient.numpy().any()


def test_average_pooling_of_volumes_refuses_a_kernel_that_is_larger_than_the_input():
    x = rg.ones(1, 1, 2, 2, 2)
    for options in ({"ceil_mode": True}, {"padding": 1, "ceil_mode": True}):
        with pytest.raises(RuntimeError, match="avg_pool3d.*smaller than kernel_size"):
            F.avg_pool3d(x, 3, **options)
        with pytest.raises(RuntimeError):
            torch.nn.functional.avg_pool3d(torch.ones(1, 1, 2, 2, 2), 3, **options)


def test_max_pooling_takes_half_of_the_kernel_as_padding_dilated_or_not():
    assert F.max_pool1d(rg.ones(1, 1, 9), 3, 1, 1, 3).shape == (1, 1, 5)
    with pytest.raises(RuntimeError, match="at most half of the kernel size"):
        F.max_pool1d(rg.ones(1, 1, 9), 3, 1, 2, 3)
