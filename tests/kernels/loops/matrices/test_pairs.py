"""Products and conversions of bfloat16: by the processor's instruction for pairs where it has one, else in float32."""

import os
import subprocess
import sys

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd.kernels import compiled
from retrograd.kernels.loops.images import convolution
from retrograd.kernels.loops.layout import copies
from retrograd.kernels.loops.matrices import pairs, products
from retrograd.kernels.loops.sequences import attention, recurrent

ml_dtypes = pytest.importorskip("ml_dtypes")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

# Below and above the sizes of each method: tiles of shared panels, unpacked rows, panels of each thread, float32.
SIZES = [
    (2, 3, 4), (64, 129, 64), (300, 77, 500), (512, 300, 1024), (768, 128, 512), (33, 255, 1023), (1000, 64, 64),
    (64, 2000, 70), (40, 1000, 40), (500, 1, 600), (1, 400, 900),
]  # fmt: skip


def drawn(rows, columns, turned=False, seed=0):
    shape = (columns, rows) if turned else (rows, columns)
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(BFLOAT16)
    return x.T if turned else x


@pytest.fixture(params=[True, False], ids=["pairs", "float32"])
def by_pairs(request, monkeypatch):
    if request.param and not pairs.multiplies_bfloat16():
        pytest.skip("the processor has no instruction for products of bfloat16")
    for module in (pairs, convolution, recurrent, attention):
        monkeypatch.setattr(module, "multiplies_bfloat16", lambda: request.param)
    return request.param


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_products_add_in_float32_and_round_once(by_pairs, m, k, n, turned):
    x, y, bias = drawn(m, k, turned[0]), drawn(k, n, turned[1], 1), drawn(1, n, seed=2)[0]
    exact = x.astype(np.float64) @ y.astype(np.float64)
    for given, wanted in ((None, exact), (bias, exact + bias.astype(np.float64))):
        found = pairs.dot(x, y, given)
        assert found.dtype == BFLOAT16 and found.shape == (m, n)
        error = np.abs(found.astype(np.float64) - wanted)
        assert (error <= np.abs(wanted) * 2.0**-8 + 1e-5 * np.sqrt(k)).all()


def test_products_of_each_number_of_threads_are_equal(by_pairs):
    x, y = drawn(700, 301), drawn(301, 900, seed=1)
    found = []
    for threads in (1, 2, 3):
        before = rg.get_num_threads()
        rg.set_num_threads(threads)
        try:
            found.append(pairs.dot(x, y).view(np.uint16))
        finally:
            rg.set_num_threads(before)
    assert (found[0] == found[1]).all() and (found[0] == found[2]).all()


def test_infinities_and_nan_reach_their_rows_and_columns_only(by_pairs):
    x, y = drawn(256, 256), drawn(256, 256, seed=1)
    x[3, 5], y[7, 9] = np.inf, np.nan
    found = pairs.dot(x, y).astype(np.float32)
    assert not np.isfinite(found[3]).any() and np.isnan(found[:, 9]).all()
    rest = np.delete(np.delete(found, 3, 0), 9, 1)
    assert np.isfinite(rest).all()


def test_a_product_that_overflows_is_infinite(by_pairs):
    x = np.full((128, 128), 1e30, BFLOAT16)
    with np.errstate(over="ignore"):  # NumPy's product, if there is no library
        assert (pairs.dot(x, x) == np.inf).all()


def test_lengths_that_differ_are_an_error(by_pairs):
    with pytest.raises(ValueError, match="not aligned"):
        pairs.dot(drawn(300, 200), drawn(201, 300))


def test_conversions_have_the_bits_of_ml_dtypes():
    halves = np.tile(np.arange(1 << 16, dtype=np.uint16), 2).view(BFLOAT16)
    assert halves.size >= copies.LARGE
    wide = copies.converted(halves, np.dtype(np.float32))
    assert (wide.view(np.uint32) == halves.astype(np.float32).view(np.uint32)).all()
    bits = np.random.default_rng(0).integers(0, 1 << 32, 1 << 18, dtype=np.uint32)
    edges = np.array([0, 0x80000000, 0x7F7FFFFF, 0x7F7F8000, 0x7F800000, 0xFF800000, 0x3F808000, 0x3F818000], np.uint32)
    floats = np.concatenate([edges, bits]).view(np.float32)
    found = copies.converted(floats, BFLOAT16)
    with np.errstate(all="ignore"):
        wanted = floats.astype(BFLOAT16)
    number = ~np.isnan(floats)
    assert (found.view(np.uint16) == wanted.view(np.uint16))[number].all()
    assert np.isnan(found.astype(np.float32)[~number]).all()


