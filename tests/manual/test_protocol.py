"""How layers, nets and optimizers are held: called, asked for parameters, emptied of gradients, clipped."""

import copy
import pickle

import numpy as np
import pytest

from retrograd import manual
from tests.manual.test_layers import LAYERS, normal

F64 = np.float64


class Scale:
    """y = scale x, a layer whose parameters and gradients are methods."""

    training = True

    def __init__(self, scale):
        self.scale, self.dscale = np.array([scale]), np.zeros(1)

    def parameters(self):
        return {"scale": self.scale}

    def gradients(self):
        return {"scale": self.dscale}

    def forward(self, x):
        self.x = x
        return self.scale * x

    def backward(self, dout):
        self.dscale[...] = (dout * self.x).sum()
        return self.scale * dout


def differentiated_net():
    net = manual.Net(manual.Linear(4, 3, dtype=F64, rng=0), manual.Tanh(), manual.Linear(3, 2, dtype=F64, rng=1))
    net.backward(np.ones_like(net(normal(5, 4))))
    return net


def norm_of(layer):
    return np.sqrt(sum(np.square(g).sum() for g in layer.gradients()))


@pytest.mark.parametrize("case", LAYERS)
def test_a_layer_is_called_as_its_forward(case):
    make, x = LAYERS[case]
    np.testing.assert_array_equal(make()(x), make().forward(x))


def test_a_loss_is_called_as_its_forward():
    x, target = normal(3, 4), np.array([0, 3, 1])
    assert manual.CrossEntropyLoss()(x, target) == manual.CrossEntropyLoss().forward(x, target)
    assert manual.MSELoss()(x, x + 1) == pytest.approx(1.0)


def test_parameters_are_found_by_name_and_by_call():
    for layer in (manual.Linear(4, 3), differentiated_net()):
        for arrays in (layer.parameters, layer.gradients):
            assert isinstance(arrays, dict)
            listed = arrays()
            assert len(listed) == len(arrays)
            assert all(a is b for a, b in zip(listed, arrays.values(), strict=True))
    assert manual.ReLU().parameters() == []


def test_a_copied_and_an_unpickled_layer_keep_both():
    layer = manual.Linear(4, 3)
    for copied in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert [a.shape for a in copied.parameters()] == [(3, 4), (3,)]
        assert copied.parameters["weight"] is not layer.parameters["weight"]


def test_a_layer_whose_parameters_are_methods_trains_in_a_net():
    net = manual.Net(manual.Linear(1, 1, dtype=F64, rng=0), Scale(0.5))
    assert manual.check_layer(net, normal(5, 1), quiet=True).passed
    assert manual.check_layer(Scale(0.5), normal(5, 1), quiet=True).passed
    assert "1.scale" in net.parameters
    loss, optimizer = manual.MSELoss(), manual.SGD(net, lr=0.1, momentum=0.5)
    x = normal(20, 1)
    for _ in range(200):
        loss(net(x), 3 * x + 1)
        net.backward(loss.backward())
        optimizer.step()
    assert loss(net(x), 3 * x + 1) < 1e-6
    alone = manual.RMSprop(Scale(0.5), lr=0.1)
    alone.layer.dscale[...] = 1.0
    alone.step()
    assert alone.layer.scale[0] < 0.5
    alone.zero_grad()
    assert alone.layer.dscale[0] == 0.0


@pytest.mark.parametrize("holder", ["layer", "net", "optimizer"])
def test_zero_grad_empties_every_gradient_in_its_place(holder):
    net = differentiated_net()
    gradients = net.gradients()
    assert all(g.any() for g in gradients)
    {
        "layer": lambda: [layer.zero_grad() for layer in net.layers],
        "net": net.zero_grad,
        "optimizer": manual.SGD(net).zero_grad,
    }[holder]()
    assert not any(g.any() for g in gradients)
    assert all(a is b for a, b in zip(gradients, net.gradients(), strict=True))


