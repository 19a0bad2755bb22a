"""Manual layers and the engine give the same outputs and gradients, in float64 to 1e-10."""

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import manual, nn, scalar
from tests.manual.test_layers import normal

F64 = np.float64
IMAGES = normal(2, 2, 6, 5)
ELEMENTS = np.array([[-800.0, -1.0, 0.0, 1e-3], [1.0, 3.0, 30.0, 800.0]])

PAIRS = {
    "Linear": (lambda: manual.Linear(4, 3, dtype=F64), lambda: nn.Linear(4, 3), normal(2, 5, 4)),
    "ReLU": (manual.ReLU, nn.ReLU, ELEMENTS),
    "Tanh": (manual.Tanh, nn.Tanh, ELEMENTS),
    "Sigmoid": (manual.Sigmoid, nn.Sigmoid, ELEMENTS),
    "Softmax": (lambda: manual.Softmax(1), lambda: nn.Softmax(1), 10 * normal(2, 5, 3)),
    "LogSoftmax": (lambda: manual.LogSoftmax(0), lambda: nn.LogSoftmax(0), 10 * normal(2, 5, 3)),
    "LayerNorm": (lambda: manual.LayerNorm((5, 3), dtype=F64), lambda: nn.LayerNorm((5, 3)), normal(2, 5, 3)),
    "BatchNorm1d": (lambda: manual.BatchNorm1d(3, dtype=F64), lambda: nn.BatchNorm1d(3), normal(7, 3)),
    "Embedding": (
        lambda: manual.Embedding(6, 3, dtype=F64),
        lambda: nn.Embedding(6, 3),
        np.array([[5, 0, 5], [1, 5, 0]]),
    ),
    "Conv2d": (
        lambda: manual.Conv2d(2, 3, 3, stride=2, padding=1, dtype=F64),
        lambda: nn.Conv2d(2, 3, 3, stride=2, padding=1),
        IMAGES,
    ),
    "MaxPool2d": (lambda: manual.MaxPool2d(2), lambda: nn.MaxPool2d(2), IMAGES),
}


def close(ours, theirs):
    np.testing.assert_allclose(ours, theirs.numpy(force=True), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_layer(name):
    make_manual, make_engine, x = PAIRS[name]
    layer, module = make_manual(), make_engine().double()
    for key, parameter in module.named_parameters():
        values = normal(*parameter.shape)
        layer.parameters[key][...] = values
        with rg.no_grad():
            parameter.copy_(rg.from_numpy(values))
    inputs = rg.tensor(x, requires_grad=x.dtype.kind == "f")
    y, expected = layer.forward(x), module(inputs)
    close(y, expected)
    dout = normal(*y.shape)
    dx = layer.backward(dout)
    expected.backward(rg.from_numpy(dout))
    if inputs.requires_grad:
        close(dx, inputs.grad)
    for key, parameter in module.named_parameters():
        close(layer.gradients[key], parameter.grad)


@pytest.mark.parametrize("name", ["cross entropy", "mean squared error"])
def test_loss(name):
    x = normal(6, 4)
    if name == "cross entropy":
        loss, function, target = manual.CrossEntropyLoss(), F.cross_entropy, np.array([0, 3, 1, 1, 2, 0])
    else:
        loss, function, target = manual.MSELoss(), F.mse_loss, normal(6, 4) + 1
    inputs = rg.tensor(x, requires_grad=True)
    expected = function(inputs, rg.from_numpy(target))
    assert loss.forward(x, target) == pytest.approx(expected.item(), rel=1e-12)
    expected.backward()
    close(loss.backward(), inputs.grad)


def test_log_sum_exp_and_dropout():
    x = 10 * normal(3, 4)
    inputs = rg.tensor(x, requires_grad=True)
    layer = manual.LogSumExp(0)
    expected = inputs.logsumexp(0)
    close(layer.forward(x), expected)
    expected.backward(rg.from_numpy(normal(4)))
    close(layer.backward(normal(4)), inputs.grad)

    dropout = manual.Dropout(0.5, rng=np.random.default_rng(0))
    kept = dropout.forward(np.ones((50, 40))) / 2
    weights = normal(50, 40)
    assert set(np.unique(kept)) == {0.0, 1.0}
    leaf = rg.tensor(normal(50, 40), requires_grad=True)
    (leaf * rg.from_numpy(kept) * 2).backward(rg.from_numpy(weights))
    close(dropout.backward(weights), leaf.grad)


def test_value_manual_layers_and_engine_agree_on_a_network():
    """The same MLP(3, [4, 4, 1]) on single numbers, by hand, and on Tensors."""
    rng = np.random.default_rng(0)
    sizes = [3, 4, 4, 1]
    weights = [rng.standard_normal((n, m)) for m, n in zip(sizes, sizes[1:])]
    biases = [rng.standard_normal(n) for n in sizes[1:]]
    x = rng.standard_normal(3)

    net = manual.Net(
        *(
            layer
            for index, (m, n) in enumerate(zip(sizes, sizes[1:]))
            for layer in [manual.Linear(m, n, dtype=F64)] + ([manual.ReLU()] if index < 2 else [])
        )
    )
    tensors = [rg.tensor(a, requires_grad=True) for pair in zip(weights, biases) for a in pair]
    model = scalar.MLP(3, [4, 4, 1], activation="relu")
    for index, (w, b) in enumerate(zip(weights, biases)):
        net.parameters[f"{2 * index}.weight"][...] = w
        net.parameters[f"{2 * index}.bias"][...] = b
        for neuron, row, offset in zip(model.layers[index].neurons, w, b):
            neuron.b.data = float(offset)
            for value, number in zip(neuron.w, row):
                value.data = float(number)

    by_hand = net.forward(x[None])
    net.backward(np.ones((1, 1)))
    y = rg.tensor(x)
    for index in range(3):
        y = F.linear(y, tensors[2 * index], tensors[2 * index + 1])
        y = y.relu() if index < 2 else y
    y.backward()
    single = model([scalar.Value(float(number)) for number in x])
    single.backward()

    assert by_hand.item() == pytest.approx(y.item(), rel=1e-12) == pytest.approx(single.data, rel=1e-12)
    for index in range(3):
        close(net.gradients[f"{2 * index}.weight"], tensors[2 * index].grad)
        close(net.gradients[f"{2 * index}.bias"], tensors[2 * index + 1].grad)
        neurons = model.layers[index].neurons
        close([[value.grad for value in neuron.w] for neuron in neurons], tensors[2 * index].grad)
        close([neuron.b.grad for neuron in neurons], tensors[2 * index + 1].grad)
