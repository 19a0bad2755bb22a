"""Elementwise forwards and derivative rules on large arrays, part by part: the same numbers as of the whole."""

import threading

import numpy as np
import pytest

import retrograd as rg
from retrograd import kernels
from retrograd.core.arrays.summation import LARGE
from retrograd.kernels import chunked
from retrograd.kernels.loops.elements import ufuncs
from retrograd.kernels.runtime import threads

needs_loops = pytest.mark.skipif(not kernels.available(), reason="Numba is not installed")
SHAPE = (700, 501)
PROGRAMS = {
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "sub": lambda x, y: x - y,
    "pow": lambda x, y: (x * x + 0.1) ** y,
    "cube": lambda x, y: x**3 * 1.5,
    "square": lambda x, y: x.square() + y.square(),
    "maximum": rg.maximum,
    "clamp": lambda x, y: x.clamp(-1.0, 0.5) * y.clamp(min=0.0),
    "lerp": lambda x, y: x.lerp(y, 0.3),
    "log": lambda x, y: x.abs().log() + y.abs().rsqrt(),
    "smooth": lambda x, y: x.sigmoid() * y.tanh() + rg.nn.functional.gelu(x) * rg.nn.functional.silu(y),
    "softplus": lambda x, y: rg.nn.functional.softplus(x) * rg.nn.functional.elu(y),
}


@pytest.fixture(autouse=True)
def small_parts_for_two_threads(monkeypatch):
    monkeypatch.setattr("retrograd.kernels.runtime.cores.wanted", [2])
    monkeypatch.setattr(chunked, "MIN_CHUNKED_SIZE", LARGE)
    monkeypatch.setattr(chunked, "CHUNK_BYTES", LARGE)


def matrix(seed, dtype=np.float32, shape=SHAPE):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def seen(function):
    """The function, and the shapes and threads that it is called with."""
    calls = []

    def watched(*args, **params):
        calls.append((args[0].shape, threading.get_ident()))
        return function(*args, **params)

    return watched, calls


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.int64])
@pytest.mark.parametrize(
    "second",
    [
        matrix(2),
        2.5,
        matrix(2)[0],
        matrix(2)[:, :1],
        matrix(2)[:1, :1],
        np.broadcast_to(np.float32(3), SHAPE),
        np.broadcast_to(matrix(2)[:, :1], SHAPE),
        matrix(2, shape=(700, 1002))[:, ::2],
    ],
)
def test_a_chunked_result_is_bitwise_equal_to_that_of_the_whole_arrays(dtype, second):
    def function(g, x):
        return (g * 3 - g * x) * (1 - x * x) + x

    first = (matrix(1) * 10).astype(dtype)
    watched, calls = seen(function)
    ours, its = chunked.chunked(watched)(first, second), function(first, second)
    assert (ours.dtype, ours.strides) == (its.dtype, its.strides)
    np.testing.assert_array_equal(ours, its)
    assert len(calls) > 2 and max(np.prod(shape) for shape, _ in calls) < first.size


def test_parts_are_worked_off_by_several_threads_and_each_once():
    counts = np.zeros(LARGE * 4, np.int32)
    start = threading.Barrier(2, timeout=10)

    def function(x):
        if x.size > 1 and not start.broken:
            try:
                start.wait()  # until a second thread is there
            finally:
                start.abort()
        return x + 1

    try:
        out = chunked.chunked(function)(counts)
    except threading.BrokenBarrierError:
        out = chunked.chunked(lambda x: x + 1)(counts)
    np.testing.assert_array_equal(out, 1)


@pytest.mark.parametrize(
    "arguments",
    [
        (matrix(1, shape=(501, 700)).T, matrix(2)),  # the result would lie in memory as the first does
        (matrix(1, shape=SHAPE[:1]), matrix(2, shape=SHAPE[:1])),  # too small
        (matrix(1).view(np.matrix), matrix(2)),
    ],
)
def test_what_is_not_to_be_cut_is_given_whole(arguments):
    watched, calls = seen(lambda x, y: x + y)
    ours, its = chunked.chunked(watched)(*arguments), arguments[0] + arguments[1]
    assert type(ours) is type(its) and ours.strides == its.strides
    np.testing.assert_array_equal(ours, its)
    assert [shape for shape, _ in calls][-1] == arguments[0].shape


def test_a_cotangent_that_is_handed_on_is_not_copied():
    g = matrix(1)
    assert chunked.chunked(lambda g: g)(g) is g
    assert np.may_share_memory(chunked.chunked(lambda g: g.real)(g), g)


