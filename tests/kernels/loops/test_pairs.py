"""Products and conversions of bfloat16: by the processor's instruction for pairs where it has one, else in float32."""

import os
import subprocess
import sys

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd.kernels import compiled
from retrograd.kernels.loops.layout import copies
from retrograd.kernels.loops.matrices import pairs, products

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
    monkeypatch.setattr(pairs, "multiplies_bfloat16", lambda: request.param)
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
