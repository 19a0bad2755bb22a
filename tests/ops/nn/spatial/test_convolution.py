"""Convolution, pooling and interpolation against sums written out, and their errors."""

from itertools import product

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F

RNG = np.random.default_rng(0)


def summed_out(x, w, stride, padding, dilation, groups):
    """conv2d element by element, as its formula says."""
    (n, _, height, width), (outs, channels, kh, kw) = x.shape, w.shape
    out = [(length + 2 * padding - dilation * (k - 1) - 1) // stride + 1 for length, k in ((height, kh), (width, kw))]
    result = np.zeros((n, outs, *out))
    for b, o, i, j, c, u, v in product(range(n), range(outs), *map(range, out), range(channels), range(kh), range(kw)):
        row, column = (t * stride + k * dilation - padding for t, k in ((i, u), (j, v)))
        if 0 <= row < height and 0 <= column < width:
            channel = o // (outs // groups) * channels + c
            result[b, o, i, j] += w[o, c, u, v] * x[b, channel, row, column]
    return result


@pytest.mark.parametrize("channels", [1, 6])
@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 2), (1, 3, 2, 1), (3, 2, 2, 2)]
)
def test_conv2d_is_its_formula(stride, padding, dilation, groups, channels):
    x = RNG.standard_normal((2, channels * groups, 5, 6))
    w = RNG.standard_normal((2 * groups, channels, 3, 2))
    got = F.conv2d(rg.tensor(x), rg.tensor(w), None, stride, padding, dilation, groups)
    np.testing.assert_allclose(got.numpy(), summed_out(x, w, stride, padding, dilation, groups), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("stride", "padding", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 2), (1, 3, 2, 1)])
def test_conv_transpose2d_is_the_transpose(stride, padding, dilation, groups):
    x = RNG.standard_normal((1, 2 * groups, 7, 8))
    w = RNG.standard_normal((3 * groups, 2, 3, 2))
    y = summed_out(x, w, stride, padding, dilation, groups)
    g = RNG.standard_normal(y.shape)
    size = F.conv_transpose2d(rg.tensor(g), rg.tensor(w), None, stride, padding, 0, groups, dilation).shape[2:]
    extra = tuple(length - least for length, least in zip(x.shape[2:], size))
    back = F.conv_transpose2d(rg.tensor(g), rg.tensor(w), None, stride, padding, extra, groups, dilation)
    assert back.shape == x.shape
    np.testing.assert_allclose((back.numpy() * x).sum(), (g * y).sum(), rtol=1e-12)


def test_padding_same_has_its_odd_zero_at_the_end():
    got = F.conv1d(rg.tensor([[[1.0, 2.0, 4.0]]]), rg.tensor([[[1.0, 10.0]]]), padding="same")
    assert got.tolist() == [[[21.0, 42.0, 4.0]]]


def test_blocks_of_images_agree_with_single_images():
    x, w = rg.tensor(RNG.standard_normal((70, 8, 20, 20))), rg.tensor(RNG.standard_normal((4, 8, 3, 3)))
    whole = F.conv2d(x, w, padding=1).numpy()
    for n in (0, 33, 69):
        np.testing.assert_allclose(F.conv2d(x[n], w, padding=1).numpy(), whole[n], rtol=1e-10, atol=1e-12)


def test_a_convolution_saves_its_operands_alone():
    x = rg.tensor(RNG.standard_normal((2, 3, 8, 8)), requires_grad=True)
    w = rg.tensor(RNG.standard_normal((4, 3, 3, 3)), requires_grad=True)
    saved = [value for value in F.conv2d(x, w).grad_fn.saved if isinstance(value, np.ndarray)]
    assert {id(value) for value in saved} == {id(x.array), id(w.array)}


def test_half_precision_sums_in_single():
    x = rg.ones(1, 64, 40, 40, dtype=rg.float16)
    w = rg.full((1, 64, 1, 1), 0.1, dtype=rg.float16)
    result = F.conv2d(x, w)
    assert result.dtype == rg.float16
    np.testing.assert_allclose(result.numpy(), np.float16(64 * np.float64(np.float16(0.1))), rtol=1e-3)


