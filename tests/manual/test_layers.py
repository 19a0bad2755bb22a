"""Every layer against central differences, and its edges."""

import numpy as np
import pytest

from retrograd import manual

F64 = np.float64


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape)


def distinct(*shape: int) -> np.ndarray:
    """Numbers at least 0.1 apart, so that no small step changes which of them is the largest."""
    return np.random.default_rng(shape).permutation(np.prod(shape)).reshape(shape) / 10.0 - 1.05


def with_affine(layer):
    """A normalization layer away from its first weight of ones and bias of zeros."""
    for value in layer.parameters.values():
        value[...] = normal(*value.shape)
    return layer


def evaluating(layer):
    layer.training = False
    return layer


def batch_norm_evaluating():
    layer = with_affine(manual.BatchNorm1d(3, dtype=F64))
    layer.forward(2 * normal(5, 3) + 1)
    return evaluating(layer)


LAYERS = {
    "Linear": (lambda: manual.Linear(4, 3, dtype=F64, rng=0), normal(5, 4)),
    "Linear, no bias, vector": (lambda: manual.Linear(4, 3, bias=False, dtype=F64, rng=0), normal(4)),
    "Linear, rank 3": (lambda: manual.Linear(4, 3, dtype=F64, rng=0), normal(2, 5, 4)),
    "ReLU": (manual.ReLU, distinct(4, 5)),
    "Tanh": (manual.Tanh, normal(4, 5)),
    "Tanh, 0-d": (manual.Tanh, np.array(0.5)),
    "Sigmoid": (manual.Sigmoid, 3 * normal(4, 5)),
    "Softmax": (manual.Softmax, normal(4, 5)),
    "Softmax, dim 0": (lambda: manual.Softmax(0), normal(4, 5)),
    "LogSoftmax": (manual.LogSoftmax, normal(4, 5)),
    "LogSoftmax, dim 1 of 3": (lambda: manual.LogSoftmax(1), normal(2, 3, 4)),
    "LogSumExp": (manual.LogSumExp, normal(4, 5)),
    "LogSumExp, vector": (manual.LogSumExp, normal(5)),
    "LogSumExp, dim 0, keepdim": (lambda: manual.LogSumExp(0, keepdim=True), normal(4, 5)),
    "LayerNorm": (lambda: with_affine(manual.LayerNorm(6, dtype=F64)), normal(3, 6)),
    "LayerNorm, vector": (lambda: with_affine(manual.LayerNorm(6, dtype=F64)), normal(6)),
    "LayerNorm, two axes": (lambda: with_affine(manual.LayerNorm((2, 3), dtype=F64)), normal(4, 2, 3)),
    "BatchNorm1d": (lambda: with_affine(manual.BatchNorm1d(3, dtype=F64)), normal(5, 3)),
    "BatchNorm1d, length": (lambda: with_affine(manual.BatchNorm1d(3, dtype=F64)), normal(2, 3, 4)),
    "BatchNorm1d, evaluating": (batch_norm_evaluating, normal(5, 3)),
    "Conv2d": (lambda: manual.Conv2d(2, 3, 3, dtype=F64, rng=0), normal(2, 2, 5, 6)),
    "Conv2d, strided and padded": (
        lambda: manual.Conv2d(2, 3, (3, 2), stride=(2, 3), padding=(1, 2), bias=False, dtype=F64, rng=0),
        normal(2, 2, 6, 5),
    ),
    "MaxPool2d": (lambda: manual.MaxPool2d(2), distinct(2, 2, 4, 5)),
    "MaxPool2d, overlapping and padded": (lambda: manual.MaxPool2d((3, 2), stride=2, padding=1), distinct(1, 2, 5, 6)),
    "Dropout": (lambda: manual.Dropout(0.4, rng=0), normal(6, 5)),
    "Dropout, evaluating": (lambda: evaluating(manual.Dropout(0.4, rng=0)), normal(6, 5)),
    "Embedding": (lambda: manual.Embedding(5, 3, dtype=F64, rng=0), np.array([[1, 4, 1], [0, 1, 4]])),
    "Net": (
        lambda: manual.Net(
            manual.Conv2d(1, 2, 3, padding=1, dtype=F64, rng=1),
            manual.Tanh(),
            manual.MaxPool2d(2),
            manual.Linear(3, 4, dtype=F64, rng=2),
            manual.Net(manual.LayerNorm(4, dtype=F64), manual.Sigmoid(), manual.Dropout(0.3, rng=3)),
        ),
        normal(2, 1, 4, 6),
    ),
}


