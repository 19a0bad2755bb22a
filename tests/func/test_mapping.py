"""vmap: against loops and PyTorch, in every nesting, with writes, random numbers, wrong arguments and Python inside."""

import warnings
from collections import namedtuple

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap

torch = pytest.importorskip("torch")
tf = pytest.importorskip("torch.func")

RNG = np.random.default_rng(0)


def array(*shape):
    return RNG.standard_normal(shape)


def close(got, wanted):
    wanted = wanted.detach().numpy() if isinstance(wanted, torch.Tensor) else np.asarray(wanted)
    np.testing.assert_allclose(np.asarray(got.detach().array), wanted, rtol=1e-9, atol=1e-12)


def both(function, *arrays):
    """A function of (vmap, grad, jvp) and Tensors, here and with PyTorch's."""
    mine = function((vmap, grad, jvp), *[rg.Tensor(x) for x in arrays])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own deprecations
        close(mine, function((tf.vmap, tf.grad, tf.jvp), *[torch.tensor(x) for x in arrays]))


# Nestings


NESTINGS = {
    "vmap": lambda t, x, w: t[0](lambda a: (a @ w).tanh())(x),
    "vmap of vmap": lambda t, x, w: t[0](t[0](lambda a, b: a * b, (0, None)), (None, 0))(x[0], w[:, 0]),
    "vmap of vmap over both axes": lambda t, x, w: t[0](t[0](lambda a: a.sin()), 1, 1)(x),
    "vmap of grad": lambda t, x, w: t[0](t[1](lambda a: (a @ w).tanh().sum()))(x),
    "gradients per example": lambda t, x, w: t[0](t[1](lambda w, a: ((a @ w) ** 2).sum()), (None, 0))(w, x),
    "grad of vmap": lambda t, x, w: t[1](lambda x: (t[0](lambda a: (a @ w).tanh())(x) ** 2).sum())(x),
    "grad of vmap by what is captured": lambda t, x, w: t[1](lambda w: (t[0](lambda a: (a @ w).tanh())(x) ** 2).sum())(
        w
    ),
    "grad of vmap of grad": lambda t, x, w: t[1](lambda w: (t[0](t[1](lambda a: (a @ w).tanh().sum()))(x) ** 2).sum())(
        w
    ),
    "vmap of grad of grad": lambda t, x, w: t[0](t[1](t[1](lambda a: a.sin() * a)))(x[0]),
    "vmap of grad of vmap": lambda t, x, w: t[0](
        lambda w: t[1](lambda x: (t[0](lambda a: (a * w).sin().sum())(x)).sum())(x), 1
    )(w),
    "vmap of jvp": lambda t, x, w: t[0](lambda a, b: t[2](lambda q: (q @ w).exp(), (a,), (b,))[1])(x, x.cos()),
    "jvp of vmap": lambda t, x, w: t[2](lambda x: t[0](lambda a: (a @ w).exp())(x), (x,), (x.cos(),))[1],
    "vmap of jvp of grad": lambda t, x, w: t[0](lambda a, b: t[2](t[1](lambda q: (q @ w).exp().sum()), (a,), (b,))[1])(
        x, x.cos()
    ),
    "grad of vmap of jvp": lambda t, x, w: t[1](
        lambda w: t[0](lambda a: t[2](lambda q: (q @ w).exp(), (a,), (a,))[1])(x).sum()
    )(w),
    "grad of grad of vmap": lambda t, x, w: t[1](
        lambda w: (t[1](lambda w: t[0](lambda a: (a @ w).tanh().sum())(x).sum())(w) ** 2).sum()
    )(w),
}


@pytest.mark.parametrize("name", NESTINGS)
def test_nestings_agree_with_pytorch(name):
    both(NESTINGS[name], array(4, 3), array(3, 2))


