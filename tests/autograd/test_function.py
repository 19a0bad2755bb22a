"""Functions with a backward of one's own."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd import Function, grad, once_differentiable


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        y = x * x * x
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * 3 * y / x


def test_orders_through_a_saved_output():
    x = rg.tensor([2.0, 3.0], dtype=rg.float64, requires_grad=True)
    y = Cube.apply(x).sum()
    for expected in ([12.0, 27.0], [12.0, 18.0], [6.0, 6.0]):
        (g,) = grad(y, x, create_graph=True)
        np.testing.assert_allclose(g.tolist(), expected)
        y = g.sum()


def test_freed_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        y = Cube.apply(rg.ones(2, requires_grad=True))
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


class Parts(Function):
    """Two outputs with gradients and one without; a setup_context of its own."""

    @staticmethod
    def forward(x, scale):
        return x * scale, x + 1, (x > 0).long()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.scale = inputs[1]
        ctx.mark_non_differentiable(output[2])

    @staticmethod
    def backward(ctx, first, second, third):
        assert ctx.needs_input_grad == (True, False)
        return first * ctx.scale + second, None


def test_several_outputs():
    x = rg.ones(2, requires_grad=True)
    a, b, c = Parts.apply(x, 5.0)
    assert a.requires_grad and b.requires_grad and not c.requires_grad
    a.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [5.0, 5.0]
    x.grad = None
    (a + 2 * b).sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g * 2 * ctx.saved_tensors[0]


def test_once_differentiable():
    x = rg.ones(2, requires_grad=True)
    weights = rg.ones(2, requires_grad=True)
    (g,) = grad((Once.apply(x) * weights).sum(), x, create_graph=True)
    assert g.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


class Wrong(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, g):
        return g


def test_errors():
    x = rg.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Wrong: backward returned 1 gradients for 2 arguments"):
        Wrong.apply(x, x).sum().backward()
    with pytest.raises(NotImplementedError):
        Function.apply(x)
    y = Cube.apply(x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_no_grad_records_nothing():
    with rg.no_grad():
        assert not Cube.apply(rg.ones(2, requires_grad=True)).requires_grad


class Unmaterialized(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 1, x * 2

    @staticmethod
    def backward(ctx, first, second):
        assert second is None
        return first


def test_materialize_grads():
    x = rg.ones(2, requires_grad=True)
    Unmaterialized.apply(x)[0].sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


class AddOneInPlace(Function):
    @staticmethod
    def forward(ctx, x):
        x.add_(1)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 10


def test_mark_dirty():
    x = rg.ones(2, requires_grad=True)
    y = x * 2
    z = AddOneInPlace.apply(y)
    assert z is y and y.tolist() == [3.0, 3.0]
    y.sum().backward()
    assert x.grad.tolist() == [20.0, 20.0]


class Careless(Function):
    """Returns another Tensor than the one it marks as written."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2) * 1

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_what_is_marked_dirty_must_be_returned():
    with pytest.raises(RuntimeError, match="Careless: forward passed .* to mark_dirty and must return it"):
        Careless.apply(rg.ones(2, requires_grad=True) * 1)


class DoubleAnd(Function):
    @staticmethod
    def forward(ctx, x, extra):
        return x * 2, extra

    @staticmethod
    def backward(ctx, g, extra):
        assert extra is None
        return g * 2, None


def test_outputs_that_are_no_tensors_pass_through():
    x = rg.ones(2, requires_grad=True)
    y, extra = DoubleAnd.apply(x, "note")
    y.sum().backward()
    assert extra == "note" and x.grad.tolist() == [2.0, 2.0]


class Arrays(Function):
    """Forward and backward in plain NumPy."""

    @staticmethod
    def forward(ctx, x, exponent=2, scale=1.0):
        ctx.x, ctx.exponent, ctx.scale = x.detach().numpy(), exponent, scale
        return scale * ctx.x**exponent

    @staticmethod
    def backward(ctx, g):
        return ctx.scale * ctx.exponent * ctx.x ** (ctx.exponent - 1) * g.numpy(), None, None


def test_arrays_are_taken_from_forward_and_backward():
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    y = Arrays.apply(x)
    assert isinstance(y, rg.Tensor) and y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_arguments_may_be_given_by_name():
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    Arrays.apply(x, scale=10.0, exponent=3).sum().backward()
    assert x.grad.tolist() == [30.0, 120.0]
    Arrays.apply(x=x).sum().backward()
    with pytest.raises(TypeError, match="unexpected keyword argument 'power'"):
        Arrays.apply(x, power=3)