@pytest.mark.parametrize("case", LAYERS)
def test_gradients_match_central_differences(case, capsys):
    make, x = LAYERS[case]
    layer = make()
    assert manual.check_layer(layer, x).passed
    printed = capsys.readouterr().out
    assert all(name in printed for name in layer.parameters)


@pytest.mark.parametrize("case", LAYERS)
def test_forward_and_backward_change_no_argument_and_repeat(case):
    make, x = LAYERS[case]
    layer = make()
    x_before = x.copy()
    y = layer.forward(x)
    y_before, dout = y.copy(), np.random.default_rng(1).standard_normal(y.shape)
    dout_before = dout.copy()
    first = layer.backward(dout)
    gradients = {name: gradient.copy() for name, gradient in layer.gradients.items()}
    second = layer.backward(dout)
    for before, after in ((x_before, x), (y_before, y), (dout_before, dout), (first, second)):
        np.testing.assert_array_equal(before, after)
    for name, gradient in gradients.items():
        np.testing.assert_array_equal(gradient, layer.gradients[name], err_msg=name)
    assert second is None or not (np.shares_memory(second, dout) or np.shares_memory(second, y))


@pytest.mark.parametrize("case", [case for case in LAYERS if "Embedding" not in case])
def test_float32_stays_float32_and_agrees(case):
    make, x = LAYERS[case]
    wide, narrow = make(), make()
    to_float32(narrow)
    y, y32 = wide.forward(x), narrow.forward(x.astype(np.float32))
    dx, dx32 = wide.backward(np.ones_like(y)), narrow.backward(np.ones_like(y32))
    assert y32.dtype == dx32.dtype == np.float32
    np.testing.assert_allclose(y32, y, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dx32, dx, rtol=1e-4, atol=1e-5)
    for name, gradient in narrow.gradients.items():
        assert gradient.dtype == np.float32
        np.testing.assert_allclose(gradient, wide.gradients[name], rtol=1e-4, atol=1e-4, err_msg=name)


def to_float32(layer):
    if isinstance(layer, manual.Net):
        for inner in layer.layers:
            to_float32(inner)
        return
    for arrays in (layer.parameters, layer.gradients):
        arrays.update({name: value.astype(np.float32) for name, value in arrays.items()})
    if isinstance(layer, manual.BatchNorm1d):
        layer.running_mean = layer.running_mean.astype(np.float32)
        layer.running_var = layer.running_var.astype(np.float32)


def test_losses_match_central_differences():
    assert manual.check_layer(manual.CrossEntropyLoss(), normal(6, 4), np.array([0, 3, 1, 1, 2, 0]), quiet=True).passed
    assert manual.check_layer(manual.MSELoss(), normal(3, 4), normal(4, 3).T, quiet=True).passed


def test_large_entries_stay_finite():
    x = np.array([[1e4, 0.0, -1e4]], np.float32)
    np.testing.assert_array_equal(manual.Softmax().forward(x), [[1, 0, 0]])
    np.testing.assert_array_equal(manual.LogSoftmax().forward(x), [[0, -1e4, -2e4]])
    np.testing.assert_array_equal(manual.LogSumExp().forward(x), [1e4])
    np.testing.assert_array_equal(manual.Sigmoid().forward(x), [[1, 0.5, 0]])
    assert manual.CrossEntropyLoss().forward(x, np.array([2])) == 2e4


def test_small_sigmoid_keeps_its_digits():
    np.testing.assert_allclose(manual.Sigmoid().forward(np.array([-50.0])), np.exp([-50.0]), rtol=1e-14)


def test_log_sum_exp_of_infinities():
    x = np.array([[-np.inf, -np.inf], [np.inf, 0.0], [-np.inf, 0.0]])
    np.testing.assert_array_equal(manual.LogSumExp().forward(x), [-np.inf, np.inf, 0.0])


def test_relu_at_zero_and_at_nan():
    layer = manual.ReLU()
    y = layer.forward(np.array([-1.0, 0.0, np.nan, 2.0]))
    np.testing.assert_array_equal(y, [0.0, 0.0, np.nan, 2.0])
    np.testing.assert_array_equal(layer.backward(np.ones(4))[[0, 1, 3]], [0.0, 0.0, 1.0])


def test_max_pooling_shows_nan():
    y = manual.MaxPool2d(2).forward(np.array([[[[1.0, np.nan, 5.0, 6.0], [2.0, 3.0, 8.0, 7.0]]]]))
    np.testing.assert_array_equal(y, [[[[np.nan, 8.0]]]])


