"""Gradients of compiled functions: whatever is written between a call and its backward, and derivatives of them."""

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.nn import functional as F


def written_result(wrap):
    f = wrap(lambda x: x.exp())
    for _ in range(3):
        x = rg.tensor([1.0, 2.0], requires_grad=True)
        y = f(x)
        y.detach().mul_(2.0)
        y.sum().backward()
        yield x.grad


def result_in_a_chain(wrap):
    f = wrap(lambda x: (x.exp(), x.sigmoid()))
    for _ in range(3):
        x = rg.tensor([1.0, 2.0], requires_grad=True)
        a, b = f(x)
        (a.mul_(2.0) + b.add_(1.0)).sum().backward()
        yield x.grad


def written_view_of_a_result(wrap):
    f = wrap(lambda x: (x.exp(), x.exp().T))
    for _ in range(3):
        x = rg.ones(2, 3, requires_grad=True)
        a, b = f(x)
        b[0] = 7.0
        (a.sum() + (b * b).sum()).backward()
        yield x.grad


def written_argument(wrap):
    f = wrap(lambda x, w: (x * w.T).sum())
    for _ in range(3):
        x, w = rg.ones(2, 3, requires_grad=True), rg.ones(3, 2)
        y = f(x, w)
        w.mul_(5.0)
        y.backward()
        yield x.grad


def written_leaf(wrap):
    f = wrap(lambda x, w: (x.T * w).sum())
    for _ in range(3):
        x, w = rg.ones(3, 2, requires_grad=True), rg.ones(2, 3, requires_grad=True)
        y = f(x, w)
        with rg.no_grad():
            x.mul_(5.0)
        y.backward()
        yield from (x.grad, w.grad)


def written_from_outside(wrap):
    k = rg.ones(2)
    f = wrap(lambda x: (x * k[1:]).sum())
    for _ in range(3):
        x = rg.ones(2, requires_grad=True)
        y = f(x)
        k.mul_(2.0)
        y.backward()
        yield x.grad


def written_gradient(wrap):
    w = rg.full((2,), 3.0, requires_grad=True)

    def penalty(x):
        w.grad = None
        (w**2 * x).sum().backward(create_graph=True)
        return (w.grad**2).sum()

    f = wrap(penalty)
    for _ in range(3):
        x = rg.ones(2, requires_grad=True)
        y = f(x)
        with rg.no_grad():
            w.grad.mul_(10.0)
        (found,) = rg.autograd.grad(y, x)
        yield found


