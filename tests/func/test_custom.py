"""custom_vjp, custom_jvp, and the forward mode of autograd.Function."""

from functools import partial

import numpy as np
import pytest

import retrograd as rg
from retrograd import func
from retrograd.autograd import Function
from retrograd.func import custom_jvp, custom_vjp, grad, hessian, hvp, jacfwd, jacrev, jvp, vjp, vmap
from tests.func.programs import QUIET, assert_same

pytestmark = QUIET
X = rg.tensor([0.5, 1.0], dtype=rg.float64)
Y = rg.tensor([3.0, -4.0], dtype=rg.float64)


def plain(p, y):
    return {"out": rg.exp(p["x"]) * y, "sum": p["x"].sum()}


@custom_vjp
def by_vjp(p, y):
    return plain(p, y)


def _forward(p, y):
    e = rg.exp(p["x"])
    return {"out": e * y, "sum": p["x"].sum()}, (e, y)


def _backward(kept, g):
    e, y = kept
    return {"x": g["out"] * e * y + g["sum"]}, g["out"] * e


by_vjp.defvjp(_forward, _backward)


@custom_jvp
def by_jvp(p, y):
    return plain(p, y)


@by_jvp.defjvp
def _rule(primals, tangents):
    (p, y), (dp, dy) = primals, tangents
    out = by_jvp(p, y)
    return out, {"out": out["out"] * dp["x"] + rg.exp(p["x"]) * dy, "sum": dp["x"].sum()}


def total(f):
    def scalar(x, y):
        out = f({"x": x}, y)
        return (out["out"] * y).sum() * out["sum"]

    return scalar


TRANSFORMS = {
    "value": lambda f: f,
    "grad": lambda f: grad(f, (0, 1)),
    "hessian": lambda f: hessian(f, (0, 1)),
    "jacrev(jacrev)": lambda f: jacrev(jacrev(f, (0, 1)), (0, 1)),
    "jacrev(jacfwd)": lambda f: jacrev(jacfwd(f, (0, 1)), (0, 1)),
    "jacfwd(jacfwd)": lambda f: jacfwd(jacfwd(f, (0, 1)), (0, 1)),
    "third order": lambda f: grad(lambda x, y: hessian(f, 0)(x, y).sum(), (0, 1)),
    "jvp": lambda f: lambda x, y: jvp(f, (x, y), (y, x)),
    "hvp": lambda f: lambda x, y: hvp(f, (x, y), (y, x)),
    "vjp": lambda f: lambda x, y: vjp(f, x, y)[1](2.0),
}


MAPPED = {
    "vmap": lambda f: vmap(f),
    "vmap of grad": lambda f: vmap(grad(f, (0, 1))),
    "vmap of one argument": lambda f: lambda x, y: vmap(grad(f, (0, 1)), (0, None))(x, y[0]),
    "vmap of hessian": lambda f: vmap(hessian(f, (0, 1))),
    "vmap of jvp": lambda f: vmap(lambda x, y: jvp(f, (x, y), (y, x))),
    "grad of vmap": lambda f: grad(lambda x, y: vmap(f)(x, y).sum(), (0, 1)),
    "jvp of vmap": lambda f: lambda x, y: jvp(vmap(f), (x, y), (y, x)),
    "grad of vmap of grad": lambda f: grad(lambda x, y: (vmap(grad(f))(x, y) ** 2).sum(), (0, 1)),
}


@pytest.mark.parametrize("transform", MAPPED)
@pytest.mark.parametrize("custom", [by_vjp, by_jvp])
def test_a_function_with_its_own_rule_is_mapped_as_the_plain_one(custom, transform):
    x, y = rg.stack([X, X * 2, X - 1]), rg.stack([Y, Y + 1, Y * 0.1])
    assert_same(MAPPED[transform](total(custom))(x, y), MAPPED[transform](total(plain))(x, y))


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("custom", [by_vjp, by_jvp])
def test_a_function_with_its_own_rule_is_differentiated_as_the_plain_one(custom, transform):
    assert_same(TRANSFORMS[transform](total(custom))(X, Y), TRANSFORMS[transform](total(plain))(X, Y))


