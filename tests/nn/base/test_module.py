"""Module: attributes, walking, state, hooks, modes, copies."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.second = nn.Linear(4, 2, bias=False)
        self.register_buffer("hidden", rg.ones(2), persistent=False)

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        return self.second(self.norm(self.first(x)).relu())


def test_importing_the_package_does_not_import_nn() -> None:
    code = "import sys, retrograd; sys.exit('retrograd.nn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Attributes


def test_names_in_order_and_once() -> None:
    net = Net()
    names = ["first.weight", "first.bias", "norm.weight", "norm.bias", "second.weight"]
    assert [name for name, _ in net.named_parameters()] == names
    assert [name for name, _ in net.named_buffers()] == [
        "hidden",
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
    ]
    assert [name for name, _ in net.named_modules()] == ["", "first", "norm", "second"]
    assert list(net.state_dict()) == [*names[:4], *list(net.state_dict())[4:7], names[4]]
    assert "hidden" not in net.state_dict()
    net.again = net.second
    assert [name for name, _ in net.named_parameters()] == names
    assert [name for name, _ in net.named_children()] == ["first", "norm", "second"]
    assert "again.weight" in net.state_dict()


def test_a_new_value_keeps_the_place() -> None:
    net = Net()
    before = list(net.state_dict())
    net.first.weight = nn.Parameter(rg.zeros(4, 3))
    net.first = nn.Linear(3, 4)
    net.norm.running_mean = rg.ones(4)
    assert list(net.state_dict()) == before


def test_assignments_are_checked() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="weight"):
        layer.weight = rg.ones(2, 2)
    with pytest.raises(TypeError, match="child module"):
        Net().first = 3  # type: ignore[assignment]
    with pytest.raises(TypeError, match="buffer"):
        nn.BatchNorm1d(2).running_mean = "mean"  # type: ignore[assignment]
    with pytest.raises(KeyError, match="already exists"):
        layer.register_buffer("forward", rg.ones(1))
    with pytest.raises(KeyError, match=r'contain "\."'):
        layer.register_parameter("a.b", None)
    with pytest.raises(ValueError, match="non-leaf"):
        bad = nn.Parameter(rg.ones(2))
        bad._node = (nn.Parameter(rg.ones(2)) * 2)._node
        layer.register_parameter("bad", bad)
    with pytest.raises(AttributeError, match="no attribute 'weigth'"):
        _ = layer.weigth
    layer.bias = None
    assert layer.bias is None and list(layer.state_dict()) == ["weight"]
    del layer.weight
    assert not hasattr(layer, "weight")


def test_before_init() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter(rg.ones(1))

    class EarlyModule(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.ReLU()

    for kind in (Early, EarlyModule):
        with pytest.raises(AttributeError, match="before Module.__init__"):
            kind()


def test_parameter_shares_memory_safely() -> None:
    x = rg.ones(3, requires_grad=True)
    y = x * 2
    weight = nn.Parameter(y)
    z = (y * y).sum()
    with rg.no_grad():
        weight.add_(1.0)
    z.backward()
    assert x.grad is not None and x.grad.tolist() == [8.0] * 3
    assert y.tolist() == [3.0] * 3
    with pytest.raises(TypeError, match="expected a Tensor"):
        nn.Parameter([1.0])
    assert not nn.Parameter(rg.tensor([1]), requires_grad=False).requires_grad
    assert "Parameter containing:\ntensor([2." in repr(nn.Parameter(rg.full((1,), 2.0)))


@pytest.mark.parametrize("value", [[[1.0, 2.0]], 1.0, None, "12", {"a": 1}, np.array(["a", "b"])], ids=repr)
def test_load_state_dict_refuses_what_is_no_tensor_and_loads_nothing(value: object) -> None:
    layer = nn.Linear(2, 1)
    before = layer.weight.tolist()
    with pytest.raises(RuntimeError, match='While copying the parameter named "weight", expected a Tensor'):
        layer.load_state_dict({"bias": rg.ones(1), "weight": value})
    assert layer.weight.tolist() == before
    layer.load_state_dict({"bias": rg.ones(1), "weight": np.ones((1, 2), np.float32)})
    assert layer.weight.tolist() == [[1.0, 1.0]]


def test_get_by_path() -> None:
    net = nn.Sequential(Net(), nn.ReLU())
    assert net.get_submodule("0.first") is net[0].first
    assert net.get_parameter("0.first.weight") is net[0].first.weight
    assert net.get_buffer("0.norm.running_mean") is net[0].norm.running_mean
    for get, path in (
        (net.get_submodule, "0.third"),
        (net.get_parameter, "0.norm.eps"),
        (net.get_buffer, "0.first.weight"),
    ):
        with pytest.raises(AttributeError):
            get(path)


# State


def test_load_state_dict_reports_everything() -> None:
    net = Net()
    before = {name: value.numpy().copy() for name, value in net.state_dict().items()}
    state = {name: value + 1 for name, value in net.state_dict().items()}
    del state["norm.bias"]
    state["third"] = rg.ones(1)
    state["second.weight"] = rg.ones(2, 5)
    with pytest.raises(RuntimeError) as error:
        net.load_state_dict(state)
    message = str(error.value)
    for part in (
        "Net",
        "Missing key(s)",
        "'norm.bias'",
        "Unexpected key(s)",
        "'third'",
        "second.weight",
        "(2, 5)",
        "(2, 4)",
    ):
        assert part in message
    assert all(np.array_equal(value.numpy(), before[name]) for name, value in net.state_dict().items())
    with pytest.raises(RuntimeError, match="size mismatch"):
        net.load_state_dict(state, strict=False)
    del state["second.weight"]
    result = net.load_state_dict(state, strict=False)
    assert result.missing_keys == ["norm.bias", "second.weight"] and result.unexpected_keys == ["third"]
    np.testing.assert_array_equal(net.first.weight.detach().numpy(), before["first.weight"] + 1)
    assert repr(net.load_state_dict(net.state_dict())) == "<All keys matched successfully>"
    with pytest.raises(TypeError, match="dictionary"):
        net.load_state_dict([1])  # type: ignore[arg-type]


def test_load_keeps_objects_dtypes_and_graphs() -> None:
    layer = nn.Linear(2, 2, bias=False)
    weight = layer.weight
    x = rg.ones(1, 2, requires_grad=True)
    y = layer(x).sum()
    old = weight.detach().numpy().copy()
    layer.load_state_dict({"weight": np.full((2, 2), 5.0)})
    assert layer.weight is weight and weight.dtype == rg.float32 and weight.requires_grad
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), old.sum(0, keepdims=True), rtol=1e-6)
    layer.load_state_dict({"weight": rg.zeros(2, 2, dtype=rg.float64)}, assign=True)
    assert layer.weight is not weight and layer.weight.dtype == rg.float64 and layer.weight.requires_grad


def test_state_dict_is_on_the_same_memory() -> None:
    layer = nn.Linear(2, 2)
    state = layer.state_dict()
    assert not state["weight"].requires_grad
    with rg.no_grad():
        layer.weight.fill_(3.0)
    assert state["weight"].tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert layer.state_dict(keep_vars=True)["weight"] is layer.weight
    assert list(layer.state_dict(prefix="a.")) == ["a.weight", "a.bias"]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight


def test_tied_weights_stay_tied() -> None:
    model = Tied()
    assert [name for name, _ in model.named_parameters()] == ["embed.weight"]
    every = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    assert every == ["embed.weight", "head.weight"] == list(model.state_dict())
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.head.weight is other.embed.weight and other.embed.weight is not model.embed.weight
    model.double()
    assert model.head.weight is model.embed.weight and model.head.weight.dtype == rg.float64
    model.load_state_dict({"embed.weight": np.ones((5, 3)), "head.weight": np.ones((5, 3))})
    assert model.head.weight is model.embed.weight


def test_extra_state_and_state_hooks() -> None:
    class Counter(nn.Module):
        count = 3

        def get_extra_state(self) -> Any:
            return {"count": self.count}

        def set_extra_state(self, state: Any) -> None:
            self.count = state["count"]

    model = nn.Sequential(Counter())
    assert model.state_dict() == {"0._extra_state": {"count": 3}}
    model.load_state_dict({"0._extra_state": {"count": 7}})
    assert model[0].count == 7
    with pytest.raises(RuntimeError, match="Missing"):
        model.load_state_dict({})
    layer = nn.Linear(1, 1)
    layer.register_state_dict_post_hook(lambda module, state, prefix, meta: state.pop(prefix + "bias") and None)
    layer.register_load_state_dict_pre_hook(
        lambda module, state, prefix, *rest: state.update({prefix + "bias": rg.ones(1)})
    )
    layer.load_state_dict(layer.state_dict())
    assert layer.bias.tolist() == [1.0]


# Hooks


def test_forward_hooks() -> None:
    layer, calls = nn.Linear(2, 2), []
    handles = [
        layer.register_forward_pre_hook(lambda module, args: calls.append("pre") or (args[0] * 0,)),
        layer.register_forward_pre_hook(lambda module, args: calls.append("first"), prepend=True),
        layer.register_forward_hook(lambda module, args, out: calls.append(args[0].sum().item()) or out + 1),
        layer.register_forward_hook(lambda module, args, kwargs, out: calls.append(kwargs), with_kwargs=True),
    ]
    out = layer(rg.ones(1, 2))
    assert calls == ["first", "pre", 0.0, {}]
    np.testing.assert_allclose(out.detach().numpy()[0], layer.bias.detach().numpy() + 1)
    for handle in handles:
        handle.remove()
    assert (layer(rg.zeros(1, 2)) - layer.bias).abs().sum().item() == 0


def test_hook_after_a_forward_that_raised() -> None:
    layer, seen = nn.Linear(2, 2), []
    layer.register_forward_hook(lambda module, args, out: seen.append(out))
    layer.register_forward_hook(lambda module, args, out: seen.append("always"), always_call=True)
    with pytest.raises(RuntimeError):
        layer(rg.ones(1, 3))
    assert seen == ["always"]


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_backward_hooks_match_pytorch() -> None:
    torch = pytest.importorskip("torch")

    def program(library: Any) -> list[Any]:
        module = library.nn.Linear(3, 2).double()
        with library.no_grad():
            module.weight.copy_(library.arange(6.0).reshape(2, 3))
            module.bias.zero_()
        seen: list[Any] = []

        def see(module: Any, grad_input: Any, grad_output: Any) -> Any:
            seen.append([[None if g is None else g.tolist() for g in part] for part in (grad_input, grad_output)])
            return tuple(None if g is None else g * 2 for g in grad_input) if grad_input[0] is not None else None

        handle = module.register_full_backward_hook(see)
        pre = module.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 3,))
        for requires in (True, False):
            x = library.ones(4, 3, dtype=library.float64, requires_grad=requires)
            module(x).sum().backward()
            seen.append(None if x.grad is None else x.grad.tolist())
        handle.remove()
        pre.remove()
        module(library.ones(1, 3, dtype=library.float64)).sum().backward()
        return [*seen, module.weight.grad.tolist()]

    assert program(rg) == program(torch)


# Modes, casts, copies


def test_modes_and_gradients() -> None:
    net = Net()
    net.eval()
    assert not net.training and not net.norm.training
    net.train()
    assert net.norm.training
    with pytest.raises(ValueError, match="boolean"):
        net.train("yes")  # type: ignore[arg-type]
    net(rg.randn(5, 3)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert all(p.grad is not None and float(p.grad.abs().sum()) == 0 for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.requires_grad_(False)
    assert not net(rg.randn(5, 3)).requires_grad


def test_casts() -> None:
    net = Net()
    net(rg.randn(5, 3)).sum().backward()
    net.to(rg.float64)
    assert {p.dtype for p in net.parameters()} == {p.grad.dtype for p in net.parameters()} == {rg.float64}
    assert net.norm.num_batches_tracked.dtype == rg.int64 and net.hidden.dtype == rg.float64
    assert net.half().first.weight.dtype == rg.float16
    assert net.float().to("cpu").first.weight.dtype == rg.float32
    assert all(p.is_leaf and p.requires_grad for p in net.parameters())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_copies(copied: Any) -> None:
    net = Net()
    net(rg.randn(5, 3)).sum().backward()
    other = copied(net.eval())
    x = rg.randn(4, 3)
    np.testing.assert_array_equal(other(x).detach().numpy(), net(x).detach().numpy())
    assert repr(other) == repr(net) and not other.norm.training and list(other.state_dict()) == list(net.state_dict())
    with rg.no_grad():
        other.first.weight.zero_()
    assert float(net.first.weight.detach().abs().sum()) > 0
    assert other.first.weight.requires_grad and "hidden" not in other.state_dict()


def test_missing_forward_and_printing() -> None:
    class Empty(nn.Module):
        def extra_repr(self) -> str:
            return "a\nb"

    with pytest.raises(NotImplementedError, match="Empty"):
        Empty()(1)
    assert repr(Empty()) == "Empty(\n  a\n  b\n)"
    assert repr(nn.Sequential(nn.Sequential(nn.ReLU()))) == ("Sequential(\n  (0): Sequential(\n    (0): ReLU()\n  )\n)")


@pytest.mark.parametrize("module", [nn.Dropout(0.3), nn.Dropout2d(0.3)])
def test_dropout_statistics(module: nn.Module) -> None:
    rg.manual_seed(0)
    x = rg.ones(100, 50, 2, 2, requires_grad=True)
    y = module(x)
    y.sum().backward()
    zeros = y.detach().numpy() == 0
    assert abs(zeros.mean() - 0.3) < 0.02
    np.testing.assert_allclose(y.detach().numpy()[~zeros], 1 / 0.7, rtol=1e-6)
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
    if isinstance(module, nn.Dropout2d):
        assert (zeros.all((2, 3)) | ~zeros.any((2, 3))).all()
    with pytest.raises(ValueError, match="between 0 and 1"):
        type(module)(1.5)


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError),
        (lambda: nn.Conv2d(3, 4, 3, padding="most"), ValueError),
        (lambda: nn.Conv2d(3, 4, 3, stride=2, padding="same"), ValueError),
        (lambda: nn.ConvTranspose2d(3, 4, 3, padding_mode="reflect"), ValueError),
        (lambda: nn.ConvTranspose1d(3, 4, 3, stride=2)(rg.ones(1, 3, 4), output_size=[12]), ValueError),
        (lambda: nn.BatchNorm2d(3)(rg.ones(2, 3)), ValueError),
        (lambda: nn.BatchNorm1d(3)(rg.ones(1, 3)), ValueError),
        (lambda: nn.InstanceNorm2d(3, affine=True)(rg.ones(1, 2, 4, 4)), ValueError),
        (lambda: nn.GroupNorm(2, 3), ValueError),
        (lambda: nn.Embedding(3, 2, padding_idx=3), AssertionError),
        (lambda: nn.Embedding(3, 2)(rg.tensor([3])), IndexError),
        (lambda: nn.LSTM(3, 4, proj_size=4), ValueError),
        (lambda: nn.LSTM(3, 4)(rg.ones(5, 2, 7)), RuntimeError),
        (lambda: nn.LSTM(3, 4)(rg.ones(5, 2, 3), (rg.ones(1, 1, 4), rg.ones(1, 2, 4))), RuntimeError),
        (lambda: nn.RNN(3, 4, nonlinearity="sin"), ValueError),
        (lambda: nn.MultiheadAttention(6, 4), AssertionError),
        (lambda: nn.TransformerEncoderLayer(4, 2, activation="sin"), RuntimeError),
        (lambda: nn.Transformer(4, 2, 1, 1, 8)(rg.ones(3, 2, 4), rg.ones(3, 1, 4)), RuntimeError),
        (lambda: nn.CircularPad1d(1)(rg.ones(3)), ValueError),
        (lambda: nn.Hardtanh(1.0, 0.0), ValueError),
        (lambda: nn.Unflatten(0, 3), TypeError),
        (lambda: nn.Linear(2, 3)(rg.ones(4, 5)), RuntimeError),
        (lambda: nn.MSELoss(reduction="median")(rg.ones(2), rg.ones(2)), ValueError),
    ],
)
def test_bad_arguments(build: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        build()


def test_dropout_of_one_recurrent_layer_warns() -> None:
    with pytest.warns(UserWarning, match="num_layers=1"):
        nn.GRU(2, 3, dropout=0.5)


def test_members_of_a_tree_by_a_function_as_subclasses_ask_for_them():
    class Part(nn.Module):
        """A module that lists only the parameters that are to be adapted."""

        def adapted(self):
            chosen = lambda module: module._parameters.items() if isinstance(module, nn.Linear) else []  # noqa: E731
            return [name for name, _ in self._named_members(chosen)]

    part = Part()
    part.first, part.second = nn.Linear(2, 2, bias=False), nn.PReLU()
    part.third = part.first
    assert part.adapted() == ["first.weight"]


def test_a_convolution_with_another_weight():
    class Standardized(nn.Conv2d):
        def forward(self, input):
            return self._conv_forward(input, self.weight - self.weight.mean(), None)

    module = Standardized(2, 3, 3, padding=1, padding_mode="reflect")
    x = rg.rand(1, 2, 5, 5)
    expected = nn.functional.conv2d(nn.functional.pad(x, (1, 1, 1, 1), "reflect"), module.weight - module.weight.mean())
    np.testing.assert_allclose(module(x).detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_fans_by_pytorchs_name():
    from retrograd.nn.init import _calculate_fan_in_and_fan_out

    assert _calculate_fan_in_and_fan_out(rg.empty(6, 4, 3, 3)) == (36, 54)
    with pytest.raises(ValueError, match="xavier_normal_: fan in and fan out"):
        nn.init.xavier_normal_(rg.empty(3))


def test_a_subclass_that_loads_an_older_layout():
    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", rg.zeros(2))

        def _load_from_state_dict(self, state_dict, prefix, *args):
            state_dict.pop(prefix + "num_batches_tracked", None)
            if prefix + "gamma" in state_dict:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "gamma")
            super()._load_from_state_dict(state_dict, prefix, *args)

    model = nn.Sequential(Frozen(), nn.Linear(2, 1))
    state = {**nn.Linear(2, 1).state_dict(prefix="1."), "0.gamma": rg.ones(2), "0.num_batches_tracked": rg.tensor(3)}
    seen = []
    model.register_load_state_dict_post_hook(lambda module, keys: seen.append(keys))
    model[1]._register_load_state_dict_pre_hook(lambda state, prefix, *args: seen.append(prefix))
    assert str(model.load_state_dict(state)) == "<All keys matched successfully>"
    assert model[0].weight.tolist() == [1.0, 1.0]
    assert seen == ["1.", ([], [])]
    with pytest.raises(RuntimeError, match=r"Missing key\(s\) in state_dict: '0.weight'"):
        model.load_state_dict({key: value for key, value in state.items() if key != "0.gamma"})
    model.load_state_dict({"0.gamma": rg.zeros(2)}, strict=False)
    assert model[0].weight.tolist() == [0.0, 0.0]


def test_a_loader_of_ones_own_loads_module_by_module():
    model = nn.Sequential(nn.Linear(2, 1), nn.PReLU())
    state = {name: rg.ones(*value.shape) for name, value in model.state_dict().items()}
    del state["1.weight"]
    missing = []
    for name, module in model.named_children():
        module._load_from_state_dict(state, f"{name}.", {}, True, missing, [], [])
    assert model[0].weight.tolist() == [[1.0, 1.0]]
    assert missing == ["1.weight"]


def test_a_submodule_is_replaced_by_its_path():
    model = nn.Sequential(nn.Sequential(nn.ReLU(), nn.Linear(2, 2)), nn.Tanh())
    model.set_submodule("0.0", nn.GELU())
    assert [type(part).__name__ for part in model[0]] == ["GELU", "Linear"]
    with pytest.raises(AttributeError, match="no submodule '7'"):
        model.set_submodule("0.7", nn.GELU())
    with pytest.raises(ValueError, match="must be the path of a submodule"):
        model.set_submodule("", nn.GELU())
    with pytest.raises(TypeError, match="cannot assign int as child module"):
        model.set_submodule("0.1", 3)


def test_backward_hooks_of_a_module_that_returns_a_named_tuple():
    class Output(NamedTuple):
        total: Any
        mean: Any

    class Summary(nn.Module):
        def forward(self, input):
            return Output(input.sum(), input.mean())

    seen = []
    module = Summary()
    module.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append(grad_output))
    output = module(rg.ones(2, requires_grad=True))
    output.mean.backward()
    assert isinstance(output, Output)
    assert seen[0][0] is None and seen[0][1].item() == 1.0


# Conversion


@pytest.fixture
def future():
    yield rg.__future__
    rg.__future__.set_overwrite_module_params_on_conversion(False)
    rg.__future__.set_swap_module_params_on_conversion(False)


def test_a_conversion_keeps_the_parameter_and_its_gradient(future) -> None:
    layer = nn.Linear(2, 3)
    weight = layer.weight
    layer(rg.ones(1, 2)).sum().backward()
    gradient = weight.grad
    layer.double()
    assert layer.weight is weight and weight.grad is gradient
    assert weight.dtype == gradient.dtype == np.float64


def test_a_conversion_makes_new_parameters_on_demand(future) -> None:
    layer = nn.Linear(2, 3).requires_grad_(False)
    weight = layer.weight
    weight.grad = rg.ones(3, 2)
    future.set_overwrite_module_params_on_conversion(True)
    assert future.get_overwrite_module_params_on_conversion()
    layer.double()
    assert weight.dtype == weight.grad.dtype == np.float32
    assert layer.weight is not weight and not layer.weight.requires_grad
    assert layer.weight.dtype == layer.weight.grad.dtype == np.float64


@pytest.mark.parametrize("assign", [False, True])
def test_loading_keeps_the_parameter_objects_on_demand(future, assign: bool) -> None:
    layer = nn.Linear(2, 3)
    weight = layer.weight
    state = {name: value.double() + 1 for name, value in layer.state_dict().items()}
    future.set_swap_module_params_on_conversion(True)
    layer.load_state_dict(state, assign=assign)
    assert layer.weight is weight and weight.requires_grad
    assert weight.dtype == (np.float64 if assign else np.float32)
    assert rg.allclose(weight.double(), state["weight"])


class Halved(rg.nn.Parameter):
    def module_load(self, other: rg.Tensor, assign: bool = False) -> rg.Tensor:
        return other / 2


def test_a_parameter_of_a_class_of_its_own_says_what_it_takes_over(future) -> None:
    layer = nn.Linear(2, 1, bias=False)
    layer.weight = Halved(rg.zeros(1, 2))
    layer.load_state_dict({"weight": rg.tensor([[2.0, 4.0]])})
    assert layer.weight.tolist() == [[2.0, 4.0]]
    future.set_swap_module_params_on_conversion(True)
    layer.load_state_dict({"weight": rg.tensor([[2.0, 4.0]])})
    assert layer.weight.tolist() == [[1.0, 2.0]]
    layer.weight.module_load = lambda other, assign=False: other
    with pytest.raises(RuntimeError, match="module_load must return a new Tensor"):
        layer.load_state_dict({"weight": rg.tensor([[2.0, 4.0]])})


def test_a_conversion_calls_the_method_of_a_submodule() -> None:
    class Counted(nn.Linear):
        calls = 0

        def _apply(self, fn, recurse=True):
            self.calls += 1
            return super()._apply(fn, recurse)

    layer = Counted(2, 2)
    nn.Sequential(nn.Sequential(layer)).double()
    assert layer.calls == 1 and layer.weight.dtype == np.float64
