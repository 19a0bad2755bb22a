"""``autograd.graph``: saved Tensors in forms of the user's own, edges, hooks on several gradients."""

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.autograd import grad
from retrograd.autograd.graph import (
    GradientEdge,
    Node,
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    get_gradient_edge,
    register_multi_grad_hook,
    save_on_cpu,
    saved_tensors_hooks,
)
from retrograd.core.graph.modes import modes
from retrograd.func import grad as func_grad


class Cube(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * x
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        assert np.allclose(y.detach(), x.detach() ** 2)
        return g * 3 * x * x


PROGRAMS = {
    "elementwise": lambda x: (x.exp() * x.sin()).tanh().sum(),
    "products": lambda x: (x @ x.T).relu().matmul(x).pow(2).sum(),
    "softmax": lambda x: (x.softmax(-1) * x.log_softmax(0)).sum() + rg.nn.functional.layer_norm(x, (3,)).pow(3).sum(),
    "several outputs": lambda x: (rg.linalg.qr(x @ x.T + rg.eye(2, dtype=x.dtype))[1] * x.sort(1).values[:, :2]).sum(),
    "joining": lambda x: (rg.cat([x, x * x, x], 0) * rg.stack([x, x]).prod(0).repeat(3, 1)).sum(),
    "indexing": lambda x: (x[:, [0, 2, 0]] ** 2 * x.gather(1, rg.tensor([[0, 1, 1], [2, 2, 0]]))).sum(),
    "in place": lambda x: ((x * 2).mul_(x).exp_() * x.clone().sub_(x * x)).sum(),
    "a view written": lambda x: written(x),
    "convolution": lambda x: rg.nn.functional.conv1d(x[None], x[:, None].expand(2, 2, 3)).pow(2).sum(),
    "a function": lambda x: Cube.apply(x.sin()).sum(),
}


def written(x):
    y = x * 3
    y[0].mul_(x[1])
    return (y * y).sum()


def copied(tensor):
    return tensor.numpy(force=True).copy(), tensor.requires_grad


def back(packed):
    return rg.from_numpy(packed[0])


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("hooks", ["identity", "copies", "cpu"])
def test_packing_leaves_gradients_of_both_orders_alone(name, hooks):
    program = PROGRAMS[name]
    contexts = {
        "identity": lambda: saved_tensors_hooks(lambda x: x, lambda x: x),
        "copies": lambda: saved_tensors_hooks(copied, back),
        "cpu": save_on_cpu,
    }

    def derivatives(context):
        x = rg.tensor([[0.3, -0.7, 1.1], [0.9, 0.2, -0.4]], dtype=rg.float64, requires_grad=True)
        if context is None:
            y = program(x)
        else:
            with context():
                y = program(x)
        (first,) = grad(y, x, create_graph=True)
        (second,) = grad((first * first).sum(), x)
        return first.detach().numpy(), second.numpy()

    for expected, found in zip(derivatives(None), derivatives(contexts[hooks]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_values_packed_are_those_of_the_call_whatever_is_written_since():
    weight = nn.Parameter(rg.full((2,), 3.0))
    with save_on_cpu():
        y = (weight * weight).sum()
        z = weight * 2
        total = (z * z).sum()
        z.mul_(100)
    with rg.no_grad():
        weight.zero_()
    (y + total).backward()
    assert weight.grad.tolist() == [30, 30]


def test_hooks_see_what_is_saved_and_parameters_as_parameters():
    seen = []
    weight, x = nn.Parameter(rg.ones(2)), rg.full((2,), 5.0)
    with saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        (weight * x).sigmoid()
        weight.square()
        rg.ones(2) * 3
    assert [(type(t), t.requires_grad) for t in seen] == [
        (rg.Tensor, False), (rg.Tensor, True), (nn.Parameter, True)
    ]  # fmt: skip
    assert seen[2] is not weight and seen[2].data_ptr() == weight.data_ptr()


def test_the_innermost_hooks_count_and_nothing_outside_is_packed():
    seen = []
    x = rg.ones(2, requires_grad=True)
    with saved_tensors_hooks(lambda t: seen.append("outer") or t, lambda t: t):
        with saved_tensors_hooks(lambda t: seen.append("inner") or t, lambda t: t):
            x.exp()
        x.exp()
    x.exp()
    assert seen == ["inner", "outer"]


def test_saved_arrays_are_freed_where_they_are_packed_elsewhere():
    from weakref import ref

    x = rg.ones(100, requires_grad=True)
    with saved_tensors_hooks(lambda t: (t.shape, t.dtype), lambda packed: rg.ones(*packed[0], dtype=packed[1])):
        y = (x * 2).exp().sum()
    y.backward()
    assert x.grad[0].item() == 2
    with saved_tensors_hooks(lambda t: None, lambda packed: rg.ones(100)):
        middle = x * 2
        array = ref(middle.array)
        y = middle.sin()
    del middle
    assert array() is None
    with pytest.raises(RuntimeError, match=r"unpack_hook returned .* the saved Tensor was float32\(2,\)"):
        with saved_tensors_hooks(lambda t: t, lambda t: rg.ones(3)):
            rg.ones(2, requires_grad=True).exp().sum().backward()
    with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor"):
        with saved_tensors_hooks(lambda t: t, lambda t: 1):
            rg.ones(2, requires_grad=True).exp().sum().backward()


def test_a_second_pass_through_a_freed_packed_graph_is_refused():
    x = rg.ones(2, requires_grad=True)
    with save_on_cpu():
        y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


def test_hooks_can_be_refused():
    with disable_saved_tensors_hooks("not now"):
        with disable_saved_tensors_hooks("nor here"), pytest.raises(RuntimeError, match="nor here"):
            save_on_cpu().__enter__()
        with pytest.raises(RuntimeError, match="not now"):
            save_on_cpu().__enter__()
    with save_on_cpu():
        pass


def test_hooks_work_with_checkpoints_and_transforms():
    from retrograd.utils.checkpoint import checkpoint

    x = rg.tensor([0.5, 2.0], requires_grad=True)
    with save_on_cpu():
        checkpoint(lambda x: (x * x).exp(), x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), (2 * x * (x * x).exp()).detach().numpy(), rtol=1e-6)
    with save_on_cpu():
        result = func_grad(lambda x: (x * x).exp().sum())(x.detach())
    np.testing.assert_allclose(result.numpy(), x.grad.numpy(), rtol=1e-6)


def test_an_edge_stands_for_its_tensor():
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    first, second = y.unbind()
    edges = [get_gradient_edge(t) for t in (x, y, second)]
    assert isinstance(y.grad_fn, Node) and isinstance(edges[1], GradientEdge)
    assert [edge.output_nr for edge in edges] == [0, 0, 1]
    loss = (y * y).sum() + second * 10 + first
    found = grad(loss, edges, retain_graph=True)
    assert [g.tolist() for g in found] == [[21, 66], [7, 22], 10]
    assert grad(get_gradient_edge(loss), x, retain_graph=True)[0].tolist() == [21, 66]
    del y, first, second
    rg.autograd.backward(loss, inputs=[edges[0]])
    assert x.grad.tolist() == [21, 66]
    with pytest.raises(RuntimeError, match="does not require gradients"):
        get_gradient_edge(rg.ones(1))
    with pytest.raises(TypeError, match="must be a graph node"):
        grad(loss, GradientEdge(None, 0))


def test_a_hook_on_several_gradients_runs_once_per_pass():
    a, b, c = (rg.ones(2, requires_grad=True) for _ in range(3))
    seen = []

    def received(gradients):
        seen.append([None if g is None else g.tolist() for g in gradients])

    product = a * b
    handle = register_multi_grad_hook([a, b, product, c], received)
    (product * 2).sum().backward(retain_graph=True)
    assert seen == [[[2, 2], [2, 2], [2, 2], None]]
    (product.sum() + c.sum()).backward(retain_graph=True)
    assert seen[1:] == [[[1, 1], [1, 1], [1, 1], [1, 1]]]
    grad(product.sum(), a, retain_graph=True)
    assert seen[2:] == [[[1, 1], None, [1, 1], None]]
    handle.remove()
    product.sum().backward(retain_graph=True)
    assert len(seen) == 3
    with register_multi_grad_hook([a, b], lambda g: seen.append("any"), mode="any"):
        product.sum().backward()
        (a * b).sum().backward()
    assert seen[3:] == ["any", "any"]
    with pytest.raises(ValueError, match="mode"):
        register_multi_grad_hook([a], received, mode="some")


def test_saved_tensors_may_be_written():
    x = rg.ones(2, requires_grad=True)
    with allow_mutation_on_saved_tensors() as context:
        y = x * 3
        z = y * y
        y.zero_()
        z.sum().backward()
        context.clear()
    assert x.grad.tolist() == [18, 18]


@pytest.mark.parametrize("entries", [1, 3])
def test_a_context_that_an_unpack_hook_enters_and_does_not_leave_ends_with_the_hook(entries):
    def unpack(packed):
        for _ in range(entries):
            context.__enter__()
        return packed

    packs = []
    context = saved_tensors_hooks(lambda x: packs.append(x) or x, unpack)
    x = rg.ones(2, requires_grad=True)
    with context:
        x.sin().sum().backward()
    assert len(packs) == 1 and not modes.observers and x.grad is not None
    x.sin()
    assert len(packs) == 1
