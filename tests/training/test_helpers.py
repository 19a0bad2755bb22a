"""Metrics, early stopping, averages of weights, and accumulation."""

import math

import numpy as np
import pytest

import retrograd as rg
from retrograd.training import (
    EMA,
    AverageMeter,
    ConfusionMatrix,
    EarlyStopping,
    R2Score,
    accumulate,
    accuracy,
)


@pytest.fixture(autouse=True)
def seeded():
    state = rg.get_rng_state()
    rg.manual_seed(0)
    yield
    rg.set_rng_state(state)


def test_average_meter():
    meter = AverageMeter()
    assert math.isnan(meter.avg)
    meter.update(rg.tensor(2.0, requires_grad=True) * 1, n=3)
    meter.update(np.float32(6), n=1)
    assert (meter.val, meter.avg, meter.sum, meter.count) == (6.0, 3.0, 12.0, 4)
    meter.reset()
    assert meter.count == 0


def test_accuracy_is_the_share_of_targets_among_the_largest():
    random = np.random.default_rng(0)
    scores = random.integers(0, 4, size=(200, 6)).astype(np.float32)  # with ties
    target = random.integers(0, 6, size=200)
    order = np.argsort(-scores, axis=1, kind="stable")
    for k in range(1, 7):
        wanted = np.mean([target[row] in order[row, :k] for row in range(200)])
        assert accuracy(rg.tensor(scores), rg.tensor(target), topk=k) == pytest.approx(wanted)
    assert accuracy(scores, target, topk=(1, 6))[1] == 1.0
    assert accuracy(np.full((2, 3), np.nan), np.zeros(2, int)) == 0.0
    assert math.isnan(accuracy(np.zeros((0, 3)), np.zeros(0, int)))
    with pytest.raises(ValueError, match="topk"):
        accuracy(scores, target, topk=7)
    with pytest.raises(ValueError, match=r"\(200, 6\) and \(3,\)"):
        accuracy(scores, target[:3])


def test_confusion_matrix():
    random = np.random.default_rng(0)
    predicted, true = random.integers(0, 3, size=(2, 100))
    confusion = ConfusionMatrix(["cat", "dog", "bird"])
    confusion.update(rg.tensor(predicted[:50]), rg.tensor(true[:50]))
    confusion.update(np.eye(3)[predicted[50:]], true[50:])  # scores
    for row in range(3):
        for column in range(3):
            assert confusion.matrix[row, column] == ((true == row) & (predicted == column)).sum()
    assert confusion.accuracy == pytest.approx((predicted == true).mean())
    assert confusion.precision[1] == pytest.approx((true[predicted == 1] == 1).mean())
    assert confusion.recall[2] == pytest.approx((predicted[true == 2] == 2).mean())
    assert "bird" in str(confusion)
    assert math.isnan(ConfusionMatrix(2).accuracy) and np.isnan(ConfusionMatrix(2).recall).all()
    with pytest.raises(ValueError, match=r"target is outside \[0, 3\)"):
        confusion.update([0], [3])
    with pytest.raises(ValueError, match=r"as the targets, got \("):
        confusion.update([0, 1], [1])


def test_r2_in_pieces_is_r2_at_once_even_far_from_zero():
    random = np.random.default_rng(0)
    y = random.normal(size=1000) + 1e6
    p = y + random.normal(size=1000) * 0.3
    score = R2Score()
    assert math.isnan(score.value)
    for begin, end in ((0, 1), (1, 400), (400, 400), (400, 1000)):
        score.update(rg.tensor(p[begin:end]), rg.tensor(y[begin:end]))
    wanted = 1 - ((y - p) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    assert score.value == pytest.approx(wanted, rel=1e-9)
    with pytest.raises(ValueError, match=r"as the targets, got \("):
        score.update([1.0], [1.0, 2.0])


def test_early_stopping():
    model = rg.nn.Linear(1, 1, bias=False)
    stopping = EarlyStopping(patience=2, min_delta=0.1, mode="max", model=model)
    with pytest.raises(RuntimeError, match="no weights"):
        stopping.restore()
    answers = []
    for epoch, metric in enumerate([1.0, 2.0, 2.05, float("nan"), 0.0]):
        rg.nn.init.constant_(model.weight, epoch)
        answers.append(stopping.step(metric))
    assert answers == [False, False, False, False, True]
    assert (stopping.best, stopping.best_epoch) == (2.0, 1)
    other = EarlyStopping(patience=2, min_delta=0.1, mode="max", model=model)
    other.load_state_dict(stopping.state_dict())
    assert other.step(0.0) is True
    other.restore()
    assert model.weight.item() == 1.0
    with pytest.raises(ValueError, match="mode"):
        EarlyStopping(mode="best")
    with pytest.raises(ValueError, match="negative"):
        EarlyStopping(patience=-1)


def test_ema_is_the_average_of_the_weights_and_gives_the_own_ones_back():
    model = rg.nn.Sequential(rg.nn.Linear(2, 3), rg.nn.BatchNorm1d(3))
    optimizer = rg.optim.SGD(model.parameters(), lr=0.5)
    ema = EMA(model, decay=0.8)
    wanted = {name: value.numpy().astype(float) for name, value in model.state_dict().items()}
    for _ in range(5):
        model(rg.randn(4, 2)).square().sum().backward()
        optimizer.step()
        ema.update()
        for name, value in model.state_dict().items():
            share = 1.0 if name.endswith("num_batches_tracked") else 0.2
            wanted[name] += share * (value.numpy() - wanted[name])
    own = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    array = model[0].weight.array
    with ema.average_parameters():
        for name, value in model.state_dict().items():
            np.testing.assert_allclose(value.numpy(), wanted[name], rtol=1e-5)
        assert not np.array_equal(model[0].weight.detach().numpy(), own["0.weight"])
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), own[name])
    assert model[0].weight.array is array

    other = EMA(model)
    other.load_state_dict(ema.state_dict())
    assert other.decay == 0.8
    np.testing.assert_array_equal(other.averages["0.weight"].numpy(), ema.averages["0.weight"].numpy())
    assert other.averages["0.weight"].array is not ema.averages["0.weight"].array
    with pytest.raises(ValueError, match="names or shapes"):
        EMA(rg.nn.Linear(2, 2)).load_state_dict(ema.state_dict())
    with pytest.raises(ValueError, match="decay"):
        EMA(model, decay=1.5)


def test_accumulated_gradients_are_those_of_the_large_batches():
    x = rg.randn(10, 3)
    weight = rg.ones(3, requires_grad=True)
    gradients = []
    for batch, share, steps in accumulate([x[index : index + 2] for index in range(0, 10, 2)], 3):
        (((batch @ weight) ** 2).mean() * share).backward()
        if steps:
            gradients.append(weight.grad.numpy().copy())
            weight.grad = None
    assert len(gradients) == 2
    for gradient, large in zip(gradients, (x[:6], x[6:])):
        weight.grad = None
        ((large @ weight) ** 2).mean().backward()
        np.testing.assert_allclose(gradient, weight.grad.numpy(), rtol=1e-5)
    with pytest.raises(ValueError, match="positive"):
        next(accumulate([], 0))
