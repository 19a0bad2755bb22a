"""Pruning: masks, several methods on one parameter, and the way back."""

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.nn.utils import prune

VALUES = [[3.0, -0.5, 2.0, 0.1], [-4.0, 1.0, 0.2, -6.0]]


def layer(library=rg):
    module = library.nn.Linear(4, 2)
    with library.no_grad():
        module.weight.copy_(library.tensor(VALUES))
        module.bias.copy_(library.tensor([1.0, -2.0]))
    return module


def test_a_pruned_parameter_is_a_product_with_its_mask_and_is_trained_through_it():
    module = prune.l1_unstructured(layer(), "weight", amount=3)
    assert module.weight.tolist() == [[3, 0, 2, 0], [-4, 1, 0, -6]]
    assert sorted(dict(module.named_parameters())) == ["bias", "weight_orig"]
    assert list(module.state_dict()) == ["bias", "weight_orig", "weight_mask"] and prune.is_pruned(module)
    module(rg.ones(1, 4)).sum().backward()
    assert module.weight_orig.grad.tolist() == module.weight_mask.tolist() == [[1, 0, 1, 0], [1, 1, 0, 1]]
    with rg.no_grad():
        module.weight_orig.mul_(2)
    module(rg.ones(1, 4))
    assert module.weight.tolist() == [[6, 0, 4, 0], [-8, 2, 0, -12]]


def test_removing_a_pruning_makes_its_zeros_the_parameters():
    module = prune.l1_unstructured(layer(), "weight", amount=0.5)
    original = module.weight_orig
    prune.remove(module, "weight")
    assert module.weight is original and isinstance(module.weight, nn.Parameter)
    assert not prune.is_pruned(module) and not module._forward_pre_hooks and not dict(module.named_buffers())
    with pytest.raises(ValueError, match="has to be pruned before"):
        prune.remove(module, "weight")


STEPS = {
    "elements": lambda p, m: p.l1_unstructured(m, "weight", amount=0.3),
    "rows": lambda p, m: p.ln_structured(m, "weight", amount=1, n=2, dim=0),
    "columns": lambda p, m: p.ln_structured(m, "weight", amount=0.25, n=float("inf"), dim=-1),
    "nothing": lambda p, m: p.identity(m, "weight"),
    "the offset": lambda p, m: p.l1_unstructured(m, "bias", amount=1),
    "no elements": lambda p, m: p.l1_unstructured(m, "weight", amount=0),
}


@pytest.mark.parametrize("seed", range(12))
def test_methods_after_one_another_leave_what_pytorchs_leave(seed):
    torch = pytest.importorskip("torch")
    import torch.nn.utils.prune as theirs

    draw = np.random.default_rng(seed)
    names = draw.choice(list(STEPS), 3)
    mask = draw.integers(0, 2, (2, 4)).astype(np.float32)
    ours, expected = layer(), layer(torch)
    for name in names:
        STEPS[name](prune, ours)
        STEPS[name](theirs, expected)
    prune.custom_from_mask(ours, "weight", rg.from_numpy(mask))
    theirs.custom_from_mask(expected, "weight", torch.from_numpy(mask))
    for name in ("weight", "bias"):
        np.testing.assert_array_equal(getattr(ours, name).detach(), getattr(expected, name).detach().numpy())
    np.testing.assert_array_equal(ours(rg.ones(1, 4)).detach(), expected(torch.ones(1, 4)).detach().numpy())


def test_several_parameters_are_pruned_with_one_count():
    one, other = layer(), layer()
    with rg.no_grad():
        other.weight.mul_(10)
    prune.l1_unstructured(one, "weight", amount=1)
    prune.global_unstructured([(one, "weight"), (other, "weight")], prune.L1Unstructured, amount=4)
    assert one.weight.tolist() == [[3, 0, 2, 0], [-4, 0, 0, -6]]
    assert other.weight_mask.tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    with pytest.raises(TypeError, match="Only .unstructured"):
        prune.global_unstructured([(one, "weight")], prune.LnStructured, amount=1, n=2)


def test_random_pruning_takes_the_count_it_is_told():
    rg.manual_seed(0)
    module = prune.random_unstructured(layer(), "weight", amount=3)
    assert module.weight_mask.sum().item() == 5
    prune.random_unstructured(module, "weight", amount=0.4)  # of the five that are left
    assert module.weight_mask.sum().item() == 3
    module = prune.random_structured(layer(), "weight", amount=2, dim=1)
    assert sorted(module.weight_mask.sum(0).tolist()) == [0, 0, 2, 2]


def test_scores_may_stand_for_the_parameter_and_a_method_may_be_asked_alone():
    scores = rg.arange(8.0).reshape(2, 4)
    module = prune.l1_unstructured(layer(), "weight", amount=2, importance_scores=scores)
    assert module.weight_mask.tolist() == [[0, 0, 1, 1], [1, 1, 1, 1]]
    assert prune.L1Unstructured(1).prune(rg.tensor([3.0, 1.0])).tolist() == [3, 0]
    with pytest.raises(AssertionError, match="same shape"):
        prune.l1_unstructured(layer(), "weight", amount=2, importance_scores=scores[0])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: prune.L1Unstructured("1"), TypeError),
        (lambda: prune.L1Unstructured(-1), ValueError),
        (lambda: prune.L1Unstructured(1.5), ValueError),
        (lambda: prune.l1_unstructured(layer(), "weight", 9), ValueError),
        (lambda: prune.ln_structured(layer(), "bias", 1, 2, 0), ValueError),
        (lambda: prune.ln_structured(layer(), "weight", 1, 2, 2), IndexError),
        (lambda: prune.random_structured(layer(), "weight", 3, 0), ValueError),
    ],
)
def test_amounts_and_dimensions_that_do_not_fit_are_refused(call, error):
    with pytest.raises(error):
        call()


def test_a_module_is_left_alone_where_pruning_fails():
    module = layer()
    with pytest.raises(ValueError):
        prune.l1_unstructured(module, "weight", 9)
    assert sorted(dict(module.named_parameters())) == ["bias", "weight"] and not module._forward_pre_hooks


def test_stateless_calls_warn_of_their_newer_name():
    from retrograd.nn.utils.stateless import functional_call

    module = layer()
    with pytest.warns(FutureWarning, match="functional_call"):
        result = functional_call(module, {"weight": rg.zeros(2, 4)}, rg.ones(1, 4))
    assert result.tolist() == [[1, -2]]


def test_lazy_modules_are_found_where_pytorch_has_them():
    from retrograd.nn.modules.lazy import LazyModuleMixin

    assert isinstance(nn.LazyLinear(2), LazyModuleMixin)
