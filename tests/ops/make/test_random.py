"""Generators, distributions, dropout."""

import pickle
import warnings

import numpy as np
import pytest

import retrograd as rg
from retrograd.ops.make.random_arrays import random_mask

F = rg.nn.functional


@pytest.fixture(autouse=True)
def _seeded():
    state = rg.get_rng_state()
    rg.manual_seed(0)
    yield
    rg.set_rng_state(state)


def test_a_state_brings_the_same_numbers_back():
    generator = rg.Generator().manual_seed(7)
    rg.randint(0, 9, (3,), generator=generator, dtype=rg.int32)
    state = generator.get_state()
    copy = pickle.loads(pickle.dumps(generator))
    first = rg.randn(5, generator=generator).tolist()
    assert rg.randn(5, generator=generator).tolist() != first
    assert rg.randn(5, generator=generator.set_state(state)).tolist() == first
    assert rg.randn(5, generator=copy).tolist() == first
    assert generator.initial_seed() == copy.initial_seed() == 7
    with pytest.raises(RuntimeError, match="set_state"):
        generator.set_state(rg.zeros(3))
    with pytest.raises(TypeError, match="generator"):
        rg.rand(3, generator=1)


def test_the_default_generator_serves_every_function():
    rg.manual_seed(3)
    first = (rg.rand(2), rg.randperm(5), F.dropout(rg.ones(9)), rg.zeros(2).normal_())
    rg.manual_seed(3)
    second = (rg.rand(2), rg.randperm(5), F.dropout(rg.ones(9)), rg.zeros(2).normal_())
    assert [x.tolist() for x in first] == [x.tolist() for x in second]


@pytest.mark.parametrize("dtype", [rg.float16, rg.float32, rg.float64])
def test_distributions(dtype):
    n = 200_000
    uniform, normal = rg.rand(n, dtype=dtype), rg.randn(n, dtype=dtype)
    assert uniform.dtype == normal.dtype == dtype
    u, z = uniform.numpy().astype(float), normal.numpy().astype(float)
    assert u.min() >= 0 and u.max() < 1
    assert abs(u.mean() - 0.5) < 0.004 and abs(u.var() - 1 / 12) < 0.002
    assert abs(z.mean()) < 0.015 and abs(z.var() - 1) < 0.02
    e = rg.empty(n, dtype=dtype).exponential_(2.0).numpy().astype(float)
    assert e.min() >= 0 and abs(e.mean() - 0.5) < 0.01
    w = rg.empty(n, dtype=dtype).uniform_(-3, 1).numpy().astype(float)
    assert w.min() >= -3 and w.max() <= 1 and abs(w.mean() + 1) < 0.02


def test_the_stream_of_other_devices_is_even_and_repeats_with_its_seed():
    generator = rg.Generator().manual_seed(5)
    bits = generator.bits(np, 100_000)
    numbers = (bits >> np.uint64(11)) * 2.0**-53
    assert abs(numbers.mean() - 0.5) < 0.005 and abs(numbers.var() - 1 / 12) < 0.002
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.01
    assert len(np.unique(bits)) == bits.size
    again = rg.Generator().manual_seed(5)
    assert np.array_equal(np.concatenate([again.bits(np, 400), again.bits(np, 600)]), bits[:1000])
    neighbour = (rg.Generator().manual_seed(6).bits(np, 100_000) >> np.uint64(11)) * 2.0**-53
    assert abs(np.corrcoef(numbers, neighbour)[0, 1]) < 0.01


