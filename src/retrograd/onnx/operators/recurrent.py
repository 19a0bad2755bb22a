"""LSTM, GRU and RNN: step by step, or by ``nn.functional``'s layers where they compute the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import _generated
from ...core.tensor.tensor import Tensor
from ...nn import functional as F
from ..table import Attributes, constant, operator

rg = _generated.toplevel
Step = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]

_ACTIVATIONS: dict[str, Callable[[Tensor, float, float], Tensor]] = {
    "relu": lambda x, a, b: F.relu(x), "tanh": lambda x, a, b: rg.tanh(x), "sigmoid": lambda x, a, b: rg.sigmoid(x),
    "affine": lambda x, a, b: a * x + b, "leakyrelu": lambda x, a, b: F.leaky_relu(x, a),
    "thresholdedrelu": lambda x, a, b: F.threshold(x, a, 0.0), "scaledtanh": lambda x, a, b: a * rg.tanh(b * x),
    "hardsigmoid": lambda x, a, b: rg.clamp(a * x + b, 0, 1), "elu": lambda x, a, b: F.elu(x, a),
    "softsign": lambda x, a, b: F.softsign(x), "softplus": lambda x, a, b: F.softplus(x),
}  # fmt: skip
_ALPHAS = {"leakyrelu": 0.01, "thresholdedrelu": 1.0, "hardsigmoid": 0.2, "elu": 1.0, "affine": 1.0, "scaledtanh": 1.0}
_BETAS = {"hardsigmoid": 0.5, "affine": 0.0, "scaledtanh": 1.0}


def _functions(at: Attributes, default: list[str], direction: int) -> list[Callable[[Tensor], Tensor]]:
    """Return the activation functions of one direction."""
    names = [name.lower() for name in at("activations", default * 2)]
    alphas, betas = iter(at("activation_alpha", [])), iter(at("activation_beta", []))
    limit = at("clip")
    found: list[Callable[[Tensor], Tensor]] = []
    for name in names:
        if name not in _ACTIVATIONS:
            raise ValueError(f"{at.type}: the activation {name!r} is not supported")
        a = next(alphas, _ALPHAS[name]) if name in _ALPHAS else 0.0
        b = next(betas, _BETAS[name]) if name in _BETAS else 0.0

        def function(x: Tensor, name: str = name, a: float = a, b: float = b) -> Tensor:
            return _ACTIVATIONS[name](x if limit is None else rg.clamp(x, -limit, limit), a, b)

        found.append(function)
    size = len(default)
    return found[direction * size : (direction + 1) * size] or found[:size]


def _reversed(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse each sequence up to its length; elements after its end are unchanged."""
    if lengths is None:
        return rg.flip(x, [0])
    steps, known = np.arange(x.shape[0])[:, None], lengths.numpy()[None]
    places = np.where(steps < known, known - 1 - steps, steps)
    index = constant(places.reshape(*places.shape, *[1] * (x.ndim - 2)), np.int64, x)
    return rg.gather(x, 0, rg.broadcast_to(index, x.shape))


