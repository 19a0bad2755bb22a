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

    class Both(Forward):
        @staticmethod
        def backward(ctx, g):
            return g * 2

        vjp = backward

    with pytest.raises(RuntimeError, match="both backward and its alias vjp"):
        Both.apply(rg.ones(1, requires_grad=True)).backward()


def test_saved_variables_is_a_deprecated_name_of_saved_tensors():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            with pytest.warns(DeprecationWarning, match="saved_variables"):
                assert ctx.saved_variables[0] is x
            return g * 2

    x = rg.ones(1, requires_grad=True)
    Double.apply(x).backward()
    assert x.grad.item() == 2


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


COMPOSITES = {
    "std_mean": lambda x: rg.std_mean(x, 0),
    "var_mean": rg.var_mean,
    "aminmax": rg.aminmax,
    "linalg.lu": lambda x: rg.linalg.lu(x)[1:],
    "lu_unpack": lambda x: rg.lu_unpack(*rg.linalg.lu_factor(x))[1:],
    "triangular_solve": lambda x: rg.triangular_solve(rg.ones(2, 2, dtype=rg.float64), x),
}


@pytest.mark.parametrize("name", COMPOSITES)
def test_the_results_of_a_composite_are_outputs_of_one_node(name):
    x = rg.tensor([[3.0, 1.0], [2.0, 5.0]], dtype=rg.float64, requires_grad=True)
    first, second = COMPOSITES[name](x)
    assert (first.output_nr, second.output_nr) == (0, 1)
    assert first.grad_fn.next_functions[0][0] is second.grad_fn.next_functions[0][0]
    seen = []
    second.grad_fn.register_prehook(lambda gs: seen.append([g.shape for g in gs]) or tuple(g * 2 for g in gs))
    plain = rg.autograd.grad(sum(part.sum() for part in COMPOSITES[name](x)), x)[0]
    hooked = rg.autograd.grad(first.sum() + second.sum(), x)[0]
    assert seen == [[first.shape, second.shape]] and hooked.tolist() == (plain * 2).tolist()
    with rg.no_grad():
        assert not any(part.requires_grad for part in COMPOSITES[name](x))
    assert gradcheck(COMPOSITES[name], x) and gradgradcheck(COMPOSITES[name], x)


def test_a_write_to_a_result_of_a_composite_leaves_its_gradient_alone():
    x = rg.tensor([1.0, 4.0, 2.0], requires_grad=True)
    deviation, mean = rg.std_mean(x)
    loss = deviation * mean
    deviation.mul_(100)
    wanted = rg.autograd.grad(rg.std(x) * rg.mean(x), x)[0]
    assert rg.allclose(rg.autograd.grad(loss, x)[0], wanted)


def test_lobpcg_reads_both_triangles():
    x = rg.tensor([[3.0, 1.0, 0.5], [1.0, 5.0, 0.2], [0.5, 0.2, 1.0]], dtype=rg.float64, requires_grad=True)
    assert gradcheck(lambda x: rg.lobpcg(x, 2)[0], x)


def test_multithreading_can_be_asked_for():
    enabled, switch = rg.autograd.is_multithreading_enabled, rg.autograd.set_multithreading_enabled
    assert enabled()
    with switch(False):
        assert not enabled()
        switch(True)
        assert enabled()
    assert enabled()
    switch(False)
    assert not enabled()
    switch(True)
