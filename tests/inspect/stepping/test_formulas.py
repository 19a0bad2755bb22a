"""What a step says of its mathematics: the stated derivative, one element worked out, colours, and its number."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.inspect import step
from retrograd.inspect.stepping.formulas import formula, substituted
from retrograd.inspect.stepping.page import CELLS, FEW_CELLS
from retrograd.nn import functional as F
from tests.inspect.stepping.test_page import walk_of
from tests.inspect.zoo import ZOO


def events(loss, **options):
    return {event.operator: event for event in step(loss, **options)}


def test_the_derivative_of_the_documentation_stands_beside_the_rules_source():
    x = rg.randn(4, 3, requires_grad=True)
    event = events(F.cross_entropy(x, rg.tensor([0, 1, 2, 0])))["cross_entropy"]
    assert event.formula.startswith("input: g (softmax(input) - y) for each example")
    assert "CROSS_ENTROPY_BACKWARD" in event.rule
    assert f"derivative: {event.formula}" in str(event) and "rule:" in str(event)
    assert formula("no such operator", "") == ""


def test_nearly_all_operators_of_all_programs_have_a_formula():
    named = {event.operator: event.formula for name in sorted(ZOO) for event in step(ZOO[name]()[0]).events}
    missing = sorted(operator for operator, text in named.items() if not text)
    assert len(missing) < 0.25 * len(named), missing


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3)])
def test_an_element_of_a_linear_layer_is_the_sum_of_its_products(shape):
    rg.manual_seed(0)
    layer, x = nn.Linear(3, 5), rg.randn(*shape, requires_grad=True)
    event = events((layer(x) ** 2).sum())["linear"]
    place, terms = re.fullmatch(
        r"gradient of x\[([\d, ]+)\] = \S+ = sum of g \* w over 5: (.*) \+ 2 smaller terms", event.worked
    ).groups()
    index = tuple(map(int, place.split(", ")))
    g = event.incoming.numpy()[index[:-1]]
    products = sorted(g * layer.weight.detach().numpy()[:, index[-1]], key=abs, reverse=True)
    for text, product in zip(terms.split(" + "), products, strict=False):
        a, b = map(float, text.split(" * "))
        assert a * b == pytest.approx(product, rel=5e-3)
    assert abs(event.outgoing[0].numpy()[index]) == abs(event.outgoing[0].numpy()).max()


def test_an_element_of_an_elementwise_operator_names_the_values_at_its_place():
    x = rg.tensor([1.0, -3.0], requires_grad=True)
    y = rg.tensor([2.0, 5.0], requires_grad=True)
    assert events((x * y).sum())["mul"].worked == "gradient of x[1] = 5 = g * other = 1 * 5"
    summed = events((x + rg.ones(3, 2)).sum())["add"]
    assert summed.worked == "gradient of x[0] = 3, from the sum of 3 elements of g"
    multiplied = events((x * rg.full((3, 2), 2.0)).sum())["mul"]
    assert multiplied.worked == "gradient of x[0] = 6, from 3 elements of g"


def test_the_formula_of_a_mean_loss_says_that_it_is_divided():
    x, y = rg.randn(3, requires_grad=True), rg.rand(3)
    for loss in (F.mse_loss, F.l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits, F.soft_margin_loss):
        mean, total = (events(loss(x, y, reduction=how) * 1)[loss.__name__].formula for how in ("mean", "sum"))
        assert mean == f"{total} All divided by n, the number of elements."
    assert "All divided" not in events(F.cross_entropy(x[None], rg.tensor([1])))["cross_entropy"].formula


FORMULAS = {
    "tanh": (lambda x, y: x.tanh(), "g * (1 - t^2)"),
    "exp": (lambda x, y: x.exp(), "g * exp(input)"),
    "div": (lambda x, y: x / y, "g / other"),
    "pow": (lambda x, y: x**3, "g * exponent * input^(exponent - 1)"),
    "mean": (lambda x, y: x.mean(0), "g / n"),
    "log_softmax": (lambda x, y: F.log_softmax(x, 1), "g - softmax(input) sum(g)"),
    "mse_loss": (lambda x, y: F.mse_loss(x, y), "2 g (input - target) / n"),
    "cross_entropy": (lambda x, y: F.cross_entropy(x, rg.tensor([1, 0, 1])), "g (softmax(input) - y) / n"),
}


@pytest.mark.parametrize("operator", FORMULAS)
def test_the_stated_formula_with_numbers_in_it_gives_the_element(operator):
    rg.manual_seed(0)
    x, y = rg.rand(3, 2, requires_grad=True), rg.rand(3, 2) + 0.5
    call, stated = FORMULAS[operator]
    event = events((call(x, y) * 1.7).sum())[operator]
    result, text, numbers = re.fullmatch(r"gradient of x\[\d, \d\] = (\S+) = (.*) = (.*)", event.worked).groups()
    assert text == stated and re.fullmatch(r"[\d.e+*/^() -]+", numbers)
    assert eval(numbers.replace("^", "**")) == pytest.approx(float(result), rel=5e-3)


def test_a_formula_that_does_not_give_the_element_is_not_shown():
    x = rg.tensor([0.5, -2.0], requires_grad=True)
    assert events(x.relu().sum())["relu"].worked == "gradient of x[0] = 1, from g[0] = 1, ans[0] = 0.5"
    assert substituted("g * other", 0, {"g": 2.0, "other": 3.0, "n": 1}, 7.0) is None
    assert substituted("__import__('os')", 0, {"g": 2.0, "n": 1}, 2.0) is None


def test_each_step_says_how_many_there_are_and_colours_only_a_terminal(monkeypatch):
    x = rg.ones(3, requires_grad=True)
    first = step((x * 2).sum()).events[0]
    assert first.count == 2 and str(first).splitlines()[0].endswith("(1 of 2)") and "\x1b" not in str(first)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert re.sub(r"\x1b\[\d*m", "", painted := str(first)) != painted
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in str(first)


def test_heat_maps_of_the_page_have_the_signs_and_sizes_of_the_arrays(tmp_path):
    x = rg.tensor([[1.0, -2.0, 0.0], [4.0, float("nan"), -4.0]], requires_grad=True)
    step((x * rg.ones(2, 3)).sum()).save(tmp_path / "walk.html")
    walk = walk_of((tmp_path / "walk.html").read_text())
    read = next(s for s in walk["steps"] if s["title"].endswith("mul"))["read"]
    part, rows, columns, largest, letters = {name: map_ for name, _, _, map_ in read}.get("x") or read[0][3]
    assert (part, rows, columns, len(letters)) == ("", 2, 3, 6)
    went = [map_ for *_, map_ in walk["steps"][-1]["went"] if map_]
    assert went and float(largest) > 0
    assert CELLS > FEW_CELLS
    big = rg.randn(100, 100, requires_grad=True)
    step((big * 2).sum()).save(tmp_path / "walk.html")
    maps = [m for s in walk_of((tmp_path / "walk.html").read_text())["steps"] for *_, m in s["came"] + s["went"] if m]
    assert maps and all((m[1], m[2]) == CELLS and len(m[4]) == np.prod(CELLS) for m in maps if m[1] * m[2] > 1)