@pytest.mark.parametrize("custom", [by_vjp, by_jvp])
def test_a_rule_is_used_by_backward_and_by_outer_tensors(custom):
    x = X.clone().requires_grad_()
    custom({"x": x}, Y)["out"].sum().backward(create_graph=True)
    assert_same(x.grad, rg.exp(X) * Y)
    assert_same(rg.autograd.grad(x.grad.sum(), x)[0], rg.exp(X) * Y)


def test_what_the_rule_says_is_the_derivative():
    @custom_vjp
    def doubled(x):
        return x * 2

    doubled.defvjp(lambda x: (x * 2, "kept"), lambda kept, g: (g * 100,))
    assert grad(lambda x: doubled(x).sum())(X).tolist() == [100.0, 100.0]
    assert jvp(doubled, (X,), (X,))[1].tolist() == [50.0, 100.0]
    assert doubled(X).tolist() == [1.0, 2.0] and doubled.__name__ == "doubled"

    tripled = custom_jvp(lambda x: x * 3)
    tripled.defjvps(lambda t, ans, x: t * 1000)
    assert grad(lambda x: tripled(x).sum())(X).tolist() == [1000.0, 1000.0]
    assert jvp(tripled, (X,), (X,))[1].tolist() == [500.0, 1000.0]


def test_arguments_without_a_derivative_come_first():
    @partial(custom_vjp, nondiff_argnums=(0, -1))
    def apply(function, x, factor):
        return function(x) * factor

    seen = []

    def backward(function, factor, kept, g):
        seen.append(factor)
        return (g * kept * factor,)

    apply.defvjp(lambda function, x, factor: (function(x) * factor, rg.cos(x)), backward)
    assert_same(grad(lambda x: apply(rg.sin, x, factor=2).sum())(X), 2 * rg.cos(X))
    assert seen == [2]

    @partial(custom_jvp, nondiff_argnums=0)
    def mapped(function, x):
        return function(x)

    mapped.defjvp(lambda function, primals, tangents: (function(primals[0]), tangents[0] * 7))
    assert grad(lambda x: mapped(rg.sin, x).sum())(X).tolist() == [7.0, 7.0]


def test_cotangents_may_be_none_and_numbers_pass():
    @custom_vjp
    def scaled(x, y, factor):
        return x * y * factor

    scaled.defvjp(lambda x, y, factor: (x * y * factor, y), lambda y, g: (g * y, None, None))
    by_x, by_y = grad(lambda x, y: scaled(x, y, 2.0).sum(), (0, 1))(X, Y)
    assert by_x.tolist() == Y.tolist() and by_y.tolist() == [0.0, 0.0]

    linear = custom_jvp(lambda x, factor: x * factor)
    linear.defjvps(lambda t, ans, x, factor: t * factor, None)
    assert grad(lambda x: linear(x, 3.0).sum())(X).tolist() == [3.0, 3.0]


def test_integer_results_have_no_derivative():
    @custom_vjp
    def top(x):
        return x.max(), x.argmax()

    top.defvjp(lambda x: ((x.max(), x.argmax()), x), lambda x, g: (g[0] * (x == x.max()),))
    values = grad(lambda x: top(x)[0] * (1 + top(x)[1]))(X)
    assert values.tolist() == [0.0, 2.0]


W = rg.ones(2, dtype=rg.float64, requires_grad=True)


def _without_rule():
    custom_vjp(lambda x: x)(X)


def _returns(result, bwd=lambda kept, g: (g,)):
    f = custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: result(x), bwd)
    return lambda: grad(lambda x: f(x).sum())(X)


def _jvp_returns(rule):
    f = custom_jvp(lambda x: x * 2)
    f.defjvp(rule)
    return lambda: grad(lambda x: f(x).sum())(X)


