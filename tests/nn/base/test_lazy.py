"""Lazy modules, against PyTorch's meaning: shapes at the first call, state dicts before and after it."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn

LAYERS = [
    (lambda: nn.LazyLinear(5), nn.Linear, (4, 3)),
    *(
        (lambda rank=rank, kind=kind: getattr(nn, f"Lazy{kind}{rank}d")(6, 3), getattr(nn, f"{kind}{rank}d"), shape)
        for kind in ("Conv", "ConvTranspose")
        for rank, shape in ((1, (2, 4, 5)), (2, (2, 4, 5, 5)), (3, (2, 4, 5, 5, 5)))
    ),
    *(
        (lambda rank=rank, kind=kind: getattr(nn, f"Lazy{kind}{rank}d")(), getattr(nn, f"{kind}{rank}d"), shape)
        for kind in ("BatchNorm", "InstanceNorm")
        for rank, shape in ((1, (2, 4, 5)), (2, (2, 4, 5, 5)), (3, (2, 4, 5, 5, 5)))
    ),
]
every_layer = pytest.mark.parametrize("make, becomes, shape", LAYERS)


@every_layer
def test_the_first_call_makes_an_ordinary_module_of_it(make, becomes, shape):
    layer = make()
    layer(rg.ones(shape))
    assert type(layer) is becomes
    assert all(type(p) is nn.Parameter and p.requires_grad for p in layer.parameters())
    assert not layer._forward_pre_hooks


@every_layer
def test_it_computes_what_the_ordinary_module_with_the_same_state_computes(make, becomes, shape):
    layer = make()
    x = rg.randn(shape)
    y = layer(x)
    (y * y).sum().backward()
    assert all(p.grad is not None for p in layer.parameters())
    loaded = make()
    loaded.load_state_dict(layer.state_dict())
    loaded.train(layer.training)
    layer.eval(), loaded.eval()
    assert np.array_equal(loaded(x).detach().numpy(), layer(x).detach().numpy())


@every_layer
def test_it_is_copied_and_pickled_before_its_first_call(make, becomes, shape):
    layer = make()
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        other(rg.ones(shape))
        assert type(other) is becomes
    assert type(layer) is not becomes


def test_the_state_of_an_uninitialized_module_holds_uninitialized_parameters_and_loads_into_one():
    layer = nn.LazyLinear(5)
    state = layer.state_dict()
    assert [type(value).__name__ for value in state.values()] == ["UninitializedParameter"] * 2
    other = nn.LazyLinear(5)
    other.load_state_dict(state)
    assert other.has_uninitialized_params()


def test_an_uninitialized_state_does_not_load_into_an_ordinary_module():
    with pytest.raises((RuntimeError, ValueError), match="uninitialized"):
        nn.Linear(3, 5).load_state_dict(nn.LazyLinear(5).state_dict())


def test_an_uninitialized_parameter_refuses_to_be_used():
    weight = nn.LazyLinear(5).weight
    with pytest.raises(ValueError, match="uninitialized"):
        weight * 2
    with pytest.raises(RuntimeError, match="shape"):
        weight.shape
    assert repr(weight) == "<UninitializedParameter>"


def test_dtype_given_before_the_first_call_holds_after_it():
    net = nn.Sequential(nn.LazyLinear(5), nn.LazyBatchNorm1d()).double()
    net(rg.ones(4, 3, dtype=rg.float64))
    assert {value.dtype.name for name, value in net.state_dict().items() if "num" not in name} == {"float64"}


def test_an_optimizer_made_before_the_first_call_trains_the_parameters():
    layer = nn.LazyLinear(2)
    optimizer = rg.optim.SGD(layer.parameters(), lr=0.1)
    layer(rg.ones(1, 3)).sum().backward()
    before = layer.bias.detach().clone()
    optimizer.step()
    assert np.allclose(layer.bias.detach().numpy(), before.numpy() - 0.1)


def test_bias_may_be_left_out_by_position_and_by_name():
    assert nn.LazyConv1d(4, 3, 1, 0, 1, 1, False)(rg.ones(1, 2, 5)).shape == (1, 4, 3)
    layer = nn.LazyConv2d(4, 3, bias=False)
    layer(rg.ones(1, 2, 5, 5))
    assert layer.bias is None


def test_a_wrong_number_of_dimensions_is_named():
    with pytest.raises(RuntimeError, match="LazyConv2d: expected 3D or 4D input"):
        nn.LazyConv2d(4, 3)(rg.ones(2, 3))


def test_a_mixin_of_ones_own_becomes_its_class():
    from retrograd.nn.base.lazy import LazyModuleMixin

    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.UninitializedParameter()

        def forward(self, x):
            return x * self.weight

    class LazyScale(LazyModuleMixin, Scale):
        cls_to_become = Scale

        def initialize_parameters(self, x):
            self.weight.materialize(x.shape[-1:])
            nn.init.ones_(self.weight)

    layer = LazyScale()
    assert layer(rg.ones(2, 3)).shape == (2, 3) and type(layer) is Scale


# The other layers


def test_sync_batch_norm_of_one_process_is_batch_norm():
    x = rg.randn(4, 3, 5)
    sync, plain = nn.SyncBatchNorm(3), nn.BatchNorm1d(3)
    assert np.array_equal(sync(x).detach().numpy(), plain(x).detach().numpy())
    assert sync.state_dict().keys() == plain.state_dict().keys()


def test_converting_keeps_parameters_buffers_and_mode():
    net = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.BatchNorm1d(3))).eval()
    old = net[1][0]
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    new = converted[1][0]
    assert type(new) is nn.SyncBatchNorm and not new.training
    assert new.weight is old.weight and new.running_mean is old.running_mean


def test_rrelu_draws_slopes_in_training_and_takes_their_mean_in_evaluation():
    layer = nn.RReLU(0.2, 0.4)
    x = rg.tensor([-1.0] * 1000 + [2.0])
    x.requires_grad_()
    y = layer(x)
    y.sum().backward()
    slopes = -y.detach().numpy()[:-1]
    assert 0.2 <= slopes.min() < 0.21 and 0.39 < slopes.max() < 0.4
    assert np.allclose(x.grad.numpy()[:-1], slopes) and x.grad[-1] == 1
    assert np.allclose(layer.eval()(x).detach().numpy()[:-1], -0.3)


def test_adaptive_softmax_equals_pytorchs():
    torch = pytest.importorskip("torch")
    ours = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0, head_bias=True)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0, head_bias=True)
    theirs.load_state_dict({name: torch.from_numpy(value.numpy()) for name, value in ours.state_dict().items()})
    x, target = np.random.default_rng(0).standard_normal((12, 8)).astype(np.float32), np.arange(12) % 12 + 8
    output, loss = ours(rg.tensor(x), rg.tensor(target))
    wanted, wanted_loss = theirs(torch.from_numpy(x), torch.from_numpy(target))
    loss.backward()
    wanted_loss.backward()
    assert np.allclose(output.detach().numpy(), wanted.detach().numpy(), atol=1e-5)
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert np.allclose(p.grad.numpy(), q.grad.numpy(), atol=1e-5), name
    assert np.allclose(ours.log_prob(rg.tensor(x)).detach().numpy(), theirs.log_prob(torch.from_numpy(x)).detach())
    assert ours.predict(rg.tensor(x)).tolist() == theirs.predict(torch.from_numpy(x)).tolist()
    one = ours(rg.tensor(x[0]), rg.tensor(target[0]))
    assert one.output.shape == ()


def test_adaptive_softmax_names_what_does_not_fit():
    with pytest.raises(ValueError, match="cutoffs"):
        nn.AdaptiveLogSoftmaxWithLoss(16, 20, [10, 5])
    layer = nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10])
    with pytest.raises(RuntimeError, match="in \\[0, 19\\]"):
        layer(rg.ones(1, 16), rg.tensor([20]))


def test_the_loss_with_a_linear_layer_equals_the_two_apart():
    loss = nn.LinearCrossEntropyLoss(3, 4, bias=True, ignore_index=1)
    x, target = rg.randn(5, 3), rg.tensor([0, 1, 2, 3, 1])
    wanted = nn.CrossEntropyLoss(ignore_index=1)(loss.linear(x), target)
    assert np.allclose(loss(x, target).item(), wanted.item())
    assert list(loss.state_dict()) == ["linear.weight", "linear.bias"]


@pytest.mark.parametrize("layer", [nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_alpha_dropout_keeps_mean_and_variance_and_does_nothing_in_evaluation(layer):
    x = rg.randn(200, 500)
    dropped = layer(0.3)(x)
    assert abs(dropped.mean().item()) < 0.05 and abs(dropped.std().item() - 1) < 0.05
    assert (dropped != x).float().mean().item() > 0.9
    assert layer(0.3).eval()(x) is x or (layer(0.3).eval()(x) == x).all()
    with pytest.raises(ValueError, match="p must be between 0 and 1"):
        layer(1.5)


def test_a_module_with_shapes_refuses_a_state_without_them_and_stays_as_it_was():
    layer = nn.Linear(3, 5)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    with pytest.raises(RuntimeError, match="uninitialized parameter has no shape"):
        layer.load_state_dict(nn.LazyLinear(5).state_dict())
    assert all(rg.equal(value, before[name]) for name, value in layer.state_dict().items())


def test_memory_that_is_not_there_yet_cannot_be_shared():
    with pytest.raises(RuntimeError, match="share memory on an uninitialized parameter"):
        nn.LazyLinear(5).weight.share_memory_()
