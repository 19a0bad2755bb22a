"""Programs whose graphs are drawn: what people have, and what is awkward to draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import retrograd as rg
from retrograd import inspect, nn
from retrograd.models import CNN, MLP, CharTransformer, NamesLSTM
from retrograd.nn import functional as F


class Pair(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y + h, g * x + h


class Twice(nn.Module):
    """A module that is called again after others have used its result."""

    def __init__(self):
        super().__init__()
        self.cell, self.other = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.Tanh())

    def forward(self, x):
        return self.cell(self.other(self.cell(x)) + x)


def mlp() -> tuple[Any, Any]:
    model = MLP([12, 8, 8, 3])
    return F.cross_entropy(model(rg.randn(5, 12)), rg.tensor([0, 1, 2, 0, 1])), model


def cnn() -> tuple[Any, Any]:
    model = CNN(size=12, hidden=8)
    return F.cross_entropy(model(rg.randn(4, 1, 12, 12)), rg.tensor([0, 1, 2, 3])), model


def lstm() -> tuple[Any, Any]:
    model = NamesLSTM(27, channels=4, hidden=6)
    return model(rg.tensor(np.arange(10).reshape(2, 5))).sum(), model


def gpt(layers: int = 4) -> tuple[Any, Any]:
    model = CharTransformer(11, context=6, layers=layers, heads=2, channels=8)
    letters = rg.tensor(np.arange(12).reshape(2, 6) % 11)
    return F.cross_entropy(model(letters).reshape(-1, 11), letters.reshape(-1)), model


def unrolled() -> tuple[Any, Any]:
    weight = nn.Parameter(rg.randn(3, 3))
    h, states = rg.randn(2, 3), []
    for _ in range(12):
        h = (h @ weight + h * 0.1).tanh()
        states.append(h.sum())
    return rg.stack(states).sum(), {"weight": weight}


def twice() -> tuple[Any, Any]:
    model = Twice()
    return model(rg.randn(2, 3)).sum(), model


def zoo() -> tuple[Any, Any]:
    """Views, writes in place, a custom Function, several outputs, shared results, names that are no HTML."""
    a, b = rg.randn(4, 6, requires_grad=True), rg.randn(6, requires_grad=True)
    w = nn.Parameter(rg.randn(6, 3))
    z = a * 2
    z[1:3] *= b
    z[0] = 1.0
    view = z.view(2, 12).t()
    p, q = Pair.apply(z, b)
    first, second, third = (p @ w).split(1, dim=1)
    h = (first.relu() + second.exp()).expand(4, 3)
    z.add_(1.0)
    loss = h.sum() + z.mean() + q[..., ::2].sum() + view.max()
    return {"loss": loss, "<script>alert(1)</script>": third.softmax(0)}, {"a": a, "b & <b>": b, "w\"'": w}


GRAPHS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "mlp": mlp,
    "cnn": cnn,
    "lstm": lstm,
    "gpt": gpt,
    "unrolled": unrolled,
    "twice": twice,
    "zoo": zoo,
}


def drawn(name: str, traced: bool, **options: Any) -> inspect.Drawing:
    """The drawing of one of these after its backward walk, with modules where it was traced."""
    if traced:
        with inspect.trace():
            output, params = GRAPHS[name]()
    else:
        output, params = GRAPHS[name]()
    (output["loss"] if isinstance(output, dict) else output).backward()
    return inspect.draw(output, params=params, **options)
