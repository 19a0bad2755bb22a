"""Matrix products inside compiled loops."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd import kernels
from retrograd.kernels.loops.elements import ufuncs
from retrograd.kernels.loops.matrices import products
from retrograd.kernels.runtime import blas_address, denormals, library, result_arrays, threads
from retrograd.kernels.runtime.loop_calls import Loop
from retrograd.kernels.tiles.vector_width import width

if not kernels.available():
    pytest.skip("there is no library of loops", allow_module_level=True)
pytestmark = pytest.mark.skipif(not blas_address.available(), reason="no BLAS of NumPy's found")
SHAPES = [(5, 7, 9), (1, 7, 1), (5, 1, 3), (1, 1, 1), (5, 0, 3), (0, 7, 3), (4, 2, 0)]


def transposed(a):
    """The same matrix, with the first axis contiguous, as part of a larger one."""
    larger = np.zeros((a.shape[1] + 1, a.shape[0] + 1), a.dtype)
    larger[1:, 1:] = a.T
    return larger[1:, 1:].T


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_parts_of_matrices(dtype, monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(library, "opened", lambda: None)  # Numba compiles
    from retrograd.kernels.runtime.loop_blas import product
    from retrograd.kernels.runtime.numba_functions import njit

    @njit
    def multiplying(a, b, c, beta):
        product(a, b, c, beta)

    @njit
    def multiplying_parts(a, b, c, beta, m, k, n):
        product(a[:m, :k], b[:k, :n], c[:m, :n], beta)

    multiply, multiply_parts = Loop(__name__, "multiply", multiplying), Loop(__name__, "parts", multiplying_parts)
    rng = np.random.default_rng(0)
    for m, k, n in SHAPES:
        # Arrays with two rows and columns more are contiguous for no shape: Numba compiles once.
        a, b = (rng.standard_normal(shape).astype(dtype)[1:, 2:] for shape in ((m + 3, k + 4), (k + 3, n + 4)))
        whole = np.full((m + 3, n + 3), 2, dtype)
        wanted, c, inside = a[:m, :k] @ b[:k, :n], whole[1:, 1:], whole[1 : m + 1, 1 : n + 1]
        for left, right in ((a, b), (transposed(a), transposed(b))):
            whole[:] = 2
            multiply_parts(left, right, c, 1.0, m, k, n)
            np.testing.assert_allclose(inside, 2 + wanted, rtol=1e-5)
            whole[:] = np.nan
            multiply_parts(left, right, c, 0.0, m, k, n)
            np.testing.assert_allclose(inside, wanted, rtol=1e-5)
            assert np.isnan(whole).sum() == whole.size - inside.size  # nothing beside it was written
    contiguous = np.ones((5, 7), dtype), np.ones((7, 9), dtype), np.ones((5, 9), dtype)
    multiply(*contiguous, 1.0)
    assert (contiguous[2] == 8).all()


def turned(x):
    """The same matrices, each with its columns one behind the other."""
    return np.ascontiguousarray(np.swapaxes(x, -1, -2)).swapaxes(-1, -2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("x_lead", "y_lead"),
    [((50,), (50,)), ((), (50,)), ((1,), (50,)), ((50, 1), ()), ((5, 10), (5, 10)), ((5, 1), (10,))],
)
def test_stacks_of_products_are_numpys_however_they_lie_in_memory(dtype, x_lead, y_lead):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((*x_lead, 64, 16)).astype(dtype), rng.standard_normal((*y_lead, 16, 80)).astype(dtype)
    wanted = np.matmul(x, y)
    permuted = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 0, 1)), 1, 0) if x_lead else x  # rows apart in memory
    for left in (x, turned(x), permuted, x[..., ::-1, :][..., ::-1, :]):
        for right in (y, turned(y)):
            found = products.stack(left, right)
            assert found.dtype == dtype and found.flags.c_contiguous
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


TINY = np.float32(1e-40)  # too small for full precision


@pytest.mark.skipif(not denormals.flushes(), reason="products flush on x86 only")
@pytest.mark.parametrize("turn", [np.asarray, turned])
def test_large_products_take_what_is_too_small_for_full_precision_as_zero(turn):
    x, y = turn(np.full((512, 64), TINY)), turn(np.ones((64, 256), np.float32))
    assert (products.dot(x, y) == 0).all()
    assert (products.stack(np.stack([x] * 4), y) == 0).all()
    assert (products.dot(x[:4], y[:, :4]) > 0).all()  # a small one is NumPy's
    assert (products.dot(turn(x.astype(np.float64)), turn(y.astype(np.float64))) > 0).all()
    half = np.full(x.shape, 1e-20, np.float32)
    assert (products.dot(turn(half), turn(y * half[0, 0])) == 0).all()  # what comes out, too


@pytest.mark.skipif(not denormals.flushes(), reason="products flush on x86 only")
def test_products_leave_every_threads_mode_alone():
    x, y, all_ = np.full((512, 256), TINY), np.ones((256, 512), np.float32), np.full(1 << 20, TINY)
    for _ in range(5):
        products.dot(x, y)
        assert (all_ * np.float32(1) == TINY).all()
        assert (ufuncs.spread(np.multiply, np.multiply)(all_, 1.0) == TINY).all()  # on the helpers


# Large products: one factor packed, tiles of registers


SIZES = [
    (1, 1, 1), (8, 16, 48), (7, 5, 3), (9, 17, 16), (65, 70, 65), (33, 256, 129), (130, 257, 130), (72, 900, 49),
]  # fmt: skip


def tiled(monkeypatch, least=0):
    """Let products from so many multiplications on be packed, whatever their shape."""
    monkeypatch.setattr(products, "planned", products.planned.__wrapped__)
    monkeypatch.setattr(products, "USEFUL", 0)
    monkeypatch.setattr(products, "STACKED", 0)
    monkeypatch.setattr(products, "TILED", least)
    monkeypatch.setattr(products, "NARROW", 1)
    monkeypatch.setattr(products, "WIDE", width())


def ways(x):
    """The same matrix as it is, and with its columns one behind the other."""
    return np.ascontiguousarray(x), turned(x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_packed_products_are_numpys_whatever_their_sizes(monkeypatch, dtype, m, k, n):
    tiled(monkeypatch)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    wanted = x.astype(float) @ y.astype(float)
    close = {"rtol": 1e-10 if dtype == np.float64 else 1e-4, "atol": 1e-10 if dtype == np.float64 else 1e-4}
    first, row = products.dot(x, y), rng.standard_normal(n).astype(dtype)
    for left in ways(x):
        for right in ways(y):
            found = products.dot(left, right)
            plus = products.dot_plus(left, right, row)
            assert plus is None if min(m, n) == 1 else (plus == found + row).all()
            np.testing.assert_allclose(found, wanted, **close)
            assert (found == first).all()  # the way in which a factor lies changes no bit
            total = np.ones((m + 1, n), dtype)
            products.add_dot(total[:m], left, right)
            np.testing.assert_allclose(total[:m], 1 + wanted, **close)
            assert (total[m] == 1).all()  # nothing below it was written


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("least", [0, 1 << 23])
def test_products_at_the_borders_of_tiles_are_numpys_for_any_number_of_threads(monkeypatch, dtype, least):
    tiled(monkeypatch, least)
    rng = np.random.default_rng(0)
    borders = np.array([1, 7, 8, 47, 48, 49, 63, 64, 65, 127, 128, 129])
    tolerance = 1e-10 if dtype == np.float64 else 1e-4
    for m, k, n in np.stack([borders, np.roll(borders, 5), np.roll(borders, 2)], 1).tolist() + [(64, 65, 128)]:
        x, y = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
        wanted = x.astype(float) @ y.astype(float)
        for left in ways(x):
            for right in ways(y):
                found = []
                for number in (1, 2, 3):
                    monkeypatch.setattr(products, "count", lambda number=number: number)
                    out = np.full((m, n), np.nan, dtype)
                    found.append(result_arrays.into((out,), products.dot, left, right))
                    if m * k * n >= products.SEVERAL and 1 not in (m, n):
                        assert found[-1] is out
                np.testing.assert_allclose(found[0], wanted, rtol=tolerance, atol=tolerance)
                assert all((one == found[0]).all() for one in found[1:])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "k", "n"), [(70, 384, 512), (70, 384, 513), (129, 384, 700), (65, 65, 3100)])
def test_a_product_is_the_same_whether_its_second_factor_is_packed_or_not(dtype, m, k, n):
    if width() != products.WIDE:
        pytest.skip("registers are too short")
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    assert products.prepared(x, y)[2][6] == products.TILES
    found = [products.dot(left, right) for left in ways(x) for right in ways(y)]
    row = rng.standard_normal(n).astype(dtype)
    assert (products.dot_plus(x, y, row) == found[0] + row).all()
    np.testing.assert_allclose(found[0], x.astype(float) @ y, rtol=1e-4, atol=1e-4)
    assert all((one == found[0]).all() for one in found[1:])
    assert (products.dot(x, np.ascontiguousarray(y[:, :64])) == found[0][:, :64]).all()


def test_a_row_of_a_packed_product_does_not_depend_on_the_rows_beside_it_nor_on_the_threads(monkeypatch):
    tiled(monkeypatch)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((203, 500)).astype(np.float32), rng.standard_normal((500, 100)).astype(np.float32)
    before = threads.count()
    try:
        found = []
        for number in (1, 2, 3):
            threads.set_count(number)
            found.append(products.dot(x, y))
    finally:
        threads.set_count(before)
    assert all((one == found[0]).all() for one in found[1:])
    assert (products.dot(x[5:77], y) == found[0][5:77]).all()
    assert (products.dot(turned(x)[190:].copy(), turned(y)) == found[0][190:]).all()


def test_packed_products_hand_on_nan_and_infinity_to_their_rows_and_columns_alone(monkeypatch):
    tiled(monkeypatch)
    x, y = np.ones((70, 80), np.float32), np.ones((80, 90), np.float32)
    x[9, 3], x[69, 79], y[5, 89], y[7, 2] = np.nan, np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        wanted = x @ y
        for left in ways(x):
            for right in ways(y):
                np.testing.assert_array_equal(products.dot(left, right), wanted)


def test_what_no_layout_of_blas_can_say_is_left_to_numpy(monkeypatch):
    tiled(monkeypatch)
    x, y = np.random.default_rng(0).standard_normal((2, 90, 90)).astype(np.float32)
    for left, right in ((x[:, 1:71], y[1:71, 3:]), (x[::2, ::-1], y), (x[3:], y[:, ::3])):
        np.testing.assert_allclose(products.dot(left, right), np.matmul(left, right), rtol=1e-4, atol=1e-4)


def test_large_products_are_packed_and_small_and_narrow_ones_are_not():
    if width() != products.WIDE:
        pytest.skip("registers are too short")

    def how(m, k, n):
        return products.prepared(np.ones((m, k), np.float32), np.ones((k, n), np.float32))[2][6]

    assert how(768, 128, 512) == how(1024, 1024, 1024) == products.TILES
    others = {how(128, 128, 128), how(10, 2048, 2048), how(2048, 10, 2048), how(2048, 2048, 10)}
    assert products.TILES not in others


def test_threads_that_pack_for_themselves_take_all_rows_once(monkeypatch):
    if width() != products.WIDE:
        pytest.skip("registers are too short")
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype(np.float32) for shape in ((771, 130), (130, 509)))
    wanted, before = x.astype(float) @ y, rng.standard_normal((771, 509)).astype(np.float32)
    for number in (1, 2, 3, 5):
        monkeypatch.setattr(products, "count", lambda number=number: number)
        for left in ways(x):
            for right in ways(y):
                np.testing.assert_allclose(products.dot(left, right), wanted, rtol=1e-4, atol=1e-4)
                total = before.copy()
                products.add_dot(total, left, right)
                np.testing.assert_allclose(total, before + wanted, rtol=1e-4, atol=1e-4)


def smaller_product(monkeypatch, dtype, x, y, how):
    """Check a product that is worked off in a way, eager and compiled."""
    assert products.prepared(x, y)[2][6] == how
    wanted, before = x.astype(float) @ y, np.random.default_rng(1).standard_normal((len(x), y.shape[1])).astype(dtype)
    close = {"rtol": 1e-10 if dtype == np.float64 else 1e-4, "atol": 1e-10 if dtype == np.float64 else 1e-4}
    found, total = products.dot(x, y), before.copy()
    products.add_dot(total, x, y)
    np.testing.assert_allclose(found, wanted, **close)
    np.testing.assert_allclose(total, before + wanted, **close)
    for number in (1, 3):
        monkeypatch.setattr(products, "count", lambda number=number: number)
        assert (products.dot(x, y) == found).all()
    function = rg.compile(lambda a, b: a @ b)
    for _ in range(3):
        assert (function(rg.from_numpy(x), rg.from_numpy(y)).numpy() == found).all()
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "k", "n"), [(128, 32, 784), (70, 100, 81), (47, 128, 48), (4000, 3, 33)])
def test_shallow_products_read_their_factors_as_they_lie(monkeypatch, dtype, m, k, n):
    if width() != products.WIDE:
        pytest.skip("registers are too short")
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    for left in ways(x):
        smaller_product(monkeypatch, dtype, left, y, products.STRAIGHT)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(64, 784, 128), (128, 784, 65), (67, 133, 131), (66, 1600, 67), (200, 129, 200), (64, 192, 680)]
)
def test_smaller_products_pack_one_factor_however_both_lie(monkeypatch, dtype, m, k, n):
    if width() != products.WIDE:
        pytest.skip("registers are too short")
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    found = [smaller_product(monkeypatch, dtype, left, right, products.PACKED) for left in ways(x) for right in ways(y)]
    assert all((one == found[0]).all() for one in found)
    assert (products.dot(x[:64], y) == found[0][:64]).all()  # a row does not depend on the rows beside it
    assert (products.dot(x[:33], turned(y)) == found[0][:33]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "k", "n"), [(8, 300, 300), (30, 768, 128), (33, 200, 500), (500, 200, 17)])
def test_thin_products_are_tiles_if_the_second_factor_need_not_be_packed(monkeypatch, dtype, m, k, n):
    if width() != products.WIDE:
        pytest.skip("registers are too short")
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    found = [smaller_product(monkeypatch, dtype, left, y, products.PACKED) for left in ways(x)]
    assert (found[0] == found[1]).all()
    how = products.prepared(turned(x[:, :200]), turned(y[:200]))[2][6]
    assert how in (products.WHOLE, products.SINGLY)
    deep = products.prepared(turned(np.ones((10, 512), dtype)), np.ones((512, 1024), dtype))
    assert deep[2][6] in (products.WHOLE, products.SINGLY)
    narrow = products.prepared(turned(np.ones((1000, 300), dtype)), np.ones((300, 7), dtype))
    assert narrow[2][6] in (products.WHOLE, products.SINGLY)


@pytest.mark.skipif(not denormals.flushes(), reason="products flush on x86 only")
def test_smaller_products_flush_and_hand_on_nan():
    if width() != products.WIDE:
        pytest.skip("registers are too short")
    for x in ways(np.full((64, 256), TINY)):
        for y in ways(np.ones((256, 64), np.float32)):
            assert (products.dot(x, y) == 0).all()
    x, y = np.ones((70, 280), np.float32), np.ones((280, 90), np.float32)
    x[9, 3], x[69, 79], y[5, 89], y[7, 2] = np.nan, np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        for left in ways(x):
            for right in ways(y):
                np.testing.assert_array_equal(products.dot(left, right), x @ y)


@pytest.mark.skipif(not denormals.flushes(), reason="products flush on x86 only")
def test_packed_products_flush(monkeypatch):
    tiled(monkeypatch)
    for x in ways(np.full((64, 64), TINY)):
        for y in ways(np.ones((64, 64), np.float32)):
            assert (products.dot(x, y) == 0).all()
            assert (products.dot(y, x) == 0).all()
    assert (products.dot(np.full((64, 64), 1e-310), np.ones((64, 64))) > 0).all()  # double precision does not


@pytest.mark.parametrize("dtype", [rg.float32, rg.float64])
@pytest.mark.parametrize(("left", "right"), [((700, 700), (3, 3)), ((700, 700), (699, 50)), ((20, 700), (701, 500))])
def test_large_matrices_that_do_not_fit_are_refused(left, right, dtype):
    x, y = rg.randn(*left, dtype=dtype), rg.randn(*right, dtype=dtype)
    calls = [
        lambda: x @ y,
        lambda: rg.mm(x, y),
        lambda: rg.stack([x, x]) @ y,
        lambda: rg.addmm(rg.zeros(right[1], dtype=dtype), x, y),
        lambda: y.T @ x.T,
        lambda: rg.compile(lambda x: x @ y)(x),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match=str(right[0])):
            call()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_share_the_product_of_a_matrix_and_a_vector(dtype, monkeypatch):
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((601, 523)).astype(dtype)
    row, column = (rng.standard_normal(shape).astype(dtype) for shape in ((1, 523), (601, 1)))
    pairs = [(row, matrix.T), (matrix, row.T), (column.T, matrix), (matrix.T, column)]
    shared = []
    monkeypatch.setattr(products, "in_shares", lambda *args: shared.append(args[1:]) or threads.in_shares(*args))
    before = threads.count()
    threads.set_count(2)
    try:
        found, again = ([products.dot(x, y) for x, y in pairs] for _ in range(2))
        assert shared == [(10, 1), (10, 1), (9, 1), (9, 1)] * 2
    finally:
        threads.set_count(before)
    for (x, y), one, other in zip(pairs, found, again, strict=True):
        assert one.dtype == dtype
        assert np.array_equal(one, other)
        np.testing.assert_allclose(one, x.astype(float) @ y, rtol=1e-4, atol=1e-3)


def test_blocks_are_multiplied_in_one_call_where_blas_packs_small_matrices_too(monkeypatch):
    form = 32, 784, 128, False, True, "f"  # a first layer, whose input would be packed for each of 16 blocks
    monkeypatch.setattr(products, "_vectors_are_wide", lambda: False)
    monkeypatch.setattr(products, "count", lambda: 2)
    monkeypatch.setattr(products, "always_packs", lambda: False)
    assert products.smaller(*form)[4] == products.SINGLY
    monkeypatch.setattr(products, "always_packs", lambda: True)
    blocks, least, _, _, how = products.smaller(*form)
    assert how == products.WHOLE
    assert -(-blocks // least) == 2  # one part per thread


@pytest.mark.parametrize("shapes", [((65, 33), (33, 70)), ((5, 20, 16), (16, 80)), ((3, 64, 16), (3, 16, 40))])
@pytest.mark.parametrize("order", ["C", "F"])
def test_products_are_their_references_on_either_backend(shapes, order, on_backend):
    x, y = [np.random.default_rng(0).standard_normal(shape).astype("f") for shape in shapes]
    on_backend(lambda x, y: x @ (y if order == "C" else (y.mT.contiguous() * 1).mT), x, y)


@pytest.mark.parametrize("wide", [False, True])
def test_only_products_by_blas_restrict_its_threads(wide, monkeypatch):
    if wide and width() != products.WIDE:
        pytest.skip("this processor has shorter vector registers")
    restricted = []
    launch = products.launch_products
    monkeypatch.setattr(products, "_vectors_are_wide", lambda: wide)
    monkeypatch.setattr(products, "launch_products", lambda *args: (restricted.append(args), launch(*args)))
    products.planned.cache_clear()
    x, y = np.random.default_rng(0).standard_normal((2, 256, 256)).astype(np.float32)
    try:
        np.testing.assert_allclose(products.dot(x, y), x.astype(float) @ y, rtol=1e-3, atol=1e-3)
    finally:
        products.planned.cache_clear()
    assert bool(restricted) is not wide
