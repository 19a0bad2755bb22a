"""Loops and branches as functions, called eagerly and under transforms."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.func import associative_scan, cond, fori_loop, grad, hessian, jvp, scan, vmap, while_loop
from retrograd.func import map as loop_map

F64 = rg.float64


def numbers(seed: int, *shape: int) -> rg.Tensor:
    return rg.tensor(np.random.default_rng(seed).standard_normal(shape))


def recurrence(a: rg.Tensor, x0: rg.Tensor, xs: rg.Tensor, **options: object) -> rg.Tensor:
    def step(carry, x):
        u, rest = carry
        p = rest["p"] * a + u.sin() * x["x"]
        return (u * 0.9 + p, {"p": p}), {"s": u * a, "nothing": None, "pair": (p, u)}

    (u, rest), ys = scan(step, (x0, {"p": x0 * 0.1}), {"x": xs}, **options)
    return u * rest["p"] + (ys["s"] ** 2).sum() + ys["pair"][0][0] - ys["pair"][1][-1]


def written_out(a: rg.Tensor, x0: rg.Tensor, xs: rg.Tensor, reverse: bool) -> rg.Tensor:
    u, p, total, ps, us = x0, x0 * 0.1, 0.0, [], []
    for x in reversed(xs) if reverse else xs:
        total = total + (u * a) ** 2
        p = p * a + u.sin() * x
        ps, us = [*ps, p], [*us, u]
        u = u * 0.9 + p
    first, last = (-1, 0) if reverse else (0, -1)
    return u * p + total + ps[first] - us[last]


@pytest.mark.every(3)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("checkpoint", [False, True, 3, 100])
def test_scan_and_its_derivatives_are_those_of_the_loop_written_out(reverse, checkpoint):
    a, x0, xs = rg.tensor(0.7, dtype=F64), rg.tensor(0.4, dtype=F64), numbers(0, 10)
    t = numbers(1, 10)

    def f(*arguments):
        return recurrence(*arguments, reverse=reverse, checkpoint=checkpoint)

    def g(*arguments):
        return written_out(*arguments, reverse)

    every = (0, 1, 2)
    for transform in (
        lambda h: h(a, x0, xs),
        lambda h: grad(h, argnums=every)(a, x0, xs),
        lambda h: jvp(h, (a, x0, xs), (x0, a, t)),
        lambda h: hessian(lambda xs: h(a, x0, xs))(xs),
        lambda h: vmap(grad(h), in_dims=(0, None, 0))(rg.stack([a, x0]), x0, rg.stack([xs, t])),
        lambda h: grad(lambda a: vmap(h, in_dims=(None, None, 0))(a, x0, rg.stack([xs, t])).sum())(a),
    ):
        np.testing.assert_allclose(*[np.hstack([y.numpy().ravel() for y in _nest(transform(h))]) for h in (f, g)])


def _nest(found):
    return found if isinstance(found, tuple) else (found,)


def test_checkpointed_segments_save_the_square_root_of_the_steps():
    runs = [0]

    def step(u, _):
        runs[0] += 1
        return (u * 1.01).sin(), None

    def saved(checkpoint):
        runs[0] = 0
        x = rg.ones(10_000, requires_grad=True)
        end = scan(step, x, length=100, checkpoint=checkpoint)[0].sum()
        alive, pending, seen = set(), [end._node], set()
        while pending:
            node = pending.pop()
            if node is None or id(node) in seen or not hasattr(node, "parents"):
                continue
            seen.add(id(node))
            if type(node.saved) is tuple:
                alive |= {id(y) for y in node.saved if getattr(y, "size", 0) == 10_000}
            elif hasattr(node.saved, "arrays"):
                alive |= {id(y) for y in node.saved.arrays() if y.size == 10_000}
            pending += node.parents
        end.backward()
        return len(alive), x.grad

    (plain, want), (few, got) = saved(False), saved(True)
    assert few <= 12 < 100 <= plain
    assert runs[0] <= 200 and rg.equal(want, got)


def test_a_loop_of_no_steps_returns_the_initial_carry_and_empty_results():
    carry, ys = scan(lambda c, x: (c + x.sum(), {"y": x * 2}), rg.tensor(1.5), rg.ones(0, 3))
    assert carry == 1.5 and ys["y"].shape == (0, 3)
    assert fori_loop(3, 3, lambda i, x: x * 2, rg.ones(2)).tolist() == [1, 1]


def test_a_number_as_initial_carry_takes_the_dtype_of_the_first_step():
    carry, ys = scan(lambda c, x: (c + x, c), 0, rg.ones(3, dtype=F64))
    assert carry.dtype == ys.dtype == F64 and ys.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: scan(lambda c, x: c, 0.0, length=3), TypeError, "f must return a pair"),
        (lambda: scan(lambda c, x: ((c, c), x), (0.0,), length=3), TypeError, "structure of init; carry: expected 1"),
        (
            lambda: scan(lambda c, x: (rg.ones(2), x), rg.ones(3), length=3),
            TypeError,
            r"carry = float32\(2,\), but init",
        ),
        (
            lambda: scan(lambda c, x: ({"a": c["a"].double()}, x), {"a": rg.ones(3)}, length=3),
            TypeError,
            r"init\['a'\]",
        ),
        (lambda: scan(lambda c, x: ("a", x), 0.0, length=3), TypeError, "init|Tensors"),
        (lambda: scan(lambda c, x: (c, x), 0.0), ValueError, "pass length"),
        (lambda: scan(lambda c, x: (c, x), 0.0, {}), ValueError, "xs has no leaves"),
        (lambda: scan(lambda c, x: (c, x), 0.0, (rg.ones(2), rg.ones(3))), ValueError, r"xs\[0\] is .*xs\[1\] is"),
        (lambda: scan(lambda c, x: (c, x), 0.0, rg.ones(2), length=3), ValueError, "length is 3"),
        (lambda: scan(lambda c, x: (c, x), 0.0, rg.ones(())), ValueError, "no dimension"),
        (lambda: scan(lambda c, x: (c, x), "a", rg.ones(2)), TypeError, "init must be a Tensor"),
        (lambda: scan(lambda c, x: (c, x), 0.0, rg.ones(2), 2.5), TypeError, "length must be an integer"),
        (lambda: scan(lambda c, x: (c, x), 0.0, length=-1), ValueError, "negative"),
        (lambda: scan(3, 0.0, length=1), TypeError, "f must be a function"),
        (lambda: scan(lambda c, x: (c, x), 0.0, rg.ones(2), checkpoint=0), ValueError, "checkpoint"),
        (lambda: fori_loop(0.5, 3, lambda i, x: x, 1.0), TypeError, "lower must be an integer"),
        (lambda: fori_loop(0, 3, lambda i, x: (x, x), 1.0), TypeError, "carry"),
        (lambda: while_loop(lambda x: rg.ones(2), lambda x: x, 1.0), TypeError, "one element"),
        (lambda: while_loop(lambda x: x.sum() < 9, lambda x: x.repeat(2), rg.ones(2)), TypeError, "init_val"),
        (lambda: cond(rg.ones(2), abs, abs, 1.0), TypeError, "pred must have one element"),
        (lambda: cond(True, 1, abs, 1.0), TypeError, "true_fun must be a function"),
        (lambda: associative_scan(rg.add, ()), ValueError, "no leaves"),
        (lambda: associative_scan(rg.add, rg.ones(2), axis=1), ValueError, "axis 1"),
        (lambda: associative_scan(lambda a, b: a.sum(), rg.ones(4)), TypeError, "keep shapes"),
    ],
)
def test_bad_arguments_are_errors_that_name_the_argument(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_while_loop_differentiates_eagerly_and_stops_for_each_example_of_vmap():
    def halve(x):
        return while_loop(lambda v: v[0] > 1.0, lambda v: (v[0] / 2, v[1] + 1), (x, 0))[0]

    x = rg.tensor([10.0, 3.0, 0.5])
    assert vmap(halve)(x).tolist() == [0.625, 0.75, 0.5]
    assert vmap(grad(halve))(x).tolist() == [0.0625, 0.25, 1.0]
    assert jvp(halve, (x[0],), (rg.tensor(1.0),))[1] == 0.0625
    assert [grad(halve)(y) for y in x] == [0.0625, 0.25, 1.0]


def test_cond_runs_one_branch_and_selects_under_vmap():
    ran = []

    def choose(x):
        return cond(x > 0, lambda x: (ran.append(1), x**2)[1], lambda x: (ran.append(2), -x)[1], x)

    assert choose(rg.tensor(3.0)) == 9 and ran == [1]
    x = rg.tensor([3.0, -2.0])
    assert vmap(choose)(x).tolist() == [9, 2] and vmap(grad(choose))(x).tolist() == [6, -1]
    with pytest.raises(TypeError, match="same shapes and dtypes"):
        vmap(lambda x: cond(x > 0, lambda x: x, lambda x: x.double(), x))(x)
    with pytest.raises(TypeError, match="same structure"):
        vmap(lambda x: cond(x > 0, lambda x: x, lambda x: (x, x), x))(x)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8])
def test_an_associative_scan_combines_in_order(length):
    a, b = numbers(2, length, 2, 2), numbers(3, length)

    def combine(x, y):
        return x[0] @ y[0], x[1] + y[1]

    for reverse in (False, True):
        products, sums = associative_scan(combine, (a, b), reverse=reverse)
        order = range(length)[::-1] if reverse else range(length)
        want, total = rg.eye(2, dtype=F64), 0.0
        for at in order:
            want, total = want @ a[at], total + b[at]
            np.testing.assert_allclose(products[at].numpy(), want.numpy(), atol=1e-12)
            assert abs(sums[at] - total) < 1e-12
    np.testing.assert_allclose(associative_scan(rg.add, a, axis=-1).numpy(), a.cumsum(-1).numpy(), atol=1e-12)


def test_map_stacks_what_a_function_returns_for_slices():
    found = loop_map(lambda x: {"s": x[0].sum() * x[1]}, (rg.ones(3, 2), rg.arange(3.0)))
    assert found["s"].tolist() == [0, 2, 4]
