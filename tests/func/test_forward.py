"""Forward mode: against reverse mode, against PyTorch, through views and writes, nested and differentiated."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.core.graph.primitive import Primitive, apply, apply1
from retrograd.core.tensor.tensor import Tensor
from retrograd.func import jvp

RNG = np.random.default_rng(0)


def tensor(*shape):
    return Tensor(RNG.standard_normal(shape))


def test_value_and_tangent():
    x, t = tensor(2, 3), tensor(2, 3)
    value, moved = jvp(lambda x: x * x * x, (x,), (t,))
    np.testing.assert_allclose(value.array, x.array**3)
    np.testing.assert_allclose(moved.array, 3 * x.array**2 * t.array)
    assert not value.requires_grad and not moved.requires_grad


def test_broadcast_inputs_and_several_primals():
    x, y, s, t = tensor(2, 1), tensor(3), tensor(2, 1), tensor(3)
    _, moved = jvp(lambda x, y: x * y + y, (x, y), (s, t))
    np.testing.assert_allclose(moved.array, s.array * y.array + x.array * t.array + t.array)


def test_structure_and_constants():
    x, t = tensor(2), tensor(2)
    constant = tensor(3)
    values, moved = jvp(lambda x: (x * 2, [constant, x]), (x,), (t,))
    assert type(moved) is tuple and type(moved[1]) is list
    assert values[1][0].shape == moved[1][0].shape == (3,)
    assert not moved[1][0].array.any()
    np.testing.assert_array_equal(moved[1][1].array, t.array)


def test_what_does_not_move_has_no_tangent():
    """A Tensor that requires grad but is no primal is a constant."""
    weight = tensor(2)
    weight.requires_grad = True
    x, t = tensor(2), tensor(2)
    _, moved = jvp(lambda x: weight * x, (x,), (t,))
    np.testing.assert_allclose(moved.array, weight.array * t.array)


def test_rules_that_are_not_elementwise_are_transposed():
    matmul = Primitive("matmul", np.matmul, "x y", [lambda g, y: g @ y.T, lambda g, x: x.T @ g])
    x, y, s, t = tensor(2, 3), tensor(3, 4), tensor(2, 3), tensor(3, 4)
    _, moved = jvp(lambda x, y: apply(matmul, (x, y), {}), (x, y), (s, t))
    np.testing.assert_allclose(moved.array, s.array @ y.array + x.array @ t.array)


def test_joint_rules_and_several_outputs():
    pair = Primitive(
        "pair", lambda x, y: (x * y, x + y), "x y", vjp=lambda g, x, y: (g[0] * y + g[1], g[0] * x + g[1]), outputs=2
    )
    x, y, s, t = (tensor(3) for _ in range(4))
    _, (product, total) = jvp(lambda x, y: apply(pair, (x, y), {}), (x, y), (s, t))
    np.testing.assert_allclose(product.array, s.array * y.array + x.array * t.array)
    np.testing.assert_allclose(total.array, s.array + t.array)


def test_in_place_writes_are_followed():
    def function(x):
        y = x * 2
        y *= x
        return y

    x, t = tensor(3), tensor(3)
    _, moved = jvp(function, (x,), (t,))
    np.testing.assert_allclose(moved.array, 4 * x.array * t.array)


def test_complex_functions():
    z = Tensor(RNG.standard_normal(2) + 1j * RNG.standard_normal(2))
    t = Tensor(RNG.standard_normal(2) + 1j * RNG.standard_normal(2))
    _, moved = jvp(lambda z: z * z, (z,), (t,))
    np.testing.assert_allclose(moved.array, 2 * z.array * t.array)
    magnitude = Primitive("abs", np.abs, "x", [lambda g, x, ans: g * np.conj(x) / ans])
    _, moved = jvp(lambda z: apply1(magnitude, z), (z,), (t,))
    np.testing.assert_allclose(moved.array, np.real(np.conj(z.array) * t.array) / np.abs(z.array))


def test_a_derivative_by_a_parameter_outside():
    """d/dw of the tangent of w x^2 is 2 x t."""
    weight = tensor(2)
    weight.requires_grad = True
    x, t = tensor(2), tensor(2)
    t.requires_grad = True
    _, moved = jvp(lambda x: weight * x * x, (x,), (t,))
    by_weight, by_tangent = rg.autograd.grad(moved, (weight, t), rg.ones(2, dtype="float64"))
    np.testing.assert_allclose(by_weight.array, 2 * x.array * t.array)
    np.testing.assert_allclose(by_tangent.array, 2 * weight.array * x.array)


def test_nested():
    """Second directional derivatives of x^3: 6 x s t."""
    x, s, t = tensor(2), tensor(2), tensor(2)
    _, twice = jvp(lambda x: jvp(lambda x: x * x * x, (x,), (s,))[1], (x,), (t,))
    np.testing.assert_allclose(twice.array, 6 * x.array * s.array * t.array)


def test_reverse_over_forward_is_the_hessian_times_a_vector():
    x, t = tensor(3), tensor(3)
    x.requires_grad = True
    _, moved = jvp(lambda x: x * x * x, (x,), (t,))
    (product,) = rg.autograd.grad(moved, x, rg.ones(3, dtype="float64"))
    np.testing.assert_allclose(product.array, 6 * x.array * t.array)


def test_under_no_grad():
    x, t = tensor(2), tensor(2)
    with rg.no_grad():
        _, moved = jvp(lambda x: x * x, (x,), (t,))
    np.testing.assert_allclose(moved.array, 2 * x.array * t.array)


def test_a_long_chain():
    def function(x):
        for _ in range(5000):
            x = x * 1.0001
        return x

    x, t = tensor(2), tensor(2)
    value, moved = jvp(function, (x,), (t,))
    np.testing.assert_allclose(moved.array / t.array, value.array / x.array)


def test_against_pytorch():
    torch = pytest.importorskip("torch")
    x, t = RNG.standard_normal(3), RNG.standard_normal(3)
    _, moved = jvp(lambda x: rg.exp(x * x) * x, (Tensor(x),), (Tensor(t),))
    _, wanted = torch.autograd.functional.jvp(lambda x: torch.exp(x * x) * x, torch.tensor(x), torch.tensor(t))
    np.testing.assert_allclose(moved.array, wanted.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("primals", "tangents", "error", "message"),
    [
        (
            Tensor(np.ones(2)),
            (Tensor(np.ones(2)),),
            RuntimeError,
            "primals must be a tuple of the function's arguments",
        ),
        ((Tensor(np.ones(2)),), ("up",), RuntimeError, r"tangents\[0\] must be a Tensor, got str: 'up'"),
        ((rg.ones,), (np.ones(2),), RuntimeError, r"primals\[0\] must be a Tensor, got function"),
        ((), (), RuntimeError, "primals must contain at least one Tensor"),
        ((Tensor(np.ones(2)),), (), RuntimeError, "tangents: expected 1 elements, got 0"),
        (({"a": 1.0},), ({"b": 1.0},), RuntimeError, r"tangents\[0\]\['a'\] is missing"),
        (({"a": 1.0},), ([1.0],), RuntimeError, r"tangents\[0\]: expected a dict, got list"),
        (
            (Tensor(np.ones(2)),),
            (np.ones(3),),
            RuntimeError,
            r"tangents\[0\] is float64\(3,\), but primals\[0\] float64",
        ),
        ((1.0,), (1j,), RuntimeError, r"tangents\[0\] is complex"),
        ((Tensor(np.ones(2, int)),), (Tensor(np.ones(2, int)),), ValueError, r"primals\[0\] is int64\(2,\)"),
    ],
)
def test_bad_arguments_are_refused(primals, tangents, error, message):
    with pytest.raises(error, match=message):
        jvp(lambda x: x, primals, tangents)


def test_a_function_must_return_tensors():
    with pytest.raises(RuntimeError, match="must return Tensors, got output = int: 1"):
        jvp(lambda x: 1, (Tensor(np.ones(2)),), (Tensor(np.ones(2)),))


def derivative(function):
    return lambda x: jvp(function, (x if isinstance(x, Tensor) else rg.tensor(x, dtype=rg.float64),), (ONE,))[1]


ONE = rg.tensor(1.0, dtype=rg.float64)


@pytest.mark.parametrize(
    ("function", "at", "wanted"),
    [
        (lambda x: x * derivative(lambda y: x * y)(3.0), 5.0, 10.0),
        (lambda x: x * derivative(lambda y: x + y)(1.0), 1.0, 1.0),
        (lambda x: derivative(lambda y: x * x * y * y)(x * 2), 3.0, 108.0),
        (lambda x: derivative(lambda y: derivative(lambda z: x * y * z * z)(y))(x), 2.0, 16.0),
    ],
)
def test_nested_derivatives_do_not_confuse_their_directions(function, at, wanted):
    assert derivative(function)(at).item() == pytest.approx(wanted)


def test_what_the_function_reads_from_outside_gets_its_gradient():
    x = rg.tensor(2.0, dtype=rg.float64, requires_grad=True)
    value, tangent = jvp(lambda y: x * y * y, (rg.tensor(3.0, dtype=rg.float64),), (ONE,))
    assert rg.autograd.grad(value, x, retain_graph=True)[0].item() == 9.0
    assert rg.autograd.grad(tangent, x)[0].item() == 6.0


def test_a_derivative_by_a_layer_s_input_is_differentiable_by_its_weights():
    layer = rg.nn.Linear(3, 1).double()
    x, t = tensor(5, 3), tensor(5, 3)
    slope = jvp(layer, (x,), (t,))[1]
    (slope**2).sum().backward()
    wanted = 2 * (t.array @ layer.weight.array.T).T @ t.array
    np.testing.assert_allclose(layer.weight.grad.array, wanted)
    assert layer.bias.grad is None


def test_only_what_depends_on_the_outside_has_a_history():
    w = rg.ones(2, dtype=rg.float64, requires_grad=True)
    (plain, weighted), _ = jvp(lambda x: (x * 2, x * w), (tensor(2),), (tensor(2),))
    assert not plain.requires_grad and weighted.requires_grad


@pytest.mark.parametrize("write", [lambda x: x.__setitem__(1, 3.0), lambda x: x[1:].mul_(2.0), lambda x: x.mul_(x)])
def test_tangents_go_through_what_the_function_writes_to_its_argument(write):
    def function(x):
        write(x)
        return x * x

    x, t = rg.tensor([1.0, 2.0, -3.0]), rg.tensor([1.0, 10.0, 100.0])
    leaf = rg.tensor(x.array, requires_grad=True)
    rows = [rg.autograd.grad(element, leaf, retain_graph=True)[0] for element in function(leaf * 1)]
    np.testing.assert_allclose(jvp(function, (x,), (t,))[1].numpy(), (rg.stack(rows) @ t).numpy())


def test_a_function_that_writes_to_its_argument_leaves_the_primal_alone():
    x = tensor(3)
    before = x.tolist()
    value, tangent = jvp(lambda y: y.mul_(2) + y, (x,), (tensor(3),))
    assert x.tolist() == before
    np.testing.assert_allclose(value.array, 4 * x.array)


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("function", [lambda x: x + 0.0, lambda x: x.reshape(1, 3), lambda x: rg.cat([x])[:2]])
def test_writing_to_a_tangent_that_comes_out_leaves_the_one_that_went_in_alone(function, mapped):
    x, t = rg.ones(2, 3), rg.ones(2, 3)
    if not mapped:
        x, t = x[0], t[0]

    def derivative(x, t):
        return rg.func.jvp(function, (x,), (t,))[1]

    (rg.func.vmap(derivative) if mapped else derivative)(x, t).add_(5)
    assert (t == 1).all()


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_function_that_writes_to_its_tangent_leaves_that_of_the_caller_alone(requires_grad):
    class Doubled(rg.autograd.Function):
        @staticmethod
        def forward(x):
            return x.mul_(2)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(inputs[0])

        @staticmethod
        def backward(ctx, g):
            return 2 * g

        @staticmethod
        def jvp(ctx, t):
            return t.mul_(2)

    x, t = rg.tensor(2.0, requires_grad=requires_grad), rg.tensor(3.0, requires_grad=requires_grad)
    for _ in range(2):
        y, tangent = jvp(lambda x: Doubled.apply(x.clone()), (x,), (t,))
        assert (y.item(), tangent.item(), t.item()) == (4, 6, 3)
