"""Masks of bytes, buffers, odd shapes and the rarer dtypes: each as PyTorch takes it."""

import math

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd.compat.modules import functions

BYTES = rg.tensor([1, 0, 1, 0], dtype=rg.uint8)


# Masks and buffers


@pytest.mark.parametrize("mask", [BYTES, BYTES.numpy()], ids=["Tensor", "NumPy"])
def test_masks_of_uint8_are_masks_and_no_positions(mask):
    with pytest.warns(UserWarning, match="uint8"):
        assert rg.tensor([10, 20, 30, 40])[mask].tolist() == [10, 30]
    x = rg.tensor([10, 20, 30, 40])
    with pytest.warns(UserWarning, match="uint8"):
        x[mask] = rg.tensor([8, 9])
    assert x.tolist() == [8, 20, 9, 40]
    with pytest.warns(UserWarning, match="uint8"), pytest.raises(IndexError):
        rg.tensor([1, 2, 3])[mask]


@pytest.mark.filterwarnings("ignore:uint8 as a mask")
def test_one_value_is_not_written_at_a_mask_of_uint8():
    x = rg.arange(12.0).reshape(3, 4)
    fill = "a single value can be written only at a mask of dtype bool"
    for index in (BYTES.expand(3, 4), BYTES.expand(3, 4).numpy(), (0, BYTES), (..., BYTES), (slice(1, 3), BYTES)):
        for value in (9, [9.0], rg.tensor(9.0), np.float32(9)):
            with pytest.raises(RuntimeError, match=fill):
                x[index] = value
    with pytest.raises(RuntimeError, match=fill):
        x.index_put_((BYTES[:3],), rg.tensor(9.0))
    assert x.equal(rg.arange(12.0).reshape(3, 4))
    x.index_put_((BYTES[:3],), rg.tensor(1.0), accumulate=True)
    x[BYTES[1]] = 20  # no dimension: nothing is selected
    x[rg.tensor([1, 2]), BYTES] = 30
    assert x.tolist() == [[1, 2, 3, 4], [30, 5, 6, 7], [9, 10, 30, 12]]


@pytest.mark.parametrize(
    "index",
    [
        rg.zeros(0, dtype=rg.bool),
        np.zeros(0, bool),
        rg.zeros(3, 0, dtype=rg.bool),
        (slice(None), rg.zeros(0, dtype=rg.bool)),
        (..., rg.zeros(0, dtype=rg.bool)),
        (rg.zeros(0, dtype=rg.bool), 0),
        (rg.tensor([0]), rg.zeros(0, dtype=rg.bool)),
    ],
)
def test_a_mask_without_elements_selects_only_from_what_has_none(index):
    x = rg.zeros(3, 4)
    with pytest.raises(IndexError, match="mask of shape"):
        x[index]
    with pytest.raises(IndexError, match="mask of shape"):
        x[index] = 1.0
    assert x[:0][rg.zeros(0, dtype=rg.bool)].shape == (0, 4) and x[:0][x[:0] > 0].shape == (0,)


def test_a_condition_of_uint8_holds_where_it_is_not_zero():
    with pytest.warns(UserWarning, match="uint8"):
        assert rg.where(BYTES, 1, 0).tolist() == [1, 0, 1, 0]


def test_buffers_are_read_as_memory_by_asarray_and_as_numbers_by_tensor():
    buffer = bytearray(np.array([1.5, -2.0]).tobytes())
    x = rg.asarray(buffer, dtype=rg.float64)
    assert x.tolist() == [1.5, -2.0]
    buffer[:8] = np.array([3.0]).tobytes()
    assert x.tolist() == [3.0, -2.0]
    assert rg.asarray(memoryview(bytes(16)), dtype=rg.int32).shape == (4,) and rg.asarray(bytearray(16)).shape == (4,)
    assert rg.tensor(bytearray(b"ab")).tolist() == [97, 98] and rg.tensor(bytearray(b"ab")).dtype == rg.int64
    with pytest.raises(ValueError, match="15 bytes"):
        rg.asarray(bytearray(15), dtype=rg.float64)


def test_tolerances_may_be_tensors():
    x, y = rg.tensor([1.0, 2.0]), rg.tensor([1.0, 2.1])
    assert rg.isclose(x, y, rg.tensor(1e-3), rg.tensor(1e-3)).tolist() == [True, False]
    assert rg.allclose(x, y, rg.tensor(0.1))
    with pytest.raises(RuntimeError, match="rtol"):
        rg.isclose(x, y, math.nan)


