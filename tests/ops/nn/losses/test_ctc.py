"""CTC against every alignment counted one by one, and its gradients through log_softmax."""

import itertools

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import kernels
from retrograd.kernels.loops.sequences import alignments


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


def test_a_sequence_without_an_alignment_has_no_gradient():
    x = F.log_softmax(rg.tensor(np.random.default_rng(0).normal(size=(3, 2, 4))), -1).detach().requires_grad_()
    loss = F.ctc_loss(x, rg.tensor([[1, 2, 3], [1, 1, 2]]), (3, 2), (3, 3), reduction="none")
    loss.sum().backward()
    assert np.isinf(loss[1].item()) and np.isnan(x.grad[:2, 1].numpy()).all()
    assert (x.grad[2, 1] == 0).all() and np.isfinite(x.grad[:, 0].numpy()).all()


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


def large_problem(sharpness=1.0):
    """Sequences of all lengths, also none, with repeated labels and some too long for their inputs."""
    rng = np.random.default_rng(1)
    x = sharpness * rng.standard_normal((40, 12, 7)).astype(np.float32)
    targets = rng.integers(1, 7, (12, 15))
    inputs, lengths = rng.integers(0, 41, 12), rng.integers(0, 16, 12)
    inputs[:3], lengths[:3] = (40, 0, 5), (0, 0, 15)
    return x, targets, inputs, lengths


def value_and_gradient(problem, **options):
    x, targets, inputs, lengths = problem
    leaf = rg.tensor(x, requires_grad=True)
    loss = F.ctc_loss(
        leaf.log_softmax(-1), rg.tensor(targets), rg.tensor(inputs), rg.tensor(lengths), reduction="none", **options
    )
    loss.sum().backward()
    return loss.detach().numpy(), leaf.grad.numpy()


@pytest.mark.parametrize("sharpness", [1.0, 300.0])
@pytest.mark.parametrize("options", [{}, {"zero_infinity": True}])
def test_the_compiled_loop_gives_what_its_reference_gives(sharpness, options, monkeypatch):
    if not kernels.available():
        pytest.skip("there is no library of loops")
    problem = large_problem(sharpness)
    used = []
    takes = alignments.takes
    monkeypatch.setattr(alignments, "takes", lambda *args: used.append(takes(*args)) or used[-1])
    loss, gradient = value_and_gradient(problem, **options)
    assert used == [True, True]
    monkeypatch.setattr(alignments, "takes", lambda *args: False)
    wanted, wanted_gradient = value_and_gradient(problem, **options)
    assert np.isinf(wanted).any() != bool(options)
    assert np.allclose(loss, wanted, rtol=1e-5, atol=1e-4)
    assert np.allclose(gradient, wanted_gradient, atol=2e-3 if sharpness > 1 else 1e-5, equal_nan=True)


def test_nan_among_the_inputs_reaches_the_loss_of_its_sequence_only(monkeypatch):
    problem = large_problem()
    problem[0][3, 5, 0] = np.nan
    problem[2][5], problem[3][5] = 40, 6
    for compiled in (True, False):
        if not compiled:
            monkeypatch.setattr(alignments, "takes", lambda *args: False)
        loss, _ = value_and_gradient(problem)
        assert np.isnan(loss).nonzero()[0].tolist() == [5]


@pytest.mark.parametrize("compiled", [True, False])
def test_large_problems_equal_pytorchs(compiled, monkeypatch):
    torch = pytest.importorskip("torch")
    if not compiled:
        monkeypatch.setattr(alignments, "takes", lambda *args: False)
    x, targets, inputs, lengths = problem = large_problem()
    leaf = torch.from_numpy(x).requires_grad_()
    args = map(torch.from_numpy, (targets, inputs, lengths))
    wanted = torch.nn.functional.ctc_loss(leaf.log_softmax(-1), *args, reduction="none", zero_infinity=True)
    wanted.sum().backward()
    loss, gradient = value_and_gradient(problem, zero_infinity=True)
    assert np.allclose(loss, wanted.detach().numpy(), rtol=1e-5, atol=1e-4)
    assert np.allclose(gradient, leaf.grad.numpy(), atol=1e-5)
