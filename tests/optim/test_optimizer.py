"""What all optimizers share: groups, state, hooks, errors, copy on write, other array libraries."""

import copy
import pickle

import numpy as np
import pytest

import retrograd as rg
from retrograd import optim
from tests.helpers.guarded import guarded_backend

NAMES = [
    "SGD",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "RAdam",
    "Adagrad",
    "Adadelta",
    "RMSprop",
    "Rprop",
    "ASGD",
    "Adafactor",
    "Muon",
]
OPTIONS = {
    "SGD": {"momentum": 0.9},
    "Adam": {"amsgrad": True},
    "RMSprop": {"momentum": 0.9, "centered": True},
    "ASGD": {"t0": 2},
    "NAdam": {"momentum_decay": 0.1},
}


def make(name, parameters):
    return getattr(optim, name)(parameters, lr=0.05, **OPTIONS.get(name, {}))


def parameters(seed=0, dtype=np.float64, count=3):
    random = np.random.default_rng(seed)
    return [rg.tensor(random.normal(size=(4, 3)).astype(dtype), requires_grad=True) for _ in range(count)]


def train(tensors, optimizer, steps, begin=0):
    for step in range(begin, begin + steps):
        optimizer.zero_grad()
        loss = sum(((tensor * (index + 1) - step * 0.1) ** 2).sum() for index, tensor in enumerate(tensors[:-1]))
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_state_dict_loaded_midway_changes_nothing(name, dtype):
    one, two = parameters(dtype=dtype), parameters(dtype=dtype)
    optimizer = make(name, one)
    train(one, optimizer, 5)
    saved = copy.deepcopy(optimizer.state_dict())
    for source, target in zip(one, two):
        with rg.no_grad():
            target.copy_(source)
    other = getattr(optim, name)([{"params": two, "lr": 123.0}])
    other.load_state_dict(saved)
    train(one, optimizer, 5, 5)
    train(two, other, 5, 5)
    for a, b in zip(one, two):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
    # What was loaded is a copy.
    for key, value in other.state[two[0]].items():
        assert value.array is not saved["state"][0][key].array


@pytest.mark.parametrize("name", NAMES)
def test_pytorchs_state_dict_can_be_loaded_and_the_other_way_round(name, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda self: self.clone())
    ours = parameters()
    theirs = [torch.tensor(tensor.tolist(), dtype=torch.float64, requires_grad=True) for tensor in ours]
    their_optimizer = getattr(torch.optim, name)(theirs, lr=0.05, **OPTIONS.get(name, {}))
    train(theirs, their_optimizer, 4)
    for tensor, source in zip(ours, theirs):
        with rg.no_grad():
            tensor.copy_(rg.tensor(source.detach().numpy()))
    optimizer = make(name, ours)
    optimizer.load_state_dict(their_optimizer.state_dict())
    train(ours, optimizer, 4, 4)
    train(theirs, their_optimizer, 4, 4)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)

    state = optimizer.state_dict()
    as_torch = {
        "state": {
            index: {key: torch.tensor(value.numpy()) for key, value in entries.items()}
            for index, entries in state["state"].items()
        },
        "param_groups": state["param_groups"],
    }
    fresh = getattr(torch.optim, name)(theirs)
    fresh.load_state_dict(as_torch)
    train(ours, optimizer, 4, 8)
    train(theirs, fresh, 4, 8)
    for a, b in zip(ours, theirs):
        # PyTorch casts NAdam's and ASGD's float32 numbers to float64 when it loads them.
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "way", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))], ids=["copy", "pickle"]
)
def test_copies_go_on_alike(name, way):
    tensors = parameters()
    optimizer = make(name, tensors)
    train(tensors, optimizer, 3)
    other_tensors, other = way((tensors, optimizer))
    train(tensors, optimizer, 3, 3)
    train(other_tensors, other, 3, 3)
    for a, b in zip(tensors, other_tensors):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


@pytest.mark.parametrize("name", [*NAMES, "LBFGS"])
def test_on_arrays_with_cupys_interface(name):
    def run(device):
        tensors = [rg.tensor(tensor.tolist(), dtype=rg.float64, device=device) for tensor in parameters()]
        for tensor in tensors:
            tensor.requires_grad_()
        optimizer = make(name, tensors)
        for step in range(4):

            def closure(optimizer=optimizer, tensors=tensors, step=step):
                optimizer.zero_grad()
                for index, tensor in enumerate(tensors):
                    xp_gradient = tensor.array * (index + 2.0) - 0.3 * step
                    tensor.grad = rg.Tensor(xp_gradient)
                return sum((tensor.array * tensor.array).sum() for tensor in tensors)

            optimizer.step(closure)
        return [tensor.detach().cpu().numpy() for tensor in tensors]

    expected = run("cpu")
    with guarded_backend():
        found = run("cuda")
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_that_saved_a_parameter_keeps_its_old_values(name):
    (x,) = parameters(count=1)
    old = x.detach().numpy().copy()
    view = x.detach()
    y = (x * x).sum()  # saves x
    x.grad = rg.ones(4, 3, dtype=rg.float64)
    make(name, [x]).step()
    assert not np.array_equal(x.detach().numpy(), old)
    np.testing.assert_array_equal(view.numpy(), x.detach().numpy())  # who shares the memory follows
    x.grad = None
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * old)


