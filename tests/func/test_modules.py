"""functional_call and stack_module_state: against PyTorch, tied weights, buffers, and Hessians of a Module's loss."""

import numpy as np
import pytest

import retrograd as rg
from retrograd import func, nn
from retrograd.func import functional_call, grad, hessian, hvp, jacrev, stack_module_state
from tests.func.programs import QUIET, assert_same

pytestmark = QUIET
RNG = np.random.default_rng(0)


def network(m):
    return m.nn.Sequential(m.nn.Linear(3, 4), m.nn.Tanh(), m.nn.Linear(4, 2)).double()


def state_of(module, seed=1):
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(tuple(p.shape)) for name, p in module.named_parameters()}


def loss(m, module, x, target):
    def of_state(state):
        return m.nn.functional.cross_entropy(m.func.functional_call(module, state, (x,)), target)

    return of_state


def problem(m):
    module = network(m)
    state = {name: m.tensor(array) for name, array in state_of(module).items()}
    x, target = m.tensor(np.random.default_rng(2).standard_normal((5, 3))), m.tensor([0, 1, 1, 0, 1])
    return loss(m, module, x, target), state


def test_gradient_and_hessian_of_a_modules_loss_are_pytorchs():
    torch = pytest.importorskip("torch")
    mine, state = problem(rg)
    wanted, torch_state = problem(torch)
    assert_same(grad(mine)(state), torch.func.grad(wanted)(torch_state))
    found = hessian(mine)(state)
    assert list(found) == list(state) and found["0.weight"]["2.bias"].shape == (4, 3, 2)
    assert_same(found, torch.func.hessian(wanted)(torch_state))
    assert_same(jacrev(jacrev(mine))(state), found)


def test_hessian_product_of_a_modules_loss():
    mine, state = problem(rg)
    direction = {name: rg.tensor(array) for name, array in state_of(network(rg), 3).items()}
    _, found = hvp(mine, (state,), (direction,))
    full = hessian(mine)(state)
    for name, product in found.items():
        wanted = sum(
            full[name][other].reshape(state[name].numel(), -1) @ direction[other].reshape(-1) for other in state
        )
        assert_same(product.reshape(-1), wanted)


def test_the_module_has_its_own_again_also_after_an_error():
    module = network(rg)
    before = dict(module.named_parameters())
    state = {name: p.detach() * 2 for name, p in before.items()}
    functional_call(module, state, (rg.ones(1, 3, dtype=rg.float64),))
    with pytest.raises(RuntimeError):
        functional_call(module, state, (rg.ones(1, 7, dtype=rg.float64),))
    assert all(p is before[name] for name, p in module.named_parameters())


def test_parameters_that_are_not_named_stay_and_are_differentiated_by_backward():
    layer = nn.Linear(2, 1)
    weight = rg.ones(1, 2, requires_grad=True)
    functional_call(layer, {"weight": weight}, rg.ones(2)).sum().backward()
    assert layer.bias.grad.tolist() == [1.0] and layer.weight.grad is None and weight.grad.tolist() == [[1.0, 1.0]]