def test_levels_are_not_confused():
    """d/dx (x d/dy (x + y)) is 1: the inner derivative must not see the outer variable (perturbation confusion)."""
    x = rg.Tensor(array(3))
    inner = lambda a: a * grad(lambda b: a + b)(a)  # noqa: E731
    close(vmap(grad(inner))(x), np.ones(3))
    close(grad(lambda x: vmap(inner)(x).sum())(x), np.ones(3))
    close(vmap(lambda a: jvp(lambda q: q * jvp(lambda b: q + b, (a,), (a,))[1], (a,), (a * 0 + 1,))[1])(x), x.array)
    outer = rg.Tensor(array(2))
    got = vmap(lambda a: vmap(lambda b: grad(lambda c: (a * b * c).sin())(b))(x))(outer)
    a, b = outer.array[:, None], x.array[None]
    close(got, np.cos(a * b * b) * a * b)


def test_tensors_that_require_grad_may_be_captured():
    w = rg.Tensor(array(3, 2)).requires_grad_()
    x = rg.Tensor(array(4, 3))
    vmap(lambda a: (a @ w).tanh().sum())(x).sum().backward()
    wanted = grad(lambda w: (x @ w).tanh().sum())(w.detach())
    close(w.grad, wanted.array)
    w.grad = None
    vmap(grad(lambda a: (a @ w).tanh().sum()))(x).sum().backward()
    close(w.grad, grad(lambda w: vmap(grad(lambda a: (a @ w).tanh().sum()))(x).sum())(w.detach()).array)


def test_nothing_is_recorded_under_no_grad():
    w = rg.Tensor(array(3)).requires_grad_()
    with rg.no_grad():
        assert not vmap(grad(lambda a: (a * w).sum()))(rg.Tensor(array(4, 3))).requires_grad
    inside = vmap(lambda a: rg.no_grad()(lambda: a * w)())(rg.Tensor(array(4, 3)))
    assert not inside.requires_grad
    assert vmap(lambda a: a * w)(rg.Tensor(array(4, 3))).requires_grad


def test_detach_cuts_the_history_on_every_layer():
    x = rg.Tensor(array(3))
    close(grad(lambda x: vmap(lambda a: a.detach() * a)(x).sum())(x), x.array)
    close(vmap(grad(lambda a: a.detach() * a))(x), x.array)


def test_cotangents_may_be_mapped_through_an_existing_graph():
    x = rg.Tensor(array(3)).requires_grad_()
    y = (x.exp() * x.sum()).sin()
    rows = vmap(lambda v: rg.autograd.grad(y, x, v, retain_graph=True)[0])(rg.eye(3, dtype=rg.float64))
    close(rows, jacrev(lambda x: (x.exp() * x.sum()).sin())(x.detach()).array)
    assert not rows.requires_grad
    (batched,) = rg.autograd.grad(y, x, rg.eye(3, dtype=rg.float64), is_grads_batched=True, create_graph=True)
    close(batched, rows.array)
    assert batched.requires_grad
    close(
        rg.autograd.grad(batched.sum(), x)[0],
        hessian(lambda x: (x.exp() * x.sum()).sin().sum())(x.detach()).array.sum(0),
    )


def test_jacobians_and_hessians_of_a_module():
    layer = rg.nn.Sequential(rg.nn.Linear(3, 4), rg.nn.Tanh(), rg.nn.Linear(4, 2)).double()
    state = {name: value.detach() for name, value in layer.named_parameters()}
    x = rg.Tensor(array(5, 3))
    backward = jacrev(lambda state: functional_call(layer, state, x))(state)
    forward = jacfwd(lambda state: functional_call(layer, state, x))(state)
    for name in state:
        close(backward[name], forward[name].array)
    per_example = vmap(jacrev(lambda x: functional_call(layer, state, x)))(x)
    whole = jacrev(lambda x: functional_call(layer, state, x))(x).array
    close(per_example, np.stack([whole[i, :, i] for i in range(5)]))


# Arguments and results