# bfloat16


def test_the_next_number_of_bfloat16_is_one_of_its_own():
    pytest.importorskip("ml_dtypes")
    one, two = (rg.tensor([value], dtype=rg.bfloat16) for value in (1.0, 2.0))
    assert rg.nextafter(one, two).item() == 1 + 2**-7
    assert rg.nextafter(one, -two).item() == 1 - 2**-8


def test_bfloat16_is_sorted_with_nan_last_and_infinities_become_its_largest_number():
    pytest.importorskip("ml_dtypes")
    x = rg.tensor([math.nan, 2.0, math.inf, 1.0], dtype=rg.bfloat16)
    assert rg.argsort(x).tolist() == [3, 1, 2, 0] and rg.argsort(x, descending=True).tolist() == [0, 2, 1, 3]
    assert rg.nan_to_num(x).tolist() == [0, 2, 255 * 2.0**120, 1]


# Complex numbers


def test_parts_of_complex_tensors_are_written():
    x = rg.tensor([1 + 2j, 3])
    x.real = 5.0
    x.imag = rg.tensor([6.0, 7.0])
    assert x.tolist() == [5 + 6j, 5 + 7j]
    y = rg.tensor([1.0])
    y.real = 2.0
    assert y.tolist() == [2]
    with pytest.raises(RuntimeError, match="imag"):
        y.imag = 1.0
    leaf = rg.tensor([1 + 1j], requires_grad=True)
    z = leaf * 1
    z.real = 0.0
    (z * z.conj()).real.sum().backward()
    assert leaf.grad.tolist() == [2j]


def test_random_numbers_like_complex_ones_are_complex():
    x = rg.rand_like(rg.zeros(100, dtype=rg.complex128))
    assert x.dtype == rg.complex128
    assert x.real.min() >= 0 and x.imag.max() < 1 and x.imag.max() > 0.5


@pytest.mark.parametrize(
    ("name", "place"), [("svd", 0), ("svd", 2), ("eigh", 1), ("eig", 1)], ids=["svd U", "svd V", "eigh", "eig"]
)
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_loss_that_depends_on_the_phases_of_complex_vectors_is_refused(name, place, create_graph):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3))
    x = rg.tensor(a + a.conj().T if name == "eigh" else a, requires_grad=True)
    vectors = getattr(rg.linalg, name)(x)[place]
    with pytest.raises(RuntimeError, match=r"exp\(i phi\)"):
        rg.autograd.grad(vectors.real.sum(), x, create_graph=create_graph)
    vectors = getattr(rg.linalg, name)(x)[place]
    (gradient,) = rg.autograd.grad(vectors.abs().sum(), x, create_graph=create_graph)
    assert gradient.isfinite().all()


def test_forward_mode_goes_through_complex_vectors():
    rng = np.random.default_rng(0)
    a = rg.tensor(rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3)))
    _, tangent = rg.func.jvp(lambda x: rg.linalg.svd(x)[0].abs(), (a,), (rg.ones_like(a),))
    step = 1e-6
    ahead, behind = (rg.linalg.svd(a + sign * step)[0].abs() for sign in (1, -1))
    np.testing.assert_allclose(tangent.numpy(), ((ahead - behind) / (2 * step)).numpy(), rtol=1e-5, atol=1e-7)


# Empty batches and odd shapes


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_margin_losses_take_empty_batches(reduction):
    x = rg.zeros(0, 3, requires_grad=True)
    for loss in (
        F.multi_margin_loss(x, rg.zeros(0, dtype=rg.int64), reduction=reduction),
        F.multilabel_margin_loss(x, rg.zeros(0, 3, dtype=rg.int64), reduction=reduction),
    ):
        assert loss.shape == ((0,) if reduction == "none" else ())
        assert reduction != "sum" or loss.item() == 0
        assert reduction != "mean" or math.isnan(loss.item())
        loss.sum().backward()
    assert x.grad.shape == (0, 3)


def test_fractional_pooling_takes_empty_batches():
    assert F.fractional_max_pool2d(rg.zeros(0, 3, 5, 5), 2, output_size=2).shape == (0, 3, 2, 2)
    assert F.fractional_max_pool3d(rg.zeros(0, 3, 5, 5, 5), 2, output_size=2).shape == (0, 3, 2, 2, 2)