def test_max_pool_saves_a_byte_per_window():
    x = rg.tensor(RNG.standard_normal((2, 3, 8, 8)), requires_grad=True)
    saved = [value for value in F.max_pool2d(x, 2).grad_fn.saved if isinstance(value, np.ndarray)]
    assert [(value.dtype, value.shape) for value in saved] == [(np.uint8, (2, 3, 4, 4))]


@pytest.mark.parametrize("kernel, stride, padding", [(2, 2, 0), (3, 2, 1), (3, 1, 1)])
def test_max_pool_takes_the_first_of_equals(kernel, stride, padding):
    x = rg.zeros(1, 1, 4, 4, requires_grad=True)
    _, indices = F.max_pool2d(x, kernel, stride, padding, return_indices=True)
    first = np.maximum(np.arange(indices.shape[-1]) * stride - padding, 0)
    assert np.array_equal(indices.numpy()[0, 0], first[:, None] * 4 + first)


def test_max_pool_of_nan_is_nan_and_has_the_gradient_there():
    x = rg.tensor([[[1.0, float("nan"), 3.0, 2.0]]], requires_grad=True)
    y = F.max_pool1d(x, 2)
    assert np.array_equal(y.detach().numpy(), [[[np.nan, 3.0]]], equal_nan=True)
    y.backward(rg.ones(1, 1, 2))
    assert x.grad.tolist() == [[[0.0, 1.0, 1.0, 0.0]]]


def test_pooling_with_windows_of_one_element_is_a_copy():
    x = rg.ones(1, 1, 2, 2)
    assert not np.shares_memory(F.max_pool2d(x, 1).array, x.array)
    assert not np.shares_memory(F.avg_pool2d(x, 1).array, x.array)
    assert not np.shares_memory(F.interpolate(x, 2).array, x.array)


def test_lp_pool_of_zeros_has_the_gradient_zero():
    x = rg.zeros(1, 1, 2, 2, requires_grad=True)
    F.lp_pool2d(x, 2, 2).backward(rg.ones(1, 1, 1, 1))
    assert not x.grad.numpy().any()


def test_an_infinity_reaches_its_neighbours_alone():
    x = np.zeros((1, 1, 1, 8))
    x[..., 2] = np.inf
    got = F.interpolate(rg.tensor(x), (1, 16), mode="bilinear").numpy()[0, 0, 0]
    assert np.isfinite(got[8:]).all()
    assert not np.isfinite(got[3:7]).all()


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("size", [(3, 1), (2, 9), (7, 5)])
def test_antialiased_weights_sum_to_one(mode, size):
    got = F.interpolate(rg.ones(1, 1, 7, 5, dtype=rg.float64), size, mode=mode, antialias=True)
    np.testing.assert_allclose(got.numpy(), 1.0, rtol=1e-12)