@pytest.mark.parametrize("name", NAMES)
def test_a_step_writes_in_place_records_nothing_and_counts_a_version(name):
    (x,) = parameters(count=1)
    x.grad = rg.ones(4, 3, dtype=rg.float64)
    g, array, version = x.grad.numpy().copy(), x.array, x._version
    make(name, [x]).step()
    assert x.array is array
    assert x.is_leaf and x.requires_grad
    assert x._version > version
    np.testing.assert_array_equal(x.grad.numpy(), g)


def test_expanded_parameters_are_refused():
    x = rg.zeros(1).expand(3).requires_grad_()
    x.grad = rg.ones(3)
    with pytest.raises(RuntimeError, match="share one memory location"):
        optim.SGD([x], lr=0.1).step()


def test_read_only_memory_is_not_written():
    array = np.ones(3)
    array.flags.writeable = False
    x = rg.from_numpy(array).requires_grad_()
    x.grad = rg.ones(3, dtype=rg.float64)
    optim.SGD([x], lr=0.5).step()
    assert x.tolist() == [0.5] * 3
    assert array.tolist() == [1.0] * 3


@pytest.mark.parametrize("name", [*NAMES])
def test_empty_parameters(name):
    x = rg.zeros(0, 3).requires_grad_()
    x.grad = rg.zeros(0, 3)
    make(name, [x]).step()
    assert x.shape == (0, 3)


def test_zero_grad():
    x, y = rg.ones(2, requires_grad=True), rg.ones(2, requires_grad=True)
    optimizer = optim.SGD([x, y], lr=0.1)
    (x * 2).sum().backward()
    kept = x.grad
    optimizer.zero_grad(set_to_none=False)
    assert x.grad is kept and x.grad.tolist() == [0.0, 0.0]
    assert y.grad is None
    optimizer.zero_grad()
    assert x.grad is None