def test_in_dims_and_out_dims():
    x, y = array(4, 3, 2), array(3, 2)
    both(lambda t, x, y: t[0](lambda a, b: a * b, (2, 1), 1)(x, y), x, y)
    both(lambda t, x, y: t[0](lambda a, b: a * b, (-3, None), -1)(x, y), x, y)
    both(lambda t, x, y: t[0](lambda a: a["u"] * a["v"][0], ({"u": 0, "v": None},))({"u": x, "v": (y,)}), x, y)


def test_nests_of_arguments_and_results():
    Pair = namedtuple("Pair", "first second")
    x = rg.Tensor(array(4, 3))
    result = vmap(lambda p: {"sum": p.first + p.second, "list": [p.first, (p.second.sum(),)]})(Pair(x, x.cos()))
    close(result["sum"], x.array + np.cos(x.array))
    close(result["list"][1][0], np.cos(x.array).sum(1))
    first, second = vmap(lambda a: (a, a.sum()), out_dims=(1, 0))(x)
    assert first.shape == (3, 4) and second.shape == (4,)


def test_outputs_that_are_the_same_for_all_are_repeated():
    x, y = rg.Tensor(array(4, 3)), rg.Tensor(array(2))
    assert vmap(lambda a: y)(x).shape == (4, 2)
    assert vmap(lambda a: y, out_dims=1)(x).shape == (2, 4)
    assert vmap(lambda a: (a, y), out_dims=(0, None))(x)[1].shape == (2,)
    assert vmap(lambda a: (a, "text"), out_dims=(0, None))(x)[1] == "text"


def test_keyword_arguments_are_not_mapped():
    x = rg.Tensor(array(4, 3))
    close(vmap(lambda a, *, scale: a * scale.sum())(x, scale=x), x.array * x.array.sum())


def test_decorators():
    @vmap
    def total(a):
        return a.sum()

    assert total(rg.ones(4, 3)).shape == (4,) and total.__name__ == "total"


@pytest.mark.parametrize("chunk_size", [1, 3, 4, 100])
def test_chunks_give_the_same(chunk_size):
    x, w = rg.Tensor(array(7, 3)), rg.Tensor(array(3))
    f = lambda w, a: {"product": a * w, "sum": a.sum()}  # noqa: E731
    got = vmap(f, (None, 0), {"product": 1, "sum": 0}, chunk_size=chunk_size)(w, x)
    close(got["product"], (x.array * w.array).T)
    close(got["sum"], x.array.sum(1))


@pytest.mark.parametrize("size", [0, 1])
def test_few_examples(size):
    x = rg.Tensor(array(size, 3))
    layer = rg.nn.Linear(3, 2).double()
    assert vmap(layer)(x).shape == (size, 2)
    assert vmap(grad(lambda a: layer(a).sum()))(x).shape == (size, 3)


@pytest.mark.parametrize(
    ("kind", "message", "call"),
    [
        (ValueError, "got no inputs", lambda x: vmap(lambda: x)()),
        (ValueError, "expected in_dims to be int or", lambda x: vmap(abs, "0")(x)),
        (ValueError, "in_dims has 2 entries for 1 arguments", lambda x: vmap(abs, (0, 0))(x)),
        (ValueError, r"argument 0\['a'\] is list\(\[0\]: \*\)", lambda x: vmap(abs, ({"a": (0, 0)},))({"a": [x]})),
        (ValueError, "in_dim must be either an integer", lambda x: vmap(abs, ("a",))(x)),
        (ValueError, r"got in_dim=2 for inputs\[0\], .* dimensionality 2", lambda x: vmap(abs, 2)(x)),
        (
            ValueError,
            r"got in_dim=0 for inputs\[1\]\['n'\], but it is of type float",
            lambda x: vmap(max)(x, {"n": 1.0}),
        ),
        (
            ValueError,
            "at least one Tensor to vmap over",
            lambda x: vmap(abs, (None,))(x),
        ),
        (ValueError, r"sizes 4 \(inputs\[0\] of shape \(4, 3\)\), 3 \(inputs\[1\]", lambda x: vmap(max)(x, x.T)),
        (ValueError, "must only return Tensors, got output of type str", lambda x: vmap(lambda a: "a")(x)),
        (ValueError, r"can not return a Tensor that differs", lambda x: vmap(abs, out_dims=None)(x)),
        (ValueError, "out_dims is not compatible", lambda x: vmap(lambda a: (a, a), out_dims=(0, 0, 0))(x)),
        (IndexError, "out_dim 5", lambda x: vmap(abs, out_dims=5)(x)),
        (RuntimeError, "only allowed values for randomness", lambda x: vmap(abs, randomness="some")(x)),
        (ValueError, "chunk_size should be None or an int greater than 0, got 0", lambda x: vmap(abs, chunk_size=0)(x)),
        (ValueError, "an int greater than 0, got 1.5", lambda x: vmap(abs, chunk_size=1.5)(x)),
    ],
)
def test_wrong_arguments(kind, message, call):
    with pytest.raises(kind, match=message):
        call(rg.Tensor(array(4, 3)))