def test_an_optimizer_of_ones_own_defines_step():
    class SignDescent(manual.Optimizer):
        def step(self):
            for theta, g in zip(self.layer.parameters(), self.layer.gradients(), strict=True):
                theta -= self.lr * np.sign(g)

    net = differentiated_net()
    before = net.parameters["0.weight"].copy()
    SignDescent(net, lr=0.25).step()
    np.testing.assert_allclose(np.abs(net.parameters["0.weight"] - before), 0.25)
    with pytest.raises(NotImplementedError, match="Optimizer: step is not implemented"):
        manual.Optimizer(net, lr=0.1).step()


def test_a_long_gradient_is_shortened_and_keeps_its_direction():
    net = differentiated_net()
    before, norm = [g.copy() for g in net.gradients()], norm_of(net)
    assert manual.clip_grad_norm_(net, norm / 4) == pytest.approx(norm, rel=1e-14)
    assert norm_of(net) == pytest.approx(norm / 4, rel=1e-5)
    for g, kept in zip(net.gradients(), before, strict=True):
        np.testing.assert_allclose(g, kept / 4, rtol=1e-5)


def test_a_short_gradient_is_left_alone():
    net = differentiated_net()
    before, norm = [g.copy() for g in net.gradients()], norm_of(net)
    assert manual.clip_grad_norm_(net, 2 * norm) == pytest.approx(norm, rel=1e-14)
    assert manual.clip_grad_value_(net, 2 * norm) == pytest.approx(norm, rel=1e-14)
    for g, kept in zip(net.gradients(), before, strict=True):
        np.testing.assert_array_equal(g, kept)


def test_elements_are_clipped_one_by_one():
    net = differentiated_net()
    before, norm = [g.copy() for g in net.gradients()], norm_of(net)
    assert manual.clip_grad_value_(net, 0.5) == pytest.approx(norm, rel=1e-14)
    for g, kept in zip(net.gradients(), before, strict=True):
        np.testing.assert_array_equal(g, np.clip(kept, -0.5, 0.5))
    assert any((np.abs(kept) > 0.5).any() for kept in before)


@pytest.mark.parametrize("clip", [manual.clip_grad_norm_, manual.clip_grad_value_])
def test_a_gradient_that_is_not_finite_is_refused_and_nothing_changes(clip):
    for bad in (np.inf, np.nan):
        net = differentiated_net()
        net.gradients["2.bias"][0] = bad
        before = [g.copy() for g in net.gradients()]
        with pytest.raises(RuntimeError, match=r"'2\.bias' is not finite"):
            clip(net, 0.1)
        for g, kept in zip(net.gradients(), before, strict=True):
            np.testing.assert_array_equal(g, kept)


@pytest.mark.parametrize(("dtype", "size"), [(np.float16, 6e4), (np.float32, 1e30), (np.float64, 1e300)])
def test_the_norm_of_huge_and_tiny_gradients_is_right(dtype, size):
    layer = manual.Linear(2, 1, bias=False, dtype=dtype)
    for scale in (size, 1 / size):
        layer.gradients["weight"][...] = scale
        expected = float(dtype(scale)) * 2**0.5
        assert manual.clip_grad_value_(layer, 2 * size) == pytest.approx(expected, rel=1e-12)
    layer.zero_grad()
    assert manual.clip_grad_norm_(layer, 1.0) == 0.0
    assert layer.gradients["weight"].dtype == dtype


def test_clipping_agrees_with_torch():
    torch = pytest.importorskip("torch")
    for limit in (0.3, 3.0, 300.0):
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            net = differentiated_net()
            tensors = [torch.zeros(g.shape, dtype=torch.float64) for g in net.gradients()]
            for tensor, g in zip(tensors, net.gradients(), strict=True):
                tensor.grad = torch.from_numpy(g.copy())
            theirs = getattr(torch.nn.utils, name)(tensors, limit)
            ours = getattr(manual, name)(net, limit)
            if theirs is not None:
                assert ours == pytest.approx(theirs.item(), rel=1e-12)
            for tensor, g in zip(tensors, net.gradients(), strict=True):
                np.testing.assert_allclose(g, tensor.grad.numpy(), rtol=1e-12)