def test_dropout_keeps_the_mean_and_the_share():
    layer = manual.Dropout(0.25, rng=0)
    y = layer.forward(np.ones(100_000))
    assert abs((y == 0).mean() - 0.25) < 0.01
    assert abs(y.mean() - 1) < 0.01
    assert not manual.Dropout(1.0, rng=0).forward(np.ones(10)).any()
    assert manual.Dropout(0.0, rng=0).forward(np.ones(10)).all()


def test_initialisation_is_uniform_by_fan_in_and_seeded():
    for make, fan_in in (
        (lambda seed: manual.Linear(100, 300, rng=seed), 100),
        (lambda seed: manual.Conv2d(4, 300, 5, rng=seed), 100),
    ):
        layer, same, other = make(0), make(0), make(1)
        for name, value in layer.parameters.items():
            assert value.dtype == np.float32
            assert 0.9 / np.sqrt(fan_in) < np.abs(value).max() <= np.float32(1 / np.sqrt(fan_in))
            assert abs(value.std() * np.sqrt(3 * fan_in) - 1) < 0.1
            np.testing.assert_array_equal(value, same.parameters[name])
            assert not np.array_equal(value, other.parameters[name])


def test_one_generator_gives_each_layer_its_own_numbers():
    shared = np.random.default_rng(0)
    a, b = manual.Linear(3, 3, rng=shared), manual.Linear(3, 3, rng=shared)
    assert not np.array_equal(a.parameters["weight"], b.parameters["weight"])


def test_arrays_keep_their_place_between_steps():
    net = manual.Net(manual.Linear(4, 3, rng=0), manual.Tanh(), manual.Linear(3, 2, rng=1))
    optimizer = manual.RMSprop(net, momentum=0.9)
    before = {name: id(array) for name, array in [*net.parameters.items(), *net.gradients.items()]}
    for _ in range(2):
        net.backward(np.ones_like(net.forward(normal(5, 4).astype(np.float32))))
        optimizer.step()
    assert before == {name: id(array) for name, array in [*net.parameters.items(), *net.gradients.items()]}


def test_outputs_of_two_calls_do_not_share_memory():
    net = manual.Net(manual.Linear(4, 3, dtype=F64, rng=0), manual.ReLU(), manual.Linear(3, 2, dtype=F64, rng=1))
    first = net.forward(normal(5, 4))
    kept = first.copy()
    net.forward(normal(5, 4) + 1)
    np.testing.assert_array_equal(first, kept)


def test_input_gradient_can_be_left_out():
    for make, x in (
        (lambda **options: manual.Linear(4, 3, dtype=F64, rng=0, **options), normal(5, 4)),
        (lambda **options: manual.Conv2d(2, 3, 3, dtype=F64, rng=0, **options), normal(2, 2, 5, 5)),
    ):
        with_input, without_input = make(), make(input_gradient=False)
        dout = np.ones_like(with_input.forward(x))
        without_input.forward(x)
        with_input.backward(dout)
        assert without_input.backward(dout) is None
        for name, gradient in with_input.gradients.items():
            np.testing.assert_array_equal(gradient, without_input.gradients[name])


def test_training_of_a_net_reaches_every_layer():
    inner = manual.Dropout(0.5, rng=0)
    net = manual.Net(manual.Tanh(), manual.Net(inner))
    net.training = False
    assert not inner.training and not net.training
    np.testing.assert_array_equal(net.forward(np.ones(8)), np.tanh(np.ones(8)))


def test_convolution_in_blocks_agrees_with_one_image_at_a_time():
    """A batch too large for one block of columns."""
    layer = manual.Conv2d(8, 2, 5, padding=2, dtype=F64, rng=0)
    x = normal(5, 8, 24, 24)
    y = layer.forward(x)
    assert len(list(layer._blocks(y))) > 1
    dout = normal(*y.shape)
    dx, dweight = layer.backward(dout), layer.gradients["weight"].copy()
    total = np.zeros_like(dweight)
    for n in range(len(x)):
        np.testing.assert_allclose(layer.forward(x[n : n + 1]), y[n : n + 1], rtol=1e-12)
        np.testing.assert_allclose(layer.backward(dout[n : n + 1]), dx[n : n + 1], rtol=1e-12, atol=1e-12)
        total += layer.gradients["weight"]
    np.testing.assert_allclose(dweight, total, rtol=1e-12, atol=1e-12)
