"""The stepper: every event is what the plain walk did, and the end of it is the end of backward."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.core.graph.backward import Walk
from retrograd.core.graph.observers import Observer, observing
from retrograd.inspect import explain, step
from retrograd.nn import functional as F
from tests.inspect.zoo import ZOO, leaf


def bits(value):
    if value is None:
        return None
    array = value.array if isinstance(value, rg.Tensor) else np.asarray(value)
    return array.dtype.str, array.shape, np.ascontiguousarray(array).tobytes()


def made_twice(name):
    rg.manual_seed(3)
    first = ZOO[name]()
    rg.manual_seed(3)
    return first, ZOO[name]()


class Plain(Observer):
    """What a plain walk says of itself."""

    def __init__(self):
        self.nodes, self.sends = [], []

    def entered(self, node, g):
        if node.plan.select is None:
            one = (g[0] if len(g) == 1 and not node.plan.primitive.fills else g) if isinstance(g, tuple) else g
            shown = tuple(map(conjugated, one)) if isinstance(one, tuple) else conjugated(one)
            self.nodes.append((node.operator, shown))
            self.sends.append({})

    def sent(self, node, index, given, g, before):
        if node.plan.select is None:
            self.sends[-1][index] = bits(np.conj(g)), before is not None


def conjugated(g):
    return None if g is None else bits(np.conj(g))


@pytest.mark.parametrize("name", sorted(ZOO))
def test_every_event_is_a_step_of_the_plain_walk_bit_for_bit(name):
    (loss, _), (stepped, _) = made_twice(name)
    plain = Plain()
    with observing(plain):
        loss.backward()
    events = list(step(stepped))
    came_in = [
        (e.operator, tuple(map(bits, e.incoming)) if isinstance(e.incoming, tuple) else bits(e.incoming))
        for e in events
    ]
    assert came_in == plain.nodes
    went_out = [{i: (bits(g), e.added_to[i]) for i, g in enumerate(e.outgoing) if g is not None} for e in events]
    assert went_out == plain.sends


@pytest.mark.parametrize("name", sorted(ZOO))
def test_the_end_fills_grad_as_backward_does(name):
    (loss, tensors), (stepped, others) = made_twice(name)
    loss.backward()
    stepper = step(stepped)
    assert all(x.grad is None for x in others)
    while stepper.next() is not None:
        assert all(x.grad is None for x in others)
    assert [bits(x.grad) for x in others] == [bits(x.grad) for x in tensors]
    assert stepper.next() is None and stepper.back() is not (None if len(stepper) else ...)
    stepper.next()
    assert [bits(x.grad) for x in others] == [bits(x.grad) for x in tensors]
    finals = [stepper.grad(x) for x in others]
    assert [bits(g) for g in finals] == [bits(x.grad) for x in tensors]


@pytest.mark.parametrize("name", ["broadcast_and_reused", "transformer", "writes_in_place", "views"])
def test_what_came_in_is_the_gradient_that_a_walk_to_the_operator_finds(name):
    rg.manual_seed(1)
    loss, _ = ZOO[name]()
    for event in step(loss):
        node = event._node
        if node.plan.several:
            continue  # a walk to one of its outputs finds that output alone
        found = Walk({node}, True, False).run([(loss._node, np.ones((), np.float32))])
        assert bits(event.incoming) == bits(found[node])


def test_the_gradient_grows_as_the_walk_goes_on_and_shrinks_as_it_goes_back():
    x = rg.tensor(3.0, requires_grad=True)
    y = x * 2
    stepper = step(x * y)
    assert stepper.grad(x) is None and stepper.grad(y) is None
    assert stepper.next().operator == "mul"
    assert stepper.grad(x).item() == 6 and stepper.grad(y).item() == 3
    stepper.next()
    assert stepper.grad(x).item() == 12
    assert stepper.event.added_to == [True, False]
    stepper.back()
    assert stepper.grad(x).item() == 6
    assert stepper.back() is None and stepper.grad(x) is None and stepper.back() is None
    assert [event.index for event in stepper] == [0, 1]


def test_grad_is_added_to_what_was_there_and_hooks_run_once():
    x = rg.ones(2, requires_grad=True)
    x.grad = rg.ones(2)
    calls = []
    x.register_hook(lambda g: calls.append(("hook", g.tolist())))
    x.register_post_accumulate_grad_hook(lambda t: calls.append(("after", t.grad.tolist())))
    stepper = step((x * 3).sum())
    list(stepper)
    stepper.back(), stepper.back(), list(stepper), stepper.next()
    assert calls == [("hook", [3.0, 3.0]), ("after", [4.0, 4.0])]


def test_rules_with_side_effects_run_once():
    calls = []

    class Counted(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.buffer = np.zeros(2, np.float32)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            calls.append(1)
            ctx.buffer += 1
            return ctx.buffer

    x = leaf(2)
    first = step(Counted.apply(Counted.apply(x)).sum())
    list(first)
    first.back(), first.back(), list(first)
    assert len(calls) == 2


def test_events_keep_what_was_when_the_program_writes_later():
    x, w = leaf(3), leaf(3)
    loss = (x * w).sum()
    cotangent = rg.tensor(2.0)
    stepper = step(loss, cotangent)
    kept = w.detach().clone()
    with rg.no_grad():
        w.add_(5)
        cotangent.mul_(0)
    event = stepper.to(operator="mul")
    assert bits(event.read["y"]) == bits(kept) and bits(event.outgoing[0]) == bits(2 * kept)


def test_it_goes_to_lines_operators_and_conditions():
    x = rg.tensor([0.0, 1.0], requires_grad=True)
    with rg.autograd.detect_anomaly(False):
        y = x.sqrt()
        loss = (y * 0).sum()
    stepper = step(loss)
    mul = stepper.to(operator="mul")
    assert mul.operator == "mul" and mul.file == __file__ and mul.code == "loss = (y * 0).sum()"
    assert stepper.to(line=mul.line - 1).operator == "sqrt"
    assert stepper.to(operator="mul") is None and stepper.event is None
    stepper = step(loss)
    assert stepper.to(line=f"test_stepper.py:{mul.line - 1}").operator == "sqrt"
    stepper = step(loss)
    assert stepper.until(lambda event: event.nans).operator == "sqrt"
    assert step(loss).until(lambda event: event.norm > 1e9) is None
    assert step(loss).watch(y).operator == "mul"
    assert step(loss).until(lambda event: event.reaches(x)).operator == "sqrt"
    with pytest.raises(TypeError, match="line=, module= and operator="):
        stepper.to()


def test_the_text_shows_line_rule_values_and_sums():
    bias = leaf(2)
    model = nn.Linear(3, 2)
    with rg.autograd.detect_anomaly(False):
        loss = ((model(rg.randn(4, 3)) + bias) * bias).relu().sum()
    texts = {event.operator: str(event) for event in step(loss, params=model)}
    assert "lambda g, ans: KEEP_WHERE_NOT_ZERO(g, ans)" in texts["relu"]
    assert "loss = ((model" in texts["relu"] and texts["relu"].startswith("test_stepper.py:")
    assert "summed over axis 0" in texts["mul"] and "added to an earlier gradient" in texts["add"]
    assert "(weight)" in texts["linear"] and "w: lambda g, x: LINEAR_WEIGHT(g, x)" in texts["linear"]
    assert "read w = float32(2, 3)" not in texts["linear"]  # x needs no gradient, so its rule was not called


def test_a_custom_functions_backward_is_its_rule():
    rg.manual_seed(0)
    loss, _ = ZOO["custom_functions"]()
    event = step(loss).to(operator="Scaled")
    assert '"""A product\'s and a sum\'s rule."""' in event.rule
    assert event.inputs == ("x", "y", "factor")
    assert event.read["ctx.factor"] in (2.0, 0.5) and event.read["saved_tensors[1]"].shape == (3,)


