"""Losses, pooling and bags under vmap, with mapped weights, targets, lengths and indices: against a loop."""

from itertools import combinations

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd.func import grad, vmap

RNG = np.random.default_rng(0)
SIZE = 3  # how many examples


def normal(*shape):
    return rg.Tensor(RNG.standard_normal((SIZE, *shape)))


def positive(*shape):
    return normal(*shape).abs()


def numbers(high, *shape, low=0):
    return rg.tensor(RNG.integers(low, high, (SIZE, *shape)))


IMAGE = normal(2, 4, 5)
LOG_PROBS = normal(6, 2, 5).log_softmax(-1)
PLACES = rg.arange(4).reshape(2, 2).expand(SIZE, 2, 2, 2).contiguous()
OFFSETS = rg.tensor([[0, 2, 4], [0, 1, 5], [0, 0, 6]])

# A function, and its arguments, each with the examples in front. The floating ones are differentiated.
CALLS = {
    "nll_loss": (lambda x, t, w: F.nll_loss(x, t, w), normal(4, 5), numbers(5, 4), positive(5)),
    "nll_loss, ignored": (
        lambda x, t, w: F.nll_loss(x, t, w, ignore_index=2, reduction="none"), normal(4, 5), numbers(5, 4), positive(5)
    ),
    "cross_entropy": (lambda x, t, w: F.cross_entropy(x, t, w), normal(4, 5), numbers(5, 4), positive(5)),
    "cross_entropy, smoothed": (
        lambda x, t, w: F.cross_entropy(x, t, w, ignore_index=1, label_smoothing=0.2, reduction="sum"),
        normal(4, 5, 2), numbers(5, 4, 2), positive(5),
    ),
    "cross_entropy of probabilities": (
        lambda x, t, w: F.cross_entropy(x, t, w, label_smoothing=0.2), normal(4, 5), positive(4, 5), positive(5)
    ),
    "linear_cross_entropy": (
        lambda x, m, t, w: F.linear_cross_entropy(x, m, t, weight=w),
        normal(4, 6), normal(5, 6), numbers(5, 4), positive(5),
    ),
    "multi_margin_loss": (
        lambda x, t, w: F.multi_margin_loss(x, t, weight=w, p=2), normal(4, 5), numbers(5, 4), positive(5)
    ),
    "gaussian_nll_loss": (lambda x, t, v: F.gaussian_nll_loss(x, t, v), normal(4), normal(4), positive(4)),
    "ctc_loss": (lambda x, t: F.ctc_loss(x, t, (6, 6), (2, 3)), LOG_PROBS, numbers(5, 2, 3, low=1)),
    "ctc_loss, one target after the other": (
        lambda x, t: F.ctc_loss(x, t, (6, 6), (2, 3), reduction="none"), LOG_PROBS, numbers(5, 5, low=1)
    ),
    "ctc_loss, lengths": (
        lambda x, t, steps, lengths: F.ctc_loss(x, t, steps, lengths, reduction="sum"),
        LOG_PROBS, numbers(5, 2, 3, low=1), numbers(7, 2, low=5), numbers(4, 2, low=1),
    ),
    "max_pool2d, places": (lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), IMAGE),
    "max_pool2d, places, ceil_mode": (lambda x: F.max_pool2d(x, 2, ceil_mode=True, return_indices=True), IMAGE),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (2, 3), return_indices=True), IMAGE),
    "max_unpool2d": (lambda x, places: F.max_unpool2d(x, places, 2), normal(2, 2, 2), PLACES),
    **{
        f"embedding_bag, {mode}": (
            lambda i, w, o, mode=mode: F.embedding_bag(i, w, o, mode=mode), numbers(7, 6), normal(7, 2), OFFSETS
        )
        for mode in ("sum", "mean", "max")
    },
    "embedding_bag, factors": (
        lambda i, w, o, p: F.embedding_bag(i, w, o, per_sample_weights=p, mode="sum", padding_idx=2),
        numbers(4, 6), normal(4, 2), OFFSETS, normal(6),
    ),
    "embedding_bag, padding": (
        lambda i, w, o: F.embedding_bag(i, w, o, mode="mean", padding_idx=2), numbers(4, 6), normal(4, 2), OFFSETS
    ),
}  # fmt: skip


def of_all(function, mapped, inputs):
    """The results on each example, by a loop; the arguments that are not mapped are those of the first."""
    calls = [function(*[x[i] if m else x[0] for x, m in zip(inputs, mapped)]) for i in range(SIZE)]
    calls = [call if isinstance(call, tuple) else (call,) for call in calls]
    return [np.stack([part.numpy() for part in column]) for column in zip(*calls)]


@pytest.mark.parametrize("name", CALLS)
def test_a_loss_or_pooling_of_each_example_equals_a_loop(name):
    function, *inputs = CALLS[name]
    floating = tuple(place for place, x in enumerate(inputs) if x.is_floating_point())

    def total(*args):
        result = function(*args)
        return ((result[0] if isinstance(result, tuple) else result) ** 2).sum()

    for count in range(1, len(inputs) + 1):
        for places in combinations(range(len(inputs)), count):
            mapped = [place in places for place in range(len(inputs))]
            given = [x if m else x[0] for x, m in zip(inputs, mapped)]
            dims = tuple([0 if m else None for m in mapped])
            for f in (function, grad(total, floating)):
                found = vmap(f, dims)(*given)
                found = found if isinstance(found, tuple) else (found,)
                for got, wanted in zip(found, of_all(f, mapped, inputs), strict=True):
                    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-7, atol=1e-9, err_msg=f"{places}")


def test_two_mapped_functions_find_the_places_of_maxima():
    x = rg.Tensor(RNG.standard_normal((2, 3, 2, 4, 5)))
    found = vmap(vmap(lambda x: F.max_pool2d(x, 2, ceil_mode=True, return_indices=True).indices))(x)
    wanted = [[F.max_pool2d(b, 2, ceil_mode=True, return_indices=True).indices.tolist() for b in a] for a in x]
    assert found.tolist() == wanted
    assert vmap(lambda x: F.max_pool2d(x, 2, return_indices=True).indices)(rg.ones(0, 2, 4, 4)).shape == (0, 2, 2, 2)


def ctc_of(targets, steps=(6, 6)):
    return F.ctc_loss(LOG_PROBS[0], targets, steps, [1, 1])


def bags_at(offsets):
    return F.embedding_bag(rg.arange(3), rg.ones(3, 2), offsets)


WRONG = {
    "a variance": (lambda v: F.gaussian_nll_loss(rg.ones(1), rg.ones(1), v), [[1.0], [-1.0]], "negative"),
    "a label that is the blank": (ctc_of, [[[1], [2]], [[1], [0]]], "blank"),
    "a label beyond the classes": (ctc_of, [[[1], [2]], [[1], [5]]], "range"),
    "a length": (lambda steps: ctc_of(rg.tensor([[1], [2]]), steps), [[6, 6], [6, 7]], "between"),
    "a place": (lambda places: F.max_unpool1d(rg.ones(1, 2), places, 2), [[[0, 1]], [[0, 9]]], "max index"),
    "an offset": (bags_at, [[0, 1], [0, 4]], "offsets"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_bad_value_of_any_example_is_an_error(name):
    function, values, what = WRONG[name]
    with pytest.raises((RuntimeError, ValueError), match=what):
        vmap(function)(rg.tensor(values))


def test_batch_normalization_of_a_vector_without_elements_is_empty():
    assert F.batch_norm(rg.ones(0), rg.ones(0), rg.ones(0), training=True).shape == (0,)
