"""Hooks of modules: of one module's gradients, of all modules, and of loading."""

import numpy as np
import pytest
from retrograd.nn.modules import module as modules

import retrograd as rg
from retrograd import nn


class Square(nn.Module):
    def forward(self, x):
        return x * x


class Scale(nn.Module):
    def forward(self, a, b):
        self.needed = a.requires_grad, b.requires_grad
        return a * b, b * 3


def recording(seen):
    def hook(module, grad_input, grad_output):
        seen.append([[None if g is None else g.tolist() for g in part] for part in (grad_input, grad_output)])

    return hook


def test_a_backward_hook_leaves_inputs_without_gradients_alone():
    module, seen = Scale(), []
    module.register_full_backward_hook(recording(seen))
    product, other = module(rg.ones(2, requires_grad=True), rg.ones(2))
    assert module.needed == (True, False)
    assert not other.requires_grad
    product.sum().backward()
    assert seen == [[[[1, 1], [0, 0]], [[1, 1], None]]]


def test_a_backward_hook_does_not_run_where_the_gradient_comes_past_the_outputs():
    module, seen = Square(), []
    module.register_full_backward_hook(recording(seen))
    x = rg.tensor([2.0, 3.0], requires_grad=True)
    (first,) = rg.autograd.grad(module(x).sum(), x, create_graph=True)
    first.sum().backward()
    assert seen == [[[[4, 6]], [[1, 1]]]]
    assert x.grad.tolist() == [2, 2]


def test_backward_hooks_of_a_module_without_inputs_that_need_gradients_may_return_none_alone():
    layer = nn.Linear(1, 1)
    handle = layer.register_full_backward_hook(lambda module, grad_input, grad_output: (None,))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        layer(rg.ones(1, 1)).sum().backward()
    handle.remove()
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: grad_output)
    with (
        pytest.warns(UserWarning, match="no inputs require gradients"),
        pytest.raises(RuntimeError, match="should always return None"),
    ):
        layer(rg.ones(1, 1)).sum().backward()


@pytest.mark.parametrize("kind", ["full_backward_hook", "full_backward_pre_hook"])
def test_a_hook_that_returns_a_wrong_number_of_gradients_is_refused(kind):
    module = Square()
    getattr(module, f"register_{kind}")(lambda module, *gradients: (gradients[0][0],) * 2)
    with pytest.raises(RuntimeError, match="invalid number of grad_.*, got 2, but expected 1"):
        module(rg.ones(1, requires_grad=True)).backward()


def test_backward_hooks_want_tensors_for_results():
    class Named(nn.Module):
        def forward(self, x):
            return {"x": x * 2}

    module, seen = Named(), []
    module.register_full_backward_hook(recording(seen))
    x = rg.ones(1, requires_grad=True)
    with pytest.warns(UserWarning, match="module output should be a Tensor"):
        module(x)["x"].backward()
    assert seen == [] and x.grad.item() == 2


def test_hooks_on_all_modules_run_before_a_modules_own():
    module, seen = nn.Sequential(Square(), Square()), []
    module[1].register_forward_hook(lambda module, args, out: seen.append("own"))
    handles = [
        modules.register_module_forward_pre_hook(lambda module, args: seen.append(("pre", type(module).__name__))),
        modules.register_module_forward_hook(lambda module, args, out: out + 1 if type(module) is Square else None),
        modules.register_module_full_backward_hook(recording(seen)),
        modules.register_module_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 2,)),
    ]
    x = rg.tensor([2.0], requires_grad=True)
    assert module(x).item() == 26
    assert seen == [("pre", "Sequential"), ("pre", "Square"), ("pre", "Square"), "own"]
    module(x).backward()
    # By module from the outside: each doubles the gradient of its output.
    assert seen[-3:] == [[[[40]], [[4]]], [[[320]], [[80]]], [[[320]], [[2]]]]
    for handle in handles:
        handle.remove()
    seen.clear()
    assert module(x).item() == 16 and seen == ["own"]


def test_hooks_on_registrations_replace_what_is_registered():
    doubled = modules.register_module_parameter_registration_hook(lambda module, name, p: nn.Parameter(p.detach() * 2))
    with doubled:
        module = nn.Module()
        module.weight = nn.Parameter(rg.ones(1))
    assert module.weight.item() == 2
    with modules.register_module_buffer_registration_hook(lambda module, name, b: b + 1):
        module.register_buffer("count", rg.zeros(1))
        module.count = rg.ones(1)
    assert module.count.item() == 2
    with modules.register_module_module_registration_hook(lambda module, name, child: nn.Identity()):
        module.child = nn.Linear(1, 1)
        module.add_module("other", nn.Linear(1, 1))
    assert isinstance(module.child, nn.Identity) and isinstance(module.other, nn.Identity)


