"""Checkpoints: nothing is kept, every derivative is the plain program's, and what cannot be repeated is said."""

from weakref import ref

import numpy as np
import pytest

import retrograd as rg
from retrograd import func, nn
from retrograd.func import checkpoint, functional_call, grad, hessian, hvp, jacfwd, jacrev, jvp, linearize, vjp, vmap
from retrograd.ops.math.exponential import EXP
from retrograd.utils import checkpoint as utils
from tests.func.programs import QUIET, assert_same

pytestmark = QUIET
X = rg.tensor([0.5, 1.0, -0.3], dtype=rg.float64)
T = rg.tensor([1.0, -2.0, 0.7], dtype=rg.float64)


def part(x):
    y = (x * x).exp()
    y[1] = y[0] * x[2]
    return rg.sin(y) * x


def split(x):
    q, r = rg.linalg.qr(rg.outer(x, x) + rg.eye(3, dtype=rg.float64))
    return (q * r).sum(0) + x.max(0).values


def nested(x):
    return utils.checkpoint(lambda y: part(y) * utils.checkpoint(part, y + x), x * 2)


class Squared(rg.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x


PARTS = {
    "elementwise": part,
    "several outputs": split,
    "nested": nested,
    "a Function of an intermediate": lambda x: Squared.apply(rg.sin(x)) * x,
    "a custom rule": lambda x: custom(rg.sin(x)) * x,
}


@func.custom_vjp
def custom(x):
    return x.exp()


custom.defvjp(lambda x: (x.exp(), x.exp()), lambda kept, g: (g * kept,))

TRANSFORMS = {
    "grad": lambda f: grad(lambda x: f(x).sum()),
    "jvp": lambda f: lambda x: jvp(f, (x,), (T,)),
    "linearize twice": lambda f: lambda x: [push := linearize(f, x)[1], push(T), push(x)][1:],
    "vjp twice": lambda f: lambda x: [pull := vjp(f, x)[1], pull(T), pull(x)][1:],
    "jacrev": jacrev,
    "jacfwd": jacfwd,
    "hvp": lambda f: lambda x: hvp(lambda x: f(x).sum(), (x,), (T,)),
    "hessian": lambda f: hessian(lambda x: f(x).sum()),
    "jvp of grad": lambda f: lambda x: jvp(grad(lambda x: f(x).sum()), (x,), (T,)),
    "grad of jvp": lambda f: grad(lambda x: jvp(f, (x,), (T,))[1].sum()),
    "third order": lambda f: grad(lambda x: hessian(lambda x: f(x).sum())(x).sum()),
}


@pytest.mark.every(2)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", PARTS)
def test_a_checkpoint_has_the_derivatives_of_the_plain_function(name, transform):
    plain = PARTS[name]
    assert_same(TRANSFORMS[transform](checkpoint(plain))(X), TRANSFORMS[transform](plain)(X))
    assert_same(TRANSFORMS[transform](checkpoint(checkpoint(plain)))(X), TRANSFORMS[transform](plain)(X))
    # And as an inner part, of which there are several.
    chain = lambda f: lambda x: f(f(x) * x) + x  # noqa: E731
    assert_same(TRANSFORMS[transform](chain(checkpoint(plain)))(X), TRANSFORMS[transform](chain(plain))(X))


@pytest.mark.parametrize("name", PARTS)
def test_gradients_are_the_same_to_the_bit(name):
    def gradient(f):
        x = X.clone().requires_grad_()
        f(x * 1).sum().backward()
        return x.grad.tolist()

    assert gradient(checkpoint(PARTS[name])) == gradient(PARTS[name])


def kept_arrays(f):
    """Whether the arrays made inside of a part are alive after it ran, and after its gradient was computed."""
    arrays = []

    def watched(x):
        y = f(x)
        arrays.append(ref(y.array))
        return rg.sin(y) * rg.cos(y)

    x = X.clone().requires_grad_()
    y = utils.checkpoint(watched, x)
    alive = [array() is not None for array in arrays]
    y.sum().backward()
    return alive, [array() is not None for array in arrays]


def test_nothing_is_kept_and_all_is_freed():
    assert kept_arrays(rg.exp) == ([False], [False, False])
    assert kept_arrays(lambda x: utils.checkpoint(rg.exp, x)) == ([False], [False, False])


def test_the_function_runs_twice_and_once_where_nothing_is_recorded():
    runs = []

    def f(x, *, scale):
        runs.append(scale)
        return {"y": x * scale * x, "text": "kept", "none": None, "flag": x > 0}

    x = X.clone().requires_grad_()
    out = utils.checkpoint(f, x, use_reentrant=False, scale=3.0)
    assert out["text"] == "kept" and out["none"] is None and out["flag"].tolist() == [True, True, False]
    out["y"].sum().backward()
    assert_same(x.grad, 6 * X)
    assert runs == [3.0, 3.0]
    with rg.no_grad():
        utils.checkpoint(f, x, scale=1.0)
    utils.checkpoint(f, X, scale=1.0)["y"]
    assert len(runs) == 4


def test_random_numbers_are_drawn_alike_and_left_as_they_were():
    def noisy(x):
        return x * rg.rand(3, dtype=rg.float64) * nn.functional.dropout(x, 0.5)

    def run(f):
        rg.manual_seed(1)
        gradient = grad(lambda x: f(x).sum())(X)
        return gradient.tolist(), rg.rand(2).tolist()

    assert run(checkpoint(noisy)) == run(noisy)
    assert run(checkpoint(lambda x: checkpoint(noisy)(x) * noisy(x))) == run(lambda x: noisy(x) * noisy(x))
    rg.manual_seed(1)
    runs = []
    f = checkpoint(lambda x: runs.append(rg.rand(1).item()) or x * x, preserve_rng_state=False)
    grad(lambda x: f(x).sum())(X)
    assert runs[0] != runs[1]


def test_gradients_reach_parameters_and_captured_tensors():
    layer = nn.Linear(3, 3).double()
    outer = (rg.ones(3, dtype=rg.float64, requires_grad=True) * 2).requires_grad_()

    def gradients(f):
        y = f(X)
        return rg.autograd.grad((y * y).sum(), [*layer.parameters(), outer])

    plain = lambda x: rg.tanh(layer(x)) * outer  # noqa: E731
    assert_same(gradients(checkpoint(plain)), gradients(plain))


def test_a_module_that_checkpoints_is_differentiated_under_functional_call():
    class Block(nn.Module):
        def __init__(self, checkpointed):
            super().__init__()
            self.layer, self.checkpointed = nn.Linear(3, 3), checkpointed

        def forward(self, x):
            run = lambda x: rg.tanh(self.layer(x))  # noqa: E731
            return utils.checkpoint(run, x) if self.checkpointed else run(x)

    def of_state(checkpointed):
        model = nn.Sequential(Block(checkpointed), Block(checkpointed)).double()
        return lambda state: (functional_call(model, state, (X,)) ** 2).sum()

    rng = np.random.default_rng(0)
    model = nn.Sequential(Block(False), Block(False))
    state = {name: rg.tensor(rng.standard_normal(tuple(p.shape))) for name, p in model.named_parameters()}
    for transform in (grad, hessian, lambda f: lambda s: hvp(f, (s,), (s,)), lambda f: lambda s: jvp(f, (s,), (s,))):
        assert_same(transform(of_state(True))(state), transform(of_state(False))(state))


def test_a_write_to_an_argument_is_seen_once():
    def written(x, buffer):
        buffer += 1
        x = x * buffer
        x.mul_(x)
        return x

    x, buffer = X.clone().requires_grad_(), rg.ones(3, dtype=rg.float64)
    y = utils.checkpoint(written, x, buffer)
    assert buffer.tolist() == [2.0] * 3
    buffer.zero_()
    y.sum().backward()
    assert_same(x.grad, 8 * X)
    assert buffer.tolist() == [0.0] * 3


def test_an_argument_written_after_the_call_leaves_the_gradient_alone():
    x = X.clone().requires_grad_()
    h = x * 1
    y = utils.checkpoint(rg.exp, h)
    h.mul_(100.0)
    y.sum().backward()
    assert_same(x.grad, rg.exp(X))


def test_intermediates_that_escape_are_differentiated():
    escaped = []

    def f(x):
        escaped.append(x.exp())
        return escaped[-1].sin()

    x = X.clone().requires_grad_()
    y = utils.checkpoint(f, x)
    (y * escaped[0]).sum().backward()
    assert_same(x.grad, grad(lambda x: (x.exp().sin() * x.exp()).sum())(X))


def test_hooks_of_intermediates_run_once():
    seen = []

    def f(x):
        y = x * 2
        y.register_hook(lambda g: seen.append(g.tolist()))
        return y * y

    grad(lambda x: checkpoint(f)(x).sum())(X)
    assert len(seen) == 1


def test_a_retained_graph_is_walked_again_and_a_freed_one_is_not():
    x = X.clone().requires_grad_()
    y = utils.checkpoint(part, x).sum()
    first = rg.autograd.grad(y, x, retain_graph=True)[0]
    assert_same(rg.autograd.grad(y, x)[0], first)
    with pytest.raises(RuntimeError, match="a second time"):
        rg.autograd.grad(y, x)


def test_contexts_for_both_runs():
    entered = []

    class Context:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            entered.append(self.name)

        def __exit__(self, *error):
            pass

    x = X.clone().requires_grad_()
    utils.checkpoint(rg.exp, x, context_fn=lambda: (Context("first"), Context("second"))).sum().backward()
    assert entered == ["first", "second"]


def test_what_differs_the_second_time_is_said():
    runs = []

    def longer(x):
        runs.append(1)
        return x.exp() if len(runs) % 2 else x.exp().sin()

    def other(x):
        runs.append(1)
        return x.exp() if len(runs) % 2 else x.sin()

    def shorter(x):
        runs.append(1)
        return x.exp().sin() if len(runs) % 2 else x.exp()

    def gradient(f, early_stop=True):
        runs.clear()
        x = X.clone().requires_grad_()
        utils.checkpoint(f, x, early_stop=early_stop).sum().backward()

    with pytest.raises(RuntimeError, match="longer recorded 1 operators in the first run and 2 in the second"):
        gradient(longer, early_stop=False)
    with pytest.raises(RuntimeError, match="shorter recorded 2 operators in the first run and 1 .* early_stop=False"):
        gradient(shorter)
    with pytest.raises(RuntimeError, match="both runs of .*other must be the same: exp .* in the first run, sin"):
        gradient(other)


@pytest.mark.parametrize(
    "program",
    [
        lambda x, n: (x.sin() * n + 1).exp(),
        lambda x, n: x.sin() ** n,
        lambda x, n: x.exp()[n:].sin(),
        lambda x, n: x.outer(x).cumsum(n).exp(),
    ],
)
@pytest.mark.parametrize("early_stop", [True, False])
def test_a_python_number_that_changes_between_the_runs_is_an_error(program, early_stop):
    number = [1]
    x = X.clone().requires_grad_()
    y = utils.checkpoint(lambda x: program(x, number[0]), x, early_stop=early_stop).sum()
    number[0] = 0
    with pytest.raises(RuntimeError, match="both runs of .* must be the same: .* in the first run, .* in the second"):
        y.backward()
    number[0] = 1
    y.backward()
    assert_same(x.grad, grad(lambda x: program(x, 1).sum())(X))


@pytest.mark.parametrize(
    ("steps", "count"),
    [
        ([rg.sin, lambda x: x * 2], 1),
        ([rg.exp, lambda x: x * 2, lambda x: x[1:]], 1),
        ([rg.sin, lambda x: x * 2, lambda x: x.view(-1, 1), rg.mean], 1),
        ([rg.exp, lambda x: x.cumsum(0), lambda x: x * 2, rg.exp], 4),
        ([lambda x: x * 2, lambda x: x + 1], 0),
    ],
)
def test_the_second_run_stops_after_the_last_array_that_was_saved(steps, count):
    """Numbers and shapes stay with their nodes: operators that save nothing else are not run again."""
    calls = []

    def program(x):
        for step in steps:
            calls.append(step)
            x = step(x)
        return x

    x = X.clone().requires_grad_()
    y = utils.checkpoint(program, x).sum()
    calls.clear()
    y.backward()
    assert len(calls) == count
    assert_same(x.grad, grad(lambda x: program(x).sum())(X))


def test_the_second_run_stops_once_all_that_was_saved_is_there():
    square = rg.eye(3, dtype=rg.float64)

    def f(x):
        y = rg.linalg.vecdot(x.sin().exp() @ square, x.cos())
        return y + y.detach().abs() + 1

    reached = []

    def noted(x):
        y = x.sin()
        reached.append("inside")
        z = y @ square + 1
        reached.append("after")
        return z

    x = X.clone().requires_grad_()
    utils.checkpoint(noted, x).sum().backward()
    assert reached == ["inside", "after", "inside"]  # matmul saves its inputs, so its result is not computed again
    assert_same(x.grad, X.cos())
    for stop in (True, False):
        x = X.clone().requires_grad_()
        utils.checkpoint(f, x, early_stop=stop).backward()
        assert_same(x.grad, grad(f)(X))


def test_early_stop_can_be_switched_off_for_a_call_and_for_all():
    reached = []

    def f(x):
        y = x.exp()
        reached.append(1)
        return y + 1

    def runs(**options):
        reached.clear()
        utils.checkpoint(f, X.clone().requires_grad_(), **options).sum().backward()
        return len(reached)

    assert runs() == 1
    assert runs(early_stop=False) == 2
    with utils.set_checkpoint_early_stop(False):
        assert runs() == runs(early_stop=True) == 2
        with utils.set_checkpoint_early_stop(True):
            assert runs(early_stop=False) == 1
    assert runs() == 1


def test_a_checkpoint_may_return_its_argument():
    for stop in (True, False):
        x = X.clone().requires_grad_()
        h = x.exp()
        y, z = utils.checkpoint(lambda h: (h, h.sin()), h, early_stop=stop)
        (y * z).sum().backward()
        assert_same(x.grad, grad(lambda x: (x.exp() * x.exp().sin()).sum())(X))


def test_a_function_that_catches_exceptions_does_not_catch_the_early_stop():
    def f(x):
        try:
            return x.exp() + 1
        except Exception:
            return x

    x = X.clone().requires_grad_()
    utils.checkpoint(f, x).sum().backward()
    assert_same(x.grad, X.exp())


def selecting(policy, **options):
    return lambda: utils.create_selective_checkpoint_contexts(policy, **options)


def test_a_policy_is_asked_once_for_each_operator_with_what_it_was_called_with():
    asked = []

    def policy(ctx, op, *args, **kwargs):
        asked.append((op, len(args), sorted(kwargs), ctx.op_output.tolist(), ctx.is_recompute))
        return utils.CheckpointPolicy.MUST_SAVE

    x = X.clone().requires_grad_()
    f = lambda x: nn.functional.softmax(x.exp(), dim=-1).std(0, unbiased=False)  # noqa: E731
    utils.checkpoint(f, x, context_fn=selecting(policy)).backward()
    assert_same(x.grad, grad(f)(X))
    assert [(op.__name__, *rest[:2]) for op, *rest in asked] == [
        ("exp", 1, []),
        ("softmax", 1, ["dim"]),
        ("std", 2, ["unbiased"]),
    ]
    assert asked[0][0] is rg.exp and not any(rest[-1] for rest in asked)
    assert_same(rg.tensor(asked[-1][3]), f(X).to(rg.float32))


@pytest.mark.parametrize("stop", [True, False])
def test_what_a_policy_keeps_is_not_computed_again(stop, monkeypatch):
    computed = []
    plain = EXP.forward
    monkeypatch.setattr(EXP, "forward", lambda x: computed.append(1) or plain(x))

    def f(x):
        return x.exp().sin().exp()

    def calls(policy):
        x = X.clone().requires_grad_()
        y = utils.checkpoint(f, x, context_fn=selecting(policy), early_stop=stop).sum()
        computed.clear()
        y.backward()
        found = len(computed)
        assert_same(x.grad, grad(lambda x: f(x).sum())(X))
        return found

    answers = iter([utils.CheckpointPolicy.PREFER_SAVE, *[utils.CheckpointPolicy.MUST_RECOMPUTE] * 2])
    assert calls([]) == calls([rg.sin]) == calls(lambda ctx, op, *args: op is rg.sin) == 2
    assert calls(lambda ctx, op, *args: next(answers)) == 1
    assert calls([rg.exp]) == calls(lambda ctx, op, *args: True) == 0


def test_what_a_policy_keeps_is_safe_from_writes_in_both_runs():
    outside = []

    def f(x):
        y = x.exp()
        outside.append(y)
        y.mul_(x)
        return y.sin()

    x = X.clone().requires_grad_()
    z = utils.checkpoint(f, x, context_fn=selecting([rg.exp, rg.sin]))
    with rg.no_grad():
        outside[0].zero_()
        z.zero_()
    z.sum().backward()
    assert_same(x.grad, grad(lambda x: (x.exp() * x).sin().sum())(X))
    assert outside[0].tolist() == z.tolist() == [0.0] * 3


def test_what_is_random_is_drawn_alike_whatever_a_policy_keeps():
    def f(x):
        return nn.functional.dropout(x.exp(), 0.5) * nn.functional.dropout(x, 0.5) * rg.rand(3, dtype=rg.float64)

    def gradient(run):
        rg.manual_seed(3)
        x = X.clone().requires_grad_()
        run(x).sum().backward()
        return x.grad.tolist()

    for policy in ([nn.functional.dropout], [rg.mul], [rg.exp], lambda ctx, op, *args, **kwargs: True):
        assert gradient(lambda x, p=policy: utils.checkpoint(f, x, context_fn=selecting(p))) == gradient(f)


def test_products_are_kept_under_pytorchs_names_of_them():
    asked = []

    def policy(ctx, op, *args, **kwargs):
        asked.append(op)
        return False

    layer = nn.Linear(3, 3).double()
    x = X.expand(2, 3).clone().requires_grad_()
    utils.checkpoint(lambda x: layer(x) @ layer.weight, x, context_fn=selecting(policy)).sum().backward()
    assert asked == [nn.functional.linear, rg.addmm, rg.matmul, rg.mm]
    aten = rg.ops.aten
    assert aten.mm.default is rg.mm and aten._softmax.default is nn.functional.softmax
    assert_same(aten.mm.default(rg.eye(2), rg.ones(2, 2)), rg.ones(2, 2))


def test_wrong_policies_are_refused():
    with pytest.raises(TypeError, match="must be a function or a list of operators, got int"):
        utils.create_selective_checkpoint_contexts(2)
    for op in (2, rg.ops.aten.sin):
        with pytest.raises(ValueError, match="must contain operators"):
            utils.create_selective_checkpoint_contexts([op])
    with pytest.raises(AttributeError, match="ops.aten has no operator 'nothing'"):
        rg.ops.aten.nothing


def test_another_program_the_second_time_is_refused_under_a_policy():
    runs = []

    def f(x):
        runs.append(1)
        return (x.exp() if len(runs) == 1 else x.cos()).sin()

    x = X.clone().requires_grad_()
    y = utils.checkpoint(f, x, context_fn=selecting([rg.exp]))
    with pytest.raises(RuntimeError, match="the second run calls cos where the first called exp"):
        y.sum().backward()


def test_compiled_functions_run_compiled_inside_a_checkpoint():
    compiled = rg.compile(lambda x: (x.exp() + 1).sin())
    x = X.clone().requires_grad_()
    compiled(x)
    y = utils.checkpoint(lambda x: compiled(x) * x, x)
    assert "exp" not in str(y.grad_fn.next_functions)
    y.sum().backward()
    assert_same(x.grad, grad(lambda x: ((x.exp() + 1).sin() * x).sum())(X))


def test_reading_another_tensor_the_second_time_is_refused():
    weights = [rg.ones(3, dtype=rg.float64, requires_grad=True) for _ in range(2)]
    x = X.clone().requires_grad_()
    y = utils.checkpoint(lambda x: x.exp() * weights[0], x)
    weights.pop(0)
    with pytest.raises(RuntimeError, match="must be the same"):
        y.sum().backward()


def test_a_parameter_changed_in_between_is_refused():
    layer = nn.Linear(3, 3)
    y = utils.checkpoint(layer, rg.ones(1, 3, requires_grad=True) * 1)
    with rg.no_grad():
        layer.weight += 1
    with pytest.raises(RuntimeError, match=r"float32\(3, 3\), a leaf that Linear reads, was changed in place"):
        y.sum().backward()


def test_arguments_of_checkpoint():
    with pytest.raises(ValueError, match="determinism_check must be 'default' or 'none', got 'some'"):
        utils.checkpoint(rg.exp, X, determinism_check="some")


def test_checkpoints_under_anomaly_mode():
    with rg.autograd.detect_anomaly():
        assert_same(grad(lambda x: checkpoint(part)(x).sum())(X), grad(lambda x: part(x).sum())(X))


def test_a_chain_in_parts_with_its_random_numbers_is_the_plain_chain():
    model = nn.Sequential(*[nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.3), nn.Tanh()) for _ in range(6)]).double()

    def gradients(run):
        rg.manual_seed(0)
        model.zero_grad()
        run(X).sum().backward()
        return [p.grad.tolist() for p in model.parameters()]

    plain = gradients(model)
    for segments in (1, 2, 4, 6):
        assert gradients(lambda x, s=segments: utils.checkpoint_sequential(model, s, x, use_reentrant=False)) == plain