def _run(
    step: Step, x: Tensor, states: tuple[Tensor, ...], lengths: Tensor | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    outputs = []
    for time, row in enumerate(x.unbind(0)):
        new = step(row, states)
        if lengths is not None:
            on = (time < lengths).unsqueeze(1)
            new = tuple(rg.where(on, after, before) for after, before in zip(new, states, strict=True))
            outputs.append(rg.where(on, new[0], rg.zeros_like(new[0])))
        else:
            outputs.append(new[0])
        states = new
    return rg.stack(outputs), states


def _layer(
    at: Attributes,
    x: Tensor,
    states: list[Tensor | None],
    lengths: Tensor | None,
    weights: Any,
    make_step: Any,
    run_layer: Any,
) -> Tensor | tuple[Tensor, ...]:
    """Handle directions, layouts and initial states; ``make_step`` returns a direction's step function."""
    w, r, b = weights
    directions, hidden = r.shape[0], r.shape[2]
    backwards = at("direction", "forward")
    if at("layout", 0):
        x = x.transpose(0, 1)
        states = [None if state is None else state.transpose(0, 1) for state in states]
    batch = x.shape[1]
    zero = rg.zeros(directions, batch, hidden, dtype=x.dtype, device=x.device)
    first = [zero if state is None else state for state in states]
    if lengths is not None and bool((lengths == x.shape[0]).all()):
        lengths = None
    outputs, lasts = [], []
    for direction in range(directions):
        turn = backwards == "reverse" or direction == 1
        inputs = _reversed(x, lengths) if turn else x
        start = tuple(state[direction] for state in first)
        bias = None if b is None else b[direction]
        quick = run_layer(inputs, start, w[direction], r[direction], bias) if lengths is None else None
        if quick is None:
            quick = _run(make_step(direction, w[direction], r[direction], bias), inputs, start, lengths)
        y, last = quick
        outputs.append(_reversed(y, lengths) if turn else y)
        lasts.append(last)
    y = rg.stack(outputs, 1)
    ends = [rg.stack(list(parts)) for parts in zip(*lasts, strict=True)]
    if at("layout", 0):
        y, ends = y.permute(2, 0, 1, 3), [end.transpose(0, 1) for end in ends]
    return (y, *ends)[: at.outputs] if at.outputs > 1 else y


def _reordered(order: list[int], hidden: int, wx: Tensor, wh: Tensor, bias: Tensor | None) -> list[Tensor]:
    """Return weights and both halves of the bias with the gates in the order of this package's layer."""
    count = len(order) * hidden
    parts = [wx, wh] if bias is None else [wx, wh, bias[:count], bias[count:]]
    return [rg.cat([x[place * hidden : (place + 1) * hidden] for place in order]) for x in parts]


def _plain(at: Attributes, default: list[str]) -> bool:
    names = [name.lower() for name in at("activations", default)]
    return "clip" not in at and names == (default * 2)[: len(names)]


@operator("LSTM")
def lstm(
    at: Attributes, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    h0: Tensor | None = None, c0: Tensor | None = None, peepholes: Tensor | None = None
) -> Any:  # fmt: skip
    default = ["sigmoid", "tanh", "tanh"]
    hidden = r.shape[2]

    def make_step(direction: int, wx: Tensor, wh: Tensor, bias: Tensor | None) -> Step:
        f, g, h = _functions(at, default, direction)
        constant_ = 0 if bias is None else bias[: 4 * hidden] + bias[4 * hidden :]
        p = None if peepholes is None else peepholes[direction].reshape(3, hidden)

        def step(row: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            state, cell = states
            i, o, forget, c = rg.split(row @ wx.T + state @ wh.T + constant_, hidden, 1)
            if p is not None:
                i, forget = i + p[0] * cell, forget + p[2] * cell
            forget = 1 - f(i) if at("input_forget", 0) else f(forget)
            cell = forget * cell + f(i) * g(c)
            return f(o if p is None else o + p[1] * cell) * h(cell), cell

        return step

    def run_layer(inputs: Tensor, start: tuple[Tensor, ...], wx: Tensor, wh: Tensor, bias: Tensor | None) -> Any:
        if peepholes is not None or at("input_forget", 0) or not _plain(at, default):
            return None
        parts = _reordered([0, 2, 3, 1], hidden, wx, wh, bias)  # ONNX has input, output, forget, cell
        states = [state.unsqueeze(0) for state in start]
        y, last, cell = rg.lstm(inputs, states, parts, bias is not None, 1, 0.0, False, False, False)
        return y, (last[0], cell[0])

    return _layer(at, x, [h0, c0], lengths, (w, r, b), make_step, run_layer)


@operator("GRU")
def gru(
    at: Attributes, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    h0: Tensor | None = None
) -> Any:  # fmt: skip
    default = ["sigmoid", "tanh"]
    hidden = r.shape[2]

    def make_step(direction: int, wx: Tensor, wh: Tensor, bias: Tensor | None) -> Step:
        f, g = _functions(at, default, direction)
        zero = rg.zeros(3 * hidden, dtype=x.dtype, device=x.device)
        bx, bh = (zero, zero) if bias is None else (bias[: 3 * hidden], bias[3 * hidden :])

        def step(row: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            (state,) = states
            xz, xr, xn = rg.split(row @ wx.T + bx, hidden, 1)
            both = state @ wh[: 2 * hidden].T + bh[: 2 * hidden]
            z, reset = f(xz + both[:, :hidden]), f(xr + both[:, hidden:])
            whn, bhn = wh[2 * hidden :].T, bh[2 * hidden :]
            n = reset * (state @ whn + bhn) if at("linear_before_reset", 0) else (reset * state) @ whn + bhn
            return ((1 - z) * g(xn + n) + z * state,)

        return step

    def run_layer(inputs: Tensor, start: tuple[Tensor, ...], wx: Tensor, wh: Tensor, bias: Tensor | None) -> Any:
        if not at("linear_before_reset", 0) or not _plain(at, default):
            return None
        parts = _reordered([1, 0, 2], hidden, wx, wh, bias)
        y, last = rg.gru(inputs, start[0].unsqueeze(0), parts, bias is not None, 1, 0.0, False, False, False)
        return y, (last[0],)

    return _layer(at, x, [h0], lengths, (w, r, b), make_step, run_layer)


@operator("RNN")
def rnn(
    at: Attributes, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    h0: Tensor | None = None
) -> Any:  # fmt: skip
    hidden = r.shape[2]

    def make_step(direction: int, wx: Tensor, wh: Tensor, bias: Tensor | None) -> Step:
        (f,) = _functions(at, ["tanh"], direction)
        constant_ = 0 if bias is None else bias[:hidden] + bias[hidden:]
        return lambda row, states: (f(row @ wx.T + states[0] @ wh.T + constant_),)

    def run_layer(*args: object) -> Any:
        return None

    return _layer(at, x, [h0], lengths, (w, r, b), make_step, run_layer)
