"""Python loops whose steps are compared with a block while they are traced, and not recorded."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import retrograd as rg
from retrograd.compiler.loops.expected_calls import is_predictable
from retrograd.compiler.loops.following import _Steps
from retrograd.compiler.trace.tracer import Tracer
from retrograd.core.graph.primitive import Primitive
from retrograd.func import grad, hessian, scan
from retrograd.ops.reduce.scans import CUMSUM

STEPS = 40


def step(u, p):
    return u * 0.9 + 0.1 * (u * p).sin() + 0.05 * (p * p).cos() * u.tanh()


def drawn(*shape, **options):
    return rg.tensor(0.3 * np.random.default_rng(0).standard_normal(shape), **options)


def final(u, p):
    time = 0.0
    for i in range(STEPS):
        u = step(u, p) + 0.01 * time + u * (i / STEPS)
        time += 0.1
    return (u * u).sum()


def rows(u, p):
    xs = rg.arange(3.0 * STEPS, dtype=u.dtype).reshape(STEPS, 3) * 0.01
    for x in xs:
        u = step(u, p) + x * u
    for k in range(STEPS):
        u = step(u, p) + xs[k] + xs[-1 - k] * p
    return (u * u).sum()


def written_states(u, p):
    """Keep states, views and detached states, and write to them after the loop."""
    states, views, detached = [], [], []
    for _ in range(STEPS):
        u = step(u, p)
        states.append(u)
        views.append(u[1:])
        detached.append(u.detach())
    product = (states[-1] * states[3]).sum()
    views[3].mul_(3.0)
    states[-1].add_(1.0)
    return product + sum((x * x).sum() for x in (*states, *views[::7])) + (rg.stack(detached) * u).sum()


def local_variables(u, p):
    for i in range(STEPS):
        a = u * 0.9
        b = (u * p).sin()
        if i == STEPS - 1:
            break
        u = a + 0.1 * b
    return (u * a).sum() + b.sum()


def detached_carry(u, p):
    v = u * 1
    for _ in range(STEPS):
        with rg.no_grad():
            size = (u * u).sum() + 1
        v = step(v.detach(), p) * 0.5 + 0.5 * v
        u = step(u, p) / size.sqrt()
    return (v * u).sum()


def detached_in_place(u, p):
    v, states = u * 1, []
    for _ in range(STEPS):
        u = step(u, p)
        v = step(v, p)
        u = u + 0.1 * v
        v.detach_()
        states.append(v)
    return (u * v).sum() + (states[7] * p).sum()


def one_other_step(u, p):
    for i in range(STEPS):
        u = step(u, p)
        if i == STEPS // 2:
            u = u * 2
    return (u * u).sum()


def nested(u, p):
    for _ in range(12):
        for _ in range(20):
            u = step(u, p)
        u = u / (1 + (u * u).sum())
    return (u * u).sum()


def changed_array(u, p):
    """Read a NumPy array that changes in each step."""
    a = np.arange(3.0)
    for i in range(STEPS):
        a[0] = 0.01 * i
        u = step(u, p) + u * a
    return (u * u).sum()


def gradient_of_state(u, p):
    states = [u]
    for _ in range(STEPS):
        states.append(step(states[-1], p))
    (g,) = rg.autograd.grad((states[-1] ** 2).sum(), [states[20]], create_graph=True)
    return (g * g).sum()


def gradient_of_one_of_two(u, p):
    v = u * 0.1
    for _ in range(STEPS):
        v = v - 0.01 * (u * p).sin()
        u = u + 0.1 * v.tanh()
    (g,) = rg.autograd.grad((u**2).sum() + (v**3).sum(), [v], create_graph=True)
    return (g * p).sum()


def hooks(u, p):
    states = []
    for i in range(STEPS):
        u = step(u, p)
        states.append(u)
        if i in (2, 30):
            u.register_hook(lambda g: g * 2)
    states[10].register_hook(lambda g: g * 3)
    return (u * u).sum()


def check(function, arguments, calls=2):
    compiled = rg.compile(function)
    for _ in range(calls):
        got, want = compiled(*arguments), function(*arguments)
        for a, b in zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]:
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-11, atol=1e-14)
    assert len(compiled.entries) == 1, compiled.why
    return compiled


def slow(*functions):
    return [pytest.param(function, marks=pytest.mark.slow) for function in functions]


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [
        written_states,
        *slow(
            final,
            rows,
            local_variables,
            detached_carry,
            detached_in_place,
            one_other_step,
            nested,
            changed_array,
            gradient_of_state,
        ),
    ],
)
def test_a_followed_loop_has_the_numbers_of_an_eager_one(function):
    check(grad(function, argnums=(0, 1)), (drawn(3), drawn(3)))


@pytest.mark.parametrize("function", [gradient_of_one_of_two, *slow(hooks, gradient_of_state)])
def test_a_loop_is_recorded_where_the_gradient_of_a_step_is_wanted(function):
    check(function, (drawn(3, requires_grad=True), drawn(3, requires_grad=True)), 1)


def test_recorded_calls_do_not_grow_with_the_number_of_steps(monkeypatch):
    def loss(u, p, xs):
        for x in xs:
            u = step(u, p) + x
        return (u * u).sum()

    counts = []
    call = Tracer.call
    monkeypatch.setattr(Tracer, "call", lambda *args, **kwargs: counts.append(1) or call(*args, **kwargs))
    lengths = []
    for steps in (60, 120):
        counts.clear()
        check(grad(loss), (drawn(3), drawn(3), drawn(steps)), 1)
        lengths.append(len(counts))
    assert lengths[0] == lengths[1] < 600


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("multiply", [rg.mm, rg.matmul, rg.nn.functional.linear, partial(rg.einsum, "ij,jk")])
def test_a_loop_with_products_that_take_long_is_recorded_call_by_call(multiply, monkeypatch):
    """Its backward pass would compute the products again."""
    calls = []
    call = Tracer.call
    monkeypatch.setattr(Tracer, "call", lambda *args, **kwargs: calls.append(1) or call(*args, **kwargs))

    def loop(x, y):
        for _ in range(200):
            x = multiply(x, y).sin()
        return x.sum()

    counts = []
    for size in (4, 104):
        x, y = drawn(size, size, requires_grad=True), drawn(size, size)
        calls.clear()
        rg.compile(loop)(x, y)
        counts.append(len(calls))
    assert counts[0] < 200 < 400 < counts[1]


def test_a_loop_that_cannot_be_rolled_is_recorded_call_by_call(monkeypatch):
    monkeypatch.setattr(_Steps, "_loop", lambda *_: None)
    check(final, (drawn(3), drawn(3)), 1)


def test_results_of_a_loop_have_their_history_after_an_error():
    def failing(u, p):
        for i in range(STEPS):
            u = step(u, p)
            kept.append(u)
            if i == STEPS - 2:
                raise ValueError("stop")
        return u

    kept = []
    u, p = drawn(3, requires_grad=True), drawn(3)
    with pytest.raises(ValueError, match="stop"):
        rg.compile(failing)(u, p)
    got = rg.autograd.grad(kept[-1].sum(), u)[0]
    want = u
    for _ in range(STEPS - 1):
        want = step(want, p)
    np.testing.assert_allclose(got.numpy(), rg.autograd.grad(want.sum(), u)[0].numpy(), rtol=1e-12)


@pytest.mark.slow
def test_a_masked_step_is_right_where_the_mask_has_another_size():
    def masked(u, p):
        for _ in range(STEPS):
            u = u * 0.99 + 0.01 * rg.masked_select(u, u > -p.abs()).sum()
        return u.sum()

    compiled = rg.compile(masked, fallback=True)
    for u in (drawn(3).abs(), -drawn(3), drawn(3) - 0.2):
        np.testing.assert_allclose(compiled(u, drawn(3)).numpy(), masked(u, drawn(3)).numpy(), rtol=1e-12)


@pytest.mark.slow
def test_the_hessian_of_a_long_loop_maps_its_steps():
    compiled, u, p = rg.compile(lambda u: hessian(lambda u: final(u, p))(u), fallback=True), drawn(3), drawn(3)
    np.testing.assert_allclose(compiled(u).numpy(), hessian(lambda u: final(u, p))(u).numpy(), rtol=1e-10)


def exchanged(u, h, p, x):
    v, w = x[0] * 1.0, p[0] * 1.0
    for i in range(STEPS):
        unused = x[i] * 0.5
        u, h, v, w = (u * 0.9 + 0.1).tanh(), (v * 0.8 + 0.1).sin(), w * 0.6, h.detach() * p[1] + u.tanh() * 0.1
    return u, h, v, w, unused


def scanned(u, h, p, x):
    def one(carry, row):
        u, h, v = carry
        return ((u * p[0] + 0.1).sin(), (h.detach() * row + 0.1 * u).sin(), (v * 0.9).sin()), v

    (u, h, v), vs = scan(one, (u, h, x[0]), x)
    return u, h, v, vs


@pytest.mark.parametrize("function, needs", [(exchanged, 1), (exchanged, 8), (scanned, 1), (scanned, 6)])
def test_inputs_and_results_of_a_loop_that_do_not_depend_on_each_other_have_no_gradient(function, needs):
    def inputs():
        made = [drawn(3), drawn(3) + 0.1, drawn(2, 3), drawn(STEPS, 3)]
        return [x.requires_grad_(bool(needs >> k & 1)) for k, x in enumerate(made)]

    compiled = rg.compile(function)
    for _ in range(2):
        mine, theirs = inputs(), inputs()
        wanted, got = function(*mine), compiled(*theirs)
        assert [y.requires_grad for y in got] == [y.requires_grad for y in wanted]
        for a, b in zip(wanted, got, strict=True):
            if a.requires_grad:
                a = rg.autograd.grad(
                    a.sum(), [x for x in mine if x.requires_grad], retain_graph=True, allow_unused=True
                )
                b = rg.autograd.grad(
                    b.sum(), [x for x in theirs if x.requires_grad], retain_graph=True, allow_unused=True
                )
                assert [g is None for g in a] == [g is None for g in b]
                assert all(rg.allclose(g, h) for g, h in zip(a, b, strict=True) if g is not None)


def constant_steps(u, p):
    h = u * p
    for _ in range(STEPS):
        a = (h * p).sin() + h.tanh() * 0.1
        b = (a * p).cos() + a * 0.1
    return b, a


def counting_steps(u, p):
    n = rg.zeros((), dtype=rg.int64)
    for i in range(STEPS):
        n = n + ((u * p * i - p).sin().cos() > 0.5).sum()
    return p * n, n


@pytest.mark.parametrize("function", [constant_steps, counting_steps])
def test_a_loop_without_differentiable_results_is_computed(function):
    compiled = rg.compile(function)
    for _ in range(2):
        u, p = drawn(3, requires_grad=True), drawn(3, requires_grad=True)
        for a, b in zip(function(u, p), compiled(u, p), strict=True):
            assert rg.equal(a, b) and a.requires_grad == b.requires_grad


def test_the_steps_of_a_followed_loop_are_not_computed_and_have_their_metadata(monkeypatch):
    rg.zeros(3, device="meta") * 2  # from then on forward functions are wrapped

    def loss(u, p):
        for _ in range(STEPS):
            found = u.shape, u.ndim, len(u), u.numel(), u.stride(), u.is_contiguous(), u.array.nbytes, u.device.type
            if found != ((3,), 1, 3, 3, (1,), True, 24, "cpu") or u.dtype is not p.dtype:
                raise ValueError(found)
            u = step(u, p)
        return u.sum()

    computed = []
    monkeypatch.setattr(_Steps, "computed", lambda *args: computed.append(args))
    steps = []
    monkeypatch.setattr(_Steps, "_loop", lambda self, n, loop=_Steps._loop: steps.append(n) or loop(self, n))
    check(loss, (drawn(3), drawn(3)), 1)
    assert not computed and len(steps) == 1 and steps[0] > STEPS // 2


def test_an_error_of_a_later_step_is_raised_in_that_step():
    def inverses(m):
        for i in range(STEPS):
            try:
                m = rg.linalg.inv(m) * 1.01 - (0.0 if i != STEPS - 9 else m.trace() / 2) * one + 0.001 * m
            except RuntimeError:
                return i
        return STEPS

    one = rg.ones(2, 2, dtype=rg.float64)
    assert rg.compile(inverses)(one) == inverses(one)


def test_a_custom_function_in_a_loop_runs_in_each_step():
    class Doubled(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            runs.append(1)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def loss(u, p):
        for _ in range(STEPS):
            u = step(Doubled.apply(u) * 0.5, p)
        return u.sum()

    runs = []
    rg.compile(loss)(drawn(3), drawn(3))
    assert len(runs) >= STEPS


def test_another_thread_reads_the_result_of_a_step():
    def loss(u, p):
        for i in range(STEPS):
            u = step(u, p)
            if i == STEPS - 5:
                with ThreadPoolExecutor(1) as pool:
                    seen.append(pool.submit(lambda x: (x * 2).detach().numpy().copy(), u).result())
        return u.sum()

    seen = []
    u, p = drawn(3), drawn(3)
    got, want = rg.compile(loss, fallback=True)(u, p), loss(u, p)
    assert rg.allclose(got, want)
    np.testing.assert_allclose(seen[0], seen[1], rtol=1e-12)


def test_steps_that_write_in_place_are_those_of_an_eager_loop():
    """A write changes what an earlier call of the step has read, and what a call of the step before returned."""

    def sums(u, p):
        a, totals = u * 1.0, []
        for _ in range(STEPS):
            totals.append(a.sum())
            a.mul_(0.99)
        return (a, *totals)

    def exchanged_buffers(u, p):
        a, b, t = u * 1.0, p * 2.0, u * 0.0
        for _ in range(STEPS):
            t = t * 0.9 + a
            a.mul_(0.99)
            a, b = b, a
        return a, b, t

    def results_in_a_buffer(u, p):
        buffer, a = u * 0.0, u
        for _ in range(STEPS):
            rg.mul(a, 0.9, out=buffer)
            a = buffer + p * 0.01
        return a, buffer

    for function in (sums, exchanged_buffers, results_in_a_buffer):
        check(function, (drawn(3), drawn(3)))


@pytest.mark.parametrize(
    ("declared", "dtype", "predictable"),
    [({}, "f4", False), ({"shaped": False}, "f4", False), ({"shaped": True}, "f4", True),
     ({"by_rows": True}, "f4", True), ({"shaped": True}, "i8", False)],
)  # fmt: skip
def test_a_primitive_declares_that_its_results_have_known_forms(declared, dtype, predictable):
    primitive = Primitive("declared", CUMSUM.forward, "x", **declared)
    call = SimpleNamespace(primitive=primitive, reads=[(np.ones(2, dtype), None)])
    assert is_predictable(SimpleNamespace(calls=[call])) is predictable