def test_a_hook_before_loading_sees_the_entries_of_its_module():
    module, seen = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.Linear(1, 1))), []
    for child in module.modules():
        child.register_load_state_dict_pre_hook(
            lambda module, state_dict, prefix, *rest: seen.append((prefix, sorted(state_dict)))
        )
    module.load_state_dict(module.state_dict())
    one, two = ["0.bias", "0.weight"], ["1.0.bias", "1.0.weight"]
    assert seen == [("", one + two), ("0.", one), ("1.", two), ("1.0.", two)]


def test_hooks_before_loading_may_rename_entries():
    module = nn.Sequential(nn.Linear(1, 1))

    def rename(child, state_dict, prefix, *rest):
        state_dict[prefix + "weight"] = state_dict.pop(prefix + "old")

    module[0].register_load_state_dict_pre_hook(rename)
    module.load_state_dict({"0.old": rg.full((1, 1), 7.0), "0.bias": rg.zeros(1)})
    assert module[0].weight.item() == 7


def test_a_hook_after_loading_may_forgive_missing_names():
    module = nn.Sequential(nn.Linear(1, 1))
    module[0].register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    module.load_state_dict({"0.weight": rg.full((1, 1), 7.0)})
    assert module[0].weight.item() == 7
    with pytest.raises(RuntimeError, match="Unexpected key"):
        module.load_state_dict({"0.wight": rg.ones(1, 1)})


def test_state_dictionaries_say_the_version_of_their_layout():
    module = nn.Sequential(nn.BatchNorm1d(2))
    state = module.state_dict()
    assert state._metadata == {"": {"version": 1}, "0": {"version": 2}}
    del state["0.num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        module.load_state_dict(state)
    module.load_state_dict(dict(state))  # of version 1, as far as it says


def test_a_number_saved_as_a_vector_of_one_element_is_loaded():
    module = nn.Module()
    module.scale = nn.Parameter(rg.tensor(1.0))
    module.load_state_dict({"scale": rg.tensor([3.0])})
    np.testing.assert_array_equal(module.scale.detach().numpy(), 3.0)


class Fails(nn.Module):
    def forward(self, x, fail=True):
        if fail:
            raise RuntimeError("of forward")
        return x


@pytest.mark.parametrize("everywhere", [False, True])
def test_always_called_hooks_run_whatever_raised_and_only_once(everywhere):
    module, log = Fails(), []

    def failing(name):
        def hook(*args):
            log.append(name)
            raise RuntimeError(f"of {name}")

        return hook

    register = (
        modules.register_module_forward_hook
        if everywhere
        else lambda hook, **how: module.register_forward_hook(hook, **how)
    )
    with register(lambda *args: log.append(args[-1]), always_call=True):
        with pytest.raises(RuntimeError, match="of forward"):
            module(rg.ones(1))
        module(1, fail=False)
        assert log == [None, 1]
        with module.register_forward_pre_hook(failing("pre")), pytest.raises(RuntimeError, match="of pre"):
            module(rg.ones(1))
        assert log[2:] == ["pre", None]
    log.clear()
    with register(failing("always"), always_call=True), register(failing("second"), always_call=True):
        with pytest.warns(UserWarning, match="silenced.*of second"), pytest.raises(RuntimeError, match="of always"):
            module(1, fail=False)
        assert log == ["always", "second"]
        with pytest.warns(UserWarning) as warned, pytest.raises(RuntimeError, match="of forward"):
            module(1)
    assert len(warned) == 2 and log == ["always", "second"] * 2


def test_a_handle_tells_the_hooks_that_its_own_is_among():
    module = nn.Sigmoid()
    first, second = (module.register_forward_hook(lambda *args: None) for _ in range(2))
    assert set(first.hooks_dict_ref()) == {first.id, second.id}
    first.remove()
    assert set(second.hooks_dict_ref()) == {second.id}


def test_the_tables_of_forward_hooks_have_pytorchs_layout():
    torch = pytest.importorskip("torch")

    def before(module, args):
        return None

    def after(module, args, output):
        return None

    def described(module):
        ids = {}
        names = ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_forward_hooks", "_forward_hooks_with_kwargs",
                 "_forward_hooks_always_called")  # fmt: skip
        return [[(ids.setdefault(key, len(ids)), value) for key, value in getattr(module, name).items()]
                for name in names]  # fmt: skip

    states = []
    for lib in (rg, torch):
        module = lib.nn.Linear(2, 2)
        handles = [
            module.register_forward_pre_hook(before),
            module.register_forward_pre_hook(before, with_kwargs=True, prepend=True),
            module.register_forward_hook(after),
            module.register_forward_hook(after, with_kwargs=True, always_call=True),
        ]
        states.append([described(module)])
        for handle in handles:
            handle.remove()
            states[-1].append(described(module))
    assert states[0] == states[1]


def test_weight_norm_written_for_pytorch_finds_its_hook_in_the_table():
    class Scaled:
        def __call__(self, module, args):
            return args[0] * 2

    module = nn.Identity()
    module.register_forward_pre_hook(Scaled())
    assert module(rg.ones(1)).item() == 2
    for key, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, Scaled):
            del module._forward_pre_hooks[key]
    assert module(rg.ones(1)).item() == 1
