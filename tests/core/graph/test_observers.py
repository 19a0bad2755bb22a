"""Observers: what they are told of calls and walks, in which order, and that nothing stays behind."""

from __future__ import annotations

import numpy as np

import retrograd as rg
from retrograd.core.graph.modes import watchers
from retrograd.core.graph.observers import Observer, observing


class Notes(Observer):
    def __init__(self):
        self.events = []

    def calling(self, primitive, inputs, params):
        self.events.append(("calling", primitive.name))

    def called(self, primitive, inputs, params, outputs, node):
        assert node is None or node is outputs[0]._node or node in outputs[0]._node.parents
        self.events.append(("called", primitive.name))

    def departed(self, x, how, result):
        self.events.append(("departed", how))

    def began(self):
        self.events.append("began")

    def ended(self):
        self.events.append("ended")

    def entered(self, node, g):
        self.events.append(("entered", node.operator))

    def sent(self, node, index, given, g, before):
        self.events.append(("sent", node.operator, index, given.shape, g.shape, before is not None))

    def left(self, node):
        self.events.append(("left", node.operator))

    def finished(self, leaf, g):
        self.events.append(("finished", g.shape))


def test_calls_and_the_walk_are_told_in_order():
    x = rg.ones(3, requires_grad=True)
    y = rg.ones(2, 1, requires_grad=True)
    notes = Notes()
    with observing(notes):
        ((x * y) + x).sum().backward()
    calls = [(event, name) for name in ("mul", "add", "sum") for event in ("calling", "called")]
    assert notes.events == [
        *calls,
        "began",
        ("entered", "sum"),
        ("sent", "sum", 0, (2, 3), (2, 3), False),
        ("left", "sum"),
        ("entered", "add"),
        ("sent", "add", 0, (2, 3), (2, 3), False),
        ("sent", "add", 1, (2, 3), (3,), False),
        ("left", "add"),
        ("entered", "mul"),
        ("sent", "mul", 0, (2, 3), (3,), True),
        ("sent", "mul", 1, (2, 3), (2, 1), False),
        ("left", "mul"),
        ("finished", (3,)),
        ("finished", (2, 1)),
        "ended",
    ]


def test_views_writes_functions_several_outputs_and_departures_are_told():
    class Twice(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = rg.ones(4, requires_grad=True)
    notes = Notes()
    with observing(notes):
        y = x * 1
        y[0].mul_(3)
        Twice.apply(y).max(dim=0)[0].detach().item()
    called = [name for event, name in notes.events if event == "called"]
    assert called[:4] == ["mul", "getitem", "mul", "mul"] and called[4] == "Twice"
    assert notes.events[-2:] == [("departed", "detach"), ("departed", "item")]


def test_gradients_are_the_same_under_an_observer_and_nothing_stays_behind():
    def gradient():
        x = rg.tensor(np.linspace(0.1, 1, 6).reshape(2, 3), requires_grad=True)
        (x.log().softmax(1) @ x.T).std().backward()
        return x.grad.numpy()

    plain = gradient()
    with observing(Observer()):
        assert watchers
        watched = gradient()
    assert not watchers
    np.testing.assert_array_equal(plain, watched)


def test_observers_nest_and_the_outer_one_goes_on_after_the_inner_has_left():
    outer, inner = Notes(), Notes()
    with observing(outer):
        with observing(inner):
            rg.ones(2) + 1
        assert watchers
        rg.ones(2) * 1
    assert [event[1] for event in outer.events] == ["add", "add", "mul", "mul"]
    assert [event[1] for event in inner.events] == ["add", "add"]


def test_a_late_observer_sees_the_same_calls():
    class Calls(Observer):
        def __init__(self):
            self.seen = []

        def recorded(self, node):
            self.seen.append(node.operator)

        def called(self, primitive, inputs, params, outputs, node):
            y = outputs[0]
            self.seen.append((primitive.name, y._base is not None, None if node is None else node.operator, y.shape))

    class Late(Calls):
        late = True

    def watched(observer):
        x = rg.ones(2, 3, requires_grad=True)
        with observing(observer):
            y = (x[0] * 2.0).sin() @ x.T
            (y.max(0)[0] + rg.stack([y.detach().exp()[:1], y[1:]]).sum()).backward()
        return observer.seen, x.grad.tolist()

    assert watched(Late()) == watched(Calls())
