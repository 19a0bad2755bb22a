"""scalar.compile: the same numbers and gradients as Values, for many inputs at once."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

import retrograd as rg
from retrograd import scalar
from retrograd.scalar import MLP, DataDependent, Value

FUNCTIONS = {
    "polynomial": lambda x, y: x * y + x**3 - 2 * y,
    "quotient": lambda x, y: (1 - x) / (2 + y * y),
    "reflected": lambda x, y: 3 - x + 2 / (1 + y * y) + 2.0 ** (x / 4),
    "transcendental": lambda x, y: (x.exp() + (y * y + 1).log()).sqrt() * x.sin() - y.cos(),
    "squashing": lambda x, y: x.tanh() + y.sigmoid() * abs(x) + (-x).relu(),
    "power": lambda x, y: (x * x + 1) ** y,
    "constant": lambda x, y: Value(2.0) * 3,
    "dot": lambda x, y: scalar.dot([x, 2.0], [y, x], 1.0) + sum([x, y]),
}


def on_values(function, xs, ys):
    """Results and gradients, one input after another."""
    results, gradients = [], []
    for a, b in zip(xs, ys, strict=True):
        x, y = Value(a), Value(b)
        out = function(x, y)
        out.backward()
        results.append(out.data)
        gradients.append((x.grad, y.grad))
    return np.array(results), np.array(gradients)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_numbers_and_gradients(name):
    rng = np.random.default_rng(0)
    xs, ys = rng.standard_normal((2, 20))
    results, gradients = on_values(FUNCTIONS[name], xs, ys)
    x, y = rg.tensor(xs, requires_grad=True), rg.tensor(ys, requires_grad=True)
    out = scalar.compile(FUNCTIONS[name])(x, y)
    np.testing.assert_allclose(out.numpy(force=True), results, rtol=1e-12)
    if name != "constant":
        out.sum().backward()
        zeros = np.zeros(20)
        np.testing.assert_allclose(zeros if x.grad is None else x.grad.numpy(), gradients[:, 0], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(zeros if y.grad is None else y.grad.numpy(), gradients[:, 1], rtol=1e-12, atol=1e-14)


def test_a_network_trains_alike():
    random.seed(3)
    one, many = MLP(2, [8, 8, 1]), MLP(2, [8, 8, 1])
    for p, q in zip(one.parameters(), many.parameters(), strict=True):
        q.data = p.data
    rng = np.random.default_rng(1)
    points, labels = rng.standard_normal((30, 2)), np.sign(rng.standard_normal(30))
    loss_of = scalar.compile(lambda x, y, label: (1 - label * many([x, y])).relu() / 30)
    for _ in range(3):
        total = (
            sum((1 - Value(label) * one([Value(v) for v in p])).relu() for p, label in zip(points, labels, strict=True))
            / 30
        )
        one.zero_grad()
        total.backward()
        many.zero_grad()
        loss = loss_of(points[:, 0], points[:, 1], labels).sum()
        loss.backward()
        assert loss.item() == pytest.approx(total.data, rel=1e-12)
        for p, q in zip(one.parameters(), many.parameters(), strict=True):
            assert q.grad == pytest.approx(p.grad, rel=1e-12, abs=1e-14)
            p.data -= 0.1 * p.grad
            q.data -= 0.1 * q.grad


@pytest.mark.parametrize("activation", ["tanh", "relu", "sigmoid", lambda x: x.sin() * x])
def test_a_network_of_any_activation_gives_the_same_numbers(activation):
    random.seed(0)
    model = MLP(2, [4, 4, 1], activation)
    points = np.random.default_rng(2).standard_normal((10, 2))
    loss = scalar.compile(lambda x, y: (model([x, y]) - 1) ** 2)(points[:, 0], points[:, 1])
    loss.sum().backward()
    gradients = [p.grad for p in model.parameters()]
    model.zero_grad()
    expected = [(model(point) - 1) ** 2 for point in points]
    sum(expected).backward()
    assert loss.tolist() == pytest.approx([value.data for value in expected], rel=1e-12)
    assert gradients == pytest.approx([p.grad for p in model.parameters()], rel=1e-12, abs=1e-14)


def test_structure_of_arguments_and_results():
    function = scalar.compile(lambda point, scale: [point[0] * scale, (point[1] - scale,)])
    first, (second,) = function([np.ones(3), np.zeros(3)], 2.0)
    assert first.tolist() == [2.0] * 3 and second.tolist() == [-2.0] * 3
    with pytest.raises(ValueError, match="recorded for arguments"):
        function(np.ones(3), 2.0)


def test_parameters_used_alone_and_in_neurons():
    w = Value(2.0)
    function = scalar.compile(lambda x: scalar.dot([w], [x], w) + w * w)
    out = function(np.array([1.0, 2.0]))
    assert out.tolist() == [8.0, 10.0]
    out.sum().backward()
    assert w.grad == (1 + 1 + 4) + (2 + 1 + 4)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x if x > 0 else -x,
        lambda x: max(x, Value(0.0)),
        lambda x: x * 2 if (x * 2).data > 1 else x,
        lambda x: Value(float(x)),
        lambda x: x if x == 1 else -x,
        lambda x: x if x else -x,
        lambda x: Value(math.floor(x)),
    ],
)
def test_what_depends_on_the_data_is_refused(function):
    with pytest.raises(DataDependent, match=r"scalar\.compile"):
        scalar.compile(function)(np.ones(3))


def test_a_result_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        scalar.compile(lambda x: x.log())(np.array([1.0, -1.0]))
