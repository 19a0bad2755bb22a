"""Regions on arrays of short or strided rows, on bytes, and with accurate sums: by LLVM and by the interpreter."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.kernels.loops.regions.accumulator_code import vectors_of
from retrograd.nn import functional as F
from tests.compiler.cpu.test_regions import backend, both, regions  # noqa: F401  a fixture


@both
@pytest.mark.parametrize("shape", [(3, 2, 5, 3), (2, 3, 4, 16), (2, 3, 3, 130)])
@pytest.mark.parametrize("dtype", [rg.float32, rg.float64])
def test_steps_of_short_and_strided_rows_are_those_of_an_eager_call(shape, dtype):
    @rg.compile
    def step(x, y, total):
        x = x.transpose(1, 2)[:, :, :, ::2] if shape[-1] < 16 else x.transpose(1, 2)
        z = x * y[:, :1] - y[:1, :, :1, : x.shape[-1]]
        total += rg.where(z > 0, z, x).transpose(1, 2).reshape(-1)[: total.numel()]
        return (z * z + x).transpose(0, 1) + 1, rg.where(x > y[:, :1], z, -z), total * 1

    n, c, h, w = shape
    x, y = rg.randn(*shape).to(dtype), rg.randn(n, h, c, -(-w // 2) if w < 16 else w).to(dtype)
    for _ in range(3):
        mine, yours = rg.zeros(7, dtype=dtype), rg.zeros(7, dtype=dtype)
        for found, wanted in zip(step(x, y, mine), step.function(x, y, yours), strict=True):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6)
        np.testing.assert_allclose(mine.numpy(), yours.numpy(), rtol=1e-6)
    assert regions(step)


@both
@pytest.mark.parametrize("dim", [(0, 2, 3), (0, 1), 3, (1, 3), 0])
def test_accurate_sums_along_any_dimensions_are_those_of_an_eager_call(dim):
    @rg.compile
    def step(x):
        return rg.var(x.transpose(1, 2), dim, correction=0) * 2 + 1, rg.mean(x * 3, dim) * 2

    x = rg.randn(9, 3, 8, 70) + 100
    for _ in range(3):
        for found, wanted in zip(step(x), step.function(x), strict=True):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5)
    assert regions(step)


@both
@pytest.mark.parametrize("window", [(2, 2), (3, 2)])
def test_max_pooling_of_small_images_is_in_the_region(window):
    x, g = rg.randn(2, 3, 8, 8), rg.randn(2, 3, *F.max_pool2d(rg.zeros(2, 3, 8, 8), *window).shape[2:])

    @rg.compile
    def step(x):
        x = x.detach().requires_grad_()
        y = F.max_pool2d(x * 2 + 1, *window)
        (dx,) = rg.autograd.grad(y, x, g)
        return (y * 1).detach(), dx

    for _ in range(3):
        for found, wanted in zip(step(x), step.function(x), strict=True):
            np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    (region,) = regions(step)
    assert "max_pool" in [part.name for part in region.parts]


@both
@pytest.mark.parametrize("shape", [(1, 1), (7, 7), (9, 64), (16, 25)])
@pytest.mark.parametrize("dtype", [rg.float32, rg.float64, rg.int32, rg.uint8, rg.bool])
def test_copies_to_and_from_rows_apart_are_those_of_an_eager_call(shape, dtype):
    @rg.compile
    def step(x, y):
        spread = rg.zeros(2, *x.shape, 2, dtype=x.dtype)
        spread[1, :, :, 1] = x
        rows = [x.T, x[:, ::2], x[:, ::3], x[:, :1].expand(*x.shape), x[:1, 1:].expand(len(x), -1), x.flip(1)]
        return *[row.contiguous() for row in rows], spread, x.T[::2].contiguous(), (y * 2 + 1).T.contiguous()

    x, y = (rg.randn(*shape) * 100).abs().to(dtype), rg.randn(*shape)
    for _ in range(3):
        for found, wanted in zip(step(x, y), step.function(x, y), strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    assert regions(step)


@both
@pytest.mark.parametrize("rows", [1, 3, 4, 7, 8, 13])
@pytest.mark.parametrize("dtype", [rg.float32, rg.float64])
def test_rows_of_small_products_do_not_depend_on_their_number(rows, dtype):
    for columns in (1, 8, 17, 24, 56):
        step = rg.compile(lambda x, y: ((x * 2) @ y + 1,))
        x, y = rg.randn(16, 5).to(dtype), rg.randn(5, columns).to(dtype)
        some, single = x[:rows].clone(), x[:1].clone()
        for _ in range(3):
            (found,), (first,) = step(some, y), step(single, y)
            np.testing.assert_allclose(found.numpy(), ((some * 2) @ y + 1).numpy(), rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(found[:1].numpy(), first.numpy())
        assert regions(step)


@both
def test_where_and_sums_of_bytes_are_exact():
    @rg.compile
    def step(a, b, x):
        chosen = rg.where(x > 0, a, b)
        total = a + chosen + 200
        return rg.where(x > 1, chosen, 255), rg.where(chosen == 255, a, 0), total, rg.where(total > 9, a, b), x * 2 + 1

    values = rg.arange(256).to(rg.uint8)
    x = rg.linspace(-2, 2, 256)
    for _ in range(3):
        for found, wanted in zip(
            step(values, values.flip(0), x), step.function(values, values.flip(0), x), strict=True
        ):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    assert regions(step)


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_the_code_runs_on_ever_fewer_elements_to_the_last(lanes):
    sizes = [vectors * together for vectors, together in vectors_of(lanes)]
    assert sizes[0] == 8 * lanes and sizes[-1] == 1 and sizes == sorted(set(sizes), reverse=True)
