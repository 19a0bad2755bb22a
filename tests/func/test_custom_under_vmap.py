"""Rules of the user's own inside vmap: Function against PyTorch, custom_vjp and custom_jvp against formulas."""

import warnings

import numpy as np
import pytest

import retrograd as rg
from retrograd.func import custom_jvp, custom_vjp, grad, jvp, vmap

torch = pytest.importorskip("torch")
tf = pytest.importorskip("torch.func")

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((4, 3)), RNG.standard_normal(3)
COS = np.cos(A * B)


def function(library, *, own=False, with_jvp=False):
    """sin(x w) k, whose derivatives are wrong by factors of 2 and 3: whoever follows the operators is found out."""

    class Sin(library.autograd.Function):
        generate_vmap_rule = not own

        @staticmethod
        def forward(x, w, k):
            return (x * w).sin() * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, w, ctx.k = inputs
            ctx.save_for_backward(x, w)
            ctx.save_for_forward(x, w)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            slope = g * (x * w).cos() * ctx.k
            return (slope * w * 2).sum_to_size(x.shape), (slope * x * 3).sum_to_size(w.shape), None

    if with_jvp:

        def forward_mode(ctx, tx, tw, _):
            x, w = ctx.saved_tensors
            return (x * w).cos() * (tx * w * 2 + tw * x * 3) * ctx.k

        Sin.jvp = staticmethod(forward_mode)
    if own:

        def batch(info, in_dims, x, w, k):
            assert info.batch_size == 4 and info.randomness == "error"
            x_dim, w_dim, _ = in_dims
            x = x if x_dim is None else x.movedim(x_dim, 0)
            if w_dim is not None:
                w = w.movedim(w_dim, 0).reshape(w.shape + (1,) * (x.ndim - w.ndim))
            return Sin.apply(x, w, k), 0

        Sin.vmap = staticmethod(batch)
    return Sin


CALLS = {
    "vmap": lambda F, v, g, j, x, w: v(lambda a: F.apply(a, w, 2.0))(x),
    "vmap of grad": lambda F, v, g, j, x, w: v(g(lambda a: F.apply(a, w, 2.0).sum()))(x),
    "gradients per example": lambda F, v, g, j, x, w: v(g(lambda w, a: F.apply(a, w, 2.0).sum()), (None, 0))(w, x),
    "grad of vmap": lambda F, v, g, j, x, w: g(lambda x: (v(lambda a: F.apply(a, w, 2.0))(x) ** 2).sum())(x),
    "grad by what all share": lambda F, v, g, j, x, w: g(lambda w: v(lambda a: F.apply(a, w, 2.0))(x).sum())(w),
    "grad of vmap of grad": lambda F, v, g, j, x, w: g(
        lambda w: (v(g(lambda a: F.apply(a, w, 2.0).sum()))(x) ** 2).sum()
    )(w),
    "vmap of jvp": lambda F, v, g, j, x, w: v(lambda a: j(lambda q: F.apply(q, w, 2.0), (a,), (a,))[1])(x),
    "jvp of vmap": lambda F, v, g, j, x, w: j(lambda x: v(lambda a: F.apply(a, w, 2.0))(x), (x,), (x,))[1],
    "vmap of vmap": lambda F, v, g, j, x, w: v(v(lambda a, w: F.apply(a, w, 2.0), (0, None)))(x[:, :4], x[:, 0]),
}