def test_several_losses_cotangents_and_inputs_as_backward_takes_them():
    x, y = leaf(2), leaf(2)
    a, b = x * y, x * 3
    list(step([a, b], [rg.ones(2), None if b.numel() == 1 else rg.full((2,), 2.0)], inputs=[x]))
    assert y.grad is None
    np.testing.assert_array_equal(x.grad.array, y.array + 6)


def test_the_error_of_a_rule_comes_where_the_walk_meets_it():
    class Broken(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise ZeroDivisionError("no")

    x = leaf(2)
    stepper = step((Broken.apply(x * 2) * 3).sum())
    assert [stepper.next().operator, stepper.next().operator] == ["sum", "mul"]
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="no"):
            stepper.next()
    assert x.grad is None


def test_bad_input_is_one_clear_line():
    x = leaf(2)
    loss = (x * x).sum()
    with pytest.raises(RuntimeError, match="has no graph"):
        step(loss.detach())
    with pytest.raises(TypeError, match="must be a Tensor, not float"):
        step(1.0)
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        step(x * x)
    loss.backward()
    with pytest.raises(RuntimeError, match="freed by an earlier backward, at mul"):
        step(loss)


def test_a_tensor_of_another_thread_is_stepped_as_any_other():
    from threading import Thread

    made = []
    Thread(target=lambda: made.append(ZOO["perceptron"]())).start()
    while not made:
        pass
    loss, parameters = made[0]
    list(step(loss))
    assert all(p.grad is not None for p in parameters)


