import random

import pytest

from retrograd.scalar import MLP, SGD, Adam, Layer, Neuron, Value

POINTS = [([2.0, 3.0, -1.0], 1.0), ([3.0, -1.0, 0.5], -1.0), ([0.5, 1.0, 1.0], -1.0), ([1.0, 1.0, -1.0], 1.0)]


def squared_error(model):
    return sum((model(x) - y) ** 2 for x, y in POINTS)


def test_shapes_names_and_counts():
    random.seed(0)
    model = MLP(3, [4, 4, 1])
    assert len(model.parameters()) == 41
    assert isinstance(model([1.0, 2.0, 3.0]), Value)
    assert len(Layer(2, 3)([1.0, 2.0])) == 3
    assert repr(MLP(2, [2, 1])) == "MLP of [Layer of [ReLUNeuron(2), ReLUNeuron(2)], Layer of [LinearNeuron(2)]]"
    with pytest.raises(ValueError, match="3 weights do not fit 2 inputs"):
        model([1.0, 2.0])


def test_neuron():
    neuron = Neuron(2)
    for weight, value in zip(neuron.w, (2.0, -3.0), strict=True):
        weight.data = value
    neuron.b.data = 0.5
    out = neuron([Value(2.0), 1.0])
    out.backward()
    assert out.data == 1.5
    assert [p.grad for p in neuron.parameters()] == [2.0, 1.0, 1.0]
    assert neuron([0.0, 1.0]).data == 0.0 and Neuron(2, nonlin=False).nonlin is False


def test_same_numbers_as_micrograd():
    networks = pytest.importorskip("micrograd.nn")
    results = []
    for kind in (MLP, networks.MLP):
        random.seed(3)
        model = kind(3, [4, 4, 1])
        for _ in range(5):
            loss = squared_error(model)
            model.zero_grad()
            loss.backward()
            for p in model.parameters():
                p.data -= 0.01 * p.grad
        results.append([loss.data, *(p.data for p in model.parameters()), *(p.grad for p in model.parameters())])
    assert results[0] == pytest.approx(results[1], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("optimizer", [SGD, Adam])
def test_optimizer_fits_four_points(optimizer):
    random.seed(1)
    model = MLP(3, [4, 4, 1])
    descent = optimizer(model.parameters(), lr=0.02)
    for _ in range(200):
        model.zero_grad()
        loss = squared_error(model)
        loss.backward()
        descent.step()
    assert loss.data < 0.05


def test_steps_agree_with_torch():
    torch = pytest.importorskip("torch")
    for ours, theirs in ((SGD, torch.optim.SGD), (Adam, torch.optim.Adam)):
        x, t = Value(1.3), torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
        step, reference = ours([x], lr=0.1), theirs([t], lr=0.1)
        for _ in range(20):
            x.grad = 0.0
            (x**4 - x * 3).backward()
            step.step()
            reference.zero_grad()
            (t**4 - t * 3).backward()
            reference.step()
        assert x.data == pytest.approx(t.item(), rel=1e-10)