def test_the_closure_is_differentiated_inside_no_grad():
    x = rg.ones(2, requires_grad=True)
    optimizer = optim.SGD([x], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    with rg.no_grad():
        assert optimizer.step(closure).item() == 2.0
    assert x.tolist() == [0.5, 0.5]


def test_a_learning_rate_in_a_tensor():
    x = rg.ones(1, requires_grad=True)
    rate = rg.tensor(0.5)
    optimizer = optim.Adam([x], lr=rate)
    scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    x.grad = rg.ones(1)
    optimizer.step()
    scheduler.step()
    assert x.item() == pytest.approx(0.5)
    assert rate.item() == 0.25


def test_hooks_run_around_each_step_once():
    calls = []

    class Twice(optim.SGD):
        def step(self, closure=None):
            super().step()
            super().step()

    x = rg.ones(1, requires_grad=True)
    x.grad = rg.ones(1)
    optimizer = Twice([x], lr=0.25)
    before = optimizer.register_step_pre_hook(lambda *args: calls.append(("before", x.item())))
    optimizer.register_step_post_hook(lambda *args: calls.append(("after", x.item())))
    everywhere = optim.optimizer.register_optimizer_step_post_hook(lambda *args: calls.append("everywhere"))
    optimizer.step()
    assert calls == [("before", 1.0), ("after", 0.5), "everywhere"]
    before.remove()
    everywhere.remove()
    optimizer.step()
    assert calls[3:] == [("after", 0.0)]
    optimizer.register_step_pre_hook(lambda *args: "wrong")
    with pytest.raises(RuntimeError, match="pre-hook"):
        optimizer.step()


def test_state_dict_hooks():
    optimizer = optim.SGD([rg.ones(1, requires_grad=True)], lr=0.25)
    optimizer.register_state_dict_post_hook(lambda _, state: {**state, "note": 1})
    seen = []
    optimizer.register_load_state_dict_pre_hook(lambda _, state: seen.append(state.pop("note")))
    optimizer.register_load_state_dict_post_hook(lambda _: seen.append("loaded"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == [1, "loaded"]


def test_named_parameters():
    model = {"weight": rg.ones(2, requires_grad=True), "bias": rg.ones(1, requires_grad=True)}
    optimizer = optim.SGD(model.items(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="names"):
        optimizer.add_param_group({"params": [rg.ones(1, requires_grad=True)]})
    with pytest.raises(ValueError, match="names"):
        optim.SGD([("a", rg.ones(1, requires_grad=True)), rg.ones(1, requires_grad=True)])


def test_groups():
    x, y, z = (rg.ones(1, requires_grad=True) for _ in range(3))
    optimizer = optim.SGD([{"params": x}, {"params": [y], "lr": 0.5}], lr=0.25)
    optimizer.add_param_group({"params": z, "lr": 1.0})
    for tensor in (x, y, z):
        tensor.grad = rg.ones(1)
    optimizer.step()
    assert [tensor.item() for tensor in (x, y, z)] == [0.75, 0.5, 0.0]
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": [x]})
    with pytest.warns(UserWarning, match="duplicate"):
        optim.SGD([x, x], lr=0.1)


def test_bad_parameters():
    x = rg.ones(1, requires_grad=True)
    with pytest.raises(TypeError, match="iterable of Tensors"):
        optim.SGD(x)
    module = rg.nn.Linear(1, 1)
    for params in (module, module.parameters):
        with pytest.raises(TypeError, match=r"SGD: .* module.parameters\(\)\), got (Linear|Module.parameters)"):
            optim.SGD(params)
    with pytest.raises(ValueError, match="empty parameter list"):
        optim.SGD([])
    with pytest.raises(TypeError, match="only optimize Tensors"):
        optim.SGD([np.ones(1)])
    with pytest.raises(TypeError, match="ordered collections"):
        optim.SGD([{"params": {x}}])
    with pytest.raises(ValueError, match="non-leaf"):
        optim.SGD([x * 2])
    with pytest.raises(TypeError, match="must be a dict"):
        optim.SGD([x]).add_param_group([x])
    with pytest.raises(ValueError, match="2D"):
        optim.Muon([x])


@pytest.mark.parametrize("name", [*NAMES, "LBFGS"])
@pytest.mark.parametrize("lr", [-1.0, float("nan")])
def test_bad_learning_rates(name, lr):
    with pytest.raises(ValueError, match=f"{name}: lr must be >= 0"):
        getattr(optim, name)([rg.ones(1, 1, requires_grad=True)], lr=lr)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"momentum": -1}),
        ("SGD", {"nesterov": True}),
        ("SGD", {"nesterov": True, "momentum": 0.9, "dampening": 0.1}),
        ("Adam", {"betas": (1.0, 0.9)}),
        ("Adam", {"betas": (0.9, -0.1)}),
        ("Adam", {"betas": (0.9,)}),
        ("AdamW", {"eps": -1}),
        ("NAdam", {"momentum_decay": -1}),
        ("RMSprop", {"alpha": -1}),
        ("Rprop", {"etas": (1.5, 1.2)}),
        ("Adadelta", {"rho": 1.5}),
        ("Adagrad", {"lr_decay": -1}),
        ("Adafactor", {"beta2_decay": 0.5}),
        ("Adafactor", {"d": 0.5}),
        ("Muon", {"adjust_lr_fn": "other"}),
        ("Muon", {"ns_steps": 100}),
    ],
)
def test_bad_hyper_parameters(name, options):
    with pytest.raises(ValueError):
        getattr(optim, name)([rg.ones(1, 1, requires_grad=True)], **options)


def test_how_a_step_is_run_is_not_the_users_choice():
    x = rg.ones(1, requires_grad=True)
    optim.Adam([x], foreach=True, capturable=True)
    optim.Adam([x], fused=True)
    with pytest.raises(RuntimeError, match="cannot be `True` together"):
        optim.Adam([x], fused=True, foreach=True)


def test_states_that_do_not_fit_are_refused():
    x, y = rg.ones(2, requires_grad=True), rg.ones(3, requires_grad=True)
    one, other = optim.Adam([x]), optim.Adam([y])
    x.grad = rg.ones(2)
    one.step()
    with pytest.raises(ValueError, match=r"exp_avg float32\(2,\) does not fit the parameter float32\(3,\)"):
        other.load_state_dict(one.state_dict())
    assert not other.state
    with pytest.raises(ValueError, match="number of parameter groups"):
        optim.Adam([{"params": x}, {"params": y}]).load_state_dict(one.state_dict())
    with pytest.raises(ValueError, match="size of optimizer's group"):
        optim.Adam([x, y]).load_state_dict(one.state_dict())