def test_stepping_holds_no_more_after_it_is_dropped():
    import gc
    import weakref

    x = leaf(2)
    y = x * x
    node = weakref.ref(y.grad_fn)
    stepper = step(y.sum())
    list(stepper)
    del y, stepper
    gc.collect()
    assert node() is None


@pytest.mark.slow
def test_every_rule_of_the_engine_has_a_source():
    from retrograd.core.graph.primitive import primitives
    from retrograd.inspect.stepping.rule_source import source_of

    rules = [rule for primitive in primitives for rule in primitive._all_rules()]
    assert len(rules) > 300
    assert [rule for rule in rules if source_of(rule).startswith("no source")] == []


def test_of_two_lambdas_in_a_line_each_is_cut_out():
    from retrograd.inspect.stepping.rule_source import source_of

    # Twice, and the other way.
    pair = [lambda g, y: g * y, lambda g, x: g * (x + 1)]
    assert source_of(pair[0]) == "# Twice, and the other way.\nlambda g, y: g * y"
    assert source_of(pair[1]).endswith("lambda g, x: g * (x + 1)")
    slope = source_of(F.gelu(rg.ones(1, requires_grad=True)).grad_fn.plan.primitive.rules[0])
    assert slope.startswith("lambda g, x: g * slope(x)\n# slope is def gelu_slope(x: Element)")
    assert "return half + half * erf(x * sqrt_half) +" in slope
    gate = source_of(F.hardswish(rg.ones(1, requires_grad=True)).grad_fn.plan.primitive.rules[0])
    assert gate.startswith("lambda g, x: _hardswish_backward(g, wide(x))\n# _hardswish_backward is def hardswish_")


def test_hooks_of_nodes_are_seen():
    x = leaf(3)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    loss = F.relu(y).sum()
    event = step(loss).to(operator="mul")
    np.testing.assert_array_equal(event.incoming.array, 10.0 * (y.array > 0))


def test_inside_vmap_one_line_says_where_to_step():
    def inside(x):
        loss = (x * x).sum()
        with pytest.raises(RuntimeError, match="step: a Tensor inside vmap stands for all examples"):
            step(loss)
        with pytest.raises(RuntimeError, match="explain: a Tensor inside vmap stands for all examples"):
            explain(loss, x)
        return loss

    rg.func.vmap(inside)(rg.ones(2, 3))


def test_inside_a_derivative_the_walk_ends_where_the_function_begins():
    def inside(x):
        loss = (x * x).sum()
        assert [event.operator for event in step(loss)] == ["sum", "mul", "identity"]
        np.testing.assert_array_equal(explain(loss, x).total, 2 * x.array)
        return loss

    rg.func.grad(inside)(rg.ones(3))


def test_a_debugger_that_has_stopped_keeps_its_variables():
    import sys

    def program():
        x = leaf(2)
        loss = (x * x).sum()
        stop()
        return x, loss

    def stop():
        pass

    def tracer(frame, event, argument):
        if frame.f_code is program.__code__ and event == "line" and "loss" in frame.f_locals:
            step(frame.f_locals["loss"])
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        x, loss = program()
    finally:
        sys.settrace(before)
    assert x.shape == (2,) and loss.shape == ()


def test_what_is_no_tensor_and_no_function_is_refused_in_a_line():
    stepper = rg.inspect.step(rg.ones(2, requires_grad=True).exp().sum())
    for ask, text in (
        (lambda: stepper.watch(3), "watch: expected a Tensor, got int"),
        (lambda: stepper.grad("w"), "grad: expected a Tensor, got str"),
        (lambda: stepper.until(3), "until: predicate must be a function of an event, got int"),
    ):
        with pytest.raises(TypeError, match=text):
            ask()
    assert stepper.next().operator == "sum"  # it has not moved


def test_what_an_operator_keeps_together_is_told_without_what_it_keeps_for_the_engine():
    told = str(next(iter(step(F.cross_entropy(leaf(6, 4), rg.arange(6) % 4)))))
    assert "read classes = (int64(6,), 1, float32())" in told and "object at" not in told
