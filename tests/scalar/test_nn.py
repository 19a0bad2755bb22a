import math
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
    assert repr(MLP(2, [2, 1])) == "MLP of [Layer of [TanhNeuron(2), TanhNeuron(2)], Layer of [LinearNeuron(2)]]"
    assert repr(MLP(2, [1, 1], "relu")) == "MLP of [Layer of [ReLUNeuron(2)], Layer of [LinearNeuron(1)]]"
    with pytest.raises(ValueError, match="got 3 weights and 2 inputs"):
        model([1.0, 2.0])


def test_neuron():
    neuron = Neuron(2, nonlin=True)
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
    for make in (lambda: MLP(3, [4, 4, 1], activation="relu"), lambda: networks.MLP(3, [4, 4, 1])):
        random.seed(3)
        model = make()
        for _ in range(5):
            loss = squared_error(model)
            model.zero_grad()
            loss.backward()
            for p in model.parameters():
                p.data -= 0.01 * p.grad
        results.append([loss.data, *(p.data for p in model.parameters()), *(p.grad for p in model.parameters())])
    assert results[0] == pytest.approx(results[1], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("lr", [0.05, 0.1])
@pytest.mark.parametrize("seed", range(40))
def test_plain_steps_learn_the_four_points_from_any_start(seed, lr):
    random.seed(seed)
    model = MLP(3, [4, 4, 1])
    for _ in range(20):
        loss = squared_error(model)
        model.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.data -= lr * p.grad
    assert squared_error(model).data < 0.1


@pytest.mark.parametrize(
    ("activation", "expected", "name"),
    [
        ("tanh", math.tanh(0.8), "TanhNeuron(1)"),
        ("relu", 0.8, "ReLUNeuron(1)"),
        ("sigmoid", 1 / (1 + math.exp(-0.8)), "SigmoidNeuron(1)"),
        ("linear", 0.8, "LinearNeuron(1)"),
        (Value.sin, math.sin(0.8), None),
        (lambda x: x * x, 0.64, None),
    ],
)
def test_the_activation_is_chosen_by_name_or_given_as_a_function(activation, expected, name):
    neuron = Neuron(1, activation=activation)
    neuron.w[0].data, neuron.b.data = 0.5, -0.2
    assert neuron([2.0]).data == pytest.approx(expected, rel=1e-15)
    assert name is None or repr(neuron) == name
    assert Layer(1, 2, activation=activation).neurons[1].activation is activation
    hidden, last = MLP(1, [1, 1], activation).layers
    assert (hidden.neurons[0].activation, last.neurons[0].activation) == (activation, "linear")


def test_the_choice_of_micrograd_is_relu_or_linear():
    assert [Neuron(1, nonlin).activation for nonlin in (None, True, False)] == ["tanh", "relu", "linear"]
    assert [Neuron(1, nonlin=nonlin).nonlin for nonlin in (True, False)] == [True, False]
    assert repr(Layer(2, 1, nonlin=True)) == "Layer of [ReLUNeuron(2)]"


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Neuron(2, activation="rleu"), ValueError, "activation must be .*'relu'.*got 'rleu'"),
        (lambda: MLP(2, [2, 1], 3), ValueError, "activation must be .* got 3"),
        (lambda: Neuron(2, "relu"), TypeError, "pass either nonlin .True or False. or activation="),
        (lambda: Neuron(2, nonlin=True, activation="tanh"), TypeError, "nonlin=True and activation='tanh'"),
        (lambda: Neuron(2, activation=math.tanh)([1.0, 2.0]), TypeError, "must return a Value"),
        (lambda: SGD([Value(1.0)], lr=0.0), ValueError, "SGD: lr must be greater than 0, got 0.0"),
        (lambda: Adam([Value(1.0)], lr=-1.0), ValueError, "Adam: lr must be greater than 0, got -1.0"),
        (lambda: SGD([Value(1.0)], lr=math.nan), ValueError, "lr"),
        (lambda: SGD([Value(1.0), 2.0]), TypeError, "SGD: the parameters must be Values, got 2.0"),
        (lambda: SGD(MLP(1, [1])), TypeError, r"SGD: the parameters must be Values, .*parameters\(\)"),
        (lambda: Adam([]), ValueError, "Adam: there are no parameters"),
    ],
)
def test_bad_arguments_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_one_number_is_an_input_of_its_own():
    random.seed(0)
    for x in (0.5, Value(0.5)):
        assert MLP(1, [2, 1])(x).data != 0
    assert isinstance(MLP(2, [3, 1, 1])([1.0, 2.0]), Value)  # a layer of one neuron gives a Value, not a list


def test_the_optimizer_forgets_the_gradients():
    for kind in (SGD, Adam):
        x = Value(2.0)
        optimizer = kind([x], lr=0.1)
        (x * x).backward()
        optimizer.zero_grad()
        assert x.grad == 0.0


@pytest.mark.parametrize("optimizer", [SGD, Adam])
def test_optimizer_fits_four_points(optimizer):
    random.seed(1)
    model = MLP(3, [4, 4, 1])
    descent = optimizer(model.parameters(), lr=0.02)
    for _ in range(200):
        descent.zero_grad()
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
