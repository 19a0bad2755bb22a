"""What PyTorch's programs ask nodes, Functions and ``gradcheck`` for."""

import pytest

import retrograd as rg
from retrograd.autograd import Function, gradcheck, gradgradcheck


def test_leaves_stand_among_the_nodes_as_accumulations():
    x, y = rg.ones(2, requires_grad=True), rg.ones(2)
    (first, number), (second, _) = (x * y).grad_fn.next_functions
    assert first.variable is x and first.name() == "AccumulateGrad" and number == 0 and first.next_functions == ()
    assert second is None
    again = x.expand_as(x).exp().grad_fn.next_functions[0][0].next_functions[0][0]
    assert again == first and len({again, first}) == 1
    seen = []
    first.register_hook(lambda inputs, outputs: seen.append((inputs, outputs[0].tolist(), x.grad.tolist())))
    first.register_prehook(lambda outputs: (outputs[0] * 3,))
    (x * 2).sum().backward()
    assert seen == [((), [6, 6], [6, 6])]


def test_nodes_keep_what_programs_note_on_them():
    node = (rg.ones(1, requires_grad=True) * 2).grad_fn
    node.metadata["seen"] = True
    assert node.metadata == {"seen": True}


def test_a_function_that_lacks_a_part_says_which():
    class Empty(Function):
        pass

    with pytest.raises(NotImplementedError, match="must implement the forward"):
        Empty.apply(rg.ones(1))
    with pytest.raises(RuntimeError, match="Legacy autograd function"):
        Empty()(rg.ones(1))

    class Forward(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(NotImplementedError, match="must implement either the backward or vjp"):
        Forward.apply(rg.ones(1, requires_grad=True)).backward()


def test_views_say_that_they_are():
    x = rg.ones(2, 2)
    assert x[0]._is_view() and not x._is_view() and not (x * 2)._is_view()


def test_gradcheck_looks_inside_vmap():
    x = rg.tensor([0.5, 2.0], dtype=rg.float64, requires_grad=True)
    assert gradcheck(lambda x: (x.exp(), x @ x), x, check_batched_grad=True, check_batched_forward_grad=True)
    assert gradgradcheck(lambda x: x.exp() * x, x, check_batched_grad=True)

    class SumsAll(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            # Wrong inside vmap alone: there the numbers of all examples are behind the array.
            return g if isinstance(g.array, type(x.array)) else g * 2

    assert gradcheck(SumsAll.apply, x)
    with pytest.raises(rg.autograd.GradcheckError, match="differs inside vmap"):
        gradcheck(SumsAll.apply, x, check_batched_grad=True)
