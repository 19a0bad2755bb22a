"""gradcheck and gradgradcheck pass right gradients, and say of wrong ones which element, which input, which values."""

import re

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from retrograd.autograd.numerical import numerical_gradient
from retrograd.core.graph.primitive import Primitive, apply, apply1
from retrograd.core.tensor.tensor import Tensor

RNG = np.random.default_rng(0)


def leaf(*shape, dtype="float64"):
    values = RNG.standard_normal(shape)
    if dtype == "complex128":
        values = values + 1j * RNG.standard_normal(shape)
    return Tensor(values, dtype=dtype, requires_grad=True)


def cube(scale=1.0, second=1.0):
    """x^3 whose gradient is scaled, or the gradient of its gradient alone."""

    def rule(g, x):
        return (
            scale
            * 3
            * g
            * x
            * (x * second + (x.detach() * (1 - second) if isinstance(x, Tensor) else x * (1 - second)))
        )

    primitive = Primitive("cube", lambda x: x * x * x, "x", [rule], elementwise=True)
    return lambda x: apply1(primitive, x)


def test_right_gradients_pass():
    x, y = leaf(2, 3), leaf(3)
    for fast_mode in (False, True):
        assert gradcheck(lambda x, y: (x * y, x + y), (x, y), fast_mode=fast_mode)
        assert gradgradcheck(lambda x, y: (x * y, x + y * y), (x, y), fast_mode=fast_mode)
    assert gradcheck(cube(), leaf(3), check_forward_ad=True, check_grad_dtypes=True)
    assert gradgradcheck(cube(), leaf(3))


def test_a_wrong_gradient_is_reported_by_input_element_and_values():
    x = Tensor(np.array([[1.0, 2.0], [3.0, 4.0]]), requires_grad=True)
    with pytest.raises(GradcheckError) as caught:
        gradcheck(lambda a, x: a * cube(1.01)(x), (2.0, x))
    message = str(caught.value)
    assert "for input 1, float64(2, 2)" in message
    assert re.search(r"d output\[1, 1\] / d input\[1, 1\]: analytic 96\.96, numerical (96|95\.999)", message)
    assert isinstance(caught.value, RuntimeError)


def test_a_wrong_gradient_can_give_false():
    x = leaf(3)
    for fast_mode in (False, True):
        assert not gradcheck(cube(1.01), x, raise_exception=False, fast_mode=fast_mode)
    with pytest.raises(GradcheckError, match="along a random direction"):
        gradcheck(cube(1.01), x, fast_mode=True)


def test_only_many_wrong_elements_are_counted():
    with pytest.raises(GradcheckError, match="and 5 more of 100"):
        gradcheck(cube(1.01), Tensor(np.arange(1.0, 11.0), requires_grad=True))


def test_a_gradient_right_in_first_order_only():
    x = leaf(3)
    assert gradcheck(cube(second=0.0), x)
    with pytest.raises(GradcheckError, match="for input 0"):
        gradgradcheck(cube(second=0.0), x)
    assert not gradgradcheck(cube(second=0.0), x, raise_exception=False)


def test_tolerances_are_those_given():
    x = Tensor(np.array([1.0]), requires_grad=True)
    assert gradcheck(cube(1.01), x, rtol=0.02)
    assert gradcheck(cube(1.01), x, atol=0.05)
    assert not gradcheck(cube(1.0005), x, rtol=1e-4, raise_exception=False)


def test_wrong_forward_mode_is_found():
    """The rule of a cumulative sum is right backward, but it is not the map of tangents."""
    cumsum = Primitive("cumsum", np.cumsum, "x", [lambda g: np.flip(np.cumsum(np.flip(g)))], elementwise=True)
    assert gradcheck(lambda x: apply1(cumsum, x), leaf(3))
    with pytest.raises(GradcheckError, match="forward mode is wrong for output 0, .* along input 0"):
        gradcheck(lambda x: apply1(cumsum, x), leaf(3), check_forward_ad=True)


def test_complex_gradients():
    z, w = leaf(2, dtype="complex128"), leaf(2, dtype="complex128")
    assert gradcheck(lambda z, w: z * w, (z, w), check_forward_ad=True)
    assert gradgradcheck(lambda z, w: z * w, (z, w))
    conjugated = Primitive("mul", np.multiply, "x y", [lambda g, y: g * np.conj(y), lambda g, x: g * x])
    with pytest.raises(GradcheckError, match=r"input\[\d\]\.(real|imag)"):
        gradcheck(lambda z, w: apply(conjugated, (z, w), {}), (z, w))


def test_outputs_used_alone_are_checked():
    """A primitive with two outputs whose joint rule forgets one of them when the other's cotangent is zero."""

    def rule(g, x):
        first, second = g
        both = bool(np.any(first if not isinstance(first, Tensor) else first.array)) and bool(
            np.any(second if not isinstance(second, Tensor) else second.array)
        )
        return first + second * 2 if both else first * 1.0

    pair = Primitive("pair", lambda x: (x * 1.0, x * 2.0), "x", [rule], outputs=2)
    with pytest.raises(GradcheckError):
        gradcheck(lambda x: apply(pair, (x,), {}), leaf(2))