# Python inside


@pytest.mark.parametrize(
    ("message", "function"),
    [
        ("data-dependent control flow.*write where", lambda a: a if a.sum() > 0 else -a),
        (r"calling \.item\(\)", lambda a: a.sum().item()),
        (r"calling \.item\(\)", lambda a: float(a.sum())),
        (r"calling \.numpy\(\) or \.tolist\(\)", lambda a: a.tolist()),
        (r"calling \.numpy\(\)", lambda a: a.numpy()),
        ("a Python number or an index", lambda a: range(a.long().sum())),
        ("mask that differs between the examples", lambda a: a[a > 0]),
        ("calling nonzero", lambda a: a.nonzero()),
        ("random operation while in randomness error mode", lambda a: a + rg.randn(3)),
        ("random operation", lambda a: F.dropout(a)),
        ("random operation", lambda a: a.clone().normal_()),
    ],
)
def test_what_depends_on_values_is_refused(message, function):
    with pytest.raises(RuntimeError, match=message):
        vmap(function)(rg.Tensor(array(4, 3)))


def test_numbers_that_are_the_same_for_all_may_be_asked_for():
    x, n = rg.Tensor(array(4, 3)), rg.tensor(2)
    assert vmap(lambda a, n: a[: n.item()] if n > 1 else a, (0, None))(x, n).shape == (4, 2)


def test_a_tensor_that_outlives_its_function_is_refused():
    kept = []
    vmap(lambda a: kept.append(a) or a)(rg.Tensor(array(4, 3)))
    with pytest.raises(RuntimeError, match="after that function had returned"):
        kept[0] * 2
    assert "lvl=1" in repr(kept[0])


def test_numpy_functions_work_inside():
    x = rg.Tensor(array(4, 3))
    close(
        vmap(lambda a: np.sin(a) + np.sum(a, axis=0) * np.ones(3))(x), np.sin(x.array) + x.array.sum(1, keepdims=True)
    )
    close(vmap(lambda a: np.where(a > 0, a, 0.0))(x), np.where(x.array > 0, x.array, 0.0))
    assert vmap(lambda a: a.argmax())(x).array.tolist() == x.array.argmax(1).tolist()


# Writes


def writes(a):
    b = a * 2
    b[0] = b[1] * 3
    b.add_(a)
    part = b[1:]
    part.mul_(2)
    return b


def test_writes_and_views_agree_with_pytorch():
    x = array(4, 3)
    both(lambda t, x: t[0](writes)(x), x)
    both(lambda t, x: t[0](t[1](lambda a: (writes(a) ** 2).sum()))(x), x)
    both(lambda t, x: t[1](lambda x: (t[0](writes)(x) ** 2).sum())(x), x)
    both(lambda t, x: t[0](lambda a: writes(a), 1, 1)(x.T), x)


def test_writes_reach_the_mapped_tensor():
    x = rg.Tensor(array(4, 3))
    before = x.array.copy()
    vmap(lambda a: a.add_(1))(x)
    close(x, before + 1)
    vmap(lambda a: a[0].mul_(0), in_dims=1)(x)
    assert not x.array[0].any()