def _captures(kind, requires):
    f = kind(lambda x: x * W)
    f.defvjp(lambda x: (x * W, None), lambda kept, g: (g,)) if kind is custom_vjp else f.defjvps(lambda t, ans, x: t)
    x = X.clone().requires_grad_(requires)
    return lambda: f(x)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (_without_rule, AttributeError, "<lambda> has no derivative"),
        (lambda: custom_jvp(lambda x: x)(X), AttributeError, "<lambda> has no derivative"),
        (_returns(lambda x: x * 2), TypeError, r"fwd of <lambda> must return a pair"),
        (_returns(lambda x: (x * 2, x), lambda kept, g: g), TypeError, "bwd of <lambda> must return a tuple"),
        (_returns(lambda x: (x * 2, x), lambda kept, g: (g, g)), TypeError, "must return 1 cotangents, got 2"),
        (_returns(lambda x: (x * 2, x), lambda kept, g: ("g",)), TypeError, "for argument 1, got str"),
        (_returns(lambda x: (x * 2, x), lambda kept, g: (g[:1, None, None],)), RuntimeError, "gradient of float64"),
        (_jvp_returns(lambda p, t: t[0]), TypeError, "the rule of <lambda> must return a pair"),
        (_jvp_returns(lambda p, t: (p[0] * 2, [t[0]])), TypeError, "the tangent is "),
        (_jvp_returns(lambda p, t: (p[0] * 2, t[0].sum())), TypeError, r"the tangent is float64\(\), .* shape \(2,\)"),
        (_captures(custom_vjp, False), RuntimeError, "reads a Tensor that requires grad and is not one"),
        (_captures(custom_vjp, True), RuntimeError, "reads a Tensor that requires grad and is not one"),
        (_captures(custom_jvp, False), RuntimeError, "reads a Tensor that requires grad and is not one"),
        (_captures(custom_jvp, True), RuntimeError, "reads a Tensor that requires grad and is not one"),
        (lambda: partial(custom_vjp, nondiff_argnums=3)(lambda x: x)(X), AttributeError, "no derivative"),
    ],
)
def test_rules_of_the_wrong_form_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


# autograd.Function


class Cube(Function):
    generate_vmap_rule = True
    calls: list = []

    @staticmethod
    def forward(x, y):
        return x**3 * y, x + y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs, output[0])

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * 3 * x**2 * y + h, g * x**3 + h

    @staticmethod
    def jvp(ctx, t, s):
        Cube.calls.append((t is None, s is None))
        x, y, out = ctx.saved_tensors
        return 3 * x**2 * y * t + out / y * s, t + s


def cube(x, y):
    return x**3 * y, x + y


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_function_with_jvp_is_differentiated_as_the_plain_one(transform):
    def scalar(f):
        return lambda x, y: f(x, y)[0].sum() * f(x, y)[1].prod()

    assert_same(TRANSFORMS[transform](scalar(Cube.apply))(X, Y), TRANSFORMS[transform](scalar(cube))(X, Y))


@pytest.mark.parametrize("transform", MAPPED)
def test_a_function_with_jvp_is_mapped_as_the_plain_one(transform):
    def scalar(f):
        return lambda x, y: f(x, y)[0].sum() * f(x, y)[1].prod()

    x, y = rg.stack([X, X * 2, X - 1]), rg.stack([Y, Y + 1, Y * 0.1])
    assert_same(MAPPED[transform](scalar(Cube.apply))(x, y), MAPPED[transform](scalar(cube))(x, y))


def test_forward_mode_calls_jvp_with_zeros_for_what_does_not_move():
    Cube.calls.clear()
    moved = jvp(lambda x: Cube.apply(x, Y), (X,), (X,))[1]
    assert_same(moved, jvp(lambda x: cube(x, Y), (X,), (X,))[1])
    assert Cube.calls == [(False, False)]


def test_a_jvp_may_ask_for_none_instead_of_zeros():
    class Product(Function):
        @staticmethod
        def forward(ctx, x, y, scale):
            ctx.x, ctx.y, ctx.scale = x, y, scale
            ctx.set_materialize_grads(False)
            return x * y * scale

        @staticmethod
        def jvp(ctx, t, s, scale):
            assert s is None and scale is None
            return t * ctx.y * ctx.scale

    assert_same(jvp(lambda x: Product.apply(x, Y, 2), (X,), (X,))[1], X * Y * 2)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda t: (t, t), "Wrong: jvp returned 2 tangents for 1 outputs"),
        (lambda t: t.sum(), r"Wrong: jvp returned float64\(\) as the tangent of output 0, which has shape \(2,\)"),
    ],
)
def test_a_wrong_jvp_is_refused(returned, message):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def jvp(ctx, t):
            return returned(t)

    with pytest.raises(RuntimeError, match=message):
        jvp(Wrong.apply, (X,), (X,))