def test_empty_vectors_are_joined_along_any_dimension():
    assert rg.cat([rg.zeros(0), rg.zeros(0)], 1).shape == (0,) and rg.cat([rg.zeros(0)], -2).shape == (0,)
    assert rg.cat([rg.zeros(0), rg.zeros(2, 3)], 1).shape == (2, 3)
    with pytest.raises(IndexError):
        rg.cat([rg.zeros(0), rg.zeros(2, 3)], 2)


def test_sources_of_index_add_have_the_shape_of_the_slices():
    assert rg.index_add(rg.tensor(1.0), 0, rg.tensor([0]), rg.tensor(5.0)).item() == 6
    assert rg.index_copy(rg.tensor(1.0), 0, rg.tensor([0]), rg.tensor([5.0])).item() == 5
    for x, source in ((1.0, [[[5.0]]]), (1.0, [5.0]), ([1.0], 5.0)):
        with pytest.raises(RuntimeError):
            rg.index_add(rg.tensor(x), 0, rg.tensor([0]), rg.tensor(source))


def test_a_number_is_a_vector_of_one_element_for_vander():
    assert rg.linalg.vander(rg.tensor(2.0), N=3).tolist() == [[1, 2, 4]]
    assert functions.vander(rg.tensor([2, 3])).tolist() == [[2, 1], [3, 1]]
    with pytest.raises(RuntimeError, match="one-dimensional"):
        functions.vander(rg.tensor(2.0))


# Random integers


def test_random_integers_must_fit_their_dtype():
    x = rg.zeros(2000, dtype=rg.int8).random_(-128, None)
    assert x.min() < -100 and x.max() > 100
    assert rg.zeros(3).random_(5, 6).tolist() == [5, 5, 5] and rg.zeros(2).random_(to=1).tolist() == [0, 0]
    for call in (
        lambda: rg.zeros(2, dtype=rg.int8).random_(300),
        lambda: rg.zeros(2, dtype=rg.uint8).random_(-5, 5),
        lambda: rg.zeros(2, dtype=rg.float16).random_(0, 70000),
        lambda: rg.randint(0, 300, (2,), dtype=rg.uint8),
        lambda: rg.randint_like(rg.zeros(2, dtype=rg.bool), 3),
    ):
        with pytest.raises(RuntimeError, match="out of bounds"):
            call()


# Images of bytes


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("antialias", [False, True])
def test_images_of_uint8_are_resized_as_pytorch_does_to_the_bit(mode, align_corners, antialias):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    for _ in range(15):
        height, width, *size = (int(length) for length in rng.integers(1, 12, 4))
        image = rng.integers(0, 256, (2, 3, height, width)).astype(np.uint8)
        options = {"size": size, "mode": mode, "align_corners": align_corners, "antialias": antialias}
        wanted = torch.nn.functional.interpolate(torch.tensor(image), **options).numpy()
        got = F.interpolate(rg.tensor(image), **options)
        assert got.dtype == rg.uint8 and np.array_equal(got.numpy(), wanted)


def test_the_density_of_a_gamma_distribution_takes_a_number():
    gamma = rg.distributions.Gamma(2.0, 3.0)
    assert gamma.log_prob(0.5).item() == gamma.log_prob(rg.tensor(0.5)).item()


def test_bools_are_not_rounded_and_have_no_median():
    mask = rg.tensor([True, False])
    for function in (rg.floor, rg.ceil, rg.trunc, rg.fix, rg.round, rg.median, rg.nanmedian):
        with pytest.raises(NotImplementedError, match="bools"):
            function(mask)


def test_tensors_of_8_or_16_bits_are_no_index():
    for dtype in (rg.int8, rg.int16):
        with pytest.raises(IndexError, match="int64"):
            rg.arange(3)[rg.tensor([0, 1], dtype=dtype)]
        assert rg.arange(3)[rg.tensor(1, dtype=dtype)] == 1  # a number


def test_a_softmax_of_no_integers_is_none():
    for function in (rg.softmax, rg.log_softmax):
        out = function(rg.zeros(0, 2, dtype=rg.int32), 1)
        assert out.shape == (0, 2) and out.dtype == rg.int32
        with pytest.raises(NotImplementedError, match="floating"):
            function(rg.zeros(1, 2, dtype=rg.int32), 1)


