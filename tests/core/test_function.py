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
    with pytest.raises(RuntimeError, match="Careless: forward must return what it passes to mark_dirty"):
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
    with pytest.raises(TypeError, match="output 1 of forward must be a Tensor"):
        DoubleAnd.apply(x, np.ones(2))  # a gradient would be lost
