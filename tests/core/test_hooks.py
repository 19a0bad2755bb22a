"""Hooks on Tensors and nodes: which gradient they see, and how often."""

import numpy as np

import retrograd as rg


def written_view():
    """A base, and a view of it that has been written."""
    leaf = rg.ones(2, requires_grad=True)
    base = leaf * 1
    view = base[:1]
    view.mul_(3)
    return leaf, base, view


def test_a_hook_on_a_base_sees_what_reads_its_written_view():
    leaf, base, view = written_view()
    seen = []
    early = view * 10  # read before the hook is registered
    base.register_hook(lambda g: seen.append(g.tolist()) or g * 5)
    (base.sum() + view.sum() + early.sum()).backward()
    assert seen == [[12, 1]]
    assert leaf.grad.tolist() == [180, 5]


def test_a_hook_on_a_written_view_does_not_see_what_reads_its_base():
    leaf, base, view = written_view()
    seen = []
    view.register_hook(lambda g: seen.append(g.tolist()) or g * 5)
    (base * 7).sum().backward()
    assert seen == []
    assert leaf.grad.tolist() == [21, 7]


def test_both_gradients_are_retained_where_a_view_was_written():
    leaf, base, view = written_view()
    base.retain_grad()
    view.retain_grad()
    (base * 7).sum().backward()
    assert base.grad.tolist() == [7, 7]
    assert view.grad is None
    leaf = rg.ones(2, requires_grad=True)
    base = leaf * 1
    base.retain_grad()
    view = base[:1]
    view.retain_grad()
    view.mul_(3)
    (base * 7 + view).sum().backward()
    assert base.grad.tolist() == [9, 7]
    assert view.grad.tolist() == [2]


def test_hooks_before_and_after_a_write_each_see_the_value_they_were_registered_on():
    leaf = rg.ones(2, requires_grad=True)
    base = leaf * 1
    view = base[:1]
    seen = []
    base.register_hook(lambda g: seen.append(("before", g.tolist())))
    view.mul_(3)
    base.register_hook(lambda g: seen.append(("after", g.tolist())))
    view.mul_(5)
    base.register_hook(lambda g: seen.append(("last", g.tolist())))
    base.sum().backward()
    assert seen == [("last", [1, 1]), ("after", [5, 1]), ("before", [15, 1])]


def test_hooks_leave_second_derivatives_through_written_views_right():
    leaf = rg.tensor([2.0, 3.0], requires_grad=True)
    base = leaf * 1
    view = base[:1]
    view.exp_()  # saves its result
    before = view * view
    base.register_hook(lambda g: None)
    total = before.sum() + (base**3).sum()
    (first,) = rg.autograd.grad(total, leaf, create_graph=True)
    (second,) = rg.autograd.grad(first.sum(), leaf)
    e = rg.tensor(2.0).exp().item()
    assert np.allclose(first.detach().numpy(), [2 * e**2 + 3 * e**3, 27.0], rtol=1e-5)
    assert np.allclose(second.numpy(), [4 * e**2 + 9 * e**3, 18.0], rtol=1e-5)