def test_logaddexp_of_complex_numbers_does_not_overflow():
    x, y = rg.tensor([1000 + 1j, -float("inf") + 0j]), rg.tensor([1000 + 1j, -float("inf") + 0j])
    assert rg.logaddexp(x, y)[0].item() == pytest.approx(1000.6931 + 1j, rel=1e-6)
    assert rg.logaddexp(x, y)[1].item().real == -float("inf")


def test_a_number_beside_an_unfit_tensor_where_pytorch_takes_tensors_alone_is_a_type_error():
    for call in (
        lambda: rg.maximum(rg.ones(2), 2j),
        lambda: rg.gcd(rg.tensor([1, 2]), 2.5),
        lambda: rg.mv(rg.ones(2, 2), 2),
        lambda: rg.isclose(rg.ones(2), 1),
    ):
        with pytest.raises(TypeError, match="is a number, not a Tensor"):
            call()


def test_silu_takes_complex_numbers():
    z = rg.tensor([1 + 2j, -0.5 - 1j, 0j], dtype=rg.complex128, requires_grad=True)
    np.testing.assert_allclose(F.silu(z).detach().numpy(), (z / (1 + rg.exp(-z))).detach().numpy(), rtol=1e-12)
    assert rg.autograd.gradcheck(F.silu, (z,)) and rg.autograd.gradgradcheck(F.silu, (z,))
    x = z.detach().clone()
    assert F.silu(x, inplace=True) is x and x[0] == F.silu(z)[0]


# Pooling of integers


REFUSED = [f"{name}{axes}d(x, 2)" for axes in (1, 2, 3) for name in ("adaptive_max_pool", "adaptive_avg_pool")]
REFUSED += [f"fractional_max_pool{axes}d(x, 2, 2)" for axes in (2, 3)]
REFUSED += [f"max_unpool{axes}d(x, rg.zeros(x.shape, dtype=rg.int64), 2)" for axes in (1, 2, 3)]


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
@pytest.mark.parametrize("call", REFUSED)
def test_pooling_refuses_integers_where_pytorch_does(call, dtype):
    axes = int(call[call.index("d(") - 1])
    x = rg.ones(1, 1, *(4,) * axes).to(getattr(rg, dtype))
    with pytest.raises(NotImplementedError, match=f"expected a floating input, got {dtype}"):
        eval(f"F.{call}", {"F": F, "rg": rg, "x": x})


def test_means_are_taken_of_int64_and_of_no_shorter_integers():
    assert F.avg_pool1d(rg.tensor([[1, 2, 5, 8]]), 2).tolist() == [[1, 6]]
    with pytest.raises(NotImplementedError, match="expected a floating or int64 input"):
        F.avg_pool2d(rg.ones(1, 1, 2, 2, dtype=rg.uint8), 2, divisor_override=-3)


@pytest.mark.parametrize(
    ("sizes", "what"),
    [(((), 2), "kernel_size"), (((1,), 2), "kernel_size"), ((2, (2,)), "output_size"), ((2, ()), "output_size")],
)
def test_fractional_pooling_wants_one_length_or_one_per_axis(sizes, what):
    for pool, x in ((F.fractional_max_pool2d, rg.ones(1, 4, 4)), (F.fractional_max_pool3d, rg.ones(1, 4, 4, 4))):
        with pytest.raises(RuntimeError, match=f"{what} must either be a single int"):
            pool(x, *sizes)


def test_fractional_pooling_takes_the_output_size_before_the_ratio():
    assert F.fractional_max_pool2d(rg.ones(1, 6, 6), 2, 3, 0.9).shape == (1, 3, 3)


# Half precision


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["hardsigmoid", "hardswish", "logsigmoid", "mish", "silu", "gelu", "softplus", "glu"])
def test_an_activation_of_half_precision_is_that_of_single_precision_rounded_once(name, dtype):
    x = rg.Tensor(np.random.default_rng(0).standard_normal((4, 64)) * 4).to(getattr(rg, dtype))
    function = getattr(F, name)
    assert rg.equal(function(x), function(x.float()).to(x.dtype))


def test_glu_of_short_integers_is_floating():
    assert F.glu(rg.tensor([2, 0], dtype=rg.int16)).tolist() == [1.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rms_norm_of_half_precision_adds_the_epsilon_of_single_precision(dtype):
    x = rg.full((4,), 1e-3).to(getattr(rg, dtype))
    wanted = F.rms_norm(x.float(), (4,)).to(x.dtype)
    assert rg.equal(F.rms_norm(x, (4,)), wanted) and wanted[0] > 0.9
