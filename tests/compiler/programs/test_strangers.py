"""What stays outside of a program and changes: hooks, stored results, steps, iterators, code; and drawn programs."""

import itertools
import random
import warnings
from contextvars import ContextVar
from types import SimpleNamespace

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn, optim
from retrograd.core.graph.modes import modes
from tests.compiler.programs.strangers import check_stranger, check_threads
from tests.compiler.programs.ways import compiling

context_scale = ContextVar("context_scale", default=1.0)


def same_calls(make, change=lambda world, k: None, fallback=False):
    """Compare calls of the function that ``make`` gives, with a change of the world after each of them.

    Returns:
        The compiled function.
    """
    found = []
    for compiled in (False, True):
        function, world = make()
        function = rg.compile(function, fallback=fallback) if compiled else function
        found.append([])
        with compiling("loops"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for k in range(4):
                found[-1].append(np.array(function(rg.full((3,), k + 1.0)).detach().numpy()))
                change(world, k)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    return function


@pytest.mark.parametrize("name", ["SGD", "AdamW", "Adam", "RMSprop"])
@pytest.mark.parametrize("kept", ["retain_graph", "gradient penalty"])
def test_an_optimizer_moves_parameters_that_a_live_graph_has_saved(name, kept):
    def make():
        W = nn.Parameter(rg.linspace(0.1, 0.9, 3))
        optimizer = getattr(optim, name)([W], lr=0.01)

        def step(x):
            optimizer.zero_grad()
            q = (x * W * W).sum()
            if kept == "retain_graph":
                q.backward(retain_graph=True)
            else:
                (g,) = rg.autograd.grad(q, W, create_graph=True)
                (g * g).sum().backward(retain_graph=True)
            optimizer.step()
            return W.detach().clone()

        return step, W

    assert same_calls(make).entries


def test_hooks_that_come_and_go_are_called():
    def make():
        W = nn.Parameter(rg.ones(3))

        def step(x):
            W.grad = None
            (x * W).sum().backward()
            return W.grad.clone()

        return step, (W, [])

    def change(world, k):
        W, handles = world
        if k == 0:
            handles.append(W.register_hook(lambda g: g * 2))
        elif k == 1:
            handles.pop().remove()
            handles.append(W.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", p.grad * 3.0)))
        else:
            handles.clear()

    assert same_calls(make, change).entries


def test_hooks_of_arguments_are_called():
    @rg.compile
    def step(x):
        (x * 2).sum().backward()
        return x.grad

    plain, hooked = rg.ones(2, requires_grad=True), rg.ones(2, requires_grad=True)
    hooked.register_hook(lambda g: g * 5)
    assert step(plain).tolist() == [2, 2] and step(hooked).tolist() == [10, 10]
    assert step(rg.ones(2, requires_grad=True)).tolist() == [2, 2]


class Slotted:
    __slots__ = ("value",)


PLACES = {
    "attribute": (SimpleNamespace, lambda place, y: setattr(place, "value", y), lambda place: place.value),
    "slot": (Slotted, lambda place, y: setattr(place, "value", y), lambda place: place.value),
    "Tensor": (lambda: rg.zeros(1), lambda place, y: setattr(place, "value", y), lambda place: place.value),
    "list": (list, lambda place, y: place.append(y), lambda place: place[-1]),
    "dict": (dict, lambda place, y: place.update(value=y), lambda place: place["value"]),
    "view": (SimpleNamespace, lambda place, y: setattr(place, "value", y[:2]), lambda place: place.value),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_result_that_is_also_stored_is_the_one_of_the_call(name):
    made, put, get = PLACES[name]
    place = made()

    @rg.compile
    def f(x):
        y = x * 2
        put(place, y)
        return y

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in (1.0, 2.0, 3.0, 4.0):
            f(rg.full((3,), k))
            assert get(place)[0].item() == 2 * k


def test_a_gradient_that_is_returned_is_the_one_that_the_leaf_has():
    W = nn.Parameter(rg.ones(2))

    @rg.compile
    def step(x):
        (x * W).sum().backward()
        return W.grad

    for k in (1.0, 2.0, 3.0):
        assert step(rg.full((2,), k)) is W.grad
    W.grad = rg.zeros(2)
    assert step(rg.ones(2)).tolist() == [1, 1] and not step.eager


def test_a_call_goes_on_eagerly_after_its_trace_broke():
    @rg.compile(fallback=True)
    def f(x):
        positive = int(x.sum() > 0)
        return rg.zeros_like(x) + rg.full_like(x, 2.0) * positive + rg.empty_like(x).fill_(1.0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [f(rg.full((2,), k)).tolist() for k in (1.0, -1.0, 1.0, -1.0)] == [[3, 3], [1, 1], [3, 3], [1, 1]]


def test_a_trace_of_too_many_operators_runs_eagerly_and_says_so_once():
    def loop(x):
        for _ in range(50):
            x = x + 0.1 * x.sin()
        return x.sum()

    compiled = rg.compile(loop, max_operators=40)
    with pytest.warns(UserWarning, match=r"loop> runs eagerly: .* more than 40 operators .*one step") as told:
        found = [compiled(rg.full((3,), k)).item() for k in (1.0, 2.0, 3.0)]
    assert len(told) == 1 and found == [loop(rg.full((3,), k)).item() for k in (1.0, 2.0, 3.0)]


class Factor:
    factor = 1.0


def changed_default():
    def f(x, k=1.0):
        return x * k

    return f, f


def late_attribute():
    place = SimpleNamespace()
    return lambda x: x * getattr(place, "late", 1.0), place


def class_attribute():
    thing = Factor()
    return lambda x: x * thing.factor, thing


def tensor_attribute():
    W = nn.Parameter(rg.ones(3))
    W.scale = 1.0
    return lambda x: x * W * W.scale, W


def bound_method():
    table = {"k": 1.0}
    get = table.get
    return lambda x: x * get("k"), table


def options():
    optimizer = optim.SGD([nn.Parameter(rg.ones(1))], lr=1.0)
    return lambda x: x * optimizer.param_groups[0]["lr"], optimizer.param_groups[0]


def replaced_code():
    def f(x):
        return x * 2

    def g(x):
        return x * 3

    return f, (f, g)


def context():
    context_scale.set(1.0)
    return lambda x: x * context_scale.get(), None


CHANGES = {
    "a default argument": (changed_default, lambda f, k: setattr(f, "__defaults__", (k + 2.0,))),
    "an attribute that was not there": (late_attribute, lambda place, k: setattr(place, "late", k + 2.0)),
    "an attribute before its class's": (class_attribute, lambda thing, k: setattr(thing, "factor", k + 2.0)),
    "an attribute of a Tensor": (tensor_attribute, lambda W, k: setattr(W, "scale", k + 2.0)),
    "a dict behind a bound method": (bound_method, lambda table, k: table.update(k=k + 2.0)),
    "an optimizer's option": (options, lambda group, k: group.update(lr=k + 2.0)),
    "a function's code": (replaced_code, lambda pair, k: setattr(pair[0], "__code__", pair[1].__code__)),
    "a context variable": (context, lambda _, k: context_scale.set(k % 2 + 2.0)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_what_the_code_reads_is_seen(name):
    same_calls(*CHANGES[name])


def counted():
    counter = itertools.count(1)
    return lambda x: x * next(counter), None


def iterated():
    iterators = [iter([1.0, 2.0, 3.0, 4.0])]
    return lambda x: x * next(iterators[0]), None


def drawn_by_python():
    generator = random.Random(3)
    return lambda x: x * generator.random(), None


def drawn_by_numpy():
    np.random.seed(3)  # noqa: NPY002
    return lambda x: x * float(np.random.rand()), None  # noqa: NPY002


def made_leaf():
    return lambda x: x.clone().requires_grad_(), None


@pytest.mark.parametrize("make", [counted, iterated, drawn_by_python, drawn_by_numpy, made_leaf])
def test_what_no_replay_would_do_again_runs_eagerly(make):
    assert not same_calls(make).entries


def test_a_trace_that_ends_in_an_error_leaves_no_traced_array_behind():
    place = SimpleNamespace()

    @rg.compile
    def f(x):
        place.value = x * 2
        place.number = x.sum().item()
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        f(rg.ones(2))
    assert type(place.value.array) is np.ndarray and type(place.number) is float and modes.tracer is None


@pytest.mark.every(2)
@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 48), marks=pytest.mark.slow)], ids=str)
def test_drawn_programs_are_the_eager_ones(seeds):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for seed in seeds:
            check_stranger(seed)


@pytest.mark.parametrize("seed", [1139, 1223, 1526, 139, 202])
def test_programs_that_were_wrong_once_are_right(seed):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        check_stranger(seed)


def test_several_threads_may_call_one_program():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(6):
            check_threads(seed)