def test_conversions_keep_the_order_of_dense_arrays_and_read_views():
    base = np.random.default_rng(0).standard_normal((40, 12, 20, 30)).astype(np.float32)
    dense = base.transpose(0, 2, 3, 1), base.transpose(3, 0, 1, 2)
    for x in (base, *dense, base[:, ::2], base[..., 3:], base[::-1], np.broadcast_to(base[:1], base.shape)):
        for dtype in (BFLOAT16, np.dtype(np.float16)):
            found = copies.converted(x, dtype)
            assert (found == x.astype(dtype)).all()
            assert (copies.converted(found, np.dtype(np.float32)) == found.astype(np.float32)).all()
    assert [copies.converted(x, BFLOAT16).strides for x in dense] == [x.astype(BFLOAT16).strides for x in dense]


@pytest.mark.parametrize("layer", ["linear", "matmul", "mm"])
def test_gradients_are_those_of_float32_within_eight_bits(by_pairs, layer):
    x, w = rg.tensor(drawn(300, 200)), rg.tensor(drawn(400, 200, seed=1))
    g, bias = rg.tensor(drawn(300, 400, seed=2)), rg.tensor(drawn(1, 400, seed=3)[0])

    def gradients(dtype):
        inputs = [z.to(dtype).detach().requires_grad_() for z in (x, w, bias)]
        a, b, c = inputs
        if layer == "linear":
            out = F.linear(a, b, c)
        elif layer == "matmul":
            out = rg.matmul(a.reshape(3, 100, 200), b.T).reshape(300, 400) + c
        else:
            out = a @ b.T + c
        out.backward(g.to(dtype))
        return [z.grad for z in inputs]

    for found, wanted in zip(gradients(rg.bfloat16), gradients(rg.float32), strict=True):
        assert found.dtype == rg.bfloat16
        error = (found.float() - wanted).abs()
        assert bool((error <= wanted.abs() * 2.0**-7 + 2e-2).all())


@pytest.mark.slow
@pytest.mark.parametrize("kernels", ["jit", "reference"])
def test_products_without_the_library(kernels):
    program = (
        "import numpy as np, ml_dtypes\n"
        "from retrograd.kernels.loops.matrices import pairs\n"
        "x = np.ones((256, 256), ml_dtypes.bfloat16)\n"
        "assert (pairs.dot(x, x) == 256).all()\n"
    )
    if kernels == "jit":
        pytest.importorskip("numba")
    subprocess.run([sys.executable, "-c", program], env={**os.environ, "RETROGRAD_KERNELS": kernels}, check=True)


def test_useful_sizes_are_multiplied_by_pairs():
    if not pairs.multiplies_bfloat16() or compiled() is None:
        pytest.skip("there is no library, or the processor has no instruction for products of bfloat16")
    assert pairs._product(drawn(256, 256), drawn(256, 256), None) is not None
    assert products.USEFUL <= 256**3


