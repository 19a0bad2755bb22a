"""CTC against every alignment counted one by one, and its gradients through log_softmax."""

import itertools

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F


def logits(*shape):
    return rg.tensor(np.random.default_rng(0).standard_normal(shape), requires_grad=True)


def by_counting(log_probs, target, blank=0):
    """The sum over all paths that collapse to the target."""
    steps, classes = log_probs.shape
    total = 0.0
    for path in itertools.product(range(classes), repeat=steps):
        collapsed = [c for c, _ in itertools.groupby(path) if c != blank]
        if collapsed == list(target):
            total += np.exp(sum(log_probs[t, c] for t, c in enumerate(path)))
    return -np.log(total)


@pytest.mark.parametrize("target", [[], [1], [1, 2], [1, 1], [2, 1, 2]])
def test_value_is_the_sum_over_alignments(target):
    x = logits(5, 3).detach().log_softmax(-1)
    got = F.ctc_loss(x, rg.tensor(np.array(target, np.int64)), (5,), (len(target),), reduction="sum")
    assert got.item() == pytest.approx(by_counting(x.numpy(), target), rel=1e-12)


def test_gradients_through_log_softmax():
    def loss(x):
        targets = rg.tensor(np.array([[1, 1], [3, 2]]))
        return F.ctc_loss(x.log_softmax(-1), targets, (4, 3), (2, 2))

    x = logits(4, 2, 4)
    assert rg.autograd.gradcheck(loss, (x,))
    assert rg.autograd.gradgradcheck(loss, (x,))


def test_too_short_an_input():
    x = logits(2, 1, 3)
    targets = rg.tensor(np.array([[1, 1]]))
    assert F.ctc_loss(x.log_softmax(-1), targets, (2,), (2,)).item() == np.inf
    loss = F.ctc_loss(x.log_softmax(-1), targets, (2,), (2,), zero_infinity=True)
    loss.backward()
    assert loss.item() == 0
    assert not x.grad.numpy().any()


@pytest.mark.parametrize(
    ("targets", "inputs", "lengths", "options"),
    [
        ([[1, 2]], (4,), (1,), {}),
        ([[1, 2], [1, 2]], (4, 5), (2, 2), {}),
        ([[1, 2], [1, 2]], (4, 4), (2, 3), {}),
        ([[1, 2], [1, 5]], (4, 4), (2, 2), {}),
        ([[1, 2], [1, 0]], (4, 4), (2, 2), {}),
        ([1, 2, 1], (4, 4), (2, 2), {}),
        ([[1, 2], [1, 2]], (4, 4), (2, 2), {"blank": 3}),
    ],
)
def test_errors(targets, inputs, lengths, options):
    with pytest.raises(RuntimeError, match="ctc_loss"):
        F.ctc_loss(logits(4, 2, 3).log_softmax(-1), rg.tensor(np.array(targets)), inputs, lengths, **options)
