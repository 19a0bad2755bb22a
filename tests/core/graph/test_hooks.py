"""Hooks on Tensors and nodes: which gradient they see, and how often."""

import gc
import weakref

import numpy as np
import pytest

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


@pytest.mark.parametrize(
    ("write", "factor"),
    [
        (lambda view: view.mul_(3), 3),
        (lambda view: view.div_(2), 0.5),  # copies the result of an operator that has no in-place form
        (lambda view: view.mul_(1e5).div_(1e5), 1),  # computed in float32, since 100,000 is not a number of float16
        (lambda view: view.t().squeeze().mul_(3), 3),
        (lambda view: rg.nn.functional.leaky_relu_(view, 0.5), 1),
    ],
)
def test_a_hook_on_a_view_is_not_called_for_what_reads_a_later_write_to_it(write, factor):
    leaf, seen = rg.ones(2, 2, requires_grad=True, dtype=rg.float16), []
    base = leaf * 1
    view = base[:1]
    view.register_hook(lambda g: g * 100)
    early = view * 10
    view.grad_fn.register_prehook(lambda g: seen.append(g[0].tolist()))
    write(view)
    (base.sum() + view.sum()).backward(retain_graph=True)
    assert seen == [] and leaf.grad.tolist() == [[pytest.approx(2 * factor, rel=1e-3)] * 2, [1, 1]]
    leaf.grad = None
    early.sum().backward()
    assert seen == [[[1000, 1000]]] and leaf.grad.tolist() == [[1000, 1000], [0, 0]]


def test_a_written_view_and_its_base_have_the_gradients_of_what_reads_them():
    _, base, view = written_view()
    loss = (base * 7).sum() + (view * 10).sum()
    assert [g.tolist() for g in rg.autograd.grad(loss, [base, view], retain_graph=True)] == [[17, 7], [10]]
    seen = []
    view.grad_fn.register_prehook(lambda g: seen.append(g[0].tolist()))
    base.grad_fn.register_prehook(lambda g: seen.append(g[0].tolist()))
    loss.backward()
    assert seen == [[10], [17, 7]]


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


def times(factor, log):
    """A hook that multiplies what it is given, one gradient or a tuple of them."""

    def hook(g):
        log.append(factor)
        return tuple(part * factor for part in g) if isinstance(g, tuple) else g * factor

    return hook


def test_prehooks_of_nodes_run_after_hooks_of_tensors_and_where_backward_ends_change_nothing():
    a, log = rg.tensor(1.0, requires_grad=True), []
    b = a.clone()
    leaf = b.grad_fn.next_functions[0][0]
    b.grad_fn.register_prehook(times(2, log))
    b.register_hook(times(3, log))
    leaf.register_prehook(times(5, log))
    a.register_hook(times(7, log))
    b.sum().backward()
    assert log == [3, 2, 7, 5] and a.grad.item() == 3 * 2 * 7 * 5
    log.clear()
    (g,) = rg.autograd.grad((b * 1).sum(), b)
    assert log == [3] and g.item() == 3
    log.clear()
    (b * 1).sum().backward(inputs=(b,))
    assert log == [3, 2] and b.grad.item() == 3
    log.clear()
    (g,) = rg.autograd.grad(b.clone(), a, create_graph=True)
    assert log == [3, 2, 7] and g.item() == 3 * 2 * 7
    log.clear()
    b.clone().backward(inputs=(a,))
    assert log == [3, 2, 7, 5] and a.grad.item() == 2 * 3 * 2 * 7 * 5


def test_prehooks_see_complex_gradients_as_users_do():
    x = rg.tensor([1 + 2j, 3.0], requires_grad=True)
    y = x * (2 + 1j)
    seen = []
    for node in (y.grad_fn, y.grad_fn.next_functions[0][0]):
        node.register_prehook(lambda g: seen.append(g[0].tolist()) or (g[0] * 1j,))
    rg.view_as_real(y * y).sum().backward()
    assert seen == [[10 - 10j, 18 + 6j], [30 + 10j, 6 + 42j]]
    assert x.grad.tolist() == [-10 + 30j, -42 + 6j]


def test_a_prehook_may_not_change_the_shape():
    x = rg.ones(2, requires_grad=True)
    y = x * x
    handle = y.grad_fn.register_prehook(lambda g: (g[0][:1],))
    with pytest.raises(RuntimeError, match=r"float32\(2,\), got float32\(1,\)"):
        y.sum().backward(retain_graph=True)
    handle.remove()
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


class Two(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, g, h):
        return g * 2 + h * 3


def test_hooks_on_the_node_of_one_output_see_all_gradients_of_the_operator():
    x, seen = rg.ones(1, requires_grad=True), []
    y, z = Two.apply(x)
    z.grad_fn.register_prehook(lambda g: (g[0] * 10, g[1] * 100))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append([[g.item() for g in p] for p in (inputs, outputs)]))
    (y + z).sum().backward()
    assert seen == [[[320.0], [10.0, 100.0]]] and x.grad.tolist() == [320]


def test_hooks_on_the_node_of_one_output_get_none_where_no_gradient_arrives():
    x, seen = rg.ones(2, requires_grad=True), []
    first = (x * 2).split(1)[0]
    first.grad_fn.register_prehook(lambda outputs: seen.append([g and g.item() for g in outputs]))
    first.grad_fn.register_hook(lambda inputs, outputs: seen.append([g and g.item() for g in outputs]))
    first.backward()
    assert seen == [[1.0, None], [1.0, None]] and x.grad.tolist() == [2, 0]


@pytest.mark.parametrize("kind", ["register_hook", "register_prehook"])
@pytest.mark.parametrize("write", [False, True])
def test_a_graph_with_a_hook_on_a_node_is_freed_by_reference_counts(kind, write):
    class Hook:
        def __call__(self, *gradients):
            return None

    hook = Hook()
    alive = weakref.ref(hook)
    gc.disable()
    try:
        x = rg.ones(3, 3, requires_grad=True).clone()
        getattr(x.grad_fn, kind)(hook)
        y = x.view(9)
        if write:
            y.exp_()
        del x, y, hook
        assert alive() is None
    finally:
        gc.enable()


def test_a_hook_after_accumulation_returns_nothing():
    x = rg.ones(2, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda leaf: leaf.grad)
    with pytest.raises(RuntimeError, match="should return None, got Tensor"):
        x.sum().backward()


def test_programs_may_keep_values_beside_nodes_and_leaves():
    x = rg.ones(2, requires_grad=True)
    y = x * 2
    y.grad_fn.metadata["a"] = 1
    y.grad_fn.next_functions[0][0].metadata["b"] = 2
    assert y.grad_fn.metadata == {"a": 1} and y.grad_fn.next_functions[0][0].metadata == {"b": 2}


def test_a_hook_on_one_result_of_unbind_changes_the_gradient_of_its_row_only():
    x, calls = rg.ones(2, 3, requires_grad=True), []
    rows = (x * 2).unbind()
    rows[0].register_hook(lambda g: calls.append(g.tolist()) or g * 5)
    (rows[0].sum() * 3 + rows[1].sum()).backward()
    assert calls == [[3.0, 3.0, 3.0]]
    assert x.grad.tolist() == [[30.0] * 3, [2.0] * 3]
