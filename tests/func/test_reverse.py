"""grad, grad_and_value, value_and_grad, vjp, hvp and vhp: what they give, and what they say when they cannot."""

import gc
from weakref import ref

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import func
from retrograd.func import grad, grad_and_value, hvp, jacfwd, jacrev, jvp, linearize, value_and_grad, vhp, vjp
from tests.func.programs import assert_same

X = rg.tensor([1.0, 2.0], dtype=rg.float64)
Y = rg.tensor([3.0, 5.0], dtype=rg.float64)


def f(x, y, scale=1.0):
    return (x * x * y).sum() * scale


@pytest.mark.parametrize(
    ("argnums", "wanted"),
    [
        (0, [6.0, 20.0]),
        (1, [1.0, 4.0]),
        (-1, [1.0, 4.0]),
        ((0,), ([6.0, 20.0],)),
        ((1, 0), ([1.0, 4.0], [6.0, 20.0])),
        ((-1, 0), ([1.0, 4.0], [6.0, 20.0])),
    ],
)
def test_the_arguments_to_differentiate_by_are_chosen(argnums, wanted):
    found = grad(f, argnums)(X, Y)
    assert func.nests.mapped(lambda x: x.tolist(), found) == wanted
    assert type(found) is (tuple if isinstance(argnums, tuple) else rg.Tensor)


def test_what_is_given_by_name_is_passed_on():
    assert grad(f)(X, Y, scale=2.0).tolist() == [12.0, 40.0]


def test_the_orders_of_value_gradient_and_aux():
    def with_aux(x):
        y = (x * x).sum()
        return y, {"twice": y * 2, "name": "aux"}

    gradient, aux = grad(with_aux, has_aux=True)(X)
    assert gradient.tolist() == [2.0, 4.0] and aux["twice"].item() == 10.0 and aux["name"] == "aux"
    gradient, (value, aux) = grad_and_value(with_aux, has_aux=True)(X)
    assert gradient.tolist() == [2.0, 4.0] and value.item() == 5.0 and not aux["twice"].requires_grad
    (value, aux), gradient = value_and_grad(with_aux, has_aux=True)(X)
    assert value.item() == 5.0 and gradient.tolist() == [2.0, 4.0]
    gradient, value = grad_and_value(f)(X, Y)
    assert value.item() == 23.0 and gradient.tolist() == [6.0, 20.0]
    value, gradient = value_and_grad(f)(X, Y)
    assert value.item() == 23.0 and gradient.tolist() == [6.0, 20.0]
    value, pull, aux = vjp(with_aux, X, has_aux=True)
    assert value.item() == 5.0 and aux["name"] == "aux" and pull(1.0)[0].tolist() == [2.0, 4.0]
    value, tangent, aux = jvp(with_aux, (X,), (Y,), has_aux=True)
    assert tangent.item() == 26.0 and aux["twice"].item() == 10.0


def test_numbers_and_arrays_are_points_and_directions():
    assert grad(lambda x: x**3)(2.0).item() == 12.0
    assert grad(lambda x: (x**3).sum())(np.array([1.0, 2.0])).tolist() == [3.0, 12.0]
    assert jvp(lambda x: x**3, (2.0,), (0.5,))[1].item() == 6.0
    assert vjp(lambda x: x**3, np.array([1.0, 2.0]))[1](np.ones(2, np.float32))[0].dtype == rg.float64


def test_a_wrapped_function_keeps_its_name():
    assert grad(f).__name__ == "f" and jacrev(f).__wrapped__ is f


def test_a_pull_is_a_function_for_any_number_of_calls():
    value, pull = vjp(lambda x, y: {"product": x * y, "sum": x.sum()}, X, Y)
    assert not value["product"].requires_grad
    for _ in range(2):
        by_x, by_y = pull({"product": rg.ones(2, dtype=rg.float64), "sum": 10.0})
        assert by_x.tolist() == [13.0, 15.0] and by_y.tolist() == [1.0, 2.0]


def test_a_linearized_function_is_linear_and_runs_once():
    runs = []

    def cube(x, y):
        runs.append(1)
        return x**3, [y * x]

    value, push = linearize(cube, X, Y)
    for t, s in ((X, Y), (Y, X)):
        assert_same(push(t, s), jvp(lambda x, y: (x**3, [y * x]), (X, Y), (t, s))[1])
    assert len(runs) == 1


def test_arguments_that_play_no_part_get_zeros():
    assert grad(lambda x, y: y.sum())(X, Y).tolist() == [0.0, 0.0]
    assert jvp(lambda x: Y * 2, (X,), (X,))[1].tolist() == [0.0, 0.0]
    assert vjp(lambda x: Y, X)[1](Y)[0].tolist() == [0.0, 0.0]
    assert hvp(lambda x: x.sum(), (X,), (Y,))[1].tolist() == [0.0, 0.0]