def test_integers_permutations_and_choices():
    assert set(rg.randint(-1, 2, (1000,)).tolist()) == {-1, 0, 1}
    assert sorted(rg.randperm(50).tolist()) == list(range(50))
    assert rg.randint(3, (2, 2), dtype=rg.float32).dtype == rg.float32
    weights = rg.tensor([[1.0, 0.0, 3.0], [0.0, 2.0, 2.0]])
    counts = np.stack([np.bincount(row, minlength=3) for row in rg.multinomial(weights, 20_000, True).numpy()]) / 20_000
    np.testing.assert_allclose(counts, [[0.25, 0, 0.75], [0, 0.5, 0.5]], atol=0.015)
    drawn = rg.multinomial(rg.ones(100, 5), 5)
    assert all(sorted(row) == [0, 1, 2, 3, 4] for row in drawn.tolist())
    first = np.array([rg.multinomial(weights[0], 1).item() for _ in range(2000)])
    assert abs((first == 2).mean() - 0.75) < 0.03
    np.testing.assert_allclose(rg.bernoulli(rg.full((20_000,), 0.3)).mean().item(), 0.3, atol=0.015)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: rg.randint(3, 3, (2,)), RuntimeError),
        (lambda: rg.randperm(-1), RuntimeError),
        (lambda: rg.normal(0.0, -1.0, (2,)), RuntimeError),
        (lambda: rg.bernoulli(rg.tensor([1.5])), RuntimeError),
        (lambda: rg.multinomial(rg.tensor([0.0, -1.0]), 1), RuntimeError),
        (lambda: rg.multinomial(rg.tensor([0.0, 0.0]), 1), RuntimeError),
        (lambda: rg.multinomial(rg.tensor([0.0, 1.0]), 3), RuntimeError),
        (lambda: rg.rand(2, dtype=rg.int64), NotImplementedError),
        (lambda: rg.zeros(2).exponential_(-1), RuntimeError),
        (lambda: rg.zeros(2).uniform_(1, 0), RuntimeError),
        (lambda: rg.zeros(2).random_(3, 3), RuntimeError),
        (lambda: rg.zeros(-1), RuntimeError),
        (lambda: rg.arange(0, 3, -1), RuntimeError),
        (lambda: rg.arange(0, 3, 0), RuntimeError),
        (lambda: rg.from_numpy([1]), TypeError),
        (lambda: rg.tensor([1], requires_grad=True), RuntimeError),
        (lambda: F.dropout(rg.ones(2), 1.5), ValueError),
        (lambda: F.dropout2d(rg.ones(2)), RuntimeError),
    ],
)
def test_bad_arguments(call, error):
    with pytest.raises(error):
        call()


def test_dropout_scales_what_it_keeps_and_its_gradient_alike():
    x = rg.full((100_000,), 2.0, requires_grad=True)
    y = F.dropout(x, 0.25)
    kept = y.detach().numpy() != 0
    assert abs(kept.mean() - 0.75) < 0.01
    np.testing.assert_allclose(y.detach().numpy()[kept], 2 / 0.75, rtol=1e-6)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), kept / 0.75, rtol=1e-6)
    assert F.dropout(x, 0.25, training=False) is x
    assert F.dropout(x, 0.0).tolist() == x.tolist()
    assert not F.dropout(rg.ones(9), 1.0).numpy().any()


def test_dropout_in_place():
    x = rg.ones(1000)
    memory = x.array
    assert F.dropout(x, 0.5, inplace=True) is x and x.array is memory
    assert set(x.tolist()) == {0.0, 2.0}
    leaf = rg.ones(1000, requires_grad=True)
    y = leaf * 1
    F.dropout(y, 0.5, inplace=True)
    y.sum().backward()
    assert leaf.grad.tolist() == y.tolist()


def test_channels_fall_together_and_alpha_dropout_keeps_the_moments():
    y = F.dropout2d(rg.ones(20, 30, 4, 5), 0.5).numpy()
    assert np.array_equal(y, np.broadcast_to(y[:, :, :1, :1], y.shape)) and set(y.ravel().tolist()) == {0.0, 2.0}
    z = F.alpha_dropout(rg.randn(200_000), 0.3, training=True).numpy()
    assert abs(z.mean()) < 0.02 and abs(z.var() - 1) < 0.03
    f = F.feature_alpha_dropout(rg.zeros(20, 30, 4), 0.3, training=True).numpy()
    assert np.array_equal(f, np.broadcast_to(f[:, :, :1], f.shape)) and len(np.unique(f)) == 2


