"""``retrograd.random``: numbers as pure functions of keys."""

import numpy as np
import pytest

import retrograd as rg
from retrograd import random
from retrograd.func import grad, vmap

stats = pytest.importorskip("scipy.stats")

KEY = random.key(7)
DRAWS = {
    "uniform": lambda key: random.uniform(key, (3,)),
    "uniform in float16": lambda key: random.uniform(key, (3,), rg.float16),
    "normal": lambda key: random.normal(key, (2, 2), rg.float64),
    "randint": lambda key: random.randint(key, (4,), -(2**63), 2**63),
    "bernoulli": lambda key: random.bernoulli(key, 0.3, (9,)),
    "permutation of an integer": lambda key: random.permutation(key, 6),
    "permutation of rows": lambda key: random.permutation(key, rg.arange(12).reshape(4, 3)),
    "independent permutation": lambda key: random.permutation(key, rg.arange(12).reshape(4, 3), 1, independent=True),
    "categorical": lambda key: random.categorical(key, rg.arange(5.0), shape=(6,)),
    "split": lambda key: random.split(key, 3),
    "fold_in": lambda key: random.fold_in(key, 5),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_is_a_function_of_its_key_alone_also_mapped_over_keys_and_compiled(name):
    draw, keys = DRAWS[name], random.split(KEY, 4)
    rg.manual_seed(0)
    wanted = rg.stack([draw(key) for key in keys])
    rg.manual_seed(1)
    assert bool((vmap(draw)(keys) == wanted).all())
    nested = vmap(vmap(draw))(keys.reshape(2, 2, 2))
    assert bool((nested.reshape(wanted.shape) == wanted).all())
    compiled = rg.compile(draw)
    assert all(bool((compiled(key) == row).all()) for key, row in zip(keys, wanted, strict=True))
    assert not bool((wanted[0] == wanted[1]).all())


def test_the_numbers_of_a_seed_stay_the_same_in_every_version():
    assert random.key(7).tolist() == [7, 0] and random.key(-1).tolist() == [2**64 - 1, 0]
    key = random.key(0)
    assert random.split(key).tolist() == [
        [6312158256571094726, 10634814581434429480],
        [1598446939479630672, 11723492092571950057],
    ]
    assert random.fold_in(key, 3).tolist() == [6567421106511386104, 11531618969113360945]
    assert random.randint(key, (3,), 0, 1000).tolist() == [259, 458, 49]
    np.testing.assert_allclose(
        random.uniform(key, (3,), rg.float64),
        [0.011546754286331562, 0.24154919656271812, 0.11142585551493822],
        rtol=1e-15,
    )
    np.testing.assert_allclose(
        random.normal(key, (2,), rg.float64), [0.1165565154909856, -0.6835324004378501], rtol=1e-12
    )
    assert random.permutation(key, 5).tolist() == [0, 2, 1, 4, 3]


def test_keys_that_are_split_or_folded_differ_and_their_numbers_are_those_of_the_distributions():
    keys = rg.cat([random.split(KEY, 500), rg.stack([random.fold_in(KEY, step) for step in range(-250, 250)])])
    assert len(set(map(tuple, keys.tolist()))) == 1000
    assert bool((vmap(random.fold_in, (None, 0))(KEY, rg.arange(-250, 250)) == keys[500:]).all())
    for draws in (
        vmap(lambda key: random.uniform(key, (), rg.float64))(keys),
        random.uniform(KEY, (1000,), rg.float64),
    ):
        assert stats.kstest(draws.numpy(), "uniform").pvalue > 1e-3
    assert stats.kstest(random.normal(KEY, (5000,), rg.float64).numpy(), "norm").pvalue > 1e-3
    counts = random.randint(KEY, (6000,), 1, 7).bincount()[1:]
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3
    weights = np.array([0.2, 0.0, 0.3, 0.5])
    drawn = random.categorical(KEY, rg.log(rg.tensor(weights)), shape=(5000,)).bincount(minlength=4).numpy()
    assert drawn[1] == 0 and stats.chisquare(drawn[[0, 2, 3]], 5000 * weights[[0, 2, 3]]).pvalue > 1e-3
    assert abs(random.bernoulli(KEY, 0.3, (5000,)).double().mean().item() - 0.3) < 0.03
    orders = vmap(lambda key: random.permutation(key, 3))(keys) @ rg.tensor([9, 3, 1])
    assert stats.chisquare(np.unique(orders.numpy(), return_counts=True)[1]).pvalue > 1e-3


def test_parameters_map_and_differentiate_and_shapes_follow_the_arguments():
    assert bool((vmap(lambda p: random.bernoulli(KEY, p))(rg.tensor([0.0, 1.0])) == rg.tensor([False, True])).all())
    assert vmap(random.categorical)(random.split(KEY, 3), rg.eye(3) * 100).tolist() == [0, 1, 2]
    assert random.categorical(KEY, rg.zeros(3, 4), axis=0).shape == (4,)
    assert random.categorical(KEY, rg.zeros(3, 4), axis=1, shape=(5, 3)).shape == (5, 3)
    unit = random.uniform(KEY, (3,), rg.float64)
    np.testing.assert_allclose(
        grad(lambda top: random.uniform(KEY, (3,), rg.float64, maxval=top).sum())(rg.tensor(2.0)), unit.sum(), rtol=1e-6
    )
    assert random.normal(KEY).shape == () and random.uniform(KEY, 2).dtype == rg.float32
    assert sorted(random.permutation(KEY, rg.arange(12).reshape(4, 3), 1)[0].tolist()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: random.normal(random.split(KEY)), TypeError, r"one key, uint64\(2,\), got uint64\(2, 2\).*func\.vmap"),
        (lambda: random.normal(0), TypeError, "a key from retrograd.random.key, got int"),
        (lambda: random.key(2**64), ValueError, "64 bits"),
        (lambda: random.split(KEY, -1), ValueError, "must not be negative"),
        (lambda: random.fold_in(KEY, 1.5), TypeError, "data must be an integer"),
        (lambda: random.bernoulli(KEY, rg.tensor([0.5, np.nan])), ValueError, r"in \[0, 1\]"),
        (lambda: random.categorical(KEY, rg.tensor([-np.inf, -np.inf])), ValueError, "must be finite"),
        (lambda: random.randint(KEY, (1,), 3, 3), ValueError, "below maxval"),
        (lambda: random.randint(KEY, (1,), 0, 300, rg.uint8), RuntimeError, "out of bounds"),
        (lambda: random.uniform(KEY, (2,), rg.int64), NotImplementedError, "floating dtype"),
        (lambda: random.gauss, AttributeError, "no attribute 'gauss'"),
    ],
)
def test_wrong_arguments_of_keys_and_draws_are_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_pytorchs_names_stay_in_the_module():
    random.manual_seed(3)
    first = rg.rand(2)
    with random.fork_rng():
        rg.rand(5)
    random.manual_seed(3)
    assert bool((rg.rand(2) == first).all()) and random.initial_seed() == 3