def test_an_argument_returned_as_it_is():
    value, pull = vjp(lambda x: (x, x), X)
    assert pull((X, Y))[0].tolist() == [4.0, 7.0]
    value[0].mul_(100.0)
    assert X.tolist() == [1.0, 2.0] and value[1].tolist() in ([1.0, 2.0], [100.0, 200.0])


@pytest.mark.parametrize("product", [hvp, vhp])
def test_products_with_the_hessian(product):
    value, found = product(f, (X, Y), (Y, X))
    assert value.item() == 23.0
    h = func.hessian(f, (0, 1))(X, Y)
    wanted = [h[i][0] @ Y + h[i][1] @ X for i in range(2)]
    assert_same(found, wanted)
    value, found = product(lambda p: f(p["x"], p["y"]), ({"x": X, "y": Y},), ({"y": X, "x": Y},))
    assert_same([found["x"], found["y"]], wanted)


@pytest.mark.parametrize("product", [hvp, vhp])
def test_products_with_the_hessian_are_differentiated(product):
    x = X.clone().requires_grad_()
    found = product(lambda x: (x**4).sum(), (x,), (Y,))[1]
    assert_same(rg.autograd.grad(found.sum(), x)[0], 24 * X * Y)
    assert_same(grad(lambda x: product(lambda x: (x**4).sum(), (x,), (Y,))[1].sum())(X), 24 * X * Y)


def test_complex_functions_have_pytorchs_gradients():
    torch = pytest.importorskip("torch")
    z = np.array([1 + 2j, -0.5 + 1j])

    def g(m, z):
        return (z * z.conj() * (z + 1)).real.sum()

    assert_same(grad(lambda z: g(rg, z))(rg.tensor(z)), torch.func.grad(lambda z: g(torch, z))(torch.tensor(z)))
    mine = vjp(lambda z: z**3 * 1j, rg.tensor(z))[1](rg.tensor(z))
    assert_same(mine, torch.func.vjp(lambda z: z**3 * 1j, torch.tensor(z))[1](torch.tensor(z)))


# Recording


def test_nothing_is_recorded_where_nobody_could_want_it():
    w = rg.ones(2, dtype=rg.float64, requires_grad=True)
    assert not grad(lambda x: (x * x).sum() + w.sum())(X).requires_grad
    assert grad(lambda x: (x * x * w).sum())(X).requires_grad
    by_x, by_y = grad(lambda x, y: (x * x).sum() + (y * y * w).sum(), (0, 1))(X, Y)
    assert not by_x.requires_grad and by_y.requires_grad
    with rg.no_grad():
        value, gradient = value_and_grad(lambda x: (x * x * w).sum())(X)
        assert not gradient.requires_grad and not value.requires_grad and gradient.tolist() == [2.0, 4.0]


def test_no_grad_inside_makes_constants():
    def half(x):
        with rg.no_grad():
            factor = x * x
        return (x * factor).sum()

    assert grad(half)(X).tolist() == [1.0, 4.0]
    assert jvp(half, (X,), (rg.ones(2, dtype=rg.float64),))[1].item() == 5.0
    assert grad(lambda x: (x * rg.no_grad()(grad(lambda y: (y**2).sum()))(x)).sum())(X).tolist() == [2.0, 4.0]
    assert grad(lambda x: (x * x.detach()).sum())(X).tolist() == [1.0, 2.0]


def test_writes_inside_are_differentiated_and_stay_inside():
    def written(x):
        x *= 2
        buffer = rg.zeros(2, dtype=rg.float64)
        buffer[0] = x[1] ** 2
        return (x * buffer).sum()

    before = X.tolist()
    assert grad(written)(X).tolist() == [32.0, 32.0]
    assert X.tolist() == before
    assert grad(lambda x: grad(written)(x).sum())(X).tolist() == [32.0, 48.0]


def test_a_write_to_what_is_captured_is_followed():
    """PyTorch refuses it; here it is recorded as everywhere, and what was written keeps its history."""
    buffer = rg.zeros(2, dtype=rg.float64)

    def written(x):
        buffer.copy_(x * x)
        return (buffer * x).sum()

    assert grad(written)(X).tolist() == [3.0, 12.0]
    assert buffer.tolist() == [1.0, 4.0]