# Channels, output channels, groups, size, kernel, stride, padding, dilation, images: wide and narrow lines, odd numbers
# of channels and columns, lines of several images side by side, one window per image, and too few channels for pairs.
CONVOLUTIONS = [
    (32, 64, 1, (14, 14), 3, 1, 1, 1, 4), (33, 20, 1, (13, 11), 3, 2, 1, 1, 3), (16, 48, 2, (28, 28), 5, 1, 2, 1, 2),
    (24, 40, 1, (4, 4), 3, 1, 1, 1, 19), (30, 64, 1, (9, 7), 1, 1, 0, 1, 5), (64, 64, 1, (7, 7), 3, 1, 2, 2, 9),
    (48, 32, 1, (6, 6), 6, 1, 0, 1, 40), (3, 32, 1, (40, 41), 3, 2, 1, 1, 3), (1, 32, 1, (28, 28), 3, 1, 1, 1, 8),
    (12, 24, 1, (99,), 7, 3, 2, 1, 30), (8, 16, 1, (6, 7, 8), 3, 1, 1, 1, 4), (64, 64, 64, (14, 14), 3, 1, 1, 1, 4),
]  # fmt: skip


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions_add_in_float32_and_round_once(by_pairs, case, transposed):
    channels, outs, groups, size, kernel, stride, padding, dilation, images = case
    axes = len(size)
    convolve = getattr(F, f"conv_transpose{axes}d" if transposed else f"conv{axes}d")
    rng = np.random.default_rng(0)
    first, second = (channels, outs // groups) if transposed else (outs, channels // groups)
    shapes = (images, channels, *size), (first, second, *[kernel] * axes), (outs,)
    given = [rng.standard_normal(shape).astype(np.float32).astype(BFLOAT16) for shape in shapes]

    def results(dtype):
        x, w, b = [rg.tensor(array).to(dtype).detach().requires_grad_() for array in given]
        y = convolve(x, w, b, stride, padding, groups=groups, dilation=dilation)
        g = np.random.default_rng(1).standard_normal(tuple(y.shape)).astype(np.float32).astype(BFLOAT16)
        y.backward(rg.tensor(g).to(dtype))
        return y.detach(), x.grad, w.grad, b.grad

    for found, wanted in zip(results(rg.bfloat16), results(rg.float64), strict=True):
        assert found.dtype == rg.bfloat16 and found.shape == wanted.shape
        error = (found.double() - wanted).abs()
        assert bool((error <= wanted.abs() * 2.0**-8 + 1e-5 * float(wanted.abs().max())).all())


def test_convolutions_of_each_number_of_threads_are_equal():
    x, w = rg.tensor(drawn(8 * 32, 196).reshape(8, 32, 14, 14)), rg.tensor(drawn(64, 288).reshape(64, 32, 3, 3))
    found = []
    before = rg.get_num_threads()
    for threads in (1, 2, 3):
        rg.set_num_threads(threads)
        try:
            a, b = x.detach().requires_grad_(), w.detach().requires_grad_()
            y = F.conv2d(a, b, padding=1)
            y.sum().backward()
            found.append([z.array.view(np.uint16) for z in (y.detach(), a.grad, b.grad)])
        finally:
            rg.set_num_threads(before)
    for other in found[1:]:
        assert all((a == b).all() for a, b in zip(found[0], other, strict=True))


def test_a_convolution_of_useful_size_is_computed_by_pairs(monkeypatch):
    if not pairs.multiplies_bfloat16() or compiled() is None:
        pytest.skip("there is no library, or the processor has no instruction for products of bfloat16")
    called = []
    for name in ("forward", "weight"):
        function = getattr(convolution, name)
        monkeypatch.setattr(convolution, name, lambda *args, f=function: (called.append(args[0].dtype), f(*args))[1])
    x, w = [rg.tensor(drawn(*shape)) for shape in ((4 * 32, 196), (64, 288))]
    x, w = x.reshape(4, 32, 14, 14).detach().requires_grad_(), w.reshape(64, 32, 3, 3).detach().requires_grad_()
    F.conv2d(x, w, padding=1).sum().backward()
    assert called == [BFLOAT16] * 3  # the result, and the gradients of x and w


@pytest.mark.parametrize("size", [(3, 5), (64, 257), (2, 3, 300)])
@pytest.mark.parametrize("name", ["relu", "gelu", "gelu_tanh", "silu"])
def test_activations_are_those_of_float32_rounded(name, size):
    function = (lambda x: F.gelu(x, "tanh")) if name == "gelu_tanh" else getattr(F, name)
    rng = np.random.default_rng(0)
    numbers, g = [(4 * rng.standard_normal(size)).astype(np.float32).astype(BFLOAT16) for _ in range(2)]
    numbers.flat[:5] = [0.0, -0.0, np.inf, np.nan, -1e-3]

    def results(dtype):
        x = rg.tensor(numbers).to(dtype).detach().requires_grad_()
        y = function(x)
        y.backward(rg.tensor(g).to(dtype))
        return y.detach(), x.grad

    for found, wanted in zip(results(rg.bfloat16), results(rg.float32), strict=True):
        assert found.dtype == rg.bfloat16
        np.testing.assert_array_equal(found.array.astype(np.float32), wanted.array.astype(BFLOAT16).astype(np.float32))


@pytest.mark.parametrize("shape", [(4, 3, 20, 20), (2, 5, 40), (300, 8), (3, 4, 1, 5)])
@pytest.mark.parametrize("weights", [rg.float32, rg.bfloat16])
def test_batch_norm_of_bfloat16_is_that_of_float32_rounded(shape, weights):
    rng = np.random.default_rng(0)
    numbers, g = [rng.standard_normal(shape).astype(np.float32).astype(BFLOAT16) for _ in range(2)]

    def results(dtype):
        layer = (rg.nn.BatchNorm2d if len(shape) == 4 else rg.nn.BatchNorm1d)(shape[1])
        with rg.no_grad():
            layer.weight.copy_(rg.linspace(0.5, 1.5, shape[1]))
        if dtype == rg.bfloat16:
            layer.weight.data, layer.bias.data = layer.weight.data.to(weights), layer.bias.data.to(weights)
        x = rg.tensor(numbers).to(dtype).detach().requires_grad_()
        y = layer(x)
        assert y.dtype == dtype
        y.backward(rg.tensor(g).to(dtype))
        return y.detach(), x.grad, layer.weight.grad, layer.bias.grad, layer.running_mean, layer.running_var

    for found, wanted in zip(results(rg.bfloat16), results(rg.float32), strict=True):
        error = (found.float() - wanted).abs()
        assert bool((error <= wanted.abs() * 2.0**-7 + 1e-2 * float(wanted.abs().max())).all())


@pytest.mark.parametrize("kernel", [2, 3, (2, 3)])
def test_maxima_of_bfloat16_are_exact(kernel):
    numbers = np.random.default_rng(0).standard_normal((5, 3, 12, 18)).astype(np.float32).astype(BFLOAT16)
    numbers[0, 0, 0, 1] = np.nan

    def results(dtype):
        x = rg.tensor(numbers).to(dtype).detach().requires_grad_()
        y = F.max_pool2d(x, kernel)
        y.backward(rg.ones_like(y))
        return y.detach().float().array, x.grad.float().array

    for found, wanted in zip(results(rg.bfloat16), results(rg.float32), strict=True):
        np.testing.assert_array_equal(found, wanted)


# Inputs, states, steps, batch: several blocks of rows, an odd batch, and odd states, which are computed in float32; in
# the last case two threads share the steps of a block.
RECURRENT = [(24, 32, 7, 40), (128, 64, 5, 3), (9, 34, 4, 17), (16, 33, 4, 8), (20, 130, 2, 8)]


@pytest.mark.parametrize("case", RECURRENT, ids=str)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "tanh", "relu"])
def test_a_recurrent_layer_of_bfloat16_has_gates_and_cells_in_float32(by_pairs, kind, case, bias):
    inputs, size, steps, batch = case
    options = {"nonlinearity": kind} if kind.islower() else {}
    layer = getattr(rg.nn, "RNN" if options else kind)(inputs, size, bias=bias, bidirectional=True, **options)
    rng = np.random.default_rng(0)

    def rounded(*shape):
        return rng.standard_normal(shape).astype(np.float32).astype(BFLOAT16)

    x, g, h, c = rounded(steps, batch, inputs), rounded(steps, batch, 2 * size), *[rounded(2, batch, size)] * 2
    weights = [rounded(*tuple(p.shape)) / BFLOAT16.type(8) for p in layer.parameters()]
    if kind == "relu":  # rows of one sign: no pre-activation is near 0, where rounding would decide the derivative
        x, h = abs(x), abs(h)
        weights = [(abs(w.T) * np.resize(np.array([0.25, -0.25], BFLOAT16), size)).T for w in weights]

    def results(dtype):
        for parameter, weight in zip(layer.parameters(), weights, strict=True):
            parameter.data, parameter.grad = rg.tensor(weight).to(dtype), None
        states = (h, c) if kind == "LSTM" else (h,)
        given = [rg.tensor(z).to(dtype).detach().requires_grad_() for z in (x, *states)]
        y, last = layer(given[0], tuple(given[1:]) if kind == "LSTM" else given[1])
        ends = last if kind == "LSTM" else (last,)
        rg.autograd.backward((y, *ends), (rg.tensor(g).to(dtype), *[rg.ones_like(end) for end in ends]))
        return [y, *ends, *[z.grad for z in (*given, *layer.parameters())]]

    for found, wanted in zip(results(rg.bfloat16), results(rg.float32), strict=True):
        assert found.dtype == rg.bfloat16 and found.shape == wanted.shape
        error, scale = (found.float() - wanted).abs().detach(), wanted.detach().abs()
        near = error <= scale * 2.0**-7 + 2e-2 * float(scale.max())
        assert near.all()


