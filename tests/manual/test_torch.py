"""Layers, losses and optimizers beside PyTorch's, in float64 to 1e-10."""

import numpy as np
import pytest

from retrograd import manual
from tests.manual.test_layers import normal

torch = pytest.importorskip("torch")
nn = torch.nn
F64 = np.float64


def close(ours, theirs):
    np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-10, atol=1e-10)


def compare(ours, theirs, x):
    """Output, input gradient and parameter gradients of the two layers, with the same parameters."""
    theirs.to(torch.float64)
    for name, value in theirs.named_parameters():
        values = normal(*value.shape)
        ours.parameters[name][...] = values
        value.data.copy_(torch.from_numpy(values))
    x_torch = torch.tensor(x, requires_grad=x.dtype.kind == "f")
    y, y_torch = ours.forward(x), theirs(x_torch)
    close(y, y_torch)
    dout = normal(*y.shape)
    dx = ours.backward(dout)
    theirs.zero_grad()
    y_torch.backward(torch.from_numpy(dout))
    if x_torch.requires_grad:
        close(dx, x_torch.grad)
    assert ours.gradients.keys() == dict(theirs.named_parameters()).keys()
    for name, value in theirs.named_parameters():
        close(ours.gradients[name], value.grad)


ELEMENTS = np.array([[-800.0, -1.0, 0.0, 1e-3], [1.0, 3.0, 30.0, 800.0]])
PAIRS = {
    "Linear": (manual.Linear(4, 3, dtype=F64), lambda: nn.Linear(4, 3), normal(2, 5, 4)),
    "Linear, no bias": (manual.Linear(4, 3, bias=False, dtype=F64), lambda: nn.Linear(4, 3, bias=False), normal(5, 4)),
    "ReLU": (manual.ReLU(), nn.ReLU, ELEMENTS),
    "Tanh": (manual.Tanh(), nn.Tanh, ELEMENTS),
    "Sigmoid": (manual.Sigmoid(), nn.Sigmoid, ELEMENTS),
    "Softmax": (manual.Softmax(1), lambda: nn.Softmax(1), 100 * normal(2, 5, 3)),
    "LogSoftmax": (manual.LogSoftmax(0), lambda: nn.LogSoftmax(0), 100 * normal(2, 5, 3)),
    "LayerNorm": (manual.LayerNorm((5, 3), dtype=F64), lambda: nn.LayerNorm((5, 3)), normal(2, 5, 3)),
    "Embedding": (manual.Embedding(6, 3, dtype=F64), lambda: nn.Embedding(6, 3), np.array([[5, 0, 5], [1, 5, 0]])),
    "BatchNorm1d": (manual.BatchNorm1d(3, dtype=F64), lambda: nn.BatchNorm1d(3), normal(7, 3)),
    "MaxPool2d": (manual.MaxPool2d(2), lambda: nn.MaxPool2d(2), normal(2, 3, 5, 6)),
}


@pytest.mark.parametrize("case", PAIRS)
def test_layer(case):
    ours, theirs, x = PAIRS[case]
    compare(ours, theirs(), x)


def test_log_sum_exp():
    x = 100 * normal(3, 4)
    x_torch = torch.tensor(x, requires_grad=True)
    layer = manual.LogSumExp(0)
    y = torch.logsumexp(x_torch, 0)
    close(layer.forward(x), y)
    y.backward(torch.from_numpy(normal(4)))
    close(layer.backward(normal(4)), x_torch.grad)


@pytest.mark.parametrize("kernel", [1, 3, (2, 3), (5, 1)])
@pytest.mark.parametrize("stride", [1, 2, (1, 3)])
@pytest.mark.parametrize("padding", [0, 1, (2, 0)])
def test_convolution(kernel, stride, padding):
    options = {"kernel_size": kernel, "stride": stride, "padding": padding}
    compare(manual.Conv2d(2, 3, **options, dtype=F64), nn.Conv2d(2, 3, **options), normal(2, 2, 7, 6))


@pytest.mark.parametrize(("kernel", "padding"), [(1, 0), (2, 0), (3, 1), ((3, 2), (1, 1)), ((2, 4), (0, 2))])
@pytest.mark.parametrize("stride", [None, 1, 2, (3, 1)])
def test_max_pooling_with_ties(kernel, padding, stride):
    x = np.random.default_rng(0).integers(-2, 2, (2, 3, 7, 6)).astype(F64)
    compare(manual.MaxPool2d(kernel, stride, padding), nn.MaxPool2d(kernel, stride, padding), x)


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5)])
def test_batch_norm_running_statistics(shape):
    ours, theirs = manual.BatchNorm1d(3, momentum=0.3, dtype=F64), nn.BatchNorm1d(3, momentum=0.3)
    for scale in (1.0, 5.0):
        compare(ours, theirs, scale * normal(*shape) + scale)
        close(ours.running_mean, theirs.running_mean)
        close(ours.running_var, theirs.running_var)
    ours.training = False
    compare(ours, theirs.eval(), normal(*shape))
    close(ours.running_var, theirs.running_var)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_cross_entropy(scale):
    x, target = scale * normal(8, 5), np.array([0, 4, 2, 2, 1, 3, 0, 4])
    x_torch = torch.tensor(x, requires_grad=True)
    value = nn.CrossEntropyLoss()(x_torch, torch.from_numpy(target))
    loss = manual.CrossEntropyLoss()
    close(loss.forward(x, target), value)
    (3 * value).backward()
    close(loss.backward(3.0), x_torch.grad)


def test_mean_squared_error():
    x, target = normal(4, 5), normal(5, 4).T
    x_torch = torch.tensor(x, requires_grad=True)
    value = nn.MSELoss()(x_torch, torch.from_numpy(target))
    loss = manual.MSELoss()
    close(loss.forward(x, target), value)
    value.backward()
    close(loss.backward(), x_torch.grad)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("name", ["SGD", "RMSprop"])
def test_optimizer_step_by_step(name, momentum, weight_decay):
    """The larger layer is walked over in several blocks."""
    ours = manual.Net(manual.Linear(300, 100, dtype=F64, rng=0), manual.Tanh(), manual.Linear(100, 2, dtype=F64, rng=1))
    theirs = nn.Sequential(nn.Linear(300, 100), nn.Tanh(), nn.Linear(100, 2)).to(torch.float64)
    for key, value in theirs.named_parameters():
        value.data.copy_(torch.from_numpy(ours.parameters[key]))
    options = {"lr": 0.01, "momentum": momentum, "weight_decay": weight_decay}
    optimizer, optimizer_torch = (
        getattr(manual, name)(ours, **options),
        getattr(torch.optim, name)(theirs.parameters(), **options),
    )
    x, target = normal(10, 300), np.arange(10) % 2
    loss = manual.CrossEntropyLoss()
    for _ in range(6):
        value = loss.forward(ours.forward(x), target)
        ours.backward(loss.backward())
        optimizer.step()
        value_torch = nn.functional.cross_entropy(theirs(torch.from_numpy(x)), torch.from_numpy(target))
        optimizer_torch.zero_grad()
        value_torch.backward()
        optimizer_torch.step()
        close(value, value_torch)
        for key, parameter in theirs.named_parameters():
            close(ours.parameters[key], parameter)