def test_a_primal_written_after_the_call_leaves_the_derivative_alone():
    x = X.clone()
    value, pull = vjp(lambda x: (x, x * x), x)
    x.mul_(10.0)
    assert value[0].tolist() == [1.0, 2.0]
    assert pull((0 * X, rg.ones(2, dtype=rg.float64)))[0].tolist() == [2.0, 4.0]


def test_hooks_inside_see_and_change_gradients():
    seen = []

    def hooked(x):
        y = x * 2
        y.register_hook(lambda g: seen.append(g.tolist()))
        y.register_hook(lambda g: g * 10)
        return (y * y).sum()

    assert grad(hooked)(X).tolist() == [80.0, 160.0]
    assert seen == [[4.0, 8.0]]
    assert grad(lambda x: (grad(hooked)(x) * Y).sum())(X).tolist() == [80.0 * 3 * 10, 80.0 * 5 * 10]


def test_backward_and_autograd_grad_inside():
    leaf = rg.ones(2, dtype=rg.float64, requires_grad=True)

    def inside(x):
        (leaf * 3).sum().backward()
        (g,) = rg.autograd.grad((x**3).sum(), x, create_graph=True)
        return g.sum()

    assert grad(inside)(X).tolist() == [6.0, 12.0]
    assert leaf.grad.tolist() == [3.0, 3.0]


def test_hooks_and_gradients_of_captured_leaves_are_left_alone():
    leaf = rg.ones(2, dtype=rg.float64, requires_grad=True)
    seen = []
    leaf.register_hook(seen.append)
    grad(lambda x: (leaf * x).sum())(X)
    vjp(lambda x: (leaf, x), X)[1]((X, X))
    assert leaf.grad is None and seen == []


def test_graphs_are_freed_by_reference_counts():
    gc.disable()
    try:
        arrays = []

        def watched(x):
            y = x * x
            arrays.append(ref(y.array))
            return (y * y).sum()

        grad(watched)(X)
        hvp(watched, (X,), (Y,))
        jacrev(grad(watched))(X)
        jacfwd(grad(watched))(X)
        assert [array() is None for array in arrays] == [True] * 4
        _, pull = vjp(watched, X)
        assert arrays[-1]() is not None
        del pull
        assert arrays[-1]() is None
    finally:
        gc.enable()


def test_an_error_inside_leaves_the_modes_as_they_were():
    def fails(x):
        raise KeyError("mine")

    for transform in (grad, jacrev, jacfwd):
        with rg.no_grad():
            with pytest.raises(KeyError, match="mine"):
                transform(fails)(X)
            assert not rg.is_grad_enabled()


def test_a_long_chain_at_second_order():
    def chain(x):
        for _ in range(2000):
            x = x * 1.0001
        return (x * x).sum()

    assert_same(hvp(chain, (X,), (Y,))[1], 2 * 1.0001**4000 * Y, rtol=1e-9)
    assert_same(jvp(grad(chain), (X,), (Y,))[1], 2 * 1.0001**4000 * Y, rtol=1e-9)