def test_a_second_derivative_of_bfloat16_is_computed_in_float32():
    x, w = rg.tensor(drawn(64, 64)).requires_grad_(), rg.tensor(drawn(64, 64, seed=1)).requires_grad_()
    for function in (F.gelu, F.relu, lambda z: F.batch_norm(z, None, None, training=True)):
        (first,) = rg.autograd.grad((function(x) * w).sum(), x, create_graph=True)
        assert first.dtype == rg.bfloat16
        (second,) = rg.autograd.grad((first * first).sum(), w)
        a, b = x.detach().float().requires_grad_(), w.detach().float().requires_grad_()
        (wide,) = rg.autograd.grad((function(a) * b).sum(), a, create_graph=True)
        (wanted,) = rg.autograd.grad((wide * wide).sum(), b)
        assert float((second.float() - wanted).abs().max()) <= 3e-2 * float(wanted.abs().max())


# Leading axes, rows, columns, widths of keys and values: blocks of rows, odd numbers of both, one row, odd widths.
ATTENTIONS = [
    ((2, 3), 100, 100, 32, 32), ((2, 2), 64, 131, 16, 48), ((1, 4), 67, 33, 64, 20), ((3, 1), 1, 200, 32, 32),
    ((2, 2), 70, 70, 15, 31),
]  # fmt: skip