def test_a_gradient_that_changes_from_walk_to_walk():
    walks = []

    def rule(g):
        walks.append(1)
        return g * (1 + 1e-9 * len(walks))

    drifting = Primitive("drifting", lambda x: x * 1.0, "x", [rule])
    x = leaf(2)
    with pytest.raises(GradcheckError, match="nondet_tol=0"):
        gradcheck(lambda x: apply1(drifting, x), x)
    assert gradcheck(lambda x: apply1(drifting, x), x, nondet_tol=1e-6)


def test_inputs_are_restored_and_may_be_read_from_elsewhere():
    x = leaf(3)
    before = x.array.copy()
    assert gradcheck(lambda _: x * x, (x,))
    assert np.array_equal(x.array, before)
    with pytest.raises(ZeroDivisionError):
        numerical_gradient(lambda x: 1 / 0, x)
    assert np.array_equal(x.array, before)


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(ValueError, match="at least one input must be a Tensor that requires grad"):
        gradcheck(lambda x: x, Tensor(np.ones(2)))
    with pytest.raises(AssertionError, match="at least one of check_forward_ad and check_backward_ad"):
        gradcheck(lambda x: x, leaf(2), check_backward_ad=False)


def test_a_function_without_differentiable_outputs_must_be_constant():
    x = leaf(2)
    assert gradcheck(lambda x: (), x)
    assert gradcheck(lambda x: (x > 0, rg.ones(2)), x)
    with pytest.raises(GradcheckError, match="numerical gradient of output 0 for input 0 expected to be zero"):
        gradcheck(lambda x: x.detach(), x)
    assert not gradcheck(lambda x: x.detach(), x, raise_exception=False)


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize("other", [lambda x: rg.cat([x, x]), lambda x: x.float()])
def test_outputs_keep_shape_and_dtype_when_inputs_are_perturbed(fast_mode, other):
    x = rg.ones(1, dtype=rg.float64, requires_grad=True)
    with pytest.raises(AssertionError, match="the same shape and dtype when inputs are perturbed"):
        gradcheck(lambda x: other(x) if x.item() >= 1 else x * 2, x, fast_mode=fast_mode)


def test_given_cotangents_are_checked_where_they_require_grad():
    class Square(rg.autograd.Function):  # with a gradient that does not depend on the cotangent
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g.detach()

    x, g = leaf(2), leaf(2)
    assert gradgradcheck(Square.apply, x, g.detach())
    with pytest.raises(GradcheckError):
        gradgradcheck(Square.apply, x, g)


def test_single_precision_is_checked_with_a_warning():
    x = Tensor(np.ones(2, np.float32), requires_grad=True)
    with pytest.warns(UserWarning, match="float64 or complex128"):
        assert gradcheck(lambda x: x * x, (x,), eps=1e-2, atol=1e-2)
    with pytest.warns(UserWarning, match="float64 or complex128"), pytest.raises(GradcheckError):
        gradcheck(rg.exp, (x,))


def test_an_expanded_input_is_refused():
    x = Tensor(np.ones(2))
    x.array = np.broadcast_to(np.ones(1), (2,))
    x.requires_grad = True
    with pytest.raises(ValueError, match="clone"):
        gradcheck(lambda x: x * x, x)


def test_grad_outputs_must_match_in_number():
    with pytest.raises(ValueError, match="1 outputs require grad, but 2 grad_outputs given"):
        gradgradcheck(lambda x: x * x, leaf(2), [leaf(2), leaf(2)])


def test_numerical_gradient():
    x = rg.tensor([1.0, 2.0])
    gradient = numerical_gradient(lambda x, y: (x * x * y).sum(), x, rg.tensor([3.0, 4.0]))
    assert [g.dtype.name for g in gradient] == ["float64", "float64"]
    np.testing.assert_allclose(gradient[0].array, [6.0, 16.0], rtol=1e-8)
    np.testing.assert_allclose(gradient[1].array, [1.0, 4.0], rtol=1e-8)


def test_numerical_gradient_of_a_complex_input_is_pytorchs():
    z = Tensor(np.array([1.0 + 2.0j]))
    gradient = numerical_gradient(lambda z: float(abs(z.array[0]) ** 2), z)
    np.testing.assert_allclose(gradient.array, [2.0 + 4.0j], rtol=1e-8)


def test_numerical_gradient_refuses_what_it_cannot_differentiate():
    with pytest.raises(TypeError, match="input 0 must be floating or complex"):
        numerical_gradient(lambda x: x, rg.tensor([1, 2]))
    with pytest.raises(RuntimeError, match="single number"):
        numerical_gradient(lambda x: x, rg.tensor([1.0, 2.0]))


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
def test_sparse_inputs_are_checked_by_their_values(layout):
    a = rg.rand(2, 2, dtype=rg.float64, requires_grad=True)
    b = getattr(rg.rand(2, 2, dtype=rg.float64), layout)().requires_grad_(True)
    for fast_mode in (True, False):
        assert gradcheck(lambda x, y: x * y.to_dense(), (a, b), masked=True, fast_mode=fast_mode)
    assert gradgradcheck(lambda x, y: x * y.to_dense() ** 2, (a, b))
    with pytest.raises(GradcheckError, match="for input 1"):
        gradcheck(lambda x, y: x * y.to_dense().detach() + y.to_dense(), (a, b))