def test_the_glass_box_sees_through_a_checkpoint():
    from retrograd import inspect

    def loss(f):
        x = X.clone().requires_grad_()
        return x, (f(x) * x).sum()

    x, plain = loss(lambda x: x.exp().sin())
    wanted = str(inspect.explain(plain, x)).splitlines()
    x, checkpointed = loss(checkpoint(lambda x: x.exp().sin()))
    assert len(str(inspect.explain(checkpointed, x)).splitlines()) == len(wanted)
    x, checkpointed = loss(checkpoint(lambda x: x.exp().sin()))
    assert "freed, to be recomputed" in inspect.draw(checkpointed).to_html()
    steps = inspect.step(checkpointed)
    while steps.next() is not None:
        pass
    with inspect.trace() as trace:
        loss(checkpoint(lambda x: x.exp().sin()))[1].backward()
    assert "backward of " in str(trace)


BATCH = rg.tensor(np.random.default_rng(5).uniform(0.2, 1.4, (4, 3)))
MAPPED = {
    "vmap": lambda f: vmap(f),
    "vmap of grad": lambda f: vmap(grad(lambda x: f(x).sum())),
    "grad of vmap": lambda f: grad(lambda x: vmap(f)(x).sum()),
    "vmap of jvp": lambda f: vmap(lambda x: jvp(f, (x,), (T,))),
    "jvp of vmap": lambda f: lambda x: jvp(vmap(f), (x,), (x,)),
    "vmap of hessian": lambda f: vmap(hessian(lambda x: f(x).sum())),
    "vmap of hvp": lambda f: vmap(lambda x: hvp(lambda x: f(x).sum(), (x,), (T,))),
    "grad of vmap of grad": lambda f: grad(lambda x: (vmap(grad(lambda x: f(x).sum()))(x) ** 2).sum()),
    "vmap of vmap": lambda f: lambda x: vmap(vmap(f))(rg.stack([x, x * 2])),
}