@pytest.mark.parametrize("case", ATTENTIONS, ids=str)
@pytest.mark.parametrize("kind", ["plain", "causal", "bool", "added"])
def test_attention_multiplies_pairs_and_has_scores_in_float32(by_pairs, case, kind):
    lead, rows, columns, width, width_v = case
    rng = np.random.default_rng(0)

    def rounded(*shape):
        return rng.standard_normal(shape).astype(np.float32).astype(BFLOAT16)

    given = [rounded(*lead, rows, width), rounded(*lead, columns, width), rounded(*lead, columns, width_v)]
    g, mask = rounded(*lead, rows, width_v), None
    if kind == "bool":
        mask = rng.random((rows, columns)) < 0.7
        mask[0] = False  # a row without any column
    elif kind == "added":
        mask = rounded(rows, columns)

    def results(dtype):
        q, k, v = [rg.tensor(z).to(dtype).detach().requires_grad_() for z in given]
        chosen = None if mask is None else rg.tensor(mask) if kind == "bool" else rg.tensor(mask).to(dtype)
        y = F.scaled_dot_product_attention(q, k, v, chosen, is_causal=kind == "causal")
        y.backward(rg.tensor(g).to(dtype))
        return y.detach(), q.grad, k.grad, v.grad

    for found, wanted in zip(results(rg.bfloat16), results(rg.float64), strict=True):
        assert found.dtype == rg.bfloat16 and found.shape == wanted.shape
        error = (found.double() - wanted).abs()
        assert bool((error <= wanted.abs() * 2.0**-7 + 1.5e-2 * float(wanted.abs().max())).all())


def test_dropout_of_attention_by_pairs_is_that_of_float32(by_pairs):
    given = [drawn(64 * 4, 32, seed=seed).reshape(2, 2, 64, 32) for seed in range(4)]

    def results(dtype):
        rg.manual_seed(0)
        q, k, v = [rg.tensor(z).to(dtype).detach().requires_grad_() for z in given[:3]]
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3)
        y.backward(rg.tensor(given[3]).to(dtype))
        return y.detach(), q.grad, k.grad, v.grad

    for found, wanted in zip(results(rg.bfloat16), results(rg.float32), strict=True):
        error = (found.float() - wanted).abs()
        assert bool((error <= wanted.abs() * 2.0**-7 + 1.5e-2 * float(wanted.abs().max())).all())