@pytest.mark.parametrize("options", [{}, {"with_jvp": True}, {"own": True, "with_jvp": True}], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_functions_agree_with_pytorch(name, options):
    if name in ("vmap of vmap",) and options.get("own"):
        pytest.skip("the function's own rule is for four examples")
    if "jvp" in name and not options.get("with_jvp"):
        pytest.skip("PyTorch transposes no backward")
    call = CALLS[name]
    mine = call(function(rg, **options), vmap, grad, jvp, rg.Tensor(A), rg.Tensor(B))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own deprecations
        wanted = call(function(torch, **options), tf.vmap, tf.grad, tf.jvp, torch.tensor(A), torch.tensor(B))
    np.testing.assert_allclose(mine.detach().array, wanted.detach().numpy(), rtol=1e-12)


def test_forward_mode_transposes_a_backward_that_is_mapped():
    tangent = vmap(lambda a: jvp(lambda q: function(rg).apply(q, rg.Tensor(B), 2.0), (a,), (a,))[1])(rg.Tensor(A))
    np.testing.assert_allclose(tangent.array, COS * B * 4 * A)


def test_functions_without_a_rule_are_refused():
    class Double(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(RuntimeError, match="tried to vmap over Double, but it does not have vmap support"):
        vmap(Double.apply)(rg.ones(2, 3))
    Double.generate_vmap_rule = True
    np.testing.assert_array_equal(vmap(grad(lambda a: Double.apply(a).sum()))(rg.ones(2, 3)).array, np.full((2, 3), 2))
    Double.vmap = staticmethod(lambda info, in_dims, x: (x, 0))
    with pytest.raises(RuntimeError, match="both generate_vmap_rule=True and a static method"):
        vmap(Double.apply)(rg.ones(2, 3))


def test_a_function_differentiable_once_is_refused_a_second_time():
    class Square(rg.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        @rg.autograd.once_differentiable
        def backward(ctx, g):
            return 2 * g * ctx.saved_tensors[0]

    x = rg.Tensor(A)
    np.testing.assert_allclose(vmap(grad(lambda a: Square.apply(a).sum()))(x).array, 2 * A)
    np.testing.assert_allclose(grad(lambda x: vmap(Square.apply)(x).sum())(x).array, 2 * A)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        grad(lambda w: vmap(grad(lambda a: (Square.apply(a) * w).sum()))(x).sum())(rg.Tensor(B))


@custom_vjp
def by_vjp(x, p):
    return {"y": (x * p["w"]).sin(), "sum": x.sum()}


by_vjp.defvjp(
    lambda x, p: (by_vjp.fun(x, p), (x, p["w"], 5)),
    lambda kept, g: (
        g["y"] * (kept[0] * kept[1]).cos() * kept[1] * kept[2] + g["sum"],
        {"w": g["y"] * (kept[0] * kept[1]).cos() * kept[0] * 7},
    ),
)


@custom_jvp
def by_jvp(x, w):
    return (x * w).sin()


by_jvp.defjvp(lambda p, t: (by_jvp.fun(*p), (p[0] * p[1]).cos() * (5 * t[0] * p[1] + 7 * t[1] * p[0])))

CUSTOM = {"custom_vjp": lambda x, w: by_vjp(x, {"w": w})["y"], "custom_jvp": by_jvp}


@pytest.mark.parametrize("name", CUSTOM)
def test_custom_rules_hold_on_every_layer(name):
    f, x, w = CUSTOM[name], rg.Tensor(A), rg.Tensor(B)

    def check(got, wanted):
        np.testing.assert_allclose(got.array, wanted, rtol=1e-12)

    check(vmap(lambda a: f(a, w))(x), np.sin(A * B))
    check(vmap(grad(lambda a: f(a, w).sum()))(x), COS * B * 5)
    check(vmap(grad(lambda w, a: f(a, w).sum()), (None, 0))(w, x), COS * A * 7)
    check(grad(lambda x: vmap(lambda a: f(a, w))(x).sum())(x), COS * B * 5)
    check(grad(lambda w: vmap(lambda a: f(a, w))(x).sum())(w), (COS * A * 7).sum(0))
    check(grad(lambda x: vmap(vmap(f))(x, rg.Tensor(A)).sum())(x), np.cos(A * A) * A * 5)
    check(jvp(lambda x: vmap(lambda a: f(a, w))(x), (x,), (x,))[1], COS * B * 5 * A)
    slopes = grad(lambda w: vmap(grad(lambda a: f(a, w).sum()))(x).sum())(w)
    check(slopes, (5 * COS - 5 * np.sin(A * B) * A * B).sum(0))


class ScaledSum(rg.autograd.Function):
    @staticmethod
    def forward(x, scales):
        return x + scales[0] * scales[1]

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, x, scales):
        assert in_dims == (0, [0, None])
        return x + scales[0] * scales[1], 0


def test_the_vmap_method_of_a_function_gets_the_tensors_inside_lists_for_all_examples():
    x, scale = rg.arange(6.0).reshape(2, 3), rg.tensor([1.0, 2.0, 3.0])
    out = vmap(ScaledSum.apply, in_dims=(0, [0, None]))(x, [x, scale])
    np.testing.assert_allclose(out.numpy(), (x + x * scale).numpy())


@pytest.mark.parametrize("returned", [lambda y: y, lambda y: (y, 0, 0), lambda y: (y, (0, 0)), lambda y: (y, "0")])
def test_a_vmap_method_that_returns_no_pair_of_outputs_and_dims_is_an_error(returned):
    class Wrong(rg.autograd.Function):
        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, x):
            return returned(x * 2)

    with pytest.raises(RuntimeError, match="two returns|incompatible"):
        vmap(Wrong.apply)(rg.ones(3, 2))


def test_a_vmap_method_may_return_a_nest_of_outputs_and_arrays():
    class Parts(rg.autograd.Function):
        @staticmethod
        def forward(x):
            return x, [x, x]

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, x):
            return (x.T, [x, x.numpy()]), (1, [0, 0])

    x = rg.arange(6.0).reshape(2, 3)
    one, (two, three) = vmap(Parts.apply)(x)
    assert one.tolist() == two.tolist() == three.tolist() == x.tolist()
