"""``autograd.forward_ad``: dual Tensors carry tangents through programs."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd import forward_ad as fwAD
from retrograd.autograd import grad
from retrograd.func import jvp

X = rg.tensor([[0.3, -0.7, 1.1], [0.9, 0.2, -0.4]], dtype=rg.float64)
T = rg.tensor([[1.0, 0.5, -2.0], [0.1, -1.0, 3.0]], dtype=rg.float64)


def writes(x):
    y = x * 2
    y[0].mul_(x[1])
    y.exp_()
    return y * y


PROGRAMS = {
    "elementwise": lambda x: x.exp() * x.sin(),
    "products": lambda x: (x @ x.T).relu() @ x,
    "softmax": lambda x: rg.nn.functional.layer_norm(x, (3,)).softmax(0),
    "several outputs": lambda x: rg.linalg.qr(x @ x.T)[1],
    "writes": writes,
    "views": lambda x: x.T[1:].unbind(0)[1] * x.sum(1),
    "a constant": lambda x: rg.ones_like(x) + 0 * x.detach(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_tangents_are_those_of_jvp(name):
    value, expected = jvp(PROGRAMS[name], (X,), (T,))
    with fwAD.dual_level():
        dual = fwAD.make_dual(X, T)
        primal, tangent = fwAD.unpack_dual(PROGRAMS[name](dual))
    np.testing.assert_allclose(primal.numpy(), value.numpy())
    if name == "a constant":
        assert tangent is None and not primal.requires_grad
    else:
        np.testing.assert_allclose(tangent.numpy(), expected.numpy())


def test_several_inputs_and_a_module():
    layer = rg.nn.Linear(3, 2)
    names = [name for name, _ in layer.named_parameters()]
    parameters = {name: p.detach() for name, p in layer.named_parameters()}
    tangents = {name: rg.randn_like(p) for name, p in parameters.items()}
    x = rg.randn(4, 3)
    expected = jvp(lambda p: rg.func.functional_call(layer, p, (x,)), (parameters,), (tangents,))[1]
    with fwAD.dual_level():
        for name in names:
            delattr(layer, name)
            setattr(layer, name, fwAD.make_dual(parameters[name], tangents[name]))
        found = fwAD.unpack_dual(layer(x)).tangent
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5)


def test_tangents_can_be_differentiated():
    x = rg.tensor([0.5, 2.0], dtype=rg.float64, requires_grad=True)
    t = rg.tensor([1.0, 3.0], dtype=rg.float64, requires_grad=True)
    with fwAD.dual_level():
        primal, tangent = fwAD.unpack_dual(fwAD.make_dual(x, t) ** 3)
        first = grad(tangent.sum(), [x, t], retain_graph=True)
    assert primal.requires_grad
    np.testing.assert_allclose(first[0].numpy(), (6 * x * t).detach().numpy())
    np.testing.assert_allclose(first[1].numpy(), (3 * x**2).detach().numpy())


def test_forward_over_reverse_is_a_product_with_the_hessian():
    x = rg.tensor([0.5, 2.0], dtype=rg.float64, requires_grad=True)
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, rg.tensor([1.0, 10.0], dtype=rg.float64))
        (first,) = grad((dual**3).prod(), dual, create_graph=True)
        found = fwAD.unpack_dual(first).tangent
        np.testing.assert_allclose(found.detach().numpy(), rg.autograd.functional.hvp(
            lambda x: (x**3).prod(), x.detach(), rg.tensor([1.0, 10.0], dtype=rg.float64))[1].numpy())  # fmt: skip
        (first,) = grad((dual**3).prod(), dual)
        with pytest.raises(RuntimeError, match="create_graph=True"):
            fwAD.unpack_dual(first)


def test_there_is_no_tangent_outside_of_a_level_or_after_detach():
    with pytest.raises(RuntimeError, match="no level exists"):
        fwAD.make_dual(X, T)
    with fwAD.dual_level():
        dual = fwAD.make_dual(X, T)
        result = dual * 2
        assert fwAD.unpack_dual(dual.detach()).tangent is None
        assert fwAD.unpack_dual(X).tangent is None
        with pytest.raises(RuntimeError, match="Nested"):
            fwAD.enter_dual_level()
    assert fwAD.unpack_dual(result).tangent is None
    with fwAD.dual_level():
        assert fwAD.unpack_dual(result).tangent is None
    with pytest.raises(RuntimeError, match="not the last one"):
        fwAD.exit_dual_level()
    assert not rg.core.graph.modes.watchers


def test_a_tangent_that_was_not_recorded_is_an_error():
    with fwAD.dual_level():
        dual = fwAD.make_dual(X, T)
        with rg.no_grad():
            lost = dual * 2
            assert float(dual.max()) == 1.1
        for result in (lost, lost + 1, lost * dual):
            with pytest.raises(RuntimeError, match="under no_grad"):
                fwAD.unpack_dual(result)
        assert fwAD.unpack_dual(dual * 3).tangent is not None


def test_unpacking_one_result_leaves_constants_without_tangents():
    with fwAD.dual_level():
        dual = fwAD.make_dual(X, T)
        dual[0].mul_(2)
        assert fwAD.unpack_dual(dual).tangent is not None
        assert fwAD.unpack_dual(rg.ones(2)).tangent is None


@pytest.mark.parametrize(
    ("primal", "tangent", "error", "message"),
    [
        (X, T[0], RuntimeError, "different size"),
        (X, T.float(), RuntimeError, "dtype"),
        (X.long(), T, ValueError, "primal to be floating point or complex"),
        (X, T.long(), ValueError, "tangent to be floating point or complex"),
        (X, 3.0, TypeError, "tangent to be a Tensor"),
    ],
)
def test_arguments_of_make_dual(primal, tangent, error, message):
    with fwAD.dual_level(), pytest.raises(error, match=message):
        fwAD.make_dual(primal, tangent)


def test_a_function_with_a_jvp_of_its_own_is_asked():
    class Square(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(x)
            return x * x

        @staticmethod
        def jvp(ctx, t):
            (x,) = ctx.saved_tensors
            return 2 * x * t + 100

    with fwAD.dual_level():
        found = fwAD.unpack_dual(Square.apply(fwAD.make_dual(X, T))).tangent
    np.testing.assert_allclose(found.numpy(), (2 * X * T + 100).numpy())


def test_the_tangent_of_a_dual_tensor_is_the_one_that_was_given():
    x, t = rg.ones(2), rg.tensor([1.0, 2.0])
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, t)
        assert fwAD.unpack_dual(dual).tangent is t and fwAD.unpack_dual(dual).primal.data_ptr() == x.data_ptr()
        again = fwAD.make_dual(dual, t * 3)
        assert fwAD.unpack_dual(again * 2).tangent.tolist() == [6, 12]
        assert fwAD.unpack_dual(dual * 2).tangent.tolist() == [2, 4]


def test_a_dual_tensor_shows_its_tangent():
    with fwAD.dual_level():
        dual = fwAD.make_dual(X[0], T[0])
        assert "tangent=tensor([ 1. ,  0.5, -2. ]" in str(dual)
        assert "tangent=tensor([ 2.,  1., -4.]" in str(dual * 2)
        assert "tangent" not in str(X) + str(fwAD.unpack_dual(dual).primal)
    assert "tangent" not in str(dual)


def test_rows_of_an_embedding_keep_their_tangents_when_their_norm_is_limited():
    weight = rg.tensor([[3.0, 4.0], [0.3, 0.4]])
    with fwAD.dual_level():
        rows = rg.nn.functional.embedding(
            rg.tensor([1, 0]), fwAD.make_dual(weight, rg.tensor([[1.0, 2.0], [3.0, 4.0]])), max_norm=1.0
        )
        assert fwAD.unpack_dual(rows).tangent.tolist() == [[3, 4], [1, 2]]
    np.testing.assert_allclose(weight.norm(dim=1), [1.0, 0.5], rtol=1e-5)