@pytest.mark.parametrize(("name", "dims"), [(f"dropout{n}d", dims) for n in (1, 2, 3) for dims in range(1, 7)])
def test_which_dimensions_fall_together_is_as_in_pytorch(name, dims):
    """Warned of or refused there, where the input has other dimensions than the name says, so here."""
    torch = pytest.importorskip("torch")

    def decisions(library):
        library.manual_seed(0)
        x = library.ones(6, 5, 4, 3, 2, 2)[(slice(None),) * dims + (0,) * (6 - dims)].clone()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                y = getattr(library.nn.functional, name)(x).numpy()
            except RuntimeError:
                return "refused"
        apart = [axis for axis in range(dims) if not (y == y.take([0], axis)).all()]
        return apart, {each.category for each in told}

    assert decisions(rg) == decisions(torch)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rg.zeros(2).uniform_(fro=1), "fro"),
        (lambda: rg.zeros(2).random_(upto=1), "upto"),
        (lambda: rg.rand(2, sizes=3), "sizes"),
        (lambda: rg.zeros(2, shapes=3), "shapes"),
        (lambda: rg.zeros(size=(2,), shape=(3,)), "shape"),
        (lambda: rg.arange(0, 3, until=3), "until"),
        (lambda: rg.arange(1j), "'end'.*1j"),
        (lambda: rg.full((2,), rg.ones(2)), "'fill_value'"),
    ],
)
def test_an_argument_that_is_not_known_or_no_number_is_named(call, words):
    with pytest.raises(TypeError, match=words):
        call()


def test_uniform_refuses_a_range_wider_than_its_dtype():
    with pytest.raises(RuntimeError, match="wider than the range of float32"):
        rg.zeros(2).uniform_(-3e38, 3e38)


def test_seeds_of_more_than_64_bits_are_refused():
    for seed in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match="64 bits"):
            rg.Generator().manual_seed(seed)


def test_weights_of_no_rows_give_no_rows_and_weights_of_no_positions_are_refused():
    assert rg.multinomial(rg.ones(0, 3), 2, replacement=True).shape == (0, 2)
    assert rg.multinomial(rg.ones(0, 3), 2).shape == (0, 2)
    with pytest.raises(RuntimeError, match="no position"):
        rg.multinomial(rg.ones(2, 0), 1, replacement=True)


def test_bernoulli_writes_truth_values_and_integers():
    for dtype in (rg.bool, rg.uint8, rg.int64):
        assert rg.bernoulli(rg.tensor([0.0, 1.0]), out=rg.zeros(2, dtype=dtype)).tolist() == [0, 1]


def test_tolerances_that_require_grad_are_refused():
    for function in (rg.isclose, rg.allclose):
        with pytest.raises(TypeError, match="requires grad"):
            function(rg.ones(1), rg.ones(1), rtol=rg.tensor(1.0, requires_grad=True))


def test_exponential_numbers_of_float16_are_above_zero_at_every_finite_rate():
    assert bool((rg.zeros(10_000, dtype=rg.float16).exponential_(1e6) > 0).all())
    assert rg.zeros(3, dtype=rg.float16).exponential_(float("inf")).tolist() == [0, 0, 0]


def test_uniform_draws_both_parts_of_a_complex_number():
    x = rg.empty(1000, dtype=rg.complex64).uniform_(2, 3)
    for part in (x.real, x.imag):
        assert 2 <= part.min() < 2.05 and 2.95 < part.max() < 3


@pytest.mark.parametrize("dtype, end", [(rg.float16, 65504), (rg.bfloat16, 2**30 + 1), (rg.float32, 2**40 + 7)])
def test_random_integers_of_floating_dtypes_stay_below_the_end_that_rounding_would_reach(dtype, end):
    with pytest.warns(UserWarning, match="to - 1 is out of bounds"):
        drawn = rg.zeros(5000, dtype=dtype).random_(end).double()
    assert drawn.min() >= 0 and 0.99 * end < drawn.max() < end


@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("size", [20_000, 20_001])
def test_threads_draw_the_numbers_of_numpy(left, size):
    # A draw of an odd number of elements leaves half of an output for the next one.
    stream = np.random.Generator(np.random.PCG64(5))
    generator = rg.Generator().manual_seed(5)
    assert rg.rand(left, generator=generator).tolist() == stream.random(left, np.float32).tolist()
    for _ in range(2):
        drawn = rg.rand(size, generator=generator).numpy()
        np.testing.assert_array_equal(drawn, stream.random(size, np.float32))
    mask = random_mask(np, (2, size), 0.3, generator)
    np.testing.assert_array_equal(mask, stream.random((2, size), np.float32) < np.float32(0.3))
    assert rg.rand(3, generator=generator).tolist() == stream.random(3, np.float32).tolist()
