"""``grad``, ``backward`` and Functions at the edges, where PyTorch's tests look."""

import threading

import pytest

import retrograd as rg
from retrograd.autograd import Function, grad


def test_materialized_zeros_can_be_differentiated():
    x, unused = rg.ones(2, requires_grad=True), rg.ones(3, requires_grad=True)
    first, zeros = grad((x**2).sum(), [x, unused], create_graph=True, materialize_grads=True)
    assert zeros.requires_grad and zeros.tolist() == [0, 0, 0]
    (first.sum() + (zeros + 2).pow(2).sum()).backward()
    assert x.grad.tolist() == [2, 2] and unused.grad.tolist() == [0, 0, 0]
    _, zeros = grad((x**2).sum(), [x, unused], materialize_grads=True)
    assert not zeros.requires_grad


def test_setup_context_sees_the_values_of_arguments_that_were_left_out():
    class Scale(Function):
        @staticmethod
        def forward(x, factor=3, *, power=1):
            return (x * factor) ** power

        @staticmethod
        def setup_context(ctx, inputs, output):
            _, ctx.factor = inputs

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None

    for arguments, factor in (((), 3), ((5,), 5)):
        x = rg.ones(2, requires_grad=True)
        Scale.apply(x, *arguments).sum().backward()
        assert x.grad.tolist() == [factor, factor]
    with pytest.raises(TypeError, match="missing a required argument"):
        Scale.apply()


def test_outputs_of_one_operator_say_their_numbers():
    x = rg.ones(2, 3, requires_grad=True)
    first, second = x.unbind()
    assert (x.output_nr, first.output_nr, second.output_nr) == (0, 0, 1)
    assert [number for _, number in (first * second).grad_fn.next_functions] == [0, 1]


class Countdown(Function):
    """The identity; its backward runs a backward of its own, as often as the input says."""

    threads: set[int] = set()

    @staticmethod
    def forward(ctx, x):
        with rg.enable_grad():
            ctx.x = x.detach().requires_grad_() - 1
        return ctx.x.detach()

    @staticmethod
    def backward(ctx, g):
        Countdown.threads.add(threading.get_ident())
        assert not rg.is_grad_enabled()
        if ctx.x < 0:
            return g
        with rg.enable_grad():
            Countdown.apply(ctx.x).sum().backward()
        return g


@pytest.mark.slow
def test_backward_inside_backward_may_be_two_thousand_levels_deep():
    x = rg.tensor([2000.0], requires_grad=True)
    Countdown.apply(x).sum().backward()
    assert x.grad.item() == 1
    assert len(Countdown.threads) > 50
    assert not rg.core.graph.modes.unrecorded


def test_an_error_in_a_backward_deep_inside_reaches_the_caller():
    class Fails(Countdown):
        @staticmethod
        def backward(ctx, g):
            if ctx.x < 0:
                raise ValueError("at the bottom")
            with rg.enable_grad():
                Fails.apply(ctx.x).sum().backward()
            return g

    with pytest.raises(ValueError, match="at the bottom"):
        Fails.apply(rg.tensor([100.0], requires_grad=True)).sum().backward()


def test_reading_grad_of_a_tensor_that_keeps_none_warns():
    x = rg.ones(2, requires_grad=True)
    y = x * 2
    with pytest.warns(UserWarning, match=r"\.grad attribute of a Tensor that is not a leaf"):
        assert y.grad is None
    y.retain_grad()
    assert y.grad is None and x.grad is None and x.detach().grad is None
    y.sum().backward()
    assert y.grad.tolist() == [1, 1]


def test_backward_that_records_warns_once_of_the_cycle():
    rg.core.graph.backward._warn_of_cycles.cache_clear()
    x = rg.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="reference cycle") as seen:
        (x**2).sum().backward(create_graph=True)
        (x**2).sum().backward(create_graph=True)
    assert len(seen) == 1
    x.grad = None