def test_the_identity_grid_samples_the_image():
    x = rg.tensor(RNG.standard_normal((1, 2, 3, 4)))
    theta = rg.tensor(np.eye(2, 3)[None])
    for align in (False, True):
        grid = F.affine_grid(theta, x.shape, align_corners=align)
        for mode in ("bilinear", "nearest", "bicubic"):
            got = F.grid_sample(x, grid, mode=mode, align_corners=align)
            np.testing.assert_allclose(got.numpy(), x.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("size", [(1, 1, 2, 1), (1, 1, 3, 2, 1)])
def test_an_affine_grid_of_unit_size_with_aligned_corners_warns_as_in_pytorch(size):
    torch = pytest.importorskip("torch")
    theta = RNG.standard_normal((1, len(size) - 2, len(size) - 1))
    grids = []
    for lib in (rg, torch):
        grid = lib.nn.functional.affine_grid
        with pytest.warns(UserWarning, match="affine_grid") as seen:
            grids.append(grid(lib.tensor(theta), size, align_corners=True).numpy())
        assert seen[0].filename == __file__
        grid(lib.tensor(theta), size, align_corners=False)
    np.testing.assert_allclose(*grids, rtol=1e-12)


X, W = np.zeros((1, 2, 4, 4), np.float32), np.zeros((4, 2, 3, 3), np.float32)
ERRORS = [
    (lambda: F.conv2d(X, W[:, :1]), RuntimeError, "conv2d.*expected input to have 1 channels"),
    (
        lambda: F.conv2d(rg.ones(5, 8, 8, W.shape[1]), W),
        RuntimeError,
        r"if the channels stand last, input.permute\(0, 3, 1, 2\)$",
    ),
    (lambda: F.conv2d(rg.ones(8, 8, W.shape[1]), W), RuntimeError, r"stand last, input.permute\(2, 0, 1\)$"),
    (lambda: F.conv2d(X, W, np.zeros(3, np.float32)), RuntimeError, "bias to be 1-dimensional with 4 elements"),
    (lambda: F.conv2d(X, W.astype(float)), RuntimeError, "float32.*float64"),
    (lambda: F.conv2d(X, W, stride=0), RuntimeError, "non-positive stride"),
    (lambda: F.conv2d(X, W, padding=-1), RuntimeError, "negative padding"),
    (lambda: F.conv2d(X, W, padding="full"), RuntimeError, "invalid padding string 'full'"),
    (lambda: F.conv2d(X, W, stride=2, padding="same"), RuntimeError, "not supported for strided"),
    (lambda: F.conv2d(X, W, dilation=2), RuntimeError, "can't be greater"),
    (lambda: F.conv2d(X, W, groups=3), RuntimeError, "divisible by 3"),
    (lambda: F.conv2d(X, W, stride=1.5), TypeError, "'stride' must be an integer"),
    (lambda: F.conv2d(X, W, stride=(1, 2, 3)), RuntimeError, "one integer or 2"),
    (lambda: F.conv2d(X[0, 0], W), RuntimeError, "expected 3D .* or 4D"),
    (lambda: F.conv_transpose2d(X, W[:2], output_padding=1), RuntimeError, "output padding must be smaller"),
    (lambda: F.conv_transpose2d(X, W[:2], padding=4), RuntimeError, "too small"),
    (lambda: F.max_pool2d(X, 3, padding=2), RuntimeError, "at most half"),
    (lambda: F.max_pool2d(X, 5), RuntimeError, "too small"),
    (lambda: F.max_pool2d(X[:, :0], 2), RuntimeError, "non-zero dimensions"),
    (lambda: F.avg_pool2d(X, 2, divisor_override=0), RuntimeError, "not zero"),
    (lambda: F.adaptive_avg_pool2d(X, (1, 2, 3)), RuntimeError, "one integer or 2"),
    (lambda: F.adaptive_max_pool2d(X, -1), RuntimeError, "negative output_size"),
    (lambda: F.max_unpool2d(X, np.full(X.shape, 99), 1), RuntimeError, "invalid max index"),
    (lambda: F.max_unpool2d(X, np.zeros(X.shape, np.int64), 2, output_size=(40, 8)), ValueError, "between 6 and 10"),
    (lambda: F.unfold(X, 5), RuntimeError, "at least one"),
    (lambda: F.fold(np.zeros((1, 4, 5)), 4, 2), RuntimeError, r"3 \* 3 = 9"),
    (lambda: F.interpolate(X), ValueError, "exactly one of size and scale_factor"),
    (lambda: F.interpolate(X, 2, mode="linear"), NotImplementedError, "'linear' does not exist"),
    (lambda: F.interpolate(X, 2, align_corners=True), ValueError, "align_corners"),
    (lambda: F.interpolate(X, 2, antialias=True), ValueError, "antialias"),
    (lambda: F.interpolate(X, 0), RuntimeError, "greater than 0"),
    (lambda: F.grid_sample(X, np.zeros((1, 2, 2, 3), np.float32)), RuntimeError, "last dimension 2"),
    (lambda: F.grid_sample(X, np.zeros((1, 2, 2, 2), np.float32), mode="cubic"), ValueError, "mode must be"),
    (lambda: F.affine_grid(np.zeros((1, 2, 3)), (1, 2, 3)), NotImplementedError, "4D and 5D"),
    (lambda: F.local_response_norm(X[0, 0], 2), ValueError, "3D or higher"),
]


@pytest.mark.parametrize("call, kind, message", ERRORS)
def test_bad_arguments(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_average_pooling_that_leaves_a_column_out():
    x = rg.zeros(1, 2, 6, 5, requires_grad=True)
    F.avg_pool2d(x, 2).sum().backward()
    assert (x.grad[..., :4] == 0.25).all() and (x.grad[..., 4] == 0).all()


@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("output_padding", [0, 1])
@pytest.mark.parametrize("dilation", [2, 3])
def test_a_dilated_kernel_as_long_as_the_input_is_not_taken_for_the_whole_of_it(padding, output_padding, dilation):
    x, w = RNG.standard_normal((2, 1, 2)), RNG.standard_normal((1, 1, 2))
    full = np.zeros((2, 1, dilation + 2 + output_padding))
    for i, k in product(range(2), range(2)):
        full[:, :, i + k * dilation] += x[:, :, i] * w[0, :, k]
    got = F.conv_transpose1d(
        rg.tensor(x), rg.tensor(w), padding=padding, output_padding=output_padding, dilation=dilation
    )
    wanted = full[:, :, padding : full.shape[-1] - padding]
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-12, atol=1e-12)


def test_a_transposed_convolution_without_images_or_without_places_gives_an_empty_result():
    w, bias = rg.tensor(np.ones((4, 2, 2, 1))), rg.tensor(np.ones(4), requires_grad=True)
    x = rg.tensor(np.ones((0, 4, 2, 1)), requires_grad=True)
    got = F.conv_transpose2d(x, w, bias, (1, 3), (2, 0), (1, 0), 2)
    assert got.shape == (0, 4, 0, 1)
    got.sum().backward()
    assert x.grad.shape == x.shape
    assert not bias.grad.numpy().any()
    assert F.conv_transpose1d(rg.ones(1, 1, 2), rg.ones(1, 1, 1), padding=1).shape == (1, 1, 0)
    with pytest.raises(RuntimeError, match="output padding must be smaller"):
        F.conv_transpose1d(rg.ones(1, 1, 2), rg.ones(1, 1, 1), output_padding=1)


def test_a_convolution_of_an_image_without_places_is_refused_as_in_pytorch():
    assert F.conv1d(rg.ones(0, 1, 0), rg.ones(1, 1, 1), padding=1).shape == (0, 1, 2)
    for function in (F.conv1d, F.conv_transpose1d):
        with pytest.raises(RuntimeError, match="empty"):
            function(rg.ones(1, 1, 0), rg.ones(1, 1, 1), padding=1)


@pytest.mark.parametrize(
    "kernel, options",
    [
        (3, {"stride": 2, "padding": 1, "output_padding": 1}),
        (3, {"output_padding": 1, "dilation": 2}),
        (2, {"stride": 2, "output_padding": 1}),
        (2, {"stride": 3, "output_padding": 2}),
        (1, {"output_padding": 1, "dilation": 2}),
        (3, {"stride": 2, "output_padding": 2, "dilation": 3}),
    ],
)
def test_an_output_padding_below_the_stride_or_the_dilation_is_taken(kernel, options):
    torch = pytest.importorskip("torch")
    x, w = RNG.standard_normal((2, 1, 3, 3)), RNG.standard_normal((1, 2, kernel, kernel))
    wanted = torch.nn.functional.conv_transpose2d(torch.tensor(x), torch.tensor(w), **options)
    got = F.conv_transpose2d(rg.tensor(x), rg.tensor(w), **options)
    np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("pad", [0, 2])
def test_conv_tbc_is_pytorchs(pad):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(pad)
    arrays = [rng.standard_normal(shape) for shape in ((5, 2, 3), (2, 3, 4), (4,))]
    ours, theirs = [[lib.tensor(array, requires_grad=True) for array in arrays] for lib in (rg, torch)]
    got, wanted = rg.conv_tbc(*ours, pad), torch.conv_tbc(*theirs, pad)
    np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=1e-12)
    got.square().sum().backward()
    wanted.square().sum().backward()
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-12)