def test_arguments_by_place_and_by_name():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(rg.ones(1))

        def forward(self, x=0, y=0, *, z=0):
            return self.scale * (x + 10 * y + 100 * z)

    state = {"scale": rg.tensor([2.0])}
    assert functional_call(Sum(), state, (1, 2), {"z": 3}).item() == 642.0
    assert functional_call(Sum(), state, 1).item() == 2.0
    assert functional_call(Sum(), state, None, {"y": 1}).item() == 20.0
    assert functional_call(Sum(), state).item() == 0.0


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2, bias=False)
        self.second = nn.Linear(2, 2, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(self.first(x))


def test_one_name_of_a_tied_weight_stands_for_all():
    model, x = Tied(), rg.ones(2)
    assert functional_call(model, {"first.weight": rg.eye(2) * 3}, x).tolist() == [9.0, 9.0]
    model.first.weight.data.copy_(rg.eye(2))
    assert functional_call(model, {"first.weight": rg.eye(2) * 3}, x, tie_weights=False).tolist() == [3.0, 3.0]
    both = {"first.weight": rg.eye(2), "second.weight": rg.eye(2)}
    with pytest.raises(ValueError, match=r"'first.weight' and 'second.weight' are one Tensor"):
        functional_call(model, both, x)
    assert functional_call(model, {"second.weight": rg.eye(2) * 2}, x, strict=True).tolist() == [4.0, 4.0]


def test_buffers_are_written_in_the_given_dict():
    model = nn.BatchNorm1d(3)
    parameters, buffers = dict(model.named_parameters()), {name: b.clone() for name, b in model.named_buffers()}
    x = rg.tensor(RNG.standard_normal((8, 3)), dtype=rg.float32)
    functional_call(model, (parameters, buffers), (x,))
    assert model.running_mean.tolist() == [0.0] * 3 and model.num_batches_tracked.item() == 0
    np.testing.assert_allclose(buffers["running_mean"].numpy(), 0.1 * x.numpy().mean(0), rtol=1e-5)
    assert buffers["num_batches_tracked"].item() == 1


def test_a_buffer_assigned_anew_takes_its_place_in_the_dict():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", rg.zeros(()))

        def forward(self):
            self.count = self.count + 1
            return self.count

    model, state = Counter(), {"count": rg.tensor(5.0)}
    functional_call(model, state)
    assert state["count"].item() == 6.0 and model.count.item() == 0.0


@pytest.mark.parametrize(
    ("state", "options", "error", "message"),
    [
        ([1], {}, ValueError, "expected a dict from names to Tensors"),
        (3, {}, ValueError, "expected a dict from names to Tensors"),
        (({"weight": rg.ones(1, 2)}, {"weight": rg.ones(1, 2)}), {}, ValueError, r"\['weight'\] appear in several"),
        ({"weight": 3.0}, {}, TypeError, "'weight' must be a Tensor, not float"),
        ({"weigh": rg.ones(1, 2)}, {"strict": True}, RuntimeError, "unexpected 'weigh'; missing 'weight', 'bias'"),
    ],
)  # fmt: skip
def test_what_does_not_name_a_modules_state_is_refused(state, options, error, message):
    with pytest.raises(error, match=message):
        functional_call(nn.Linear(2, 1), state, (rg.ones(2),), **options)


def test_the_state_of_an_ensemble_is_stacked():
    models = [nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)) for _ in range(4)]
    parameters, buffers = stack_module_state(models)
    assert parameters["0.weight"].shape == (4, 3, 2) and parameters["0.weight"].is_leaf
    assert parameters["0.weight"].requires_grad and not buffers["1.running_var"].requires_grad
    assert parameters["0.bias"][2].tolist() == models[2][0].bias.tolist()
    assert buffers["1.num_batches_tracked"].shape == (4,)


def test_an_ensemble_runs_at_once_and_trains():
    torch = pytest.importorskip("torch")

    def results(m):
        vmapped = m.func.vmap if m is rg else torch.vmap
        models = [network(m) for _ in range(3)]
        for seed, model in enumerate(models):
            for name, p in model.named_parameters():
                p.data.copy_(m.tensor(state_of(network(m), seed)[name]))
        parameters, buffers = m.func.stack_module_state(models)
        x, target = m.tensor(np.random.default_rng(2).standard_normal((5, 3))), m.tensor([0, 1, 1, 0, 1])

        def loss(parameters, x):
            out = m.func.functional_call(models[0], (parameters, buffers), (x,))
            return m.nn.functional.cross_entropy(out, target)

        losses = vmapped(loss, in_dims=(0, None))(parameters, x)
        losses.sum().backward()
        per_model = vmapped(m.func.grad(loss), in_dims=(0, None))(parameters, x)
        return losses, [p.grad for p in parameters.values()], per_model

    assert_same(results(rg), results(torch))


def frozen():
    layer = nn.Linear(2, 1)
    layer.weight.requires_grad = False
    return layer


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ([], "at least one module"),
        ([nn.Linear(2, 1), nn.ReLU()], "of one class, got Linear, ReLU"),
        ([nn.Linear(2, 1), nn.Linear(2, 1).eval()], "all be in training mode or all in evaluation mode"),
        ([nn.Linear(2, 1), frozen()], "'weight' requires grad in some of the models and not in others"),
    ],
)
def test_an_ensemble_must_be_of_one_kind(models, message):
    with pytest.raises(RuntimeError, match=message):
        stack_module_state(models)


def test_hooks_and_dropout_of_a_module_run_inside():
    module = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).double()
    shapes = []
    module[0].register_forward_hook(lambda module, args, output: shapes.append(output.shape))
    state = dict(module.named_parameters())
    x = rg.ones(4, 3, dtype=rg.float64)
    rg.manual_seed(0)
    found = grad(lambda state: functional_call(module, state, (x,)).sum())(state)
    rg.manual_seed(0)
    module(x).sum().backward()
    assert_same(found, {name: p.grad for name, p in module.named_parameters()})
    assert shapes == [(4, 3)] * 2


def test_names_of_the_room():
    assert set(func.__all__) <= set(dir(func))
