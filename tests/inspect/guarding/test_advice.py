"""Each piece of advice that the guard gives, applied to the program that it was given for."""

from __future__ import annotations

import re

import pytest

import retrograd as rg
from retrograd import inspect, nn
from retrograd.core.errors import GuardError
from retrograd.nn import functional as F

NAMES = {name: getattr(rg, name) for name in ("sqrt", "rsqrt", "where", "abs", "logit", "atan2")}
DTYPES = [rg.float16, rg.bfloat16, rg.float32, rg.float64]


def advice_of(program):
    """What the guard says that helps; the program is its text, so that the guard sees the line."""
    with pytest.raises(GuardError) as caught, inspect.guard():
        program()
    text = str(caught.value)
    assert "what helps: " in text, text
    return text.partition("what helps: ")[2]


def runs(program, *inputs):
    """Whether the guard lets forward and backward of a program pass."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    with inspect.guard():
        y = program(*inputs)
        y.sum().backward()
    assert y.isfinite().all() and all(x.grad is None or x.grad.isfinite().all() for x in inputs)


def piece(advice, pattern):
    found = re.search(pattern, advice)
    assert found, f"{advice!r} has no {pattern!r}"
    return found[0]


CLAMP = r"x\.clamp\([^)]*\)"

# The operator, what it is given, and the expression in the advice that takes the place of its argument.
ARGUMENTS = [
    ("log", -1.0, CLAMP), ("log", 0.0, CLAMP), ("log2", 0.0, CLAMP), ("log10", -2.0, CLAMP),
    ("log1p", -1.0, CLAMP), ("log1p", -3.0, CLAMP), ("sqrt", -1.0, CLAMP), ("sqrt", -1e-3, CLAMP),
    ("rsqrt", -1.0, CLAMP), ("acos", 1.5, CLAMP), ("asin", -1.5, CLAMP), ("acosh", 0.5, CLAMP),
    ("atanh", 1.0, CLAMP), ("atanh", 2.0, CLAMP), ("erfinv", 1.0, CLAMP), ("erfinv", -1.5, CLAMP),
    ("exp", 800.0, CLAMP), ("expm1", 800.0, CLAMP), ("exp2", 2000.0, CLAMP), ("sinh", -800.0, CLAMP),
    ("cosh", 800.0, CLAMP),
]  # fmt: skip

# The operator as an expression, its inputs, and the expression in the advice that takes its place.
EXPRESSIONS = [
    ("rsqrt(x)", (0.0,), r"rsqrt\(x \+ [^)]*\)"),
    ("logit(x)", (0.0,), r"logit\(x, eps=[^)]*\)"),
    ("logit(x)", (1.0,), r"logit\(x, eps=[^)]*\)"),
    ("x.reciprocal()", (0.0,), r"1 / where\(.*\)"),
    ("x / y", (1.0, 0.0), r"x / where\(.*\)"),
    ("x / y", (0.0, 0.0), r"x / where\(.*\)"),
    ("x.fmod(y)", (1.0, 0.0), r"where\(y == 0, 1, y\)"),
    ("x ** -2.0", (0.0,), r"where\(.*\) \*\* p"),
    ("x ** 0.3", (-2.0,), CLAMP + r" \*\* p"),
    ("x ** -0.3", (-2.0,), CLAMP + r" \*\* p"),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("operator", "value", "pattern"), ARGUMENTS)
def test_what_is_advised_for_an_argument_helps(operator, value, pattern, dtype):
    x = rg.tensor([0.75, value, 1.5 if operator == "acosh" else 0.25], dtype=dtype, requires_grad=True)
    advice = advice_of(lambda: getattr(rg, operator)(x))
    expression = piece(advice, pattern)
    runs(lambda x: getattr(rg, operator)(eval(expression, NAMES, {"x": x})), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("operator", "values", "pattern"), EXPRESSIONS)
def test_what_is_advised_for_an_expression_helps(operator, values, pattern, dtype):
    inputs = [rg.tensor([0.5, value], dtype=dtype, requires_grad=True) for value in values]
    names = dict(zip("xy", inputs, strict=False))
    expression = piece(advice_of(lambda: eval(operator, NAMES, names)), pattern)
    if "fmod" in operator:
        expression = f"x.fmod({expression})"
    power = re.search(r"\*\* (.*)", operator)
    runs(lambda *inputs: eval(expression, NAMES, dict(zip("xyp", [*inputs, float(power[1])] if power else inputs,
                              strict=False)) | ({"p": float(power[1])} if power else {})), *inputs)  # fmt: skip


# A derivative that is infinite where the operator itself is not: an expression, its inputs, and what is advised.
SLOPES = [
    ("sqrt(x)", (0.0,), r"sqrt\(x \+ [^)]*\)"),
    ("x.acos()", (1.0,), CLAMP),
    ("x.asin()", (-1.0,), CLAMP),
    ("x.acosh()", (1.0,), CLAMP),
    ("x ** 0.3", (0.0,), CLAMP),
    ("x / y", (1.0, 1e-25), r"x / where\(.*\)"),
    ("x.reciprocal()", (1e-25,), r"1 / where\(.*\)"),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("operator", "values", "pattern"), SLOPES)
def test_what_is_advised_for_a_slope_helps(operator, values, pattern, dtype):
    if values[-1] == 1e-25:
        values = (*values[:-1], {"float16": 1e-3, "float64": 1e-200}.get(str(dtype).removeprefix("retrograd."), 1e-25))
    inputs = [rg.tensor([1.5 if "acosh" in operator else 0.5, x], dtype=dtype, requires_grad=True) for x in values]
    names = dict(zip("xy", inputs, strict=False))
    expression = piece(advice_of(lambda: eval(operator, NAMES, names).sum().backward()), pattern)
    if pattern == CLAMP:
        expression = operator.replace("x", expression, 1)
    runs(lambda *inputs: eval(expression, NAMES, dict(zip("xy", inputs, strict=False))), *inputs)


@pytest.mark.parametrize("dtype", [rg.float16, rg.float32], ids=str)
def test_what_is_advised_for_a_row_that_is_masked_helps(dtype):
    scores = rg.tensor([[0.5, 1.0], [2.0, 3.0]], dtype=dtype, requires_grad=True)
    mask = rg.tensor([[True, True], [False, True]])
    advice = advice_of(lambda: F.softmax(scores.masked_fill(mask, float("-inf")), dim=1))
    value = float(re.search(r"masked_fill with (\S+)", advice)[1])
    runs(lambda scores: F.softmax(scores.masked_fill(mask, value), dim=1), scores)


@pytest.mark.parametrize(
    ("operator", "value"),
    [("sqrt", 0.0), ("acos", 1.0), ("asin", 1.0), ("acosh", 1.0), ("log", 0.0), ("atanh", 1.0), ("logit", 0.0),
     ("rsqrt", 0.0), ("reciprocal", 0.0), ("erfinv", 1.0)],
)  # fmt: skip
def test_the_harmless_value_that_is_advised_under_a_mask_is_harmless(operator, value):
    x = rg.tensor([2.0 if operator == "acosh" else 0.25, value], requires_grad=True)
    mask = rg.tensor([True, False])

    def program():
        y = getattr(rg, operator)(x)
        rg.where(mask, y, 0.0).sum().backward()

    if operator in ("sqrt", "acos", "asin", "acosh"):
        advice = advice_of(program)
    else:

        def program():
            return rg.where(mask, getattr(rg, operator)(x), 0.0)

        advice = advice_of(program)
    expression = piece(advice, r"where\(mask, .*\)")
    expression = expression.replace(f"{operator}(", f"rg.{operator}(")
    runs(lambda x: eval(expression, {"rg": rg, "where": rg.where}, {"x": x, "mask": mask}), x)


def test_what_is_advised_for_the_spread_of_one_element_helps():
    x = rg.tensor([[1.0], [2.0]], requires_grad=True)
    for name in ("std", "var"):
        advice = advice_of(lambda name=name: getattr(x, name)(dim=1))
        assert f"{name}(correction=0)" in advice
        runs(lambda x, name=name: getattr(x, name)(dim=1, correction=0), x)


def test_what_is_advised_for_a_normalization_without_eps_helps():
    x = rg.ones(2, 3, requires_grad=True)
    assert "eps above 0" in advice_of(lambda: F.layer_norm(x, (3,), eps=0.0))
    runs(lambda x: F.layer_norm(x, (3,), eps=1e-5), x)


@pytest.mark.filterwarnings("ignore:overflow")
def test_what_is_advised_for_overflow_helps():
    x = rg.tensor([300.0, 2.0], dtype=rg.float16, requires_grad=True)
    assert "compute this in float32" in advice_of(lambda: x * x)
    runs(lambda x: x.float() * x.float(), x)
    x = rg.tensor([3e30, 2.0], requires_grad=True)
    assert "scale the values down before" in advice_of(lambda: x * x)
    runs(lambda x: (x / 1e20) * (x / 1e20), x)


def test_a_rate_that_is_called_too_high_trains_when_it_is_lowered():
    def train(rate, **options):
        rg.manual_seed(0)
        model = nn.Linear(3, 1)
        optimizer = rg.optim.SGD(model.parameters(), lr=rate, **options)
        x = rg.randn(8, 3)
        for _ in range(5):
            optimizer.zero_grad()
            (model(x) - 1).square().mean().backward()
            optimizer.step()

    for rate in (1e25, 1e39):
        assert "lower the learning rate" in advice_of(lambda rate=rate: train(rate))
    with inspect.guard():
        train(0.01)


def test_an_optimizer_without_eps_steps_when_it_has_one():
    def train(kind, eps):
        p = nn.Parameter(rg.ones(3))
        optimizer = kind([p], lr=1e-3, eps=eps)
        (p * rg.tensor([1.0, 0.0, 2.0])).sum().backward()
        optimizer.step()

    for kind in (rg.optim.Adam, rg.optim.AdamW, rg.optim.RMSprop, rg.optim.Adagrad):
        assert "eps above 0, such as 1e-8" in advice_of(lambda kind=kind: train(kind, 0.0))
        with inspect.guard():
            train(kind, 1e-8)


class Around(nn.Module):
    """A layer with what may help around it."""

    def __init__(self, activation, std=None, residual=False, norm=False):
        super().__init__()
        self.layer, self.activation, self.residual = nn.Linear(16, 16), activation, residual
        self.norm = nn.LayerNorm(16) if norm else nn.Identity()
        if std is not None:
            nn.init.normal_(self.layer.weight, 0, std)

    def forward(self, x):
        y = self.norm(self.activation(self.layer(x)))
        return x + y if self.residual else y


def walk(bounds, *args, depth=16, **options):
    rg.manual_seed(0)
    model = nn.Sequential(*[Around(*args, **options) for _ in range(depth)])
    x, weights = rg.randn(8, 16), rg.randn(8, 16)
    with inspect.guard(**bounds):
        (model(x) * weights).sum().backward()


def test_what_is_advised_for_gradients_that_vanish_helps():
    bounds = {"vanishing": 1e-6}
    advice = advice_of(lambda: walk(bounds, rg.sigmoid))
    for what, options in {
        "residual connections": {"residual": True},
        "normalization": {"norm": True},
        "larger initial weights": {"std": 1.0},
    }.items():
        assert what in advice
        walk(bounds, rg.sigmoid, **options)
    assert "relu with kaiming_normal_ weights" in advice
    walk(bounds, rg.relu, std=(2 / 16) ** 0.5)


def test_what_is_advised_for_gradients_that_explode_helps():
    bounds = {"exploding": 1e5}
    advice = advice_of(lambda: walk(bounds, rg.relu, std=1.5))
    assert "smaller initial weights" in advice and "normalization between layers" in advice
    walk(bounds, rg.relu, std=0.3)
    walk(bounds, rg.relu, std=1.5, norm=True)


def test_what_is_advised_for_dead_units_helps():
    def program(activation, bias):
        rg.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), activation, nn.Linear(8, 1))
        nn.init.constant_(model[0].bias, bias)
        with inspect.guard(vanishing=1e-4):
            model(rg.randn(5, 4)).sum().backward()

    advice = advice_of(lambda: program(nn.ReLU(), -50.0))
    assert "smaller biases, or leaky_relu" in advice
    program(nn.ReLU(), 0.0)
    program(nn.LeakyReLU(), -50.0)