def test_a_tangent_of_an_output_without_derivative_is_refused():
    class Rounded(Function):
        @staticmethod
        def forward(ctx, x):
            whole = x.round()
            ctx.mark_non_differentiable(whole)
            return x * 2, whole

        @staticmethod
        def jvp(ctx, t):
            return t * 2, t

    with pytest.raises(RuntimeError, match="Rounded: jvp returned a tangent of output 1, which is not differentiable"):
        jvp(lambda x: Rounded.apply(x)[0], (X,), (X,))


def test_a_function_with_its_own_vmap_is_mapped_by_it():
    seen = []

    class Scaled(Function):
        @staticmethod
        def forward(x, y):
            return x * y.sum()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y.sum(), (g * x).sum().expand(y.shape)

        @staticmethod
        def vmap(info, in_dims, x, y):
            seen.append((info.batch_size, info.randomness, in_dims))
            return x * y.sum(-1, keepdim=in_dims[1] is not None), 0

    x, y = rg.stack([X, X * 2, X - 1]), rg.stack([Y, Y + 1, Y * 0.1])
    plain = lambda x, y: x * y.sum()  # noqa: E731
    assert_same(vmap(Scaled.apply)(x, y), vmap(plain)(x, y))
    assert_same(vmap(Scaled.apply, (0, None))(x, Y), vmap(plain, (0, None))(x, Y))
    assert seen == [(3, "error", (0, 0)), (3, "error", (0, None))]
    for transform in ("vmap of grad", "grad of vmap", "vmap of one argument"):
        assert_same(
            MAPPED[transform](lambda x, y: (Scaled.apply(x, y) ** 2).sum())(x, y),
            MAPPED[transform](lambda x, y: (plain(x, y) ** 2).sum())(x, y),
        )


def test_a_function_without_a_rule_for_vmap_is_refused():
    class Plain(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    assert Function.generate_vmap_rule is False
    with pytest.raises(RuntimeError, match="vmap over Plain, .* static method vmap, or set generate_vmap_rule=True"):
        vmap(Plain.apply)(X)


def test_a_mapped_function_has_the_derivative_that_it_says():
    class Doubled(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(ctx, x, y):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 100, g * 1000

    x = rg.stack([X, Y])
    by_x, by_y = grad(lambda x, y: vmap(Doubled.apply, (0, None))(x, y).sum(), (0, 1))(x, Y)
    assert by_x.tolist() == [[100.0] * 2] * 2 and by_y.tolist() == [2000.0] * 2
    assert vmap(grad(lambda x: Doubled.apply(x, x).sum()))(x).tolist() == [[1100.0] * 2] * 2


def test_a_function_is_against_pytorchs_under_its_transforms():
    torch = pytest.importorskip("torch")

    def build(m):
        class Sine(m.autograd.Function):
            generate_vmap_rule = True

            @staticmethod
            def forward(x):
                return m.sin(x)

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)
                ctx.save_for_forward(*inputs)

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return g * m.cos(x)

            @staticmethod
            def jvp(ctx, t):
                (x,) = ctx.saved_tensors
                return t * m.cos(x)

        return lambda x: (Sine.apply(x) ** 2).sum()

    x = np.array([0.3, 1.2])
    for transform in ("grad", "jacfwd"):
        assert_same(
            getattr(func, transform)(build(rg))(rg.tensor(x)),
            getattr(torch.func, transform)(build(torch))(torch.tensor(x)),
        )
    assert_same(func.grad(lambda x: func.grad(build(rg))(x).sum())(rg.tensor(x)), rg.tensor(2 * np.cos(2 * x)))


def test_compile_takes_a_custom_rule_whether_or_not_an_input_requires_a_gradient():
    @custom_vjp
    def square(x):
        return x * x

    square.defvjp(lambda x: (x * x, x), lambda x, g: (3 * g * x,))
    for function in (lambda x: square(x).sum(), grad(lambda x: square(x).sum())):
        compiled = rg.compile(function)
        for x in (rg.tensor([1.0, 2.0]), rg.tensor([-1.0, 3.0])):
            assert compiled(x).tolist() == function(x).tolist()