@pytest.mark.parametrize("transform", MAPPED)
@pytest.mark.parametrize("name", PARTS)
def test_a_checkpoint_is_mapped_as_the_plain_function(name, transform):
    plain = PARTS[name]
    assert_same(MAPPED[transform](checkpoint(plain))(BATCH), MAPPED[transform](plain)(BATCH))


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_a_mapped_checkpoint_draws_alike(randomness):
    def total(f):
        rg.manual_seed(0)
        return grad(lambda x: vmap(f, randomness=randomness)(x).sum())(BATCH)

    noisy = lambda x: x * x * rg.rand(3, dtype=rg.float64)  # noqa: E731
    assert_same(total(checkpoint(noisy)), total(noisy))


def test_a_mapped_checkpoint_keeps_nothing():
    arrays = []

    def watched(x):
        y = x.exp()
        arrays.append(ref(y.array.value.array))
        return rg.sin(y) * rg.cos(y)

    x = BATCH.clone().requires_grad_()
    y = vmap(checkpoint(watched))(x)
    assert arrays[0]() is None
    y.sum().backward()
    assert_same(x.grad, grad(lambda x: (rg.sin(x.exp()) * rg.cos(x.exp())).sum())(BATCH))
    assert arrays[1]() is None


def test_a_parameter_that_got_other_memory_in_between_is_refused():
    layer = nn.Linear(3, 3)
    y = utils.checkpoint(layer, rg.ones(1, 3, requires_grad=True) * 1)
    layer.weight.data = rg.zeros(3, 3)
    with pytest.raises(RuntimeError, match="was changed in place"):
        y.sum().backward()