def test_a_node_is_named_after_the_function_or_operator_also_for_one_of_several_outputs():
    x = rg.tensor([[1.0, 2.0]], requires_grad=True)
    assert Arrays.apply(x).grad_fn.name() == "Arrays"
    assert "grad_fn=<Arrays>" in repr(Arrays.apply(x))
    assert x.max(dim=1).values.grad_fn.name() == "max"
    assert x.unbind(0)[0].grad_fn.name() == "unbind"


def test_a_node_s_hook_sees_what_comes_in_and_goes_out_and_may_replace_it():
    x, w = rg.tensor([1.0, 2.0], requires_grad=True), rg.tensor(3.0, requires_grad=True)
    y = x * w
    seen = []
    handle = y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs, outputs)))
    y.sum().backward(retain_graph=True)
    ((inputs, outputs),) = seen
    assert [g.tolist() for g in inputs] == [[3.0, 3.0], 3.0] and outputs[0].tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [3.0, 3.0] and w.grad.item() == 3.0
    handle.remove()
    with y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 10, None)):
        y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [33.0, 33.0] and w.grad.item() == 3.0
    with pytest.raises(RuntimeError, match="expected None or a tuple of 2"), y.grad_fn.register_hook(lambda i, o: i[0]):
        y.sum().backward(retain_graph=True)
    with y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 2,)):
        y.sum().backward()
    assert x.grad.tolist() == [39.0, 39.0]


def test_a_node_s_hook_is_differentiated():
    x = rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)
    y = x**3
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 2, *inputs[1:]))
    (first,) = grad(y.sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    assert first.tolist() == [6.0, 24.0] and second.tolist() == [12.0, 24.0]


def test_the_context_has_pytorchs_attributes_of_what_forward_stored():
    class Scale(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.to_save = (x,)
            ctx.mark_non_differentiable(y)
            assert ctx.to_save == (x,) and ctx.non_differentiable == (y,) and ctx.requires_grad
            assert ctx.dirty_tensors is None and ctx.saved_for_forward is None
            with pytest.warns(FutureWarning, match="mark_shared_storage"):
                ctx.mark_shared_storage((x, y))
            return x * 2, y.clone()

        @staticmethod
        def backward(ctx, g, h):
            with pytest.warns(DeprecationWarning, match="saved_variables"):
                assert ctx.saved_variables[0] is x
            ctx.maybe_clear_saved_tensors()
            assert ctx.to_save is None and ctx.non_differentiable is None and ctx.saved_tensors[0] is x
            return g * 2, None

    x = rg.ones(2, requires_grad=True)
    Scale.apply(x, rg.ones(2))[0].sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_backward_may_take_its_gradients_as_a_list_and_read_what_it_saved_once():
    class Product(rg.autograd.Function):
        boxed_grads_call = clear_saved_tensors_on_access = generate_vmap_rule = True

        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, gradients):
            x, y = ctx.saved_tensors
            g = gradients.pop()
            return g * y, g * x

    x, y = rg.tensor([2.0, 3.0], requires_grad=True), rg.tensor([5.0, 7.0], requires_grad=True)
    product = Product.apply(x, y).sum()
    product.backward(retain_graph=True)
    assert x.grad.tolist() == [5.0, 7.0] and y.grad.tolist() == [2.0, 3.0]
    with pytest.raises(RuntimeError, match="saved_tensors: freed"):
        product.backward()
    by_example = rg.func.vmap(rg.func.grad(Product.apply))(x.detach(), y.detach())
    assert by_example.tolist() == [5.0, 7.0]


def test_backward_gets_gradients_of_the_dtype_of_bfloat16_outputs():
    class Product(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w, x

        @staticmethod
        def backward(ctx, g, h):
            x, w = ctx.saved_tensors
            assert g.dtype == h.dtype == rg.bfloat16
            return g @ w.mT + h, x.mT @ g

    x, w = (rg.tensor([[1.0, 2.0], [0.5, 4.0]]).bfloat16().requires_grad_() for _ in range(2))
    y, z = Product.apply(x, w)
    (y.float() + 2 * z).sum().backward()
    assert x.grad.tolist() == [[5.0, 6.5], [5.0, 6.5]] and w.grad.tolist() == [[1.5, 1.5], [6.0, 6.0]]