PROGRAMS = [
    written_result, result_in_a_chain, written_view_of_a_result, written_argument, written_leaf, written_from_outside,
    written_gradient,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*runs eagerly", "ignore:.*create_graph")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_is_written_after_the_call_does_not_reach_its_backward(program):
    eager, compiled = [list(program(wrap)) for wrap in (lambda f: f, rg.compile)]
    for got, want in zip(compiled, eager, strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)


def second(y, x):
    (first,) = rg.autograd.grad(y, x, create_graph=True)
    (found,) = rg.autograd.grad(first.sum(), x)
    return first.tolist(), found.tolist()


def test_second_derivatives_are_those_of_the_call():
    f = rg.compile(lambda x, w, k: (x**3 * w.exp() * k).sum())
    for k in (1.0, 2.0, 3.0, 4.0):
        x, w = rg.tensor([1.0, 2.0], requires_grad=True), rg.full((2,), k)
        assert second(f(x, w, k), x) == second(f.function(x, w, k), x)
    assert f.traces == 2


def test_an_argument_that_is_written_meanwhile_is_what_it_was():
    f = rg.compile(lambda x: (x**3).sum())
    for _ in range(3):
        x = rg.tensor([1.0, 2.0], requires_grad=True)
        h = x * 2
        y = f(h)
        h.add_(1.0)
        assert second(y, x) == ([24.0, 96.0], [48.0, 96.0])


def test_an_argument_whose_memory_the_backward_does_not_read_is_not_run_again_with_other_numbers():
    @rg.compile
    def f(x):
        y = x * 2.0
        return (y**3).sum()

    for number in range(3):
        x = rg.tensor([1.0, 2.0], requires_grad=True)
        y = f(x)
        x.detach().mul_(-3.0)
        if number:
            with pytest.raises(RuntimeError, match="values that have changed since"):
                second(y, x)
        else:
            assert second(y, x) == ([24.0, 96.0], [48.0, 96.0])


def test_a_second_derivative_that_cannot_be_had_is_an_error():
    k = rg.ones(2)
    f = rg.compile(lambda x: (x**3 * k.exp()).sum())
    norm = nn.BatchNorm1d(2)
    functions = [
        (rg.compile(lambda x: (F.dropout(x, 0.5) ** 3).sum()), "draws random numbers"),
        (rg.compile(lambda x: (norm(x) ** 3).sum()), "changes what is outside"),
        (f, "values that have changed since"),
    ]
    for function, why in functions:
        for number in range(3):
            x = rg.arange(6.0).reshape(3, 2).requires_grad_()
            y = function(x)
            if function is f:
                k.mul_(2.0)
            if number:
                with pytest.raises(RuntimeError, match=why):
                    second(y, x)
    with rg.compiler.set_stance("force_eager"):
        x = rg.ones(3, 2, requires_grad=True)
        second(f(x), x)


def test_a_result_that_is_kept_lets_parameters_be_moved_in_place():
    parameters = [nn.Parameter(rg.ones(4, 4)) for _ in range(3)]
    for parameter in parameters:
        parameter.grad = rg.ones(4, 4)
    optimizer = rg.optim.AdamW(parameters, lr=0.1)

    @rg.compile
    def step():
        optimizer.step()
        return parameters[0][0, 0]

    kept = [step() for _ in range(2)]
    memory = [p.array for p in parameters]
    kept += [step() for _ in range(3)]
    assert [p.array is array for p, array in zip(parameters[1:], memory[1:], strict=True)] == [True, True]
    assert step.entries[0].calls == 4 and kept[0].item() == parameters[0][0, 0].item()


class Cubed(rg.autograd.Function):
    """A derivative of one's own, with a Tensor that is saved, one that is kept as an attribute, and a number."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, x * 2)
        ctx.square = x * x
        ctx.factor = 3
        return ctx.square * x

    @staticmethod
    def backward(ctx, g):
        x, twice = ctx.saved_tensors
        return g * ctx.factor * ctx.square + 0 * twice * x


def test_functions_with_derivatives_of_their_own_are_compiled():
    f = rg.compile(lambda x: Cubed.apply(x) * 2)
    for number in range(4):
        x = rg.full((2,), float(number), requires_grad=True)
        f(x).sum().backward()
        assert x.grad.tolist() == [6.0 * number**2] * 2
    assert f.traces == 1 and not f.why


@pytest.mark.parametrize("between", [lambda x: x.view(3), lambda x: x.flip(0), lambda x: x + 1, lambda x: x.exp()])
@pytest.mark.parametrize("dynamic", [None, True])
def test_an_argument_that_was_computed_from_another_gets_no_part_of_its_gradient(between, dynamic):
    """``f(x, g(x))``: backward adds what flows through ``g``, which the program must not have added already."""

    def f(x, y):
        return (x * y.sin()).sum(), x + y

    found = []
    for wrapped in (f, rg.compile(f, dynamic=dynamic)):
        for _ in range(3):
            x = rg.tensor([1.0, 2.0, 3.0], dtype=rg.float64, requires_grad=True)
            total, both = wrapped(x, between(x))
            (g,) = rg.autograd.grad(total + (both**3).sum(), x, create_graph=True)
            (h,) = rg.autograd.grad((g**2).sum(), x)
            found.append((g.tolist(), h.tolist()))
    np.testing.assert_allclose(found[3:], found[:3], rtol=1e-12)
    assert wrapped.traces == 1


def test_a_captured_tensor_that_an_argument_was_computed_from_does_not_either():
    w = rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)
    f = rg.compile(lambda y: (y * w).sum())
    for _ in range(3):
        (g,) = rg.autograd.grad(f(w * 3), w)
        assert g.tolist() == [6.0, 12.0]


def test_a_result_that_is_returned_twice_is_one_tensor_in_every_call():
    def f(x):
        y = x * 2
        return y, [y, x], {"y": y}

    compiled = rg.compile(f)
    for requires in (False, False, True, True):
        x = rg.ones(2, requires_grad=requires)
        y, nest, named = compiled(x)
        assert y is nest[0] is named["y"] and nest[1] is x
        if requires:
            (y + nest[0] * 3).sum().backward()
            assert x.grad.tolist() == [8.0, 8.0]


def test_a_loss_of_some_results_gives_no_gradient_to_inputs_of_the_others_only():
    """AdamW would decay a parameter whose gradient is zero, and leaves one without a gradient alone."""
    heads = [rg.nn.Linear(3, 2) for _ in range(2)]
    compiled = rg.compile(lambda x: [head(x) for head in heads])
    x = rg.randn(4, 3)
    for _ in range(3):
        rg.nn.ModuleList(heads).zero_grad()
        first, second = compiled(x)
        first.square().sum().backward()
        assert heads[0].weight.grad is not None and heads[1].weight.grad is None
    first, second = compiled(x)
    w = heads[0].weight
    (g,) = rg.autograd.grad(first.square().sum(), w, create_graph=True)
    got = rg.autograd.grad(g.square().sum(), [w, heads[1].weight], allow_unused=True)
    (wanted,) = rg.autograd.grad((2 * (x @ w.T + heads[0].bias).T @ x).square().sum(), w)
    assert rg.allclose(got[0], wanted) and got[1] is None