def test_masks_and_positions_of_each_example():
    x = rg.Tensor(array(4, 3))

    def clipped(a):
        b = a * 1
        b[b > 0] = 0.5
        return b

    close(vmap(clipped)(x), np.where(x.array > 0, 0.5, x.array))
    close(vmap(grad(lambda a: (clipped(a) ** 2).sum()))(x), np.where(x.array > 0, 0, 2 * x.array))
    rows = rg.tensor([0, 2, 1, 1])
    close(vmap(lambda a, i: a[i])(x, rows), x.array[np.arange(4), rows.array])
    close(vmap(lambda i: x[i])(rows), x.array[rows.array])
    close(vmap(lambda a, i: a[None, i, None])(x, rows), x.array[np.arange(4), rows.array].reshape(4, 1, 1))


def test_anomaly_mode_looks_at_all_examples():
    x = rg.Tensor(array(4, 3))
    with rg.autograd.detect_anomaly():
        close(vmap(grad(lambda a: a.exp().sum()))(x), np.exp(x.array))
        with pytest.raises(RuntimeError, match="sqrt: its gradient .* is not finite"):
            vmap(grad(lambda a: (a * 0).sqrt().sum()))(x)


def test_a_write_leaves_what_was_saved():
    def f(a):
        b = a.exp()
        c = b * a
        b.mul_(2)
        return (c + b).sum()

    both(lambda t, x: t[0](lambda a: a)(x), array(2, 3))
    x = rg.Tensor(array(4, 3))
    close(vmap(grad(f))(x), np.exp(x.array) * (x.array + 1) + 2 * np.exp(x.array))


def test_a_mapped_value_is_written_into_what_the_function_created_and_not_into_what_it_captured():
    x, captured = rg.Tensor(array(4, 3)), rg.zeros(3, dtype=rg.float64)
    close(vmap(lambda a: rg.zeros(3, dtype=rg.float64).add_(a))(x), x.array)
    close(vmap(lambda a: a.new_zeros(3).add_(a))(x), x.array)
    close(vmap(lambda a: rg.zeros_like(a).copy_(a))(x), x.array)
    bare, double = np.zeros(3), rg.float64
    for copied in (
        rg.Tensor.clone, rg.tensor, lambda c: rg.tensor(bare), lambda c: rg.Tensor([0.0] * 3, dtype=double),
        lambda c: rg.cat([c[:1], c[1:]]), lambda c: c + 1 - 1, lambda c: rg.diag(c)[0], np.copy,
        lambda c: np.array(bare, like=c), lambda c: np.zeros(3, like=c), lambda c: rg.as_tensor([0.0] * 3).double(),
    ):  # fmt: skip
        close(vmap(lambda a, copied=copied: copied(captured).add_(a))(x), x.array)
    with pytest.raises(RuntimeError, match=r"vmap: inplace arithmetic\(self, .*create self inside the mapped function"):
        vmap(lambda a: captured[1:].view(2).add_(a[1:]))(x)

    def store(a):
        bare[0] = a[0]

    for write in (
        store,
        lambda a: np.add(0, a, out=bare),
        lambda a: np.copyto(bare, a),
        lambda a: np.add.at(bare, 0, a),
    ):
        with pytest.raises(RuntimeError, match=r"one memory for all examples.*np\.array\(array, like=x\)"):
            vmap(write)(x)
    assert not bare.any()
    with pytest.raises(RuntimeError, match=r"vmap: inplace arithmetic\(self, .*create self inside the mapped function"):
        vmap(lambda a: captured.add_(a))(x)
    assert not captured.array.any()


