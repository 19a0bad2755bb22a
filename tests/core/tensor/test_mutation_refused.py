"""Which in-place writes are refused, and which are right though PyTorch refuses them (docs/decisions/143)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from numpy.testing import assert_allclose

import retrograd as rg
from retrograd import Tensor

ON_A_LEAF: list[Callable[[Tensor], Any]] = [
    lambda x: x[0].mul_(2),
    lambda x: x.__setitem__(0, 3.0),
    lambda x: x.mT.zero_(),
    lambda x: x.view(-1).add_(1),
    lambda x: x.unbind(0)[0].fill_(1),
]


@pytest.mark.parametrize("write", ON_A_LEAF)
def test_a_view_of_a_leaf_is_refused_also_where_the_leaf_is_a_view_of_constants(write):
    x = rg.arange(6.0).reshape(2, 3).requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        write(x)
    assert x.is_leaf and x.tolist() == [[0, 1, 2], [3, 4, 5]]
    (x * x).sum().backward()
    assert x.grad.tolist() == [[0, 2, 4], [6, 8, 10]]


UNRECORDED: list[Callable[[Tensor], Tensor]] = [
    lambda x: x[:2],
    lambda x: x.split(2)[0],
    lambda x: x.view(2, 2)[0],
    lambda x: x.view(2, 2).T.diagonal(),
]


@pytest.mark.parametrize("view", UNRECORDED)
@pytest.mark.parametrize("write", [lambda v: v.mul_(3), lambda v: v[0].fill_(3), lambda v: v.copy_(v.sin())])
def test_a_view_created_under_no_grad_is_not_written_while_its_base_has_a_history(view, write):
    leaf = rg.ones(4, requires_grad=True)
    x = leaf * 1
    with rg.no_grad():
        v = view(x)
    with pytest.raises(RuntimeError, match="created under no_grad"):
        write(v)
    with rg.no_grad():
        write(v)
    detached = v.detach()
    detached.mul_(1)
    (x * 2).sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2, 2]


def test_a_view_created_under_no_grad_is_refused_also_where_calls_are_observed():
    x = rg.ones(4, requires_grad=True)
    with rg.memory_budget("1 MB"):
        for view in UNRECORDED:
            with rg.no_grad():
                v = view(x)
            with pytest.raises(RuntimeError, match="created under no_grad"):
                v.mul_(3)
    assert x.tolist() == [1, 1, 1, 1]


def test_a_view_created_under_no_grad_takes_constants_but_no_history():
    x, y = rg.ones(4), rg.ones(2, requires_grad=True)
    with rg.no_grad():
        v = x[:2]
        u = v[:1]
    v.mul_(3)
    u.add_(1)
    assert x.tolist() == [4, 3, 1, 1]
    for written in (v, u, v[:1]):
        with pytest.raises(RuntimeError, match="created under no_grad"):
            written.mul_(y[:1])
    del x
    v.mul_(y)  # nobody else can see what the view holds
    v.sum().backward()
    assert y.grad.tolist() == [4, 3]


# The operands overlap the written Tensor. Each is read before the write, as if it had been cloned.
OVERLAPPING: list[Callable[[Tensor, Callable[[Tensor], Tensor]], Any]] = [
    lambda x, c: x.add_(c(x.mT)),
    lambda x, c: x.div_(c(x.mT), rounding_mode=None),
    lambda x, c: x.mul_(c(x[1])),
    lambda x, c: x.copy_(c(x.mT)),
    lambda x, c: x.lerp_(c(x.flip(0)), c(x.mT)),
    lambda x, c: x.addcmul_(c(x.mT), c(x[0])),
    lambda x, c: x.addmm_(c(x), c(x), alpha=2),
    lambda x, c: x.addmm_(c(x), c(x), beta=0, alpha=0.5),
    lambda x, c: x.addr_(c(x.diagonal()), c(x[0])),
    lambda x, c: x[0].addmv_(c(x), c(x[0])),
    lambda x, c: x.view(1, 3, 3).baddbmm_(c(x.view(1, 3, 3)), c(x.mT.view(1, 3, 3))),
    lambda x, c: x.masked_scatter_(x.detach() > 0.4, c(x)),
    lambda x, c: x.masked_fill_(x.detach() > 0.4, c(x[0, 0])),
    lambda x, c: x.__setitem__(x.detach() > 0.4, c(x.view(-1)[:5])),
    lambda x, c: x.index_add_(0, rg.tensor([2, 0, 2]), c(x)),
    lambda x, c: x.index_copy_(0, rg.tensor([2, 0, 1]), c(x)),
    lambda x, c: x.index_put_((rg.tensor([1, 2]),), c(x[:2]), accumulate=True),
    lambda x, c: x.scatter_(0, rg.tensor([[2, 0, 1]]), c(x[1:2])),
    lambda x, c: x.scatter_reduce_(0, rg.tensor([[2, 0, 1]]), c(x[2:]), "prod"),
    lambda x, c: x.put_(rg.tensor([1, 2, 3]), c(x.reshape(-1)[:3])),
    lambda x, c: x.__setitem__(slice(1, None), c(x[:-1])),
    lambda x, c: x.__setitem__([2, 1, 0], c(x)),
    lambda x, c: x[1:].cumsum_(0).mul_(c(x[:-1])),
]


@pytest.mark.parametrize("write", OVERLAPPING)
def test_operands_that_overlap_the_written_tensor_are_read_before_the_write(write):
    results = []
    for read in (lambda operand: operand, lambda operand: operand.clone()):
        leaf = rg.tensor([[0.3, 0.7, -0.2], [1.1, 0.4, 0.9], [-0.6, 0.8, 0.5]], requires_grad=True)
        x = leaf * 1
        write(x, read)
        x.square().sum().backward()
        constant = leaf.detach().clone()
        write(constant, read)
        results += [x.detach(), leaf.grad, constant]
    for got, wanted in zip(results[:3], results[3:], strict=True):
        assert_allclose(got, wanted, rtol=1e-6)


def test_large_operands_that_overlap_the_written_tensor_are_read_before_the_write():
    values = rg.arange(400.0).reshape(20, 20).sin()  # where loops of the library take over
    for write in (
        lambda x, y: x.index_add_(0, rg.arange(20).flip(0), y),
        lambda x, y: x.masked_scatter_(values > 0, y),
    ):
        x, y = values.clone(), values.clone()
        assert_allclose(write(x, x), write(y, values), rtol=1e-6)


SELF_OVERLAPPING: list[Callable[[Tensor], Any]] = [
    lambda x: x.add_(1),
    lambda x: x.mul_(x),
    lambda x: x.sin_(),
    lambda x: x.clamp_(0, 1),
    lambda x: x.copy_(rg.ones(3, 3)),
    lambda x: x.addmm_(rg.ones(3, 3), rg.ones(3, 3)),
    lambda x: x.cumsum_(0),
    lambda x: x.tril_(),
    lambda x: x.index_add_(0, rg.tensor([0]), rg.ones(1, 3)),
    lambda x: x.index_copy_(0, rg.tensor([0]), rg.ones(1, 3)),
    lambda x: x.index_fill_(0, rg.tensor([0]), 1),
    lambda x: x.index_put_((rg.tensor([0]),), rg.ones(3)),
    lambda x: x.masked_fill_(rg.ones(3, 3, dtype=bool), 1),
    lambda x: x.masked_scatter_(rg.ones(3, 3, dtype=bool), rg.ones(9)),
    lambda x: x.put_(rg.tensor([0]), rg.ones(1)),
    lambda x: x.scatter_(0, rg.tensor([[0]]), 1),
    lambda x: x.scatter_reduce_(0, rg.tensor([[0]]), rg.ones(1, 1), "sum"),
    lambda x: x.uniform_(),
    lambda x: x.__setitem__([0, 1], 2),
    lambda x: x.__iadd__(1),
    lambda x: rg.add(1, rg.ones(3, 3), out=x),
]


@pytest.mark.parametrize("write", SELF_OVERLAPPING)
def test_elements_that_share_memory_are_not_written(write):
    memory = rg.arange(5.0)
    for x in (memory[:3].expand(3, 3), memory.unfold(0, 3, 1)):
        with pytest.raises(RuntimeError, match="share one memory location|single memory location"):
            write(x)
    assert memory.tolist() == [0, 1, 2, 3, 4]


def test_a_value_that_is_overwritten_has_the_gradient_zero():
    leaf = rg.tensor([1.0, 2.0], requires_grad=True)
    overwriting = (
        lambda x: x.copy_(rg.ones(2)),
        lambda x: x.uniform_(),
        lambda x: x.zero_(),
        lambda x: x.eq_(1),
        lambda x: x.sign_(),
    )
    for write in overwriting:
        x = leaf * 2
        write(x)
        assert x.requires_grad
        assert rg.autograd.grad(x.sum(), leaf)[0].tolist() == [0, 0]
    y = rg.tensor([3.0, 4.0], requires_grad=True)
    gradients = rg.autograd.grad((leaf * 2).copy_(y).sum(), (leaf, y))
    assert [g.tolist() for g in gradients] == [[0, 0], [1, 1]]


def test_a_hook_of_one_of_several_views_is_not_called_by_a_write_to_it():
    calls, leaf = [], rg.ones(4, requires_grad=True)
    for view in (lambda x: x[:2], lambda x: x.split(2)[0], lambda x: x.view(2, 2).unbind(0)[0]):
        x = leaf * 1
        v = view(x)
        v.register_hook(calls.append)
        v.mul_(3)
        assert rg.autograd.grad(x.sum(), leaf)[0].tolist() == [3, 3, 1, 1]
    assert not calls


def test_a_product_with_beta_0_gives_its_input_the_gradient_zero():
    leaf, ones = rg.tensor([[float("nan")]], requires_grad=True), rg.ones(1, 1)
    for product in (rg.addmm(leaf, ones, ones, beta=0), (leaf * 1).addmm_(ones, ones, beta=0)):
        assert product.tolist() == [[1]] and rg.autograd.grad(product, leaf)[0].tolist() == [[0]]
