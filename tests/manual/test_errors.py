"""Every mistake gets an error of its type that names the layer and what it was given."""

import numpy as np
import pytest

from retrograd import manual

F32 = np.float32


def after_forward(layer, *arguments):
    layer.forward(*arguments)
    return layer


def ones(*shape, dtype=F32):
    return np.ones(shape, dtype)


class Broken:
    """A layer with one parameter and its gradient, whatever they are."""

    def __init__(self, parameter, gradient):
        self.parameters, self.gradients = {"theta": parameter}, {"theta": gradient}


LAYERS = [
    manual.Linear(2, 3),
    manual.ReLU(),
    manual.Tanh(),
    manual.Sigmoid(),
    manual.Softmax(),
    manual.LogSoftmax(),
    manual.LogSumExp(),
    manual.LayerNorm(2),
    manual.BatchNorm1d(2),
    manual.Conv2d(1, 1, 2),
    manual.MaxPool2d(2),
    manual.Dropout(),
    manual.Embedding(3, 2),
    manual.CrossEntropyLoss(),
    manual.MSELoss(),
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_backward_before_forward(layer):
    with pytest.raises(RuntimeError, match=rf"{type(layer).__name__}\(.*backward: call forward first"):
        layer.backward(np.ones((1, 1), F32))


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_input_of_a_wrong_kind(layer):
    wrong = ones(2, 2) if isinstance(layer, manual.Embedding) else np.ones((2, 2), np.int64)
    target = [wrong] if isinstance(layer, manual.CrossEntropyLoss | manual.MSELoss) else []
    for x in (wrong, [[1.0, 2.0]], wrong.astype(bool)):
        with pytest.raises(TypeError, match=type(layer).__name__):
            layer.forward(x, *target)


NET_WITHOUT_INPUT_GRADIENT = manual.Net(manual.Tanh(), manual.Linear(2, 2, input_gradient=False))

WRONG = {
    "Linear, last axis": (lambda: manual.Linear(4, 3).forward(ones(5, 3)), ValueError, r"Linear\(4, 3\).*\(5, 3\)"),
    "Linear, 0-d": (lambda: manual.Linear(4, 3).forward(ones()), ValueError, r"Linear\(4, 3\).*\(\)"),
    "Linear, float64": (lambda: manual.Linear(4, 3).forward(np.ones((5, 4))), TypeError, "float64.*float32"),
    "Linear, dout shape": (
        lambda: after_forward(manual.Linear(4, 3), ones(5, 4)).backward(ones(3)),
        ValueError,
        r"Linear\(4, 3\).*\(5, 3\).*\(3,\)",
    ),
    "Linear, dout dtype": (
        lambda: after_forward(manual.Linear(4, 3), ones(5, 4)).backward(np.ones((5, 3))),
        TypeError,
        "float32.*float64",
    ),
    "Linear, size": (lambda: manual.Linear(0, 3), ValueError, "in_features.*0"),
    "Linear, dtype": (lambda: manual.Linear(2, 3, dtype=int), TypeError, "int64"),
    "Softmax, dim": (lambda: manual.Softmax(2).forward(ones(3, 4)), IndexError, r"dim 2.*\(3, 4\)"),
    "LogSumExp, 0-d": (lambda: manual.LogSumExp().forward(ones()), IndexError, "dim -1"),
    "LayerNorm, shape": (lambda: manual.LayerNorm((2, 3)).forward(ones(4, 3, 2)), ValueError, r"2, 3.*\(4, 3, 2\)"),
    "LayerNorm, no axis": (lambda: manual.LayerNorm(()), ValueError, "normalized_shape"),
    "BatchNorm1d, channels": (lambda: manual.BatchNorm1d(3).forward(ones(4, 2)), ValueError, r"\(N, 3\).*\(4, 2\)"),
    "BatchNorm1d, one value": (lambda: manual.BatchNorm1d(3).forward(ones(1, 3)), ValueError, "at least 2"),
    "Conv2d, channels": (lambda: manual.Conv2d(3, 1, 2).forward(ones(1, 2, 5, 5)), ValueError, r"\(1, 2, 5, 5\)"),
    "Conv2d, rank": (lambda: manual.Conv2d(3, 1, 2).forward(ones(3, 5, 5)), ValueError, r"\(3, 5, 5\)"),
    "Conv2d, small": (lambda: manual.Conv2d(1, 1, 4).forward(ones(1, 1, 3, 3)), ValueError, "smaller than the kernel"),
    "Conv2d, stride": (lambda: manual.Conv2d(1, 1, 4, stride=0), ValueError, "stride"),
    "Conv2d, pair": (lambda: manual.Conv2d(1, 1, (1, 2, 3)), ValueError, "kernel_size"),
    "MaxPool2d, padding": (lambda: manual.MaxPool2d(2, padding=2), ValueError, "padding"),
    "MaxPool2d, small": (lambda: manual.MaxPool2d(4).forward(ones(1, 1, 3, 3)), ValueError, "smaller"),
    "Dropout, p": (lambda: manual.Dropout(1.5), ValueError, "1.5"),
    "Embedding, range": (lambda: manual.Embedding(3, 2).forward(np.array([3])), IndexError, r"3.*\[0, 3\)"),
    "Embedding, negative": (lambda: manual.Embedding(3, 2).forward(np.array([-1])), IndexError, "-1"),
    "CrossEntropyLoss, class": (
        lambda: manual.CrossEntropyLoss().forward(ones(2, 3), np.array([0, 3])),
        IndexError,
        r"3.*\[0, 3\)",
    ),
    "CrossEntropyLoss, target shape": (
        lambda: manual.CrossEntropyLoss().forward(ones(2, 3), np.zeros((2, 1), int)),
        ValueError,
        r"\(2,\).*\(2, 1\)",
    ),
    "CrossEntropyLoss, target dtype": (
        lambda: manual.CrossEntropyLoss().forward(ones(2, 3), ones(2)),
        TypeError,
        "float32",
    ),
    "CrossEntropyLoss, empty": (
        lambda: manual.CrossEntropyLoss().forward(ones(0, 3), np.zeros(0, int)),
        ValueError,
        r"\(0, 3\)",
    ),
    "MSELoss, broadcast": (lambda: manual.MSELoss().forward(ones(3, 1), ones(3)), ValueError, r"\(3, 1\).*\(3,\)"),
    "MSELoss, dtype": (lambda: manual.MSELoss().forward(ones(3), np.ones(3)), TypeError, "float64"),
    "Net, empty": (lambda: manual.Net(), ValueError, "at least one layer"),
    "Net, no gradient inside": (
        lambda: after_forward(NET_WITHOUT_INPUT_GRADIENT, ones(1, 2)).backward(ones(1, 2)),
        RuntimeError,
        "no gradient",
    ),
    "Net, class": (lambda: manual.Net(manual.Linear(2, 2), manual.ReLU), TypeError, "layer 1.*the class ReLU"),
    "Net, list": (lambda: manual.Net([manual.ReLU()]), TypeError, "layer 0.*a list of ReLU"),
    "SGD, lr": (
        lambda: manual.SGD(manual.Linear(2, 2), lr=-1.0),
        ValueError,
        r"SGD: lr must be greater than 0, got -1",
    ),
    "SGD, lr 0": (lambda: manual.SGD(manual.Linear(2, 2), lr=0.0), ValueError, r"SGD: lr.*got 0\.0"),
    "SGD, lr nan": (lambda: manual.SGD(manual.Linear(2, 2), lr=float("nan")), ValueError, "SGD: lr.*got nan"),
    "SGD, momentum": (lambda: manual.SGD(manual.Linear(2, 2), momentum=-1.0), ValueError, "momentum.*-1"),
    "SGD, arrays": (
        lambda: manual.SGD(manual.Linear(2, 2).parameters()),
        TypeError,
        "SGD: expected a layer or a net.*a list of ndarray",
    ),
    "SGD, text": (lambda: manual.SGD("net"), TypeError, "SGD: expected a layer or a net.*got str"),
    "SGD, class": (lambda: manual.SGD(manual.Linear), TypeError, "got the class Linear"),
    "SGD, no parameters": (lambda: manual.SGD(manual.ReLU()), ValueError, r"SGD: ReLU\(\) has no parameters"),
    "SGD, list as parameter": (lambda: manual.SGD(Broken([1.0], ones(1))), TypeError, "'theta'.*a list of float"),
    "SGD, integers": (lambda: manual.SGD(Broken(np.ones(1, int), ones(1))), TypeError, "'theta'.*dtype int64"),
    "SGD, no gradient": (
        lambda: manual.SGD(Broken(ones(1), None)),
        ValueError,
        "gradient of parameter 'theta'.*NoneType",
    ),
    "SGD, gradient shape": (lambda: manual.SGD(Broken(ones(2), ones(3))), ValueError, r"shape \(2,\).*shape \(3,\)"),
    "RMSprop, lr": (lambda: manual.RMSprop(manual.Linear(2, 2), lr=0.0), ValueError, "RMSprop: lr"),
    "RMSprop, arrays": (lambda: manual.RMSprop([ones(2)]), TypeError, "RMSprop: .*a list of ndarray"),
    "clip_grad_norm_, limit": (lambda: manual.clip_grad_norm_(manual.Linear(2, 2), 0.0), ValueError, "max_norm.*0"),
    "clip_grad_norm_, list": (
        lambda: manual.clip_grad_norm_([ones(2)], 1.0),
        TypeError,
        "clip_grad_norm_: expected a layer",
    ),
    "clip_grad_value_, limit": (
        lambda: manual.clip_grad_value_(manual.Linear(2, 2), -1.0),
        ValueError,
        "clip_value.*-1",
    ),
    "RMSprop, alpha": (lambda: manual.RMSprop(manual.Linear(2, 2), alpha=float("nan")), ValueError, "alpha"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use(case):
    act, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        act()


def test_optimizer_refuses_parameters_that_it_could_not_change_in_place():
    layer = manual.Linear(2, 3, rng=0)
    layer.parameters["weight"] = np.asfortranarray(layer.parameters["weight"])
    with pytest.raises(ValueError, match="weight.*contiguous"):
        manual.SGD(layer).step()