@pytest.mark.parametrize(
    "write",
    [
        lambda a, b: a.mul_(b),
        lambda a, b: a.add_(b),
        lambda a, b: a.masked_fill(rg.tensor(True), b),
        lambda a, b: a.masked_fill_(rg.tensor(True), b),
        lambda a, b: a.index_fill(0, rg.tensor([0]), b),
    ],
)
def test_a_mapped_value_that_does_not_fit_the_written_dtype_is_refused(write):
    real, whole = rg.ones(2, 3), rg.ones(2, 3, dtype=rg.int8)
    for x, value in ((real, rg.tensor([1j, 2j])), (whole, rg.tensor([1j, 2j])), (whole, rg.tensor([1.5, 300.0]))):
        with pytest.raises(RuntimeError, match="cast|cannot be converted|can't be written"):
            vmap(write)(x, value)


def recurrence(a):
    values = rg.zeros(4, dtype=rg.float64)
    for index in range(1, 4):
        values[index] = values[index - 1] * a + index
    return values


def test_a_buffer_that_the_function_fills_is_differentiated_in_every_nest_of_transforms():
    x = rg.Tensor(array(5))
    close(vmap(recurrence)(x), rg.stack([recurrence(a) for a in x]).array)

    def total(a):
        return (recurrence(a) ** 2).sum()

    slopes = rg.stack([grad(total)(a) for a in x])
    close(vmap(grad(total))(x), slopes.array)
    close(grad(lambda a: vmap(total)(a).sum())(x), slopes.array)
    close(jvp(vmap(total), (x,), (rg.ones_like(x),))[1], slopes.array)
    close(vmap(grad(grad(total)))(x), rg.stack([grad(grad(total))(a) for a in x]).array)

    def pair(a, b):
        out = rg.zeros(2, dtype=rg.float64)
        out[0] = a
        out[1] = a * b
        return out

    nested = vmap(vmap(pair, (None, 0)), (0, None))(x, x[:3])
    close(nested[..., 0], rg.broadcast_to(x[:, None], (5, 3)).array)
    close(nested[..., 1], rg.outer(x, x[:3]).array)

    def into_outer(a):
        out = rg.zeros(2, dtype=rg.float64)
        out[0] = a
        return vmap(lambda b: out.add_(b))(x)

    with pytest.raises(RuntimeError, match="vmap: inplace arithmetic"):
        vmap(into_outer)(x)


def test_views_of_a_created_buffer_and_its_history_follow_when_each_example_gets_its_own():
    weight = rg.tensor(3.0, dtype=rg.float64, requires_grad=True)

    def fill(a):
        matrix = rg.ones(2, 2, dtype=rg.float64)
        row, column, same = matrix[1], matrix[:, 1], matrix.detach()
        before = (matrix * weight).sum()
        row[1] = a
        row += a
        column *= 2
        return matrix, row, column, same, before

    def fill_with_history(a):
        buffer = rg.zeros(3, dtype=rg.float64)
        tail = buffer[1:]
        buffer[1] = weight
        buffer[0] = a * weight
        tail[1] = a
        return buffer, tail

    def fill_a_result(a):
        result = weight * rg.ones(3, dtype=rg.float64)
        square, tail = result**2, result[1:]
        tail[0] = a * weight
        result *= a
        return square, result, tail

    x = rg.Tensor(array(4))
    for function in (fill, fill_with_history, fill_a_result):
        got, wanted = vmap(function)(x), [rg.stack(list(parts)) for parts in zip(*map(function, x), strict=True)]
        for ours, theirs in zip(got, wanted, strict=True):
            close(ours, theirs.detach().array)
        sums = [sum((part**2).sum() for part in parts) for parts in (got, wanted)]
        np.testing.assert_allclose(*[rg.autograd.grad(total, weight)[0].array for total in sums])


