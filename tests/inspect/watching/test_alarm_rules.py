"""Alarms: the right one in sick runs, and none in healthy ones."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

import retrograd as rg
from retrograd import inspect, nn, optim
from retrograd.inspect.watching.alarm_rules import RULES
from retrograd.nn import functional as F


@pytest.fixture(autouse=True)
def seeded():
    state = rg.get_rng_state()
    rg.manual_seed(0)
    yield
    rg.set_rng_state(state)


CENTERS = np.random.default_rng(0).normal(size=(5, 20)).astype(np.float32)


def clusters(number, size=32):
    """A batch of a problem of five classes that a small network learns, and not at once."""
    random = np.random.default_rng(number)
    labels = random.integers(0, 5, size)
    return rg.from_numpy(CENTERS[labels] + random.normal(size=(size, 20)).astype(np.float32)), rg.from_numpy(labels)


def halves(number):
    inputs, labels = clusters(number)
    return inputs.bfloat16(), labels


def mlp(activation=nn.ReLU, width=32):
    layers = nn.Linear(20, width), activation(), nn.Linear(width, width), activation(), nn.Linear(width, 5)
    return nn.Sequential(*layers)


def run(model, optimizer, steps=60, every=1, batch=clusters, loss=F.cross_entropy, before_step=None, zero=True):
    with inspect.watch(model, optimizer, every=every) as w, np.errstate(all="ignore"):
        for number in range(steps):
            inputs, targets = batch(number)
            if zero:
                optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            if before_step is not None:
                before_step(model)
            optimizer.step()
    return w


def clip(model, norm=1.0):
    nn.utils.clip_grad_norm_(model.parameters(), norm)


def multiplied(model, factor, biases=True):
    with rg.no_grad():
        for p in model.parameters():
            if biases or p.ndim > 1:
                p.mul_(factor)
    return model


def with_bias(value):
    model = mlp()
    nn.init.constant_(model[0].bias, value)
    return model


class LoRA(nn.Module):
    """A frozen layer and a product beside it, of which one factor is zero."""

    def __init__(self):
        super().__init__()
        self.frozen = nn.Linear(20, 32).requires_grad_(False)
        self.down = nn.Parameter(rg.randn(4, 20) / 20**0.5)
        self.up = nn.Parameter(rg.zeros(32, 4))
        self.head = nn.Linear(32, 5)

    def forward(self, x):
        return self.head(F.relu(self.frozen(x) + x @ self.down.T @ self.up.T))


class Recurrent(nn.Module):
    def __init__(self, cell=nn.LSTM, **settings):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)  # of which 20 rows are used
        self.cell = cell(16, 24, batch_first=True, **settings)
        self.head = nn.Linear(24, 20)

    def forward(self, x):
        return self.head(self.cell(self.embedding(x))[0])


class Attention(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embedding, self.place = nn.Embedding(20, width), nn.Embedding(12, width)
        layer = partial(nn.TransformerEncoderLayer, width, 4, 2 * width, dropout=0.1, norm_first=True, batch_first=True)
        self.layers = nn.ModuleList([layer(activation="gelu") for _ in range(2)])
        self.head = nn.Linear(width, 20)
        for p in self.parameters():
            if p.ndim > 1:
                nn.init.normal_(p, 0, 0.02)

    def forward(self, x):
        mask = rg.full((12, 12), -math.inf).triu(1)
        x = self.embedding(x) + self.place(rg.arange(12))
        for layer in self.layers:
            x = layer(x, src_mask=mask)
        return self.head(x)


def counting(number):
    """Sequences that count up, and sometimes jump."""
    random = np.random.default_rng(number)
    steps = np.where(random.random((8, 13)) < 0.2, random.integers(0, 20, (8, 13)), 1)
    values = np.cumsum(steps, axis=1) % 20
    return rg.from_numpy(values[:, :-1].copy()), rg.from_numpy(values[:, 1:].copy())


def next_token(output, targets):
    return F.cross_entropy(output.reshape(-1, 20), targets.reshape(-1))


def images(number):
    x, labels = clusters(number, 16)
    return F.pad(x, (0, 44)).reshape(16, 1, 8, 8) + 0.1, labels


def convolutional():
    layers = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.2)
    return nn.Sequential(*layers, nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 5))


def is_first_class(number):
    x, labels = clusters(number)
    return x, (labels == 0).float().reshape(-1, 1)


def plane(number):
    x = clusters(0, 100)[0] / 2
    return x, x[:, :1] * 5 - x[:, 1:2] * 4


def zero_head():
    model = mlp()
    for p in (model[0].bias, model[2].bias, model[4].weight, model[4].bias):
        nn.init.zeros_(p)
    return model


text = {"batch": counting, "loss": next_token, "before_step": clip}
HEALTHY = {
    "SGD": (mlp, partial(optim.SGD, lr=0.1), {}),
    "SGD, slowly": (mlp, partial(optim.SGD, lr=0.01), {}),
    "SGD with momentum": (mlp, partial(optim.SGD, lr=0.05, momentum=0.9), {}),
    "Adam": (mlp, partial(optim.Adam, lr=1e-3), {"steps": 200}),
    "AdamW, every 10": (mlp, partial(optim.AdamW, lr=3e-3), {"steps": 300, "every": 10}),
    "RMSprop": (mlp, partial(optim.RMSprop, lr=1e-3), {}),
    "tanh": (partial(mlp, nn.Tanh), partial(optim.Adam, lr=2e-3), {}),
    "sigmoid": (partial(mlp, nn.Sigmoid), partial(optim.Adam, lr=2e-3), {}),
    "batches of one": (mlp, partial(optim.SGD, lr=0.01), {"batch": partial(clusters, size=1), "steps": 150}),
    "one batch until it is learned": (
        mlp,
        partial(optim.Adam, lr=3e-3),
        {"batch": lambda n: clusters(0), "steps": 300},
    ),
    "convolutions, batch norm, dropout": (convolutional, partial(optim.SGD, lr=0.05, momentum=0.9), {"batch": images}),
    "LSTM": (Recurrent, partial(optim.Adam, lr=4e-3), text),
    "transformer": (Attention, partial(optim.AdamW, lr=1e-3, weight_decay=0.1), {**text, "steps": 40}),
    "zero biases and head": (zero_head, partial(optim.Adam, lr=1e-3), {}),
    "LoRA and frozen": (LoRA, partial(optim.AdamW, lr=1e-3), {}),
    "sigmoid at the end": (
        lambda: nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid()),
        partial(optim.Adam, lr=1e-2),
        {"batch": is_first_class, "loss": F.binary_cross_entropy, "steps": 250},
    ),
    "a line": (
        lambda: nn.Linear(1, 1),
        partial(optim.SGD, lr=0.1),
        {"batch": lambda n: (rg.linspace(-1, 1, 20).reshape(-1, 1),) * 2, "loss": F.mse_loss, "steps": 250},
    ),
    "a plane, by long steps": (
        lambda: nn.Linear(20, 1),
        partial(optim.SGD, lr=0.1),
        {"batch": plane, "loss": F.mse_loss},
    ),
}


@pytest.mark.every(4)
@pytest.mark.slow
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_has_no_alarm(name):
    make, optimizer, settings = HEALTHY[name]
    model = make()
    w = run(model, optimizer([p for p in model.parameters() if p.requires_grad]), **settings)
    assert w.alarms == []
    assert w.records[-1].loss < w.records[0].loss or settings.get("steps") == 150


def nan_in_the_sixth(number):
    x, labels = clusters(number)
    if number == 5:
        x[3, 7] = math.nan
    return x, labels


class Unused(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.used, self.other, self.how = nn.Linear(20, 5), nn.Linear(20, 20), how

    def forward(self, x):
        return self.used(self.how(self.other, x))


def stack(activation, depth, std=None):
    layers = [x for i in range(depth) for x in (nn.Linear(20, 20), activation())]
    model = nn.Sequential(*layers, nn.Linear(20, 5))
    if std is not None:
        for p in model.parameters():
            nn.init.normal_(p, 0, std)
    return model


def sums(number):
    x, _ = clusters(number)
    return x, x.sum(1, keepdim=True)


sgd = partial(optim.SGD, lr=0.1)
SICK = {
    "learning rate too large": (mlp, partial(optim.SGD, lr=20.0), {}, "ratio of 4.weight", "lower the learning"),
    "Adam's, too": (mlp, partial(optim.Adam, lr=0.3), {}, "update ratio of 0.weight", "lower the learning rate (0.3)"),
    "learning rate too small": (mlp, partial(optim.SGD, lr=1e-7), {}, "largest update ratio", "raise the learning"),
    "updates that bfloat16 rounds away": (
        lambda: mlp().bfloat16(), partial(optim.SGD, lr=1e-7), {"batch": halves},
        "largest update ratio is 0 over", "raise the learning"
    ),
    "dead relus": (partial(with_bias, -50.0), sgd, {}, "dead units: 100% of the units of 1", "check the biases"),
    "sigmoids, twenty deep": (partial(stack, nn.Sigmoid, 20), sgd, {}, "vanishing gradients", "normalize between"),
    "weights * 100, tanh": (lambda: multiplied(mlp(nn.Tanh), 100), sgd, {}, "saturated", "scale the initial weights"),
    "weights * 100, relu": (lambda: multiplied(mlp(), 100), sgd, {}, "activations of 2 have", "scale the initial"),
    "deep and wide": (
        partial(stack, nn.Identity, 12, 1.0), partial(optim.SGD, lr=1e-12), {"loss": lambda x, y: x.mean() * 1e-6},
        "activations of 8 have", "normalize the inputs",
    ),
    "recurrence without clipping": (
        lambda: multiplied(Recurrent(nn.RNN, nonlinearity="relu"), 2.5, False), partial(optim.SGD, lr=1.0),
        {**text, "before_step": None}, "exploding gradients", "clip with nn.utils.clip_grad_norm_",
    ),
    "NaN in the data": (mlp, sgd, {"batch": nan_in_the_sixth}, "loss is nan (first in the output of 0)", "guard()"),
    "unused layer": (partial(Unused, lambda layer, x: x), sgd, {}, "other.weight never gets a gradient", "explain"),
    "detached": (
        partial(Unused, lambda layer, x: layer(x).detach()), sgd, {}, "other.bias never gets a gradient", "explain"
    ),
    "times zero": (
        partial(Unused, lambda layer, x: x + 0 * layer(x)), sgd, {}, "of other.weight is always zero", "explain"
    ),
    "zero_grad forgotten": (mlp, partial(sgd, lr=0.01), {"zero": False}, "were not zeroed", "optimizer.zero_grad()"),
    "zero_grad forgotten, every 10": (
        mlp, partial(sgd, lr=0.01), {"zero": False, "every": 10}, "were not zeroed", "optimizer.zero_grad()",
    ),
    "clipped to nearly nothing": (
        mlp, sgd, {"before_step": partial(clip, norm=1e-3)}, "clipping is always active", "clip at a larger norm",
    ),
    "diverging": (
        lambda: nn.Linear(20, 1), partial(sgd, lr=1.0), {"batch": sums, "loss": F.mse_loss}, "the loss diverges",
        "lower the learning rate (1)",
    ),
    "weight decay too large": (
        mlp, partial(sgd, weight_decay=5.0), {}, "have shrunk to", "lower the weight decay (5)"
    ),
    "AdamW's weight decay": (
        mlp, partial(optim.AdamW, lr=1e-2, weight_decay=30.0), {}, "have shrunk to", "lower the weight decay (30)"
    ),
    "unbounded below": (
        lambda: nn.Linear(20, 5), partial(optim.Adam, lr=0.1), {"loss": lambda x, y: -x.square().mean(), "steps": 150},
        "weights of weight have grown to", "weight decay",
    ),
}  # fmt: skip


@pytest.mark.every(2)
@pytest.mark.slow
@pytest.mark.parametrize("name", SICK)
def test_a_sick_run_is_told_why_and_what_helps(name):
    make, optimizer, settings, reason, advice = SICK[name]
    model = make()
    w = run(model, optimizer(model.parameters()), **settings)
    assert any(reason in alarm and advice in alarm for alarm in w.alarms), w.alarms
    keys = [(alarm.reason, alarm.name, alarm.step // 20) for alarm in w.alarms]
    assert len(set(keys)) == len(keys)
    assert all(alarm.reason in RULES and "\n" not in alarm for alarm in w.alarms)


def kaiming(model):
    for p in model.parameters():
        if p.ndim > 1:
            nn.init.kaiming_normal_(p, nonlinearity="relu")
    return model


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(20, 20)

    def forward(self, x):
        return x + F.sigmoid(self.layer(x))


def residual():
    return nn.Sequential(*[Residual() for _ in range(20)], nn.Linear(20, 5))


def _with_bias(model):
    nn.init.constant_(model[0].bias, -50.0)
    return model


# The same runs with what the alarm advises, by which it goes away.
MENDED = {
    "learning rate too large": (mlp, sgd, {}),
    "Adam's, too": (mlp, partial(optim.Adam, lr=3e-3), {}),
    "learning rate too small": (mlp, partial(optim.SGD, lr=1e-2), {}),
    "dead relus, biases": (mlp, sgd, {}),
    "dead relus, leaky_relu": (lambda: _with_bias(mlp(nn.LeakyReLU)), partial(optim.SGD, lr=1e-3), {}),
    "dead relus, gelu": (lambda: _with_bias(mlp(nn.GELU)), sgd, {}),
    "sigmoids, twenty deep, relu": (
        lambda: kaiming(stack(nn.ReLU, 20)), partial(optim.SGD, lr=1e-3), {"before_step": clip},
    ),
    "sigmoids, twenty deep, gelu": (
        lambda: kaiming(stack(nn.GELU, 20)), partial(optim.SGD, lr=1e-3), {"before_step": clip},
    ),
    "sigmoids, twenty deep, normalised": (
        partial(stack, lambda: nn.Sequential(nn.LayerNorm(20), nn.Sigmoid(), nn.LayerNorm(20)), 20), sgd, {},
    ),
    "sigmoids, twenty deep, residual": (residual, partial(optim.SGD, lr=1e-2), {}),
    "sigmoids, twenty deep, fewer layers": (partial(stack, nn.Sigmoid, 2), sgd, {}),
    "weights * 100, tanh": (partial(mlp, nn.Tanh), sgd, {}),
    "weights * 100, relu": (mlp, sgd, {}),
    "recurrence without clipping": (
        lambda: multiplied(Recurrent(nn.RNN, nonlinearity="relu"), 2.5, False), partial(optim.SGD, lr=1.0), text,
    ),
    "unused layer": (
        partial(Unused, lambda layer, x: layer(x)), sgd, {},
    ),
    "zero_grad forgotten": (mlp, partial(sgd, lr=0.01), {}),
    "clipped to nearly nothing": (mlp, sgd, {"before_step": partial(clip, norm=10.0)}),
    "diverging": (lambda: nn.Linear(20, 1), partial(sgd, lr=0.01), {"batch": sums, "loss": F.mse_loss}),
    "weight decay too large": (mlp, partial(sgd, weight_decay=5e-4), {}),
    "AdamW's weight decay": (mlp, partial(optim.AdamW, lr=1e-2, weight_decay=0.1), {}),
    "unbounded below": (
        lambda: nn.Linear(20, 5), partial(optim.Adam, lr=1e-3),
        {"loss": lambda x, y: -x.square().mean(), "steps": 150},
    ),
}  # fmt: skip


@pytest.mark.every(4)
@pytest.mark.slow
@pytest.mark.parametrize("name", MENDED)
def test_what_an_alarm_advises_makes_it_go_away(name):
    make, optimizer, settings = MENDED[name]
    sick = name if name in SICK else max((x for x in SICK if name.startswith(x)), key=len)
    model = make()
    w = run(model, optimizer(model.parameters()), **settings)
    reason = SICK[sick][3].partition(" of ")[0]
    assert not any(reason in alarm for alarm in w.alarms), w.alarms


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_group_that_is_to_blame_is_named_wherever_it_stands(place):
    model = mlp()
    rates = [3.0 if place == i else 1e-3 for i in range(3)]
    groups = [{"params": model[2 * i].parameters(), "lr": rate} for i, rate in enumerate(rates)]
    w = run(model, optim.Adam(groups), steps=12)
    told = [alarm for alarm in w.alarms if "lower the learning rate" in alarm]
    assert told and all("lower the learning rate (3" in alarm and "0.001" not in alarm for alarm in told), w.alarms
    assert all(f"{2 * place}.weight" in alarm for alarm in told), w.alarms


def line(number):
    x = rg.linspace(-1, 1, 20).reshape(-1, 1)
    return x, x


@pytest.mark.parametrize(
    "optimizer", [partial(optim.AdamW, lr=0.01), partial(optim.RMSprop, lr=0.01), partial(optim.Adagrad, lr=0.3)]
)
def test_a_run_that_has_converged_has_no_alarm(optimizer):
    rg.manual_seed(1)
    model = nn.Linear(1, 1)
    w = run(model, optimizer(model.parameters()), steps=450, batch=line, loss=F.mse_loss)
    assert w.records[-1].loss < 1e-5 and w.alarms == []


def test_a_gradient_that_has_become_zero_is_not_called_always_zero():
    model = nn.Sequential(nn.Linear(20, 8), nn.Linear(8, 5))
    model.scale = 1.0
    optimizer = optim.SGD(model.parameters(), lr=1e-3)
    with inspect.watch(model, optimizer, every=1) as w:
        for number in range(60):
            x, labels = clusters(number)
            optimizer.zero_grad()
            h = model[0](x) if number < 10 else model[0](x) * 0
            F.cross_entropy(model[1](h), labels).backward()
            optimizer.step()
    assert any("the gradient of 0.weight is zero since step 10" in alarm for alarm in w.alarms), w.alarms
    assert not any("always" in alarm for alarm in w.alarms)


def test_an_alarm_is_raised_once_while_it_lasts_and_again_after_it_had_cleared():
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=1e-3)
    with inspect.watch(model, optimizer, every=1) as w:
        for number in range(60):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(clusters(number)[0]), clusters(number)[1])
            (loss * (math.nan if number in (3, 4, 5, 40) else 1.0)).backward()
            for p in model.parameters():
                p.grad = rg.zeros_like(p) if number in (3, 4, 5, 40) else p.grad
            optimizer.step()
    assert [(alarm.step, alarm.reason) for alarm in w.alarms] == [(3, "not finite"), (40, "not finite")]


def test_what_happens_to_many_parameters_is_one_alarm():
    model = stack(nn.ReLU, 6)
    w = run(model, optim.Adam(model.parameters(), lr=1.0), steps=3)
    ratios = [alarm for alarm in w.alarms if alarm.reason == "update ratio"]
    assert len(ratios) == 1 and "also 6 more" in ratios[0]


def test_a_relu_after_layers_of_two_sizes_is_two_activations():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.relu = nn.Linear(20, 16), nn.Linear(16, 5), nn.ReLU()
            nn.init.constant_(self.b.bias, -50.0)

        def forward(self, x):
            return self.relu(self.b(self.relu(self.a(x))))

    model = Twice()
    w = run(model, optim.SGD(model.parameters(), lr=1e-3), 8)
    assert {"relu", "relu 2"} <= set(w.records[0].activations)
    assert [x.name for x in w.alarms if x.reason == "dead units"] == ["relu 2"]


def test_the_advice_on_large_activations_follows_from_their_start():
    def scaled(number, factor):
        x, labels = clusters(number)
        return x * factor, labels

    for rate, factor, advice in ((10.0, 1.0, "lower the learning rate (10)"), (1e-6, 1e5, "normalize the inputs")):
        model = mlp()
        w = run(model, optim.Adam(model.parameters(), lr=rate), 8, batch=partial(scaled, factor=factor))
        (first, *_) = [x for x in w.alarms if x.reason == "huge activations"]
        assert advice in first


def test_the_advice_on_large_steps_is_zero_grad_if_gradients_add_up():
    model = mlp()
    w = run(model, optim.SGD(model.parameters(), lr=0.3), 40, zero=False)
    assert {"not zeroed", "update ratio"} <= {x.reason for x in w.alarms}
    assert not [x for x in w.alarms if "learning rate" in x]