# Errors


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: grad(lambda x: x)(X), RuntimeError, r"grad: the function must return a 0-d .*float64\(2,\)"),
        (lambda: grad(lambda x: x.sum()[None])(X), RuntimeError, r"0-d Tensor, got float64\(1,\)"),
        (lambda: grad(lambda x: 1.0)(X), RuntimeError, r"must return Tensors, got output = float: 1.0"),
        (lambda: grad(lambda x: {"a": x})(X), RuntimeError, r"must return a Tensor, got dict\(\['a'\]: \*\)"),
        (lambda: grad(lambda x: x.sum(), has_aux=True)(X), RuntimeError, "a tuple .output, aux., got Tensor"),
        (lambda: grad(lambda x: (x > 0).sum())(X), RuntimeError, "floating or complex Tensors, output is int64"),
        (lambda: grad(lambda x: (x * 1j).sum())(X), RuntimeError, "must return a real Tensor, got complex128"),
        (lambda: grad(f)(rg.tensor([1]), Y), RuntimeError, r"args\[0\] is int64\(1,\)"),
        (lambda: grad(f)(1, Y), ValueError, r"args\[0\] must be a Tensor, got int: 1"),
        (lambda: jvp(f, (1, Y), (1, Y)), RuntimeError, r"primals\[0\] must be a Tensor, got int: 1"),
        (lambda: jacrev(lambda x: ())(X), RuntimeError, r"jacrev: .* at least one Tensor, got \(\)"),
        (lambda: jvp(lambda x: [None], (X,), (X,)), RuntimeError, r"must return at least one Tensor, got \[None\]"),
        (lambda: grad(f)({"a": [X, "x"]}, Y), ValueError, r"args\[0\]\['a'\]\[1\] must be a Tensor, got str: 'x'"),
        (lambda: grad(f, 1)(X, {"w": rg.ones}), ValueError, r"args\[1\]\['w'\] must be a Tensor, got function"),
        (lambda: grad(f, 2)(X, Y), RuntimeError, "grad: argnums=2 is out of range for 2 positional arguments"),
        (lambda: grad(f, -3)(X, Y), RuntimeError, "argnums=-3 is out of range for 2"),
        (lambda: grad(f, (0, -2))(X, Y), RuntimeError, r"must name each argument once, got \(0, -2\)"),
        (lambda: grad(f, ())(X, Y), RuntimeError, "argnums is empty"),
        (lambda: grad(f, "x")(X, Y), RuntimeError, "argnums must be an int or a tuple of ints, got 'x'"),
        (lambda: grad(f, [0])(X, Y), RuntimeError, r"argnums must be an int or a tuple of ints, got \[0\]"),
        (lambda: grad(f, True)(X, Y), RuntimeError, "argnums must be an int or a tuple of ints, got True"),
        (lambda: value_and_grad(f, 5)(X, Y), RuntimeError, "value_and_grad: argnums=5"),
        (lambda: vjp(lambda x: None, X), RuntimeError, "vjp: the function must return at least one Tensor"),
        (lambda: vjp(lambda x: [x, x > 0], X), RuntimeError, r"output\[1\] is bool\(2,\)"),
        (lambda: vjp(lambda x: {"a": x}, X)[1]({"b": X}), RuntimeError, r"cotangents\['a'\] is missing"),
        (lambda: vjp(lambda x: {"a": x}, X)[1]({"a": X[:1]}), RuntimeError, r"float64\(1,\), but output\['a'\]"),
        (lambda: vjp(lambda x: x, X)[1](X * 1j), RuntimeError, "vjp: cotangents is complex"),
        (lambda: vjp(lambda x: x, X)[1]("up"), RuntimeError, "vjp: cotangents must be a Tensor, got str"),
        (lambda: linearize(lambda x: x, X)[1](X, X), RuntimeError, "tangents must be a nest like the primals"),
        (lambda: hvp(f, X, X), RuntimeError, "hvp: primals must be a tuple of the function's arguments, got Tensor"),
        (lambda: hvp(f, (X, Y), (X,)), RuntimeError, "hvp: tangents must be a nest like the primals"),
        (lambda: hvp(f, (X, Y), (X, X[:1])), RuntimeError, r"hvp: tangents\[1\] is float64\(1,\), but primals\[1\]"),
        (lambda: vhp(lambda x: x, (X,), (X,)), RuntimeError, "vhp: the function must return a 0-d Tensor"),
        (lambda: hvp(lambda: X.sum(), (), ()), RuntimeError, "hvp: primals is empty"),
        (lambda: jacrev(lambda x: x, chunk_size=0), ValueError, "chunk_size must be a positive int or None, got 0"),
        (lambda: jacfwd(lambda x: x, randomness="some"), RuntimeError, "jacfwd: randomness must be"),
        (lambda: jacrev(lambda z: z)(rg.ones(2, dtype=rg.complex64)), RuntimeError, "jacrev: .* real, .* argument"),
        (lambda: jacfwd(lambda z: z * 1j)(X), RuntimeError, "jacfwd: .* must be real, got the output complex128"),
        (lambda: func.hessian(f, argnums=5)(X, Y), RuntimeError, "hessian: argnums=5 is out of range for 2"),
    ],
)  # fmt: skip
def test_an_error_names_the_transform_the_argument_and_what_was_wanted(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_pull_made_under_no_grad_is_differentiated_when_it_is_called_outside():
    """PyTorch's meaning: what counts is where the derivative is computed."""
    x = rg.tensor(3.0, requires_grad=True)
    with rg.no_grad():
        value, pull = vjp(lambda x: x**2, x)
        _, push = linearize(lambda x: x**2, x)
        assert not pull(1.0)[0].requires_grad and not push(1.0).requires_grad
    assert not value.requires_grad
    assert rg.autograd.grad(pull(1.0)[0], x)[0].item() == 2.0
    assert rg.autograd.grad(push(1.0), x)[0].item() == 2.0


def test_a_strict_jvp_refuses_constants():
    assert jvp(lambda x: (x, x * 2), (X,), (X,), strict=True)[1][1].tolist() == [2.0, 4.0]
    with pytest.raises(RuntimeError, match=r"jvp: output\[1\], float64\(2,\), does not depend on the primals"):
        jvp(lambda x: (x, Y * 2), (X,), (X,), strict=True)


def tied(p, x):
    """One weight read by a product, by a view of it, element by element, by an index and by a loss of its own."""
    w, b = p["w"], p["b"]
    h = (F.linear(x, w, b) * w.sum(0)).tanh() @ w.t()
    return F.layer_norm(h, (4,), p["scale"]).pow(2).mean() + (w[0] * b).sum() + w.exp().sum()


def written(p, x):
    h = F.linear(x, p["w"], p["b"])
    h[1:] *= p["scale"]
    p["b"].mul_(2.0)
    return (h * p["b"]).sin().sum()


def hooked(p, x):
    p["w"].register_hook(lambda g: 3 * g)
    h = F.linear(x, p["w"], p["b"])
    h.register_hook(lambda g: g * g)
    return h.pow(3).sum() * p["scale"].prod()


PROGRAMS = {
    "tied": tied,
    "written": written,
    "hooked": hooked,
    "linear": lambda p, x: F.linear(x, p["w"]).sum(),
    "only a bias": lambda p, x: p["b"].exp().sum(),
    "complex": lambda p, x: (rg.complex(p["w"], p["w"].sin()) ** 2).abs().sum(),
    "an argument": lambda p, x: p["scale"].sum().detach() + p["b"][0],
    "convolution": lambda p, x: F.conv1d(x[None], p["w"][:, :, None], p["b"]).relu().pow(3).mean(),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_products_with_the_hessian_equal_the_gradient_of_the_gradients_product(name):
    """Also where the caller's Tensors require grad: the products' own derivatives agree, then."""
    rg.manual_seed(0)
    function = PROGRAMS[name]
    point, along = [
        {name: rg.randn(*shape, dtype=rg.float64) for name, shape in {"w": (4, 4), "b": (4,), "scale": (4,)}.items()}
        for _ in range(2)
    ]
    x = rg.randn(3, 4, dtype=rg.float64) if name != "convolution" else rg.randn(4, 6, dtype=rg.float64)
    x.requires_grad_()

    def product(p):
        g = grad(function)(p, x)
        return sum((g[name] * along[name]).sum() for name in g)

    value, found = hvp(lambda p: function(p, x), (point,), (along,))
    wanted = grad(product)(point)
    np.testing.assert_array_equal(value.detach(), grad_and_value(function)(point, x)[1].detach())
    for key in point:
        np.testing.assert_allclose(found[key].detach(), wanted[key].detach(), rtol=1e-12, atol=1e-12)
    totals = [sum(p.sin().sum() for p in each.values()) for each in (found, wanted)]
    if totals[0].requires_grad:
        first, second = [rg.autograd.grad(total, x)[0] for total in totals]
        np.testing.assert_allclose(first, second, rtol=1e-11, atol=1e-11)
    assert totals[0].requires_grad == totals[1].requires_grad


def test_a_captured_tensor_that_a_differentiated_function_writes_keeps_no_history():
    captured, outer = rg.zeros(3), rg.ones(3, requires_grad=True)
    view = captured[1:]

    def f(x):
        captured.copy_(x * 2)
        view[0] = x[2] * outer[0] if outer is not None else x[2]
        return (captured * x).sum()

    x = rg.tensor([1.0, 2.0, 3.0])
    for transform in (
        grad,
        lambda f: lambda x: jvp(f, (x,), (x,))[1],
        lambda f: lambda x: vjp(f, x)[1](rg.tensor(1.0)),
    ):
        transform(f)(x)
        assert captured.requires_grad and captured.tolist() == [2, 3, 6]  # since outer requires grad
        captured, view = captured.detach().clone(), None
        view = captured[1:]
    outer = None
    for transform in (
        grad,
        lambda f: lambda x: jvp(f, (x,), (x,))[1],
        lambda f: lambda x: vjp(f, x)[1](rg.tensor(1.0)),
    ):
        captured = rg.zeros(3)
        view = captured[1:]
        transform(f)(x)
        assert not captured.requires_grad and not view.requires_grad and captured.tolist() == [2, 3, 6]
        assert (captured * 2).grad_fn is None
    assert grad(f)(x).tolist() == [4, 3 + 0, 12 + 2]


def test_a_written_captured_tensor_is_returned_and_differentiated_in_every_order():
    captured = rg.zeros(2)
    f = lambda x: captured.copy_(x * x)  # noqa: E731
    x = rg.tensor([1.0, 2.0])
    assert vjp(f, x)[1](rg.ones(2))[0].tolist() == [2, 4]
    assert grad(lambda x: grad(lambda x: (f(x) * x).sum())(x).sum() + (captured * x).sum())(x).tolist() == [
        6 + 3,
        12 + 12,
    ]
    assert not captured.requires_grad