@pytest.mark.parametrize("options", [{}, {"left": -3.0, "right": 7.0}, {"period": 2.5}])
def test_interp_maps_over_points_places_and_values_with_their_gradients(options):
    x, values = rg.Tensor(array(4, 3) * 2), rg.Tensor(array(4, 5))
    places = rg.Tensor(np.sort(array(4, 5), axis=1))
    for dims in [(0, None, None), (None, None, 0), (0, None, 0), (0, 0, 0)]:
        args = [part if dim == 0 else part[0] for part, dim in zip((x, places, values), dims, strict=True)]

        def interpolated(a, b, c):
            return np.interp(a, b, c, **options)

        slopes = grad(lambda a, b, c: (interpolated(a, b, c) ** 2).sum(), argnums=(0, 2))
        rows = [[part[i] if dim == 0 else part for part, dim in zip(args, dims, strict=True)] for i in range(4)]
        close(vmap(interpolated, dims)(*args), np.stack([np.interp(*[p.numpy() for p in r], **options) for r in rows]))
        for got, *wanted in zip(vmap(slopes, dims)(*args), *[slopes(*row) for row in rows], strict=True):
            close(got, rg.stack(wanted).array)


# Random numbers


RANDOM = {
    "rand": lambda a: rg.rand(2),
    "randn": lambda a: rg.randn(2, 3),
    "randint": lambda a: rg.randint(0, 1000, (3,)),
    "randperm": lambda a: rg.randperm(50),
    "rand_like": lambda a: rg.rand_like(a),
    "dropout": lambda a: F.dropout(rg.ones(20), 0.5),
    "dropout of what is mapped": lambda a: F.dropout(rg.ones_like(a), 0.5),
    "bernoulli": lambda a: rg.bernoulli(rg.full((20,), 0.5)),
    "multinomial": lambda a: rg.multinomial(rg.ones(50), 5),
    "normal_": lambda a: rg.zeros_like(a).normal_(),
    "uniform_": lambda a: rg.zeros_like(a).uniform_(),
    "poisson": lambda a: rg.poisson(rg.full((30,), 4.0)),
    "gamma": lambda a: rg.distributions.Gamma(rg.ones(5), rg.ones(5)).sample(),
    "exponential_": lambda a: rg.zeros_like(a).exponential_(),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_are_the_same_or_different(name):
    x = rg.ones(4, 30)

    def run(randomness):
        rg.manual_seed(0)
        return vmap(RANDOM[name], randomness=randomness)(x).array

    same, different = run("same"), run("different")
    assert all((row == same[0]).all() for row in same)
    assert not any((row == different[0]).all() for row in different[1:])
    assert (run("different") == different).all() and (run("same") == same).all()


def test_draws_from_distributions_that_differ():
    rates = rg.tensor([[1.0] * 200, [100.0] * 200])
    assert vmap(rg.poisson, randomness="different")(rates).mean(1).round(decimals=-1).array.tolist() == [0, 100]
    with pytest.raises(RuntimeError, match="distributions that differ"):
        vmap(rg.poisson, randomness="same")(rates)


def test_chunks_draw_the_same():
    x = rg.ones(4, 30)
    rows = vmap(lambda a: rg.rand(3), randomness="same", chunk_size=2)(x).array
    assert all((row == rows[0]).all() for row in rows)


def test_levels_draw_by_their_own_rules():
    x = rg.ones(3, 4)
    rows = vmap(vmap(lambda a: rg.rand(2), randomness="same"), randomness="different")(x).array
    assert (rows == rows[:, :1]).all() and not (rows[0] == rows[1]).any()
    rows = vmap(vmap(lambda a: rg.rand(2), randomness="different"), randomness="same")(x).array
    assert (rows == rows[:1]).all() and not (rows[:, 0] == rows[:, 1]).any()


# Modules


def test_ensembles_of_modules():
    models = [rg.nn.Sequential(rg.nn.Linear(3, 8), rg.nn.LayerNorm(8), rg.nn.Linear(8, 2)) for _ in range(4)]
    parameters, buffers = stack_module_state(models)
    x = rg.randn(5, 3)
    got = vmap(lambda p, b, x: functional_call(models[0], (p, b), x), (0, 0, None))(parameters, buffers, x)
    np.testing.assert_allclose(
        got.detach().array, np.stack([m(x).detach().array for m in models]), rtol=1e-5, atol=1e-6
    )
    got.sum().backward()
    models[1](x).sum().backward()
    wanted = models[1][0].weight.grad.array
    np.testing.assert_allclose(parameters["0.weight"].grad.array[1], wanted, rtol=1e-4, atol=1e-5)


MODULES = {
    "convolution": (
        lambda: rg.nn.Sequential(
            rg.nn.Conv2d(2, 4, 3, padding=1),
            rg.nn.GroupNorm(2, 4),
            rg.nn.ReLU(),
            rg.nn.MaxPool2d(2),
            rg.nn.Conv2d(4, 4, 2, groups=2),
            rg.nn.AdaptiveAvgPool2d(1),
            rg.nn.Flatten(),
        ),
        (2, 8, 8),
    ),
    "transformer": (lambda: rg.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (5, 8)),
    "lstm": (lambda: rg.nn.LSTM(3, 4, 2, batch_first=True), (6, 3)),
    "gru": (lambda: rg.nn.GRU(3, 4, batch_first=True), (6, 3)),
    "transposed convolution": (lambda: rg.nn.ConvTranspose1d(2, 3, 3, stride=2), (2, 5)),
    "layer norm": (lambda: rg.nn.Sequential(rg.nn.Linear(4, 4), rg.nn.LayerNorm(4), rg.nn.GELU()), (3, 4)),
}


@pytest.mark.parametrize("name", MODULES)
def test_gradients_per_example_of_modules(name):
    make, shape = MODULES[name]
    module = make().double()
    state = {key: value.detach() for key, value in module.named_parameters()}
    x = rg.Tensor(array(3, *shape))

    def loss(result):
        return ((result[0] if isinstance(result, tuple) else result) ** 2).sum()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = vmap(grad(lambda state, x: loss(functional_call(module, state, x[None]))), (None, 0))(state, x)
    for i in range(3):
        module.zero_grad()
        loss(module(x[i : i + 1])).backward()
        for key, value in module.named_parameters():
            np.testing.assert_allclose(got[key].array[i], value.grad.array, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", MODULES)
def test_gradients_of_inputs_are_differentiated_by_parameters(name):
    """Kernels that run in a fused way are composed of operators where the layer below records; here in float32."""
    make, shape = MODULES[name]
    rg.manual_seed(0)
    module, x = make(), rg.Tensor(array(3, *shape).astype(np.float32))

    def loss(x):
        result = module(x[None])
        return ((result[0] if isinstance(result, tuple) else result) ** 3).sum()

    slopes = vmap(grad(loss))(x)
    (slopes**2).sum().backward()
    got = [value.grad.array for value in module.parameters()]
    module.zero_grad()
    rows = []
    for row in x:
        row = row.clone().requires_grad_()
        rows.append(rg.autograd.grad(loss(row), row, create_graph=True)[0])
    np.testing.assert_allclose(slopes.detach().array, rg.stack(rows).detach().array, rtol=1e-3, atol=1e-4)
    (rg.stack(rows) ** 2).sum().backward()
    for a, value in zip(got, module.parameters(), strict=True):
        np.testing.assert_allclose(a, value.grad.array, rtol=1e-2, atol=1e-3 * np.abs(value.grad.array).max())


def test_batch_norm_in_training_says_that_it_writes_its_statistics():
    layer = rg.nn.BatchNorm1d(3)
    state = {**dict(layer.named_parameters()), **dict(layer.named_buffers())}
    with pytest.raises(RuntimeError, match="inplace arithmetic"):
        vmap(lambda x: functional_call(layer, state, x))(rg.randn(2, 5, 3))
    without = rg.nn.BatchNorm1d(3, track_running_stats=False)
    x = rg.randn(2, 5, 3)
    np.testing.assert_allclose(
        vmap(without)(x).detach().array, np.stack([without(r).detach().array for r in x]), atol=1e-6
    )


def test_vjp_inside_gives_rows():
    x = rg.Tensor(array(4, 3))
    rows = vmap(lambda a, v: vjp(lambda q: q.exp() * q.sum(), a)[1](v)[0])(x, x)
    one = vjp(lambda q: q.exp() * q.sum(), x[1])[1](x[1])[0]
    close(rows[1], one.array)