def test_an_error_in_a_part_is_that_of_the_call():
    def function(x):
        if 7 in x:
            raise ZeroDivisionError("seven")
        return x + 1

    x = np.zeros(LARGE * 4)
    x[-1] = 7
    with pytest.raises(ZeroDivisionError, match="seven"):
        chunked.chunked(function)(x)
    np.testing.assert_array_equal(chunked.chunked(function)(x[:-1]), 1)


@needs_loops
@pytest.mark.slow  # loops are compiled
@pytest.mark.parametrize("dtype", [rg.float32, rg.float64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_large_arrays_are_those_of_their_rows(name, dtype):
    kernels.share()
    x, y = [matrix(seed, dtype) + dtype.type(0.01) for seed in (1, 2)]
    program, g = PROGRAMS[name], matrix(3, dtype)

    def gradients(rows):
        inputs = [rg.tensor(array[rows], requires_grad=True) for array in (x, y)]
        out = program(*inputs)
        return [out.detach(), *rg.autograd.grad(out, inputs, rg.tensor(g[rows]), allow_unused=True)]

    large = gradients(slice(None))
    small = [gradients(slice(start, start + 100)) for start in range(0, 700, 100)]
    for number, array in enumerate(large):
        if array is not None:
            assert type(array.array) is np.ndarray and array.dtype == dtype
            expected = np.concatenate([part[number].numpy() for part in small])
            np.testing.assert_allclose(array.numpy(), expected, rtol=1e-5 if dtype == rg.float32 else 1e-12, atol=1e-6)


@needs_loops
@pytest.mark.slow
def test_second_derivatives_and_forward_mode_of_large_arrays_are_right():
    kernels.share()
    x, t = rg.tensor(matrix(1, np.float64), requires_grad=True), rg.tensor(matrix(2, np.float64))

    def cube(x):
        return x**3 / 3 + (x * x) * x

    (slope,) = rg.autograd.grad(cube(x).sum(), x, create_graph=True)
    (curvature,) = rg.autograd.grad((slope * t).sum(), x)
    np.testing.assert_allclose(slope.detach().numpy(), 4 * x.detach().numpy() ** 2, rtol=1e-12)
    np.testing.assert_allclose(curvature.numpy(), 8 * x.detach().numpy() * t.numpy(), rtol=1e-12)
    _, tangent = rg.func.jvp(cube, (x.detach(),), (t,))
    np.testing.assert_allclose(tangent.numpy(), 4 * x.detach().numpy() ** 2 * t.numpy(), rtol=1e-12)


@needs_loops
@pytest.mark.slow
def test_no_warning_comes_from_a_part():
    kernels.share()
    x = rg.zeros(*SHAPE, requires_grad=True)
    (1 / x).sum().backward()
    assert rg.isinf(x.grad).all()


@needs_loops
@pytest.mark.slow
def test_helpers_are_counted_as_asleep_once_however_loops_and_shares_take_turns():
    kernels.share()
    x, run = matrix(1), chunked.chunked(lambda x: x + 1)
    negative = ufuncs.spread(np.negative, np.negative)
    for _ in range(20):
        negative(x)
        run(x)
    pool = threads._pool
    assert len(pool.asleep) < pool.size


WRITES = {
    "clamp_": lambda x: x.clamp_(-1.0, 0.5),
    "leaky_relu_": lambda x: rg.nn.functional.leaky_relu_(x),
    "neg_": lambda x: x.neg_(),
    "sigmoid_": lambda x: x.sigmoid_(),
    "floor_": lambda x: x.floor_(),
    "atan2_": lambda x: x.atan2_(x),
    "erf_": lambda x: x.erf_(),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", WRITES)
def test_large_arrays_are_written_in_place_in_chunks(name, dtype):
    array = matrix(3, dtype)
    small = array.copy()
    for row in small:
        WRITES[name](rg.from_numpy(row))
    large = rg.from_numpy(array)
    WRITES[name](large)
    np.testing.assert_array_equal(array, small)
    assert large.array is array


def test_a_write_from_memory_that_it_overlaps_reads_the_old_numbers():
    x = rg.from_numpy(matrix(4, shape=(LARGE * 2,)).copy())
    wanted = np.arctan2(x.numpy()[1:], x.numpy()[:-1])
    x[1:].atan2_(x[:-1])
    np.testing.assert_array_equal(x.numpy()[1:], wanted)
